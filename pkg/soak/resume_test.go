package soak

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"amnesia/chaos"
	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
	"amnesia/pkg/oracle"
)

// legacy is a ledger in which a daemon died in cycle 2, and the loop of the next daemon.
type legacy struct {
	*record
	*Loop
	clock *ticking
	inj   fact.Injection
	lost  map[memory.ID]bool // what the only view, the database, does not have any more
}

// newLegacy has a control, in which memory 1 was kept, and a cycle in which memory 2 was acknowledged and 3 was not.
func newLegacy(t *testing.T) *legacy {
	t.Helper()
	c := &ticking{now: noon.now}
	e := &mortal{engine: engine{id: "a"}}
	l := &legacy{record: &record{docket: NewDocket()}, clock: c, lost: map[memory.ID]bool{},
		inj: fact.Injection{ID: 1, Cycle: 2, Kind: chaos.Kill, Service: "app", Instances: chaos.All}}
	prober := chaos.NewProber(c, 0)
	contract := memory.Contract{View: "database", Service: "app", Durable: true}
	l.Loop = &Loop{Run: "later", Cycles: 1, Services: []string{"app"}, App: "app", TrafficWithin: time.Minute, SettleWithin: time.Minute, Recovery: time.Minute,
		Plan:   func(int) (chaos.Injection, bool) { return chaos.Injection{}, true },
		Ledger: l.record, Docket: l.record.docket, Engine: e, Prober: prober, Clock: c, Log: zap.NewNop(),
		Injector: chaos.NewInjector(chaos.InjectorConfig{Engine: e, Journal: l.record, Prober: prober, Clock: c})}
	l.Loop.Looks = []Look{{Contract: contract, Timeout: time.Minute, View: &sees{clock: c, state: func(m memory.Memory) memory.State {
		if l.lost[m.ID] {
			return memory.Absent
		}
		return memory.Present
	}}}}
	l.tell(t, fact.Run{ID: "early", Target: "here", At: c.Now()},
		fact.Contracts{Version: 1, Contracts: []memory.Contract{contract}, Levels: []string{"shown"}, CountsFrom: "shown", At: c.Now()})
	l.phase(t, 1, fact.PhaseTraffic)
	l.told(t, 1, 1)
	l.phase(t, 1, fact.PhaseSettle)
	l.tell(t, l.sweep(1, 1), fact.Judged{Verdict: memory.Verdict{Memory: 1, Kind: memory.Kept}, Cycle: 1, At: c.Now()})
	l.phase(t, 1, fact.PhaseClosed)
	l.phase(t, 2, fact.PhaseTraffic)
	l.tell(t, fact.Gate{Cycle: 2, Services: l.well("a"), At: c.Now()})
	l.told(t, 2, 2)
	l.tell(t, fact.Begun{Memory: memory.Memory{ID: 3, Run: "early", Cycle: 2, User: "u", Token: "t3", Views: []string{"database"}}, At: c.Now()})
	l.step(t, fact.StepPlanned, fact.Step{Plan: &l.inj})
	l.step(t, fact.StepGated, fact.Step{Before: l.well("a")})
	l.step(t, fact.StepFiring, fact.Step{Plan: &l.inj})
	l.ids = [3]int64{1, 1, 2}
	return l
}

func (l *legacy) tell(t *testing.T, facts ...fact.Fact) {
	t.Helper()
	if err := l.record.Append(t.Context(), facts...); err != nil {
		t.Fatal(err)
	}
}

func (l *legacy) phase(t *testing.T, n int, p fact.Phase) {
	c := fact.Cycle{Run: "early", N: n, Control: n == 1, Phase: p, At: l.clock.Now()}
	if p == fact.PhaseClosed {
		c.Outcome = fact.CycleClean
	}
	l.tell(t, c)
}

func (l *legacy) told(t *testing.T, id memory.ID, n int) {
	m := memory.Memory{ID: id, Run: "early", Cycle: n, User: "u", Token: "t" + id.String(), Views: []string{"database"}}
	l.tell(t, fact.Begun{Memory: m, At: l.clock.Now()})
	at := l.clock.Now()
	l.tell(t, fact.Settled{Memory: id, Outcome: memory.Acknowledged, Levels: []memory.Level{{Name: "shown", NotSeen: at, Seen: at}}, At: at})
}

