package chaos_test

import (
	"slices"
	"testing"

	"amnesia/chaos"
	"amnesia/pkg/clock"
	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

// TestLimitsAfterADeath: a fault of which a daemon could say no more than that it was about to fire counts as fired then;
// that the services ended with their daemon is no fault of the plan, and forgives nothing.
func TestLimitsAfterADeath(t *testing.T) {
	now := clock.System().Now()
	inj := &chaos.Injection{ID: 1, Kind: chaos.Kill, Service: "app"}
	var s chaos.GuardState
	s.Apply(fact.Step{Injection: 1, Name: fact.StepPlanned, Plan: inj, At: now})
	s.Apply(fact.Step{Injection: 1, Name: fact.StepFiring, Plan: inj, At: now})
	if !slices.Equal(s.Fired, []memory.Instant{now}) {
		t.Errorf("cut off in firing: fired is %v", s.Fired)
	}
	let := now.Add(5)
	for _, name := range []fact.StepName{fact.StepInjected, fact.StepFailed} {
		s.Apply(fact.Step{Injection: 1, Name: name, Fired: let, At: now.Add(9)})
	}
	if !slices.Equal(s.Fired, []memory.Instant{let}) {
		t.Errorf("told when: fired is %v", s.Fired)
	}
	s.FailedRecoveries = 1
	for _, step := range chaos.Restarted(2, []string{"app"}, now.Add(10), now.Add(20), []fact.Health{{Service: "app", Healthy: true, At: now.Add(30)}}) {
		s.Apply(step)
	}
	if len(s.Fired) != 1 || s.FailedRecoveries != 1 {
		t.Errorf("after a restart: %d fired, %d failed recoveries", len(s.Fired), s.FailedRecoveries)
	}
}
