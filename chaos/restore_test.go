package chaos_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"amnesia/chaos"
	"amnesia/pkg/clock"
	"amnesia/pkg/fact"
)

// TestTheGuardIsTheSameAfterARestart: after any run of faults that go well, fail or leave the target down, and of pauses,
// a guard that is made from the facts refuses and allows what the one that lived through them does.
func TestTheGuardIsTheSameAfterARestart(t *testing.T) {
	const seed = 11
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	limits := chaos.Limits{Armed: true, HaltAfter: 2, PerHour: 4}
	reached := map[chaos.Reason]int{}
	for range 40 {
		e := newTarget("app")
		j := &journal{}
		in, g := injector(e, j, limits)
		in.After = 5 * time.Millisecond
		var state chaos.GuardState
		applied := 0
		for range 1 + rng.IntN(5) {
			switch rng.IntN(8) {
			case 0:
				g.Pause()
				state.Apply(fact.Pause{On: true})
			case 1:
				g.Resume()
				state.Apply(fact.Pause{On: false})
			case 2, 3, 4: // it does not come back
				e.stillborn = true
				_, _ = in.Do(t.Context(), chaos.Injection{ID: int64(len(j.steps) + 1), Kind: chaos.Kill, Service: "app"})
				e.stillborn = false
				_ = e.Start(t.Context(), "app")
			case 5: // it cannot be hurt
				e.breaks["kill app"] = 1
				_, _ = in.Do(t.Context(), chaos.Injection{ID: int64(len(j.steps) + 1), Kind: chaos.Kill, Service: "app"})
				e.breaks["kill app"] = 0
			case 6: // it cannot be hurt, and is down after the attempt
				e.breaks["kill app"] = 1
				e.onCall = func(call string) {
					if call == "kill app" {
						e.stillborn, e.state["app"].up = true, false
					}
				}
				_, _ = in.Do(t.Context(), chaos.Injection{ID: int64(len(j.steps) + 1), Kind: chaos.Kill, Service: "app"})
				e.onCall, e.stillborn, e.breaks["kill app"] = nil, false, 0
				_ = e.Start(t.Context(), "app")
			default:
				_, _ = in.Do(t.Context(), chaos.Injection{ID: int64(len(j.steps) + 1), Kind: chaos.Kill, Service: "app"})
			}
			for ; applied < len(j.steps); applied++ {
				state.Apply(j.steps[applied])
			}
			inj := chaos.Injection{Kind: chaos.Kill, Service: "app"}
			later := chaos.NewGuard(limits, e, clock.System(), state)
			want, got := reason(g.Admit(inj)), reason(later.Admit(inj))
			if want != got {
				t.Fatalf("before the restart %q, after it %q:\n%+v", want, got, j.steps)
			}
			reached[want]++
		}
	}
	for _, r := range []chaos.Reason{"", chaos.ReasonPaused, chaos.ReasonHalted, chaos.ReasonPerHour} {
		if reached[r] == 0 {
			t.Errorf("no run came to %q: %v", r, reached)
		}
	}
}

func reason(err error) chaos.Reason {
	if r, ok := err.(*chaos.Refusal); ok {
		return r.Reason
	}
	return ""
}