func (l *legacy) well(id string) []fact.Health {
	return []fact.Health{{Service: "app", Healthy: true, Instances: []fact.Instance{{ID: id}}, At: l.clock.Now()}}
}

func (l *legacy) sweep(n int, id memory.ID) fact.Sweep {
	before, began := l.well("a"), l.clock.Now()
	s := fact.Sweep{ID: 1, Cycle: n, View: "database", Began: began, Ended: l.clock.Now(), Complete: true, Before: &before[0], Read: memory.SetOf(id),
		Observations: []memory.Observation{{Memory: id, View: "database", State: memory.Present}}}
	after := l.well("a")
	s.After = &after[0]
	return s
}

func (l *legacy) step(t *testing.T, name fact.StepName, s fact.Step) {
	s.Injection, s.Name, s.At = 1, name, l.clock.Now()
	l.tell(t, s)
}

// proven is the rest of the injection's life, and the traffic's end.
func (l *legacy) proven(t *testing.T) {
	l.step(t, fact.StepInjected, fact.Step{Fired: l.clock.Now()})
	l.step(t, fact.StepProven, fact.Step{})
	l.step(t, fact.StepRecovered, fact.Step{After: l.well("b")})
	l.step(t, fact.StepClosed, fact.Step{})
	l.phase(t, 2, fact.PhaseSettle)
	l.Loop.Engine.(*mortal).replace("b")
}

// next starts the daemon that comes after: it takes the facts in, undoes what is open, says who it is, and runs a cycle.
func (l *legacy) next(t *testing.T, open bool) []fact.Fact {
	t.Helper()
	for _, f := range l.facts {
		l.Past.Apply(f)
	}
	n := len(l.facts)
	if open {
		if err := l.Injector.RevertOpen(t.Context(), []fact.Injection{l.inj}); err != nil {
			t.Fatal(err)
		}
	}
	l.tell(t, fact.Settled{Memory: 3, Outcome: memory.Unknown, Cause: "interrupted", At: l.clock.Now()},
		fact.Run{ID: "later", Target: "here", At: l.clock.Now()},
		fact.Contracts{Version: 1, Contracts: []memory.Contract{l.Loop.Looks[0].Contract}, Levels: []string{"shown"}, CountsFrom: "shown", At: l.clock.Now()})
	if err := l.Loop.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return l.facts[n:]
}

// closings gives the ends of cycles, in their order, and fails when one began before the last had ended.
func closings(t *testing.T, facts []fact.Fact) (closed []fact.Cycle) {
	t.Helper()
	open := 2
	for _, f := range facts {
		switch c, _ := f.(fact.Cycle); c.Phase {
		case fact.PhaseTraffic:
			if open != 0 {
				t.Errorf("cycle %d begins and %d is open", c.N, open)
			}
			open = c.N
		case fact.PhaseClosed:
			open = 0
			closed = append(closed, c)
		}
	}
	return closed
}

