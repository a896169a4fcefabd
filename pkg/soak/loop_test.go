package soak

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"amnesia/chaos"
	system "amnesia/pkg/clock"
	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

// mortal is the engine with a process that can be killed and started.
type mortal struct {
	engine
	lives int
}

func (e *mortal) Kill(context.Context, string) error { return nil } // Start puts another in its place
func (e *mortal) Start(context.Context, string) error {
	e.lives++
	e.replace(string(rune('a' + e.lives)))
	return nil
}

// record is a ledger in memory, and a journal.
type record struct {
	mu     sync.Mutex
	docket *Docket
	facts  []fact.Fact
	ids    [3]int64
}

func (r *record) next(i int) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids[i]++
	return r.ids[i]
}
func (r *record) NextMemory() memory.ID { return 1 }
func (r *record) NextInjection() int64  { return r.next(0) }
func (r *record) NextSweep() int64      { return r.next(1) }
func (r *record) NextCycle() int        { return int(r.next(2)) }
func (r *record) Append(_ context.Context, facts ...fact.Fact) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range facts {
		r.facts = append(r.facts, f)
		r.docket.Tap([]fact.Entry{{Seq: int64(len(r.facts)), Fact: f}})
	}
	return nil
}

func (r *record) Step(ctx context.Context, steps ...fact.Step) error {
	for _, s := range steps {
		if err := r.Append(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// Every cycle after the first has its fault, although the guard keeps the same time between two faults as the loop does
// between two cycles, and goes through all phases.
func TestEveryCycleHasItsFaultAndItsPhases(t *testing.T) {
	const every, cycles = 60 * time.Millisecond, 4
	e, c, r := &mortal{engine: engine{id: "a"}}, system.System(), &record{docket: NewDocket()}
	prober := chaos.NewProber(c, 0)
	guard := chaos.NewGuard(chaos.Limits{Armed: true, Every: every}, e, c, chaos.GuardState{})
	l := &Loop{Run: "r", Cycles: cycles, Every: every, Services: []string{"app"}, App: "app", TrafficWithin: time.Minute, Recovery: time.Minute,
		Plan: func(int) (chaos.Injection, bool) {
			return chaos.Injection{Kind: chaos.Kill, Service: "app", Instances: chaos.All, Delay: every / 2}, false
		},
		Ledger: r, Docket: r.docket, Engine: e, Prober: prober, Clock: c, Log: zap.NewNop(),
		Injector: chaos.NewInjector(chaos.InjectorConfig{Engine: e, Journal: r, Guard: guard, Prober: prober, Clock: c})}
	if err := l.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	phases := make([][]fact.Phase, cycles+1)
	var injected []int64
	for _, f := range r.facts {
		switch f := f.(type) {
		case fact.Cycle:
			phases[f.N] = append(phases[f.N], f.Phase)
		case fact.Step:
			switch f.Name {
			case fact.StepRefused:
				t.Errorf("injection %d: %s", f.Injection, f.Detail)
			case fact.StepInjected:
				injected = append(injected, f.Injection)
			}
		}
	}
	if want := []int64{1, 2, 3}; !slices.Equal(injected, want) {
		t.Errorf("injected %v, want %v", injected, want)
	}
	if want := []fact.Phase{fact.PhaseTraffic, fact.PhaseSettle, fact.PhaseJudge, fact.PhaseClosed}; !slices.Equal(phases[1], want) {
		t.Errorf("the control went through %v, want %v", phases[1], want)
	}
	for n, got := range phases[2:] {
		if want := []fact.Phase{fact.PhaseTraffic, fact.PhaseRecovery, fact.PhaseSettle, fact.PhaseJudge, fact.PhaseClosed}; !slices.Equal(got, want) {
			t.Errorf("cycle %d went through %v, want %v", n+2, got, want)
		}
	}
}

// cutting is a record whose n-th append is made while the daemon is told to stop: it is durable, and whoever appended with
// that context is told that it was cut off.
type cutting struct {
	*record
	stop context.CancelFunc
	n    int
}

func (c *cutting) Append(ctx context.Context, facts ...fact.Fact) error {
	if c.n--; c.n == 0 {
		c.stop()
	}
	if err := c.record.Append(ctx, facts...); err != nil {
		return err
	}
	return ctx.Err()
}

// Whichever fact a daemon is told to stop over, no cycle stays open that is on record.
func TestACycleThatIsOnRecordIsClosed(t *testing.T) {
	for n := 1; ; n++ {
		e, clock, r := &mortal{engine: engine{id: "a"}}, system.System(), &record{docket: NewDocket()}
		ctx, stop := context.WithCancel(t.Context())
		c := &cutting{record: r, stop: stop, n: n}
		prober := chaos.NewProber(clock, 0)
		l := &Loop{Run: "r", Cycles: 2, Services: []string{"app"}, App: "app", TrafficWithin: time.Minute, Recovery: time.Minute,
			Plan: func(int) (chaos.Injection, bool) {
				return chaos.Injection{Kind: chaos.Kill, Service: "app", Instances: chaos.All}, false
			},
			Ledger: c, Docket: r.docket, Engine: e, Prober: prober, Clock: clock, Log: zap.NewNop(),
			Injector: chaos.NewInjector(chaos.InjectorConfig{Engine: e, Journal: r, Prober: prober, Clock: clock,
				Guard: chaos.NewGuard(chaos.Limits{Armed: true}, e, clock, chaos.GuardState{})})}
		err := l.Start(ctx)
		over := ctx.Err() == nil // it ended by itself, with fewer appends than n
		stop()
		if err != nil {
			t.Fatalf("told to stop over append %d: %v", n, err)
		}
		open := map[int]fact.Phase{}
		for _, f := range r.facts {
			if cy, ok := f.(fact.Cycle); ok {
				open[cy.N] = cy.Phase
			}
		}
		for cycle, phase := range open {
			if phase != fact.PhaseClosed {
				t.Errorf("told to stop over append %d: cycle %d stays open after %s", n, cycle, phase)
			}
		}
		if over {
			if n < 8 {
				t.Errorf("only %d appends were looked at", n)
			}
			return
		}
	}
}
