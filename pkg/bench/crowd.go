package bench

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"amnesia/chaos"
	"amnesia/chaos/process"
	"amnesia/pkg/report"
)

//go:embed crowd.yaml
var crowdConfig string

// crowdCycles is how often each user of a crowd plays the script and is looked at.
const crowdCycles = 3

// crowded compares what the daemon needs of the processors while so many users play over plain HTTP, all at once, with
// what a bare net/http client needs that sends the same requests, at the same moments, to the same application: from the
// first request to the end, ledger, sweeps and verdicts and all.
func crowded(users int) measure {
	return func(ctx context.Context, amnesia, dir string) ([]Line, error) {
		what := fmt.Sprintf("%d http users at once: CPU of the daemon, against a bare client with the same requests", users)
		if _, ok := cpuTime(os.Getpid()); !ok {
			return []Line{unmeasured(what, errNoProc)}, nil
		}
		at, err := freeAddress(ctx) // for both: requests name where they are sent to
		if err != nil {
			return nil, err
		}
		tape, ours, err := recordCrowd(ctx, amnesia, filepath.Join(dir, "crowd"), at, users)
		if err != nil {
			return nil, fmt.Errorf("a crowd of users: %w", err)
		}
		reference, err := replayCrowd(ctx, amnesia, filepath.Join(dir, "crowd-replay"), at, tape)
		if err != nil {
			return nil, fmt.Errorf("the same requests by a bare client: %w", err)
		}
		return []Line{atMost(what, "s", ours.Seconds(), reference.Seconds(), 1.5)}, nil
	}
}

// recordCrowd lets the daemon play a crowd, and gives the requests and what it used of the processors since the first one.
func recordCrowd(ctx context.Context, amnesia, dir, at string, users int) (tape []sent, used time.Duration, err error) {
	addr, err := freeAddress(ctx)
	if err != nil {
		return nil, 0, err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, 0, err
	}
	var first atomic.Int64 // what the daemon had used before its first request, and 1 ns more
	var pid atomic.Int64
	rec := &recorder{}
	p, err := newProxy(ctx, at, addr, func(h http.Handler) http.Handler {
		h = rec.record(h)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if first.Load() == 0 {
				used, _ := cpuTime(int(pid.Load()))
				first.CompareAndSwap(0, int64(used)+1)
			}
			h.ServeHTTP(w, r)
		})
	})
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	args, err := configure(filepath.Join(dir, "amnesia"), crowdConfig, map[string]any{"Self": amnesia, "Dir": dir, "Addr": addr, "URL": p.url, "Users": users})
	if err != nil {
		return nil, 0, err
	}
	cmd := exec.CommandContext(ctx, amnesia, append(args, "--cycles", fmt.Sprint(crowdCycles), "--min-conclusive", "0", "-o", "json")...)
	out, whole, err := watched(cmd, func(id int) func() time.Duration {
		pid.Store(int64(id))
		return watch(func() time.Duration { used, _ := cpuTime(id); return used })
	})
	if err != nil {
		return nil, 0, err
	}
	var s report.Summary
	if err := json.Unmarshal(out, &s); err != nil {
		return nil, 0, fmt.Errorf("reading the daemon's summary: %w", err)
	}
	if n := users * 4 * crowdCycles; s.Writes.Acknowledged != n || s.Verdicts["kept"] != n {
		return nil, 0, fmt.Errorf("of %d memories %d were acknowledged, and the verdicts are %v", n, s.Writes.Acknowledged, s.Verdicts)
	}
	return rec.tape(), whole - time.Duration(first.Load()), nil
}

// replayCrowd sends the requests of a tape from a process of its own, to an application that knows nothing yet, and gives what
// that used of the processors.
func replayCrowd(ctx context.Context, amnesia, dir, at string, tape []sent) (used time.Duration, err error) {
	addr, err := freeAddress(ctx)
	if err != nil {
		return 0, err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return 0, err
	}
	var in bytes.Buffer
	if err := json.NewEncoder(&in).Encode(tape); err != nil {
		return 0, err
	}
	err = withSample(ctx, amnesia, dir, addr, func(*process.Engine, *chaos.Prober) (err error) {
		p, err := newProxy(ctx, at, addr, func(h http.Handler) http.Handler { return h })
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, p.close()) }()
		return helped(ctx, &in, &used, "replay", p.url)
	})
	return used, err
}

// proxy stands between users and application, in the recording and in the replay.
type proxy struct {
	url    string
	server *http.Server
	served chan error
}

func newProxy(ctx context.Context, at, addr string, around func(http.Handler) http.Handler) (*proxy, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", at)
	if err != nil {
		return nil, fmt.Errorf("listening for the users: %w", err)
	}
	const connections = 2048
	to := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: addr})
	to.Transport = &http.Transport{MaxIdleConns: connections, MaxIdleConnsPerHost: connections}
	to.ErrorLog = log.New(io.Discard, "", 0) // whoever is not answered says so
	const most = time.Minute
	p := &proxy{url: "http://" + at, server: &http.Server{Handler: around(to), ReadHeaderTimeout: most}, served: make(chan error, 1)}
	go func() { p.served <- p.server.Serve(ln) }()
	return p, nil
}

func (p *proxy) close() error {
	err := p.server.Close()
	if served := <-p.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// watch looks at something all the time, until it is stopped, and gives the greatest it has seen.
func watch[T int64 | time.Duration](look func() T) (stop func() T) {
	end, most := make(chan struct{}), T(0)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			most = max(most, look())
			select {
			case <-end:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	return func() T {
		close(end)
		wg.Wait()
		return most
	}
}
