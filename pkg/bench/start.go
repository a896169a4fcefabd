package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"amnesia/pkg/clock"
	"amnesia/pkg/fact"
	"amnesia/pkg/ledger/ledgerbench"
)

// How many memories the long ledger holds, of how many of its last cycles they are still looked for, and how often either
// is started, in turns.
const (
	startMemories = 1_000_000
	startLive     = 3
	starts        = 5
)

// starting compares a daemon's start on a long ledger, up to its first injection, with that on an empty one. The first
// daemon that opens the long one folds every fact of it, and is not counted.
func starting(ctx context.Context, amnesia, dir string) ([]Line, error) {
	ours, reference, err := startBoth(ctx, amnesia, dir, startMemories, starts)
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("start to first injection, ledger of %d, against an empty one", startMemories)
	return []Line{atMost(what, "ms", inMS(median(ours)), inMS(median(reference)), 2)}, nil
}

func startBoth(ctx context.Context, amnesia, dir string, memories, times int) (long, empty []time.Duration, err error) {
	addr, err := freeAddress(ctx)
	if err != nil {
		return nil, nil, err
	}
	app := filepath.Join(dir, "startapp")
	if err := os.MkdirAll(app, 0o750); err != nil {
		return nil, nil, err
	}
	path := filepath.Join(dir, "startlong")
	defer func() { err = errors.Join(err, os.RemoveAll(path+".db")) }() // it is large
	if err := ledgerbench.Long(ctx, path+".db", memories, startLive); err != nil {
		return nil, nil, fmt.Errorf("making a ledger of %d memories: %w", memories, err)
	}
	start := func(path string) (time.Duration, error) {
		return toFirstInjection(ctx, amnesia, path, map[string]any{"Self": amnesia, "Dir": app, "Addr": addr})
	}
	if _, err := start(path); err != nil {
		return nil, nil, err
	}
	for i := range times {
		for to, path := range map[*[]time.Duration]string{&long: path, &empty: filepath.Join(dir, fmt.Sprint("startempty", i))} {
			took, err := start(path)
			if err != nil {
				return nil, nil, err
			}
			*to = append(*to, took)
		}
	}
	return long, empty, nil
}

// toFirstInjection runs the daemon for a control cycle and one with a fault, and gives how long it was from its start until
// the fault was let loose.
func toFirstInjection(ctx context.Context, amnesia, path string, vars map[string]any) (time.Duration, error) {
	args, err := configure(path, processes, vars)
	if err != nil {
		return 0, err
	}
	witness := path + ".witness"
	if err := os.RemoveAll(witness); err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, amnesia, append(args, "--cycles", "2", "--min-conclusive", "0")...)
	cmd.Env = append(os.Environ(), "AMNESIA_WITNESS="+witness)
	start := clock.System().Now()
	out, err := cmd.CombinedOutput()
	if err != nil && ctx.Err() != nil {
		return 0, ctx.Err()
	}
	lines, read := os.ReadFile(witness)
	if read != nil {
		return 0, fmt.Errorf("running the daemon: %w\n%s", errors.Join(err, read), out)
	}
	for line := range strings.Lines(string(lines)) {
		var w struct {
			Kind string
			Fact json.RawMessage
		}
		var s fact.Step
		if err := json.Unmarshal([]byte(line), &w); err != nil {
			return 0, fmt.Errorf("reading the daemon's witness: %w", err)
		}
		if w.Kind != "step" {
			continue
		}
		if err := json.Unmarshal(w.Fact, &s); err != nil {
			return 0, fmt.Errorf("reading the daemon's witness: %w", err)
		}
		if s.Name == fact.StepInjected && !s.Fired.IsZero() {
			return s.Fired.Sub(start), nil
		}
	}
	return 0, fmt.Errorf("the daemon injected nothing: %w\n%s", err, out)
}
