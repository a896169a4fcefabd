package soak

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"

	"amnesia/chaos"
	system "amnesia/pkg/clock"
	"amnesia/pkg/fact"
)

// leaving is an engine that goes away with the first service that it kills, until it is called back.
type leaving struct {
	mortal
	killed, away bool
}

var errAway = &chaos.Unreachable{Err: errors.New("the engine does not answer")}

func (e *leaving) gone() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.away
}

func (e *leaving) Kill(context.Context, string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.away, e.killed = !e.killed, true
	return nil
}

func (e *leaving) Start(ctx context.Context, service string) error {
	if e.gone() {
		return errAway
	}
	return e.mortal.Start(ctx, service)
}

func (e *leaving) Instances(ctx context.Context, service string) ([]fact.Instance, error) {
	if e.gone() {
		return nil, errAway
	}
	return e.mortal.Instances(ctx, service)
}

func (e *leaving) back() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.away = false
}

// What could not be undone because the engine was away is undone before anything else is done to the target, and is held
// against nobody.
func TestTheEngineIsAwayForAWhile(t *testing.T) {
	e, c, r := &leaving{mortal: mortal{engine: engine{id: "a"}}}, system.System(), &record{docket: NewDocket()}
	prober := chaos.NewProber(c, 0)
	guard := chaos.NewGuard(chaos.Limits{Armed: true, HaltAfter: 1}, e, c, chaos.GuardState{})
	l := &Loop{Run: "r", Cycles: 5, Services: []string{"app"}, App: "app", TrafficWithin: time.Minute, Recovery: 100 * time.Millisecond,
		Plan: func(n int) (chaos.Injection, bool) {
			if n == 4 { // after a whole cycle without it
				e.back()
			}
			return chaos.Injection{Kind: chaos.Kill, Service: "app", Instances: chaos.All}, false
		},
		Ledger: r, Docket: r.docket, Engine: e, Prober: prober, Clock: c, Log: zap.NewNop(),
		Injector: chaos.NewInjector(chaos.InjectorConfig{Engine: e, Journal: r, Guard: guard, Prober: prober, Clock: c,
			After: 100 * time.Millisecond, Revert: 100 * time.Millisecond})}
	if err := l.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	var steps []fact.StepName // of the injection that the engine left in
	unread, later := 0, 0
	for _, f := range r.facts {
		switch f := f.(type) {
		case fact.Step:
			if f.Injection == 1 {
				steps = append(steps, f.Name)
			} else if f.Name == fact.StepInjected {
				later++
			}
		case fact.Gate:
			if h := f.Services[0]; h.Unread {
				unread++
			}
		case fact.Cycle:
			if f.Outcome == fact.CycleUnrecovered {
				t.Errorf("cycle %d is unrecovered: %s", f.N, f.Reason)
			}
		}
	}
	want := []fact.StepName{fact.StepPlanned, fact.StepGated, fact.StepFiring, fact.StepFailed, fact.StepReverted, fact.StepClosed}
	if !slices.Equal(steps, want) {
		t.Errorf("the injection went through %v, want %v", steps, want)
	}
	if unread != 1 || later != 2 || guard.Paused() != "" {
		t.Errorf("%d gates could not be read, %d later injections, the guard is %q", unread, later, guard.Paused())
	}
}
