package bench

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"amnesia/pkg/clock"
)

//go:embed docker.yaml
var containers string

const (
	project         = "amnesia-bench"
	dockerCycles    = 15
	browserCycles   = 9
	dockerRestarts  = 7                // for each
	stack           = "deploy/compose" // from the repository's root
	recoversWithin  = time.Minute
	whatOverHTTP    = "cycle, http driver, Docker"
	whatWithBrowser = "cycle, browser driver, Docker"
)

// inContainers times cycles on the sample application's stack, from firing to the last verdict over all views, beside
// what docker kill, docker start and the health check of the same container take alone. It brings up a stack of its own
// and takes it down.
func inContainers(ctx context.Context, amnesia, dir string) (lines []Line, err error) {
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
	if _, err := run(ctx, env, filepath.Join(stack, "up")); err != nil {
		return nil, fmt.Errorf("bringing the stack up: %w", err)
	}
	env = append(env, "PG_DSN=postgres://chat:memory@127.0.0.1:"+ports["POSTGRES"]+"/chat")
	files := filepath.Join(dir, "docker")
	if err := os.MkdirAll(files, 0o750); err != nil {
		return nil, err
	}
	measure := func(what, driver string, cycles int) error {
		reference, err := dockerKillStartHealthy(ctx, "http://127.0.0.1:"+ports["APP"]+"/healthz")
		if err != nil {
			return err
		}
		ours, _, err := soak(ctx, amnesia, filepath.Join(files, driver), containers, cycles,
			map[string]any{"Dir": files, "Project": project, "Ports": ports, "Driver": driver}, env...)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		const goal = 2
		lines = append(lines, atMost(what, "ms", inMS(median(ours)), inMS(median(reference)), goal))
		return nil
	}
	if err := measure(whatOverHTTP, "http", dockerCycles); err != nil {
		return nil, err
	}
	if _, err := run(ctx, nil, amnesia, "browser", "install"); err != nil {
		return append(lines, unmeasured(whatWithBrowser, err)), nil
	}
	return lines, measure(whatWithBrowser, "browser", browserCycles)
}

// dockerKillStartHealthy does by hand what a cycle's fault does.
func dockerKillStartHealthy(ctx context.Context, health string) (took []time.Duration, err error) {
	id, err := run(ctx, nil, "docker", "ps", "--quiet", "--filter", "label=com.docker.compose.project="+project, "--filter", "label=com.docker.compose.service=app")
	if err != nil {
		return nil, err
	}
	c := clock.System()
	for range dockerRestarts {
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

// run runs a program and gives what it says on stdout.
func run(ctx context.Context, env []string, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", program, err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(stdout.String()), nil
}
