package chaos_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"amnesia/chaos"
	"amnesia/pkg/clock"
	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

var armed = chaos.Limits{Armed: true}

func TestEachFaultIsDoneProvenAndUndone(t *testing.T) {
	for _, tc := range []struct {
		inj   chaos.Injection
		calls string
	}{
		{chaos.Injection{Kind: chaos.Kill, Service: "app"}, "kill app, start app"},
		{chaos.Injection{Kind: chaos.Restart, Service: "app", Grace: time.Second}, "stop app, start app"},
		{chaos.Injection{Kind: chaos.Pause, Service: "app", Hold: time.Millisecond}, "freeze app, thaw app"},
		{chaos.Injection{Kind: chaos.Partition, Service: "app", Hold: time.Millisecond}, "cut app, join app"},
		{chaos.Injection{Kind: chaos.Wipe, Service: "db", Volume: "/data"}, "kill db, empty db, start db"},
		{chaos.Injection{Kind: chaos.Wipe, Service: "db", Volume: "/data", Grace: time.Second}, "stop db, empty db, start db"},
		{chaos.Injection{Kind: chaos.Recreate, Service: "db"}, "kill db, recreate db"},
		{chaos.Injection{Kind: chaos.CrashAll, Services: []string{"app", "db"}}, "kill app, kill db, start app, start db"},
	} {
		t.Run(tc.inj.Kind, func(t *testing.T) {
			e, j := newTarget("app", "db"), &journal{}
			in, _ := injector(e, j, armed)
			tc.inj.ID = 7
			res, err := in.Do(t.Context(), tc.inj)
			if err != nil || res.Outcome != chaos.Injected {
				t.Fatalf("%+v, %v", res, err)
			}
			if tc.inj.Kind == chaos.CrashAll { // in parallel, but every kill before any start
				slices.Sort(e.calls[:2])
				slices.Sort(e.calls[2:])
			}
			if got := strings.Join(e.calls, ", "); got != tc.calls {
				t.Errorf("calls: %s, want %s", got, tc.calls)
			}
			mustWell(t, e)
			want := []fact.StepName{fact.StepPlanned, fact.StepGated, fact.StepFiring, fact.StepInjected, fact.StepProven, fact.StepRecovered, fact.StepClosed}
			if diff := cmp.Diff(want, j.names()); diff != "" {
				t.Error(diff)
			}
			for _, s := range j.steps {
				if s.Injection != 7 || s.At.IsZero() {
					t.Errorf("step %+v", s)
				}
			}
			if firing := j.steps[2]; firing.Plan == nil || len(firing.Plan.Undo) == 0 || len(firing.Before) != 2 {
				t.Errorf("firing without its undo: %+v", firing)
			}
			if j.steps[3].Fired != res.Fired || res.Fired.IsZero() || res.Injected.Before(res.Fired) || res.Recovered.Before(res.Injected) ||
				res.Recovery != res.Recovered.Sub(res.Fired)-tc.inj.Hold {
				t.Errorf("instants: %+v", res)
			}
		})
	}
}

// The worst bug is a target left dead, paused or cut: whatever breaks once, and whenever the daemon is told to end, the
// target is well again afterwards, or the journal says that an undo is owed.
func TestWhateverBreaksTheTargetIsMadeWhole(t *testing.T) {
	verbs := []string{"", "kill", "stop", "start", "freeze", "thaw", "cut", "join", "empty", "recreate"}
	rapid.Check(t, func(t *rapid.T) {
		e, j := newTarget("app", "db"), &journal{}
		kind := rapid.SampledFrom([]string{chaos.Kill, chaos.Restart, chaos.Pause, chaos.Recreate, chaos.Wipe, chaos.Partition, chaos.CrashAll}).Draw(t, "kind")
		inj := chaos.Injection{ID: 1, Kind: kind, Service: "app", Services: []string{"app", "db"}, Hold: time.Millisecond,
			Grace: time.Duration(rapid.IntRange(0, 1).Draw(t, "grace")) * time.Second}
		e.breaks[rapid.SampledFrom(verbs).Draw(t, "broken")+" app"] = rapid.SampledFrom([]int{1, 2, -1}).Draw(t, "times")
		e.immortal = rapid.Bool().Draw(t, "immortal")
		j.failAt = rapid.SampledFrom([]fact.StepName{"", "", fact.StepPlanned, fact.StepFiring, fact.StepInjected, fact.StepFailed, fact.StepClosed}).Draw(t, "journal fails at")
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		var calls atomic.Int64
		stopAt := int64(rapid.IntRange(0, 4).Draw(t, "the daemon ends at call"))
		e.onCall = func(call string) {
			if calls.Add(1) == stopAt {
				cancel()
			}
			if !j.has(fact.StepFiring) {
				t.Errorf("%s before firing was durable", call)
			}
		}
		in, _ := injector(e, j, armed)
		res, err := in.Do(ctx, inj)
		if (err == nil) != (res.Outcome == chaos.Injected) && j.failAt == "" {
			t.Errorf("outcome %s with the error %v", res.Outcome, err)
		}

		left := e.well()
		open := j.has(fact.StepFiring) && !j.has(fact.StepClosed)
		if left != nil && !open {
			t.Fatalf("%v, the steps %v, the error %v", left, j.names(), err)
		}
		// The next daemon, with an engine that works and a journal that does.
		e.breaks, j.failAt, e.onCall = nil, "", nil
		next, _ := injector(e, j, armed)
		if open {
			if err := next.RevertOpen(context.Background(), []chaos.Injection{res.Injection}); err != nil {
				t.Fatal(err)
			}
			if !j.has(fact.StepReverted) || !j.has(fact.StepClosed) {
				t.Fatalf("after the revert: %v", j.names())
			}
		}
		if err := e.well(); err != nil {
			t.Fatalf("after the revert: %v", err)
		}
	})
}

