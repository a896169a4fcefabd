package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"amnesia/pkg/ledger/ledgerbench"
)

const appends = 20_000

// appending compares the ledger with what SQLite does when one writer inserts the same rows in batches.
func appending(ctx context.Context, _, dir string) ([]Line, error) {
	var ours, raw []time.Duration
	for i := range 3 { // in turns, so that a slow moment meets both
		took, err := ledgerbench.Append(ctx, filepath.Join(dir, fmt.Sprintf("append%d.db", i)), 64, appends)
		if err != nil {
			return nil, err
		}
		ours = append(ours, took)
		if took, err = ledgerbench.Raw(ctx, filepath.Join(dir, fmt.Sprintf("raw%d.db", i)), 64, appends); err != nil {
			return nil, err
		}
		raw = append(raw, took)
	}
	perSecond := func(d time.Duration) float64 { return appends / d.Seconds() }
	return []Line{atLeast("ledger, durable appends, 64 writers", "1/s", perSecond(median(ours)), perSecond(median(raw)), 0.7)}, nil
}

// growing compares a ledger after so many sweeps of so many memories that are all still there with one after the first.
func growing(sweeps, memories int) measure {
	return func(ctx context.Context, _, dir string) ([]Line, error) {
		size := func(sweeps int) (float64, error) {
			path := filepath.Join(dir, fmt.Sprintf("swept%d.db", sweeps))
			if err := ledgerbench.Sweep(ctx, path, memories, sweeps); err != nil {
				return 0, err
			}
			info, err := os.Stat(path)
			if err != nil {
				return 0, err
			}
			return inMiB(info.Size()), nil
		}
		once, err := size(1)
		if err != nil {
			return nil, err
		}
		often, err := size(sweeps)
		if err != nil {
			return nil, err
		}
		return []Line{atMost(fmt.Sprintf("ledger size after %d sweeps of %d, against one", sweeps, memories), "MiB", often, once, 1.5)}, nil
	}
}

// idling measures what the daemon uses while it waits for the next fault.
func idling(ctx context.Context, amnesia, dir string) ([]Line, error) {
	const what = "idle daemon between faults, share of a core"
	if _, ok := cpuTime(os.Getpid()); !ok {
		return []Line{unmeasured(what, errNoProc)}, nil
	}
	addr, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	app := filepath.Join(dir, "idle-app")
	if err := os.MkdirAll(app, 0o750); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "idle")
	args, err := configure(path, processes, map[string]any{"Self": amnesia, "Dir": app, "Addr": addr, "Every": "1h"})
	if err != nil {
		return nil, err
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, amnesia, args...)
	cmd.Stderr = &stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the daemon: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer func() {
		_ = cmd.Process.Signal(os.Interrupt)
		<-ended
	}()
	if err := awaitClosedCycle(ctx, path+".db"); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, stderr.String())
	}
	const while = 5 * time.Second
	before, _ := cpuTime(cmd.Process.Pid)
	select {
	case <-time.After(while):
	case err := <-ended:
		ended <- err
		return nil, fmt.Errorf("the daemon ended: %w\n%s", err, stderr.String())
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	after, ok := cpuTime(cmd.Process.Pid)
	if !ok {
		return nil, fmt.Errorf("the daemon is gone\n%s", stderr.String())
	}
	share := 100 * (after - before).Seconds() / while.Seconds()
	return []Line{below(what, "%", share, 1)}, nil
}

var errNoProc = errors.New("this system has no /proc")

// cpuTime gives what a process has used of the processors (proc_pid_stat(5), in ticks of 10 ms); false where it cannot be read.
func cpuTime(pid int) (time.Duration, bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	const user, system = 11, 12 // after the name, which may hold anything
	_, rest, _ := strings.Cut(string(stat[max(0, bytes.LastIndexByte(stat, ')')):]), " ")
	fields := strings.Fields(rest)
	if len(fields) <= system {
		return 0, false
	}
	u, err1 := strconv.Atoi(fields[user])
	s, err2 := strconv.Atoi(fields[system])
	return time.Duration(u+s) * 10 * time.Millisecond, err1 == nil && err2 == nil
}
