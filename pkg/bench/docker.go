package bench

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"amnesia/pkg/clock"
)

//go:embed docker.yaml
var containers string

const (
	project        = "amnesia-bench"
	crowdInBrowser = 8                // users at once
	dockerCycles   = 7                // of a round, after the first, a control
	browserCycles  = 5                // the same
	dockerRestarts = 4                // of a round, half of them before the cycles
	stack          = "deploy/compose" // from the repository's root
	recoversWithin = time.Minute

	whatOverHTTP    = "cycle, http driver, Docker, against docker kill, start and healthy alone"
	whatWithBrowser = "cycle, browser driver, 8 users, Docker, against the same and a bare script with 8 contexts"
)

// inContainers times cycles on the sample application's stack, from firing to the last verdict over all views, beside
// what docker kill, docker start and the health check of the same container take alone; in a browser also beside what a
// script does that only loads the users' pages. So many rounds of each, in turns. It brings up a stack of its own and
// takes it down.
func inContainers(rounds int) measure {
	return func(ctx context.Context, amnesia, dir string) ([]Line, error) {
		return onStack(ctx, amnesia, dir, rounds)
	}
}

func onStack(ctx context.Context, amnesia, dir string, rounds int) (lines []Line, err error) {
	unmeasurable := func(err error) ([]Line, error) {
		return []Line{unmeasured(whatOverHTTP, err), unmeasured(whatWithBrowser, err)}, ctx.Err()
	}
	if _, err := run(ctx, nil, filepath.Join(stack, "../engine/up")); err != nil {
		return unmeasurable(fmt.Errorf("no Docker engine: %w", err))
	}
	ports := map[string]string{}
	env := []string{"AMNESIA_PROJECT=" + project}
	for _, name := range []string{"APP", "CHROMA", "REDIS", "POSTGRES", "PROMETHEUS", "AMNESIA"} {
		addr, err := freeAddress(ctx)
		if err != nil {
			return nil, err
		}
		_, ports[name], _ = net.SplitHostPort(addr)
		env = append(env, name+"_PORT="+ports[name])
	}
	defer func() {
		const most = 2 * time.Minute
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), most)
		defer cancel()
		_, down := run(ctx, env, filepath.Join(stack, "down"))
		err = errors.Join(err, down)
	}()
	if _, err := run(ctx, env, filepath.Join(stack, "up"), "app", "chroma", "redis", "postgres"); err != nil {
		return nil, fmt.Errorf("bringing the stack up: %w", err)
	}
	env = append(env, "PG_DSN=postgres://chat:memory@127.0.0.1:"+ports["POSTGRES"]+"/chat")
	files := filepath.Join(dir, "docker")
	if err := os.MkdirAll(files, 0o750); err != nil {
		return nil, err
	}
	url := "http://127.0.0.1:" + ports["APP"]
	c := onContainers{amnesia: amnesia, files: files, url: url, ports: ports, env: env}
	line, err := c.measure(ctx, whatOverHTTP, "http", 2, dockerCycles, rounds, 1.3, nil)
	if err != nil {
		return nil, err
	}
	lines = append(lines, line)
	at, err := installed(ctx, amnesia)
	if err != nil {
		return append(lines, unmeasured(whatWithBrowser, err)), nil
	}
	bare, err := newBare(ctx, at, url, crowdInBrowser)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, bare.close()) }()
	line, err = c.measure(ctx, whatWithBrowser, "browser", crowdInBrowser, browserCycles, rounds, 1.5, bare.load)
	return append(lines, line), err
}

// onContainers is the stack that is up.
type onContainers struct {
	amnesia, files, url string
	ports               map[string]string
	env                 []string
}

// measure times cycles with a driver. beside is what the reference does beside the fault; nil: nothing.
func (c onContainers) measure(ctx context.Context, what, driver string, users, cycles, rounds int, goal float64, beside func() error) (Line, error) {
	var ours, fault, pages []time.Duration
	alone := func() error {
		took, err := dockerKillStartHealthy(ctx, c.url+"/healthz", dockerRestarts/2)
		fault = append(fault, took...)
		for i := 0; i < dockerRestarts/2 && beside != nil && err == nil; i++ {
			var one time.Duration
			one, err = timed(beside)
			pages = append(pages, one)
		}
		return err
	}
	for i := range rounds {
		if err := alone(); err != nil {
			return Line{}, err
		}
		took, _, err := soak(ctx, c.amnesia, filepath.Join(c.files, fmt.Sprint(driver, i)), containers, 1+cycles,
			map[string]any{"Dir": c.files, "Project": project, "Ports": c.ports, "Driver": driver, "Users": users}, c.env...)
		if err != nil {
			return Line{}, fmt.Errorf("%s: %w", what, err)
		}
		ours = append(ours, took...)
		if err := alone(); err != nil {
			return Line{}, err
		}
	}
	reference := median(fault)
	if beside != nil {
		reference += median(pages)
	}
	return atMost(what, "ms", inMS(median(ours)), inMS(reference), goal), nil
}

// dockerKillStartHealthy does by hand what a cycle's fault does, so many times.
func dockerKillStartHealthy(ctx context.Context, health string, times int) (took []time.Duration, err error) {
	id, err := run(ctx, nil, "docker", "ps", "--quiet", "--filter", "label=com.docker.compose.project="+project, "--filter", "label=com.docker.compose.service=app")
	if err != nil {
		return nil, err
	}
	c := clock.System()
	for range times {
		start := c.Now()
		for _, verb := range []string{"kill", "start"} {
			if _, err := run(ctx, nil, "docker", verb, id); err != nil {
				return nil, err
			}
		}
		if err := awaitHealth(ctx, health); err != nil {
			return nil, err
		}
		took = append(took, c.Now().Sub(start))
	}
	return took, nil
}

func awaitHealth(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, recoversWithin, fmt.Errorf("%s is not healthy within %s", url, recoversWithin))
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-time.After(2 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