func TestADaemonThatEndsThawsAndJoinsFirst(t *testing.T) {
	for _, kind := range []string{chaos.Pause, chaos.Partition} {
		e, j := newTarget("app"), &journal{}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		e.onCall = func(call string) {
			if call == "freeze app" || call == "cut app" {
				time.AfterFunc(time.Millisecond, cancel)
			}
		}
		in, guard := injector(e, j, chaos.Limits{Armed: true, HaltAfter: 1})
		res, err := in.Do(ctx, chaos.Injection{Kind: kind, Service: "app", Hold: time.Hour})
		if !errors.Is(err, context.Canceled) || res.Outcome != chaos.Failed || !res.Reverted {
			t.Errorf("%s: %+v, %v", kind, res, err)
		}
		mustWell(t, e)
		if !j.has(fact.StepReverted) || !j.has(fact.StepClosed) || guard.Paused() != "" {
			t.Errorf("%s: steps %v, the guard is %q", kind, j.names(), guard.Paused())
		}
	}
}

func TestAFaultThatDidNothingIsNotProven(t *testing.T) {
	e, j := newTarget("app"), &journal{}
	e.immortal = true
	in, _ := injector(e, j, armed)
	res, err := in.Do(t.Context(), chaos.Injection{Kind: chaos.Kill, Service: "app"})
	if res.Outcome != chaos.Failed || err == nil || !strings.Contains(err.Error(), "is not proven: instance app") {
		t.Errorf("%s, %v", res.Outcome, err)
	}
	if j.has(fact.StepProven) || !j.has(fact.StepFailed) || !j.has(fact.StepClosed) {
		t.Errorf("steps %v", j.names())
	}
}

// An engine that goes away says nothing of the target: what it kept from being undone is owed until it is back.
func TestAnEngineThatGoesAwayIsNoFinding(t *testing.T) {
	for _, back := range []bool{false, true} { // within the time that an undo may take
		e, j := newTarget("app"), &journal{}
		in, guard := injector(e, j, chaos.Limits{Armed: true, HaltAfter: 1})
		in.Revert = 300 * time.Millisecond
		var once sync.Once
		e.onCall = func(call string) {
			if call == "start app" { // it is dead
				once.Do(func() {
					e.leave(true)
					if back {
						time.AfterFunc(50*time.Millisecond, func() { e.leave(false) })
					}
				})
			}
		}
		res, err := in.Do(t.Context(), chaos.Injection{Kind: chaos.Kill, Service: "app"})
		if back {
			// The start is part of the kill: it failed, and was made up for.
			if res.Outcome != chaos.Failed || err == nil || !res.Reverted {
				t.Errorf("back in time: %s, %v", res.Outcome, err)
			}
			mustWell(t, e)
			continue
		}
		if res.Outcome != chaos.Failed || err == nil || res.Reverted || guard.Paused() != "" {
			t.Errorf("%s, %v, the guard is %q", res.Outcome, err, guard.Paused())
		}
		if health := in.Prober.Check(t.Context(), e, nil); !health[0].Unread || health[0].Sick() {
			t.Errorf("the reading is %+v", health[0])
		}
		if err := in.Owed(t.Context()); err == nil {
			t.Error("nothing is owed")
		}
		e.leave(false)
		if err := in.Owed(t.Context()); err != nil {
			t.Error(err)
		}
		mustWell(t, e)
		if !j.has(fact.StepReverted) || !j.has(fact.StepClosed) {
			t.Errorf("steps %v", j.names())
		}
		was := len(j.steps)
		if err := in.Owed(t.Context()); err != nil || len(j.steps) > was {
			t.Errorf("undone twice: %v", err)
		}
	}
}

