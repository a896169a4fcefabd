// Package ledgerbench measures the ledger against what SQLite can do at best with the same durability, as two figures
// of one run on one disk: only their ratio means anything. `make bench` and the package's Go benchmarks stand on it.
package ledgerbench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"amnesia/pkg/fact"
	"amnesia/pkg/ledger"
	"amnesia/pkg/memory"
)

// instant is a made-up one that rises with n.
func instant(n int) memory.Instant {
	return memory.Instant{Mono: int64(n) * 1e6, Wall: 1_700_000_000_000_000_000 + int64(n)*1e6, Boot: "boot"}
}

// Begun gives the n-th fact that is appended, n from 1.
func Begun(n int) fact.Begun {
	token := fmt.Sprintf("k%015d", n)
	return fact.Begun{Memory: memory.Memory{ID: memory.ID(n), Run: "run", Cycle: n / 100, User: fmt.Sprintf("amnesia-run-%d", n%8),
		Text: "My cat is called " + token + " and she sleeps on the piano", Token: token, Question: "What is my cat called?",
		Payload: memory.PayloadShort, Views: []string{"page", "chroma", "redis", "postgres"}}, At: instant(n)}
}

// Append makes a new ledger at path and records n facts, one Append each, by that many writers at once. It gives how
// long the appends took.
func Append(ctx context.Context, path string, writers, n int) (took time.Duration, err error) {
	l, err := ledger.Open(ctx, path, ledger.Options{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	var next atomic.Int64
	errs := make([]error, writers)
	var wg sync.WaitGroup
	start := time.Now()
	for w := range writers {
		wg.Go(func() {
			for i := int(next.Add(1)); i <= n && errs[w] == nil; i = int(next.Add(1)) {
				errs[w] = l.Append(ctx, Begun(i))
			}
		})
	}
	wg.Wait()
	return time.Since(start), errors.Join(errs...)
}

// Raw makes a new ledger at path and inserts the rows of the same n facts past it: one writer, prepared statement, batch
// rows to a transaction, synchronous=FULL. It gives how long the inserts took.
func Raw(ctx context.Context, path string, batch, n int) (took time.Duration, err error) {
	l, err := ledger.Open(ctx, path, ledger.Options{})
	if err != nil {
		return 0, err
	}
	if err := l.Close(); err != nil {
		return 0, err
	}
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=synchronous(FULL)")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	insert, err := db.PrepareContext(ctx, "INSERT INTO memory VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)")
	if err != nil {
		return 0, err
	}
	start := time.Now()
	for i := 1; i <= n; {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return 0, err
		}
		stmt := tx.StmtContext(ctx, insert)
		for end := min(i+batch, n+1); i < end; i++ {
			f := Begun(i)
			m := f.Memory
			if _, err := stmt.ExecContext(ctx, i, int64(m.ID), 1, m.Cycle, 2, 3, 4, m.Token, m.Text, m.Question,
				f.At.Mono, f.At.Wall, 5); err != nil {
				return 0, errors.Join(err, tx.Rollback())
			}
		}
		if err := tx.Commit(); err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}

// kept is for how many cycles a memory of Soak is looked for.
const kept = 5

// Soak gives the facts of n memories as a soak leaves them, a cycle at a time: begun, acknowledged at two levels, swept in
// four views, judged, and at last retired. Cycles have that many memories of eight users.
func Soak(n, perCycle int) iter.Seq[[]fact.Fact] {
	views := []string{"page", "chroma", "redis", "postgres"}
	terms := fact.Contracts{Version: 1, Levels: []string{"shown", "settled"}, CountsFrom: "settled", At: instant(0)}
	for _, view := range views {
		terms.Contracts = append(terms.Contracts, memory.Contract{View: view, User: view == "page", Durable: true, Settle: time.Second})
	}
	return func(yield func([]fact.Fact) bool) {
		facts, sweeps := []fact.Fact{terms}, int64(0)
		for first := 1; first <= n; first += perCycle {
			if old := first - kept*perCycle; old > 0 {
				facts = append(facts, fact.Retired{Memories: memory.Set{{First: memory.ID(old), Last: memory.ID(old + perCycle - 1)}}, At: instant(first)})
			}
			var ids []memory.ID
			last := min(first+perCycle-1, n)
			for i := first; i <= last; i++ {
				ids = append(ids, memory.ID(i))
				facts = append(facts, Begun(i), fact.Settled{Memory: memory.ID(i), Outcome: memory.Acknowledged, Levels: []memory.Level{
					{Name: "shown", NotSeen: instant(i), Seen: instant(i + 1)},
					{Name: "settled", NotSeen: instant(i + 1), Seen: instant(i + 2)}}, At: instant(i + 2)})
			}
			for v, view := range views {
				sweeps++
				s := fact.Sweep{ID: sweeps, Cycle: first / perCycle, View: view, Began: instant(last + 3), Ended: instant(last + 9),
					Complete: true, Read: memory.SetOf(ids...)}
				for _, id := range ids {
					// The page is read user by user, a store at once.
					began := s.Began
					if v == 0 {
						began = instant(last + 3 + int(id)%8)
					}
					s.Observations = append(s.Observations, memory.Observation{Memory: id, View: view, State: memory.Present,
						Copies: 1, Siblings: perCycle / 8, Began: began, Ended: began.Add(time.Millisecond)})
				}
				facts = append(facts, s)
			}
			for _, id := range ids {
				facts = append(facts, fact.Judged{Verdict: memory.Verdict{Memory: id, Kind: memory.Kept,
					Because: "it is in every view that must have it"}, Cycle: first / perCycle, At: instant(last + 10)})
			}
			if !yield(facts) {
				return
			}
			facts = nil
		}
	}
}

// Fill makes a new ledger at path with a Soak of n memories, a hundred a cycle.
func Fill(ctx context.Context, path string, n int) (err error) {
	l, err := ledger.Open(ctx, path, ledger.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	for facts := range Soak(n, 100) {
		if err := l.Append(ctx, facts...); err != nil {
			return err
		}
	}
	return nil
}

// Long makes a new ledger at path as a long soak leaves it: a Soak of n memories, a hundred a cycle, with the cycles, their
// gates and the faults that struck one of two. All memories are retired but those of the last live cycles.
func Long(ctx context.Context, path string, n, live int) (err error) {
	const perCycle = 100
	l, err := ledger.Open(ctx, path, ledger.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	facts := []fact.Fact{fact.Run{ID: "run", Seed: 1, Version: "bench", Target: "http://127.0.0.1", Driver: "http", At: instant(0)}}
	cycle := 0
	for some := range Soak(n, perCycle) {
		last := min((cycle+1)*perCycle, n)
		phase := func(name fact.Phase, outcome fact.CycleOutcome) fact.Fact {
			return fact.Cycle{N: cycle + 1, Run: "run", Control: cycle%2 == 0, Phase: name, Outcome: outcome, At: instant(last)}
		}
		facts = append(facts, phase(fact.PhaseTraffic, ""), fact.Gate{Cycle: cycle + 1, Services: healthy(last), At: instant(last)})
		facts = append(facts, some...)
		if cycle%2 == 1 {
			facts = append(facts, struck(int64(cycle), cycle+1, last)...)
		}
		facts = append(facts, phase(fact.PhaseSettle, ""), phase(fact.PhaseJudge, ""), phase(fact.PhaseClosed, fact.CycleClean))
		if err := l.Append(ctx, facts...); err != nil {
			return err
		}
		facts = nil
		cycle++
	}
	// Soak has retired all that is older than kept cycles.
	from, to := max(0, cycle-kept)*perCycle, max(0, (cycle-live)*perCycle)
	if from >= to {
		return nil
	}
	return l.Append(ctx, fact.Retired{Memories: memory.Set{{First: memory.ID(from + 1), Last: memory.ID(to)}}, At: instant(n)})
}

func healthy(n int) []fact.Health {
	return []fact.Health{{Service: "app", Healthy: true, Instances: []fact.Instance{{ID: "1", Started: "then"}}, At: instant(n)}}
}

// struck gives the steps of a fault.
func struck(id int64, cycle, n int) (facts []fact.Fact) {
	plan := &fact.Injection{ID: id, Cycle: cycle, Kind: "kill", Service: "app", Instances: "one"}
	for _, name := range []fact.StepName{fact.StepPlanned, fact.StepGated, fact.StepFiring, fact.StepInjected, fact.StepProven,
		fact.StepReverted, fact.StepRecovered, fact.StepClosed} {
		s := fact.Step{Injection: id, Name: name, At: instant(n)}
		switch name {
		case fact.StepPlanned, fact.StepFiring:
			s.Plan = plan
		case fact.StepGated:
			s.Before = healthy(n)
		case fact.StepRecovered:
			s.After = healthy(n)
		}
		facts = append(facts, s)
	}
	return facts
}

// Sweep makes a new ledger at path with n memories of eight users in one view, in which so many sweeps found all of them.
func Sweep(ctx context.Context, path string, n, sweeps int) (err error) {
	l, err := ledger.Open(ctx, path, ledger.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	var begun []fact.Fact
	for i := 1; i <= n; i++ {
		begun = append(begun, Begun(i))
	}
	if err := l.Append(ctx, begun...); err != nil {
		return err
	}
	read := memory.Set{{First: 1, Last: memory.ID(n)}}
	for k := 1; k <= sweeps; k++ {
		at := instant(n + k*1000)
		s := fact.Sweep{ID: int64(k), Cycle: k, View: "chroma", Began: at, Ended: at.Add(time.Second), Complete: true, Read: read}
		for i := 1; i <= n; i++ {
			s.Observations = append(s.Observations, memory.Observation{Memory: memory.ID(i), View: "chroma", State: memory.Present, Copies: 1,
				Siblings: n / 8, Began: at, Ended: at.Add(time.Millisecond)})
		}
		if err := l.Append(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// Read reads every fact of the ledger at path and gives how long that took.
func Read(ctx context.Context, path string) (facts int, took time.Duration, err error) {
	l, err := ledger.OpenReadOnly(ctx, path)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	start := time.Now()
	for _, err := range l.Facts(ctx, 0) {
		if err != nil {
			return facts, 0, err
		}
		facts++
	}
	return facts, time.Since(start), nil
}