// TestAnOpenCycleIsSeenThrough: what the earlier daemon had left to do is done, and what it alone could have known is a
// doubt.
func TestAnOpenCycleIsSeenThrough(t *testing.T) {
	for name, c := range map[string]struct {
		died    func(*testing.T, *legacy)
		lost    memory.ID
		outcome fact.CycleOutcome
		reason  string
	}{
		"in the fault":                         {outcome: fact.CycleInconclusive, reason: "The daemon died"},
		"in the fault, which took a memory":    {lost: 2, outcome: fact.CycleLosses, reason: "m2"},
		"before the sweeps":                    {died: func(t *testing.T, l *legacy) { l.proven(t) }, outcome: fact.CycleClean},
		"before the sweeps, and one is lost":   {died: func(t *testing.T, l *legacy) { l.proven(t) }, lost: 2, outcome: fact.CycleLosses, reason: "m2"},
		"in the fault, which took an old one":  {lost: 1, outcome: fact.CycleLosses, reason: "m1"},
		"in the fault, and not all was stored": {lost: 3, outcome: fact.CycleInconclusive, reason: "The daemon died"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLegacy(t)
			if c.died != nil {
				c.died(t, l)
			}
			l.lost[c.lost] = true
			facts := l.next(t, c.died == nil)
			closed := closings(t, facts)
			if len(closed) != 2 || closed[0].N != 2 || closed[1].N != 3 || closed[0].Run != "later" {
				t.Fatalf("closed %+v", closed)
			}
			if closed[0].Outcome != c.outcome || !strings.Contains(closed[0].Reason, c.reason) {
				t.Errorf("the cycle is %s: %s", closed[0].Outcome, closed[0].Reason)
			}
			if closed[1].Outcome != fact.CycleClean && closed[1].Reason != "Only 0 acknowledged memories were at stake before the fault, fewer than 1." {
				t.Errorf("the next cycle is %s: %s", closed[1].Outcome, closed[1].Reason)
			}
			var v memory.Verdict
			l.Docket.Read(func(b *oracle.Book) { v, _ = b.Verdict(c.lost, l.clock.Now()) })
			if c.outcome == fact.CycleLosses && (v.Kind != memory.Lost || v.Fault != chaos.Kill || v.Service != "app" || !slices.Equal(v.Suspects, []int64{1})) {
				t.Errorf("%+v", v)
			}
			for _, f := range facts {
				if j, ok := f.(fact.Judged); ok && j.Verdict.Memory == 1 && c.lost != 1 {
					t.Errorf("what has not changed was judged again: %+v", j)
				}
			}
		})
	}
}

// TestOldMemoriesAreSweptUntilTheyRetire: by every later daemon, and by their own age.
func TestOldMemoriesAreSweptUntilTheyRetire(t *testing.T) {
	reads := func(facts []fact.Fact, n int, id memory.ID) (times int) {
		for _, f := range facts {
			if s, ok := f.(fact.Sweep); ok && s.Cycle == n && s.Read.Has(id) {
				times++
			}
		}
		return times
	}
	l := newLegacy(t)
	facts := l.next(t, true)
	for id := memory.ID(1); id <= 3; id++ {
		if reads(facts, 2, id) == 0 || reads(facts, 3, id) == 0 {
			t.Errorf("m%d was read %d and %d times", id, reads(facts, 2, id), reads(facts, 3, id))
		}
	}

	l = newLegacy(t)
	l.Retire = time.Hour
	l.clock.now = l.clock.now.Add(2 * time.Hour)
	facts = l.next(t, true)
	for id := memory.ID(1); id <= 3; id++ { // what befell them is found out, and then they go
		if reads(facts, 2, id) == 0 || reads(facts, 3, id) != 0 {
			t.Errorf("retired m%d was read %d and %d times", id, reads(facts, 2, id), reads(facts, 3, id))
		}
	}
}

// TestWhatCannotBeLookedForIsRetired: it would make every later cycle inconclusive.
func TestWhatCannotBeLookedForIsRetired(t *testing.T) {
	for name, change := range map[string]func(*legacy){
		"its view is gone": func(l *legacy) { l.Loop.Looks[0].Contract.View = "another" },
		"its user is gone": func(l *legacy) { l.Reach = func(memory.Memory) error { return errors.New("no such account") } },
	} {
		l := newLegacy(t)
		change(l)
		facts := l.next(t, true)
		gone := slices.ContainsFunc(facts, func(f fact.Fact) bool {
			r, ok := f.(fact.Retired)
			return ok && r.Memories.Has(1) && r.Memories.Has(2) && r.Memories.Has(3)
		})
		if closed := closings(t, facts); !gone || len(closed) != 2 || len(l.alive()) != 0 {
			t.Errorf("%s: retired is %v, closed %+v, alive %v", name, gone, closed, l.alive())
		}
	}
}

// TestAnInterruptedResumption: a daemon that is told to stop while it sees a cycle through closes it and begins no other.
func TestAnInterruptedResumption(t *testing.T) {
	l := newLegacy(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l.Loop.Looks[0].View = blind{clock: l.clock, then: cancel}
	for _, f := range l.facts {
		l.Past.Apply(f)
	}
	n := len(l.facts)
	if err := l.Loop.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if closed := closings(t, l.facts[n:]); len(closed) != 1 || closed[0].N != 2 || closed[0].Outcome != fact.CycleInconclusive {
		t.Errorf("closed %+v", closed)
	}
}