func TestATargetThatDoesNotComeBackIsAFindingAndHalts(t *testing.T) {
	e, j := newTarget("app"), &journal{}
	e.stillborn = true
	in, guard := injector(e, j, chaos.Limits{Armed: true, HaltAfter: 1})
	res, err := in.Do(t.Context(), chaos.Injection{Kind: chaos.Kill, Service: "app"})
	var unhealthy *chaos.Unhealthy
	if res.Outcome != chaos.Unrecovered || !errors.As(err, &unhealthy) || !strings.Contains(err.Error(), "after the fault, within 100ms, app never became healthy: it is not running") {
		t.Errorf("%s, %v", res.Outcome, err)
	}
	if guard.Paused() != chaos.ReasonHalted {
		t.Errorf("the guard is %q", guard.Paused())
	}
	e.stillborn = false
	if err := e.Start(t.Context(), "app"); err != nil {
		t.Fatal(err)
	}
	_, err = in.Do(t.Context(), chaos.Injection{Kind: chaos.Kill, Service: "app"})
	if r, ok := errors.AsType[*chaos.Refusal](err); !ok || r.Reason != chaos.ReasonHalted {
		t.Errorf("after a halt: %v", err)
	}
	guard.Resume()
	if res, err := in.Do(t.Context(), chaos.Injection{Kind: chaos.Kill, Service: "app"}); err != nil || res.Outcome != chaos.Injected {
		t.Errorf("after resume: %s, %v", res.Outcome, err)
	}
}

func TestAServiceThatDiesOnItsWayUpIsStartedAgain(t *testing.T) {
	e, j := newTarget("app"), &journal{}
	c := clock.System()
	in := chaos.NewInjector(chaos.InjectorConfig{Engine: e, Journal: j, Guard: chaos.NewGuard(armed, e, c, chaos.GuardState{}),
		Prober: chaos.NewProber(c, 0), Clock: c, After: 10 * time.Second})
	e.stillborn = true
	starts := 0
	e.onCall = func(call string) {
		if call == "start app" {
			if starts++; starts == 2 {
				e.stillborn = false
			}
		}
	}
	res, err := in.Do(t.Context(), chaos.Injection{Kind: chaos.Kill, Service: "app"})
	if err != nil || res.Outcome != chaos.Injected || starts != 2 {
		t.Errorf("%s after %d starts, %v", res.Outcome, starts, err)
	}
}

func TestADryRunOnlyAnnounces(t *testing.T) {
	e, j := newTarget("app"), &journal{}
	in, _ := injector(e, j, chaos.Limits{})
	res, err := in.Do(t.Context(), chaos.Injection{Kind: chaos.Kill, Service: "app"})
	if err != nil || res.Outcome != chaos.DryRun || len(e.calls) > 0 {
		t.Errorf("%s, %v, calls %v", res.Outcome, err, e.calls)
	}
	if diff := cmp.Diff([]fact.StepName{fact.StepPlanned, fact.StepClosed}, j.names()); diff != "" || !j.steps[0].Plan.DryRun {
		t.Errorf("%s%+v", diff, j.steps)
	}
}

