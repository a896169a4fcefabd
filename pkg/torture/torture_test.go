//go:build linux

package torture_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"amnesia/pkg/torture"
)

var (
	whole  = flag.Bool("whole", false, "the long form: 200 kills of a daemon with processes, 50 of one with containers")
	seed   = flag.Uint64("seed", 1, "where the moments of the kills are drawn from")
	binary = flag.String("amnesia", "", "the daemon's program, statically linked; empty: it is built")
)

// all is what the runs came to together.
var all struct {
	sync.Mutex
	torture.Tally
	runs int
}

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "amnesia-torture-")
	if err != nil {
		panic(err)
	}
	shared = dir
	code := m.Run()
	if code != 0 {
		fmt.Printf("ledgers, logs and what the witness was told are kept in %s\n", dir)
	} else if err := os.RemoveAll(dir); err != nil {
		panic(err)
	}
	if all.runs > 0 {
		line := all.String()
		if code != 0 {
			line += ", and something failed: see above"
		}
		fmt.Println(line)
	}
	os.Exit(code)
}

// shared is the folder of all runs.
var shared string

// program builds the daemon once.
var program = sync.OnceValues(func() (string, error) {
	if *binary != "" {
		return filepath.Abs(*binary)
	}
	path := filepath.Join(shared, "amnesia")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "amnesia/cmd/amnesia")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // it is its own helper in a container that holds nothing else
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the daemon: %w\n%s", err, out)
	}
	return path, nil
})

func amnesia(t *testing.T) string {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// torment kills so many times, and fails on anything that is not as it should be.
func torment(t *testing.T, name string, kills int, seed uint64, target func(ctx context.Context, dir, amnesia string) (torture.Target, error)) {
	t.Helper()
	o := torture.Options{Amnesia: amnesia(t), Dir: filepath.Join(shared, name), Seed: seed, Kills: kills}
	o.Tell = func(line string) {
		if t.Log(line); *whole {
			fmt.Printf("%s: %s\n", name, line)
		}
	}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	on, err := target(t.Context(), o.Dir, o.Amnesia)
	if err != nil {
		t.Fatal(err)
	}
	tally, err := torture.Run(t.Context(), o, on)
	all.Lock()
	defer all.Unlock()
	all.Add(tally)
	all.runs++
	line := fmt.Sprintf("%s, seed %d: %d kills, %d of them with a fault open, %d without another daemon until all was well, after %s at most; %.0fs",
		name, seed, tally.Kills, tally.Undone, tally.Alone, tally.Slowest.Round(time.Millisecond), time.Since(began).Seconds())
	if t.Log(line); *whole {
		fmt.Println(line)
	}
	if err != nil {
		t.Errorf("%s, seed %d: %v", name, seed, err)
	}
	for _, what := range tally.Trouble {
		t.Errorf("%s, seed %d: %s", name, seed, what)
	}
}

func TestProcesses(t *testing.T) {
	t.Parallel()
	kills := 20
	if *whole {
		kills = 200
	}
	torment(t, "processes", kills, *seed, func(ctx context.Context, dir, _ string) (torture.Target, error) {
		return torture.NewProcesses(ctx, dir)
	})
}

func TestContainers(t *testing.T) {
	t.Parallel()
	if out, err := exec.Command("../../deploy/engine/up").CombinedOutput(); err != nil {
		why := fmt.Sprintf("there is no Docker engine: %v: %s", err, out)
		if os.Getenv("CI") == "true" || *whole {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	kills := 6
	if *whole {
		kills = 50
	}
	torment(t, "containers", kills, *seed, func(ctx context.Context, dir, amnesia string) (torture.Target, error) {
		c, err := torture.NewContainers(ctx, dir, amnesia, fmt.Sprintf("amnesia-torture-%d", os.Getpid()))
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() {
			if err := c.Down(context.WithoutCancel(ctx)); err != nil {
				t.Error(err)
			}
		})
		return c, nil
	})
}
