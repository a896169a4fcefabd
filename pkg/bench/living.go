package bench

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"amnesia/chaos"
	"amnesia/chaos/process"
	"amnesia/pkg/clock"
	"amnesia/pkg/fact"
	"amnesia/pkg/ledger"
	"amnesia/pkg/memory"
)

//go:embed living.yaml
var livingConfig string

// livingUser is how many memories each user has who is swept.
const livingUser = 50

// living compares the peak memory of a daemon that sweeps many memories with that of one that sweeps few. It starts on a
// ledger that holds them, and runs two cycles: a control and one with a fault.
func living(few, many int) measure {
	return func(ctx context.Context, amnesia, dir string) ([]Line, error) {
		what := fmt.Sprintf("sweeps of %d: peak memory of the daemon, against %d", many, few)
		if runtime.GOOS != "linux" {
			return []Line{unmeasured(what, errNoProc)}, nil
		}
		peaks := map[int]int64{}
		for _, n := range []int{few, many} {
			var err error
			if peaks[n], err = sweepLiving(ctx, amnesia, filepath.Join(dir, fmt.Sprint("living", n)), n); err != nil {
				return nil, fmt.Errorf("%d memories: %w", n, err)
			}
		}
		ours := inMiB(peaks[many])
		return []Line{
			atMost(what, "MiB", ours, inMiB(peaks[few]), 1.2),
			below(fmt.Sprintf("sweeps of %d: peak memory of the daemon", many), "MiB", ours, 64),
		}, nil
	}
}

// sweepLiving gives the peak memory, in bytes, of a daemon that sweeps n memories of before and those of its two cycles.
func sweepLiving(ctx context.Context, amnesia, dir string, n int) (peak int64, err error) {
	addr, err := freeAddress(ctx)
	if err != nil {
		return 0, err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }() // it is large
	// The application makes its tables itself. What was told before is beside them: it would look at all of it when it starts.
	if err := withSample(ctx, amnesia, dir, addr, func(*process.Engine, *chaos.Prober) error { return nil }); err != nil {
		return 0, err
	}
	ms, err := tell(n/livingUser, livingUser)
	if err != nil {
		return 0, err
	}
	if err := keepInSample(ctx, filepath.Join(dir, "data", "chat.db"), ms); err != nil {
		return 0, fmt.Errorf("filling the application: %w", err)
	}
	path := filepath.Join(dir, "amnesia")
	if err := recordLiving(ctx, path+".db", "http://"+addr, ms); err != nil {
		return 0, fmt.Errorf("filling the ledger: %w", err)
	}
	took, peak, err := soak(ctx, amnesia, path, livingConfig, 2, map[string]any{"Self": amnesia, "Dir": dir, "Addr": addr})
	if err == nil && len(took) != 1 {
		err = fmt.Errorf("%d cycles had a fault, want 1", len(took))
	}
	return peak, err
}

// keepInSample puts memories of before into the sample application's database, into a table of their own.
func keepInSample(ctx context.Context, path string, ms []memory.Memory) (err error) {
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := db.ExecContext(ctx, "CREATE TABLE earlier (user_id TEXT NOT NULL, content TEXT NOT NULL)"); err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // which does nothing after the commit
	insert, err := tx.PrepareContext(ctx, "INSERT INTO earlier (user_id, content) VALUES (?, ?)")
	if err != nil {
		return err
	}
	for _, m := range ms {
		if _, err := insert.ExecContext(ctx, m.User, m.Text); err != nil {
			return err
		}
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, "CREATE INDEX earlier_user ON earlier (user_id)")
	return err
}

// recordLiving makes a ledger in which an earlier run told memories in one cycle, saw all of them, and retired none.
func recordLiving(ctx context.Context, path, target string, ms []memory.Memory) (err error) {
	const run, view, part = "bench", "database", 1000
	l, err := ledger.Open(ctx, path, ledger.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	now := clock.System().Now()
	at := func() memory.Instant {
		now = now.Add(time.Microsecond) // which is less than it takes to record something
		return now
	}
	cycle := fact.Cycle{Run: run, N: 1, Control: true, Phase: fact.PhaseTraffic, At: at()}
	facts := []fact.Fact{
		fact.Run{ID: run, Seed: 1, Version: "bench", Target: target, Driver: "http", At: at()},
		fact.Contracts{Version: 1, Levels: []string{"settled"}, CountsFrom: "settled", At: at(), Contracts: []memory.Contract{
			{View: view, Service: "app", Durable: true, Settle: time.Second}}},
		cycle,
	}
	for some := range slices.Chunk(ms, part) {
		var judged []fact.Fact
		s := fact.Sweep{ID: l.NextSweep(), Cycle: 1, View: view, Complete: true}
		for _, m := range some {
			m.Run, m.Cycle, m.Views = run, 1, []string{view}
			told := at()
			facts = append(facts, fact.Begun{Memory: m, At: told}, fact.Settled{Memory: m.ID, Outcome: memory.Acknowledged, At: at(),
				Levels: []memory.Level{{Name: "settled", NotSeen: told, Seen: at()}}})
		}
		s.Read = memory.Set{{First: some[0].ID, Last: some[len(some)-1].ID}}
		s.Began = at()
		for _, m := range some {
			s.Observations = append(s.Observations, memory.Observation{Memory: m.ID, View: view, State: memory.Present, Copies: 1,
				Siblings: livingUser, Began: s.Began, Ended: at()})
			judged = append(judged, fact.Judged{Verdict: memory.Verdict{Memory: m.ID, Kind: memory.Kept, Because: "It is everywhere where it must be."}, Cycle: 1, At: at()})
		}
		s.Ended = at()
		if err := l.Append(ctx, append(append(facts, s), judged...)...); err != nil {
			return err
		}
		facts = nil
	}
	for _, phase := range []fact.Phase{fact.PhaseSettle, fact.PhaseJudge, fact.PhaseClosed} {
		cycle.Phase, cycle.At = phase, at()
		if phase == fact.PhaseClosed {
			cycle.Outcome = fact.CycleClean
		}
		if err := l.Append(ctx, cycle); err != nil {
			return err
		}
	}
	return nil
}