func TestRefusalsAreTypedAndJournaled(t *testing.T) {
	down := newTarget("app")
	down.state["app"].up = false
	for name, tc := range map[string]struct {
		engine chaos.Engine
		inj    chaos.Injection
		want   chaos.Reason
	}{
		"a stranger":     {newTarget("app"), chaos.Injection{Kind: chaos.Kill, Service: "db"}, chaos.ReasonService},
		"one of many":    {newTarget("app"), chaos.Injection{Kind: chaos.CrashAll, Services: []string{"app", "db"}}, chaos.ReasonService},
		"no such fault":  {newTarget("app"), chaos.Injection{Kind: "melt", Service: "app"}, chaos.ReasonUnavailable},
		"a missing role": {narrow{newTarget("app")}, chaos.Injection{Kind: chaos.Pause, Service: "app"}, chaos.ReasonUnavailable},
		"hits nothing":   {newTarget("app"), chaos.Injection{Kind: chaos.CrashAll}, chaos.ReasonUnavailable},
		"already down":   {down, chaos.Injection{Kind: chaos.Kill, Service: "app"}, chaos.ReasonUnhealthy},
	} {
		t.Run(name, func(t *testing.T) {
			j := &journal{}
			in, _ := injector(tc.engine, j, armed)
			res, err := in.Do(t.Context(), tc.inj)
			r, ok := errors.AsType[*chaos.Refusal](err)
			if !ok || r.Reason != tc.want || r.Kind != tc.inj.Kind || res.Outcome != chaos.Refused {
				t.Errorf("%s, %v", res.Outcome, err)
			}
			if !slices.Contains(chaos.Reasons(), tc.want) {
				t.Errorf("%s is not among the reasons", tc.want)
			}
			if diff := cmp.Diff([]fact.StepName{fact.StepPlanned, fact.StepRefused}, j.names()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestEligibilityIsAskedAgainAtTheMomentOfFiring(t *testing.T) {
	e, j := newTarget("app"), &journal{}
	in, guard := injector(e, j, armed)
	arm := func() *chaos.Armed {
		a, err := in.Arm(t.Context(), chaos.Injection{Kind: chaos.Kill, Service: "app"})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	refusedFor := func(a *chaos.Armed, want chaos.Reason) {
		t.Helper()
		res, err := a.Fire(t.Context(), memory.Instant{})
		if r, ok := errors.AsType[*chaos.Refusal](err); !ok || r.Reason != want || res.Outcome != chaos.Refused {
			t.Errorf("%s, %v; want %s", res.Outcome, err, want)
		}
	}
	a := arm()
	guard.Pause()
	refusedFor(a, chaos.ReasonPaused)
	guard.Resume()

	a = arm()
	e.state["app"].up = false // it died meanwhile, by another's hand
	refusedFor(a, chaos.ReasonUnhealthy)
	e.state["app"].up = true

	a, late := arm(), arm()
	e.onCall = func(call string) {
		if call == "kill app" {
			refusedFor(late, chaos.ReasonBusy)
		}
	}
	if res, err := a.Fire(t.Context(), memory.Instant{}); err != nil || res.Outcome != chaos.Injected {
		t.Errorf("%s, %v", res.Outcome, err)
	}
}

func TestFireKeepsToItsInstant(t *testing.T) {
	e, j := newTarget("app"), &journal{}
	in, _ := injector(e, j, armed)
	a, err := in.Arm(t.Context(), chaos.Injection{Kind: chaos.Kill, Service: "app"})
	if err != nil {
		t.Fatal(err)
	}
	due := clock.System().Now().Add(30 * time.Millisecond)
	res, err := a.Fire(t.Context(), due)
	if err != nil {
		t.Fatal(err)
	}
	if late := res.Fired.Sub(due); late < 0 || late > time.Second {
		t.Errorf("fired %s after it was due", late)
	}
	if firing := j.steps[2]; firing.Name != fact.StepFiring || firing.At != due {
		t.Errorf("%+v is not firing at %+v", firing, due)
	}
}

func TestNothingIsDoneWhenTheJournalFails(t *testing.T) {
	for at, want := range map[fact.StepName]chaos.Outcome{
		fact.StepPlanned: chaos.Failed, fact.StepGated: chaos.Refused, fact.StepFiring: chaos.Refused,
	} {
		e, j := newTarget("app"), &journal{failAt: at}
		in, _ := injector(e, j, armed)
		res, err := in.Do(t.Context(), chaos.Injection{Kind: chaos.Kill, Service: "app"})
		if err == nil || res.Outcome != want || len(e.calls) > 0 {
			t.Errorf("journal fails at %s: %s, %v, calls %v", at, res.Outcome, err, e.calls)
		}
		if r, ok := errors.AsType[*chaos.Refusal](err); want == chaos.Refused && (!ok || r.Reason != chaos.ReasonLedger || !j.has(fact.StepRefused)) {
			t.Errorf("journal fails at %s: %v, steps %v", at, err, j.names())
		}
	}
}

func TestDisarmClosesWhatNeverFired(t *testing.T) {
	e, j := newTarget("app"), &journal{}
	in, guard := injector(e, j, armed)
	a, err := in.Arm(t.Context(), chaos.Injection{Kind: chaos.Kill, Service: "app"})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Disarm(t.Context(), "the point never came"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]fact.StepName{fact.StepPlanned, fact.StepGated, fact.StepClosed}, j.names()); diff != "" || len(e.calls) > 0 {
		t.Errorf("%s, calls %v", diff, e.calls)
	}
	if err := guard.Admit(chaos.Injection{Kind: chaos.Kill, Service: "app"}); err != nil {
		t.Error(err)
	}
}

func TestRevertOfWhatNeverHappenedChangesNothing(t *testing.T) {
	for kind, f := range chaos.Faults(newTarget("app")) {
		e := newTarget("app")
		f = chaos.Faults(e)[kind]
		for range 2 {
			if err := f.Revert(t.Context(), chaos.Injection{Kind: kind, Service: "app", Services: []string{"app"}}); err != nil {
				t.Errorf("%s: %v", kind, err)
			}
		}
		if s := *e.state["app"]; s != (copyState{generation: 1, up: true, filled: true}) {
			t.Errorf("%s: the revert left %+v", kind, s)
		}
	}
}
