package chaos

import (
	"slices"
	"time"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

// life is what the state remembers of the injection under way, from one fact to the next.
type life struct {
	id                                       int64
	firing, fired, failed, recovered, unwell bool
}

// Apply brings the state up to date with a fact of the ledger. Applied to all of them in their order, it gives the state
// that the guard had when the ledger ended.
func (s *GuardState) Apply(f fact.Fact) {
	switch f := f.(type) {
	case fact.Pause:
		s.Paused = f.On
		if !f.On {
			s.FailedRecoveries = 0
		}
	case fact.Step:
		s.step(f)
	}
}

func (s *GuardState) step(f fact.Step) {
	if s.last.id != f.Injection {
		s.last = life{id: f.Injection}
	}
	if !f.Fired.IsZero() && s.last.firing && !s.last.fired { // more than one step may say it
		s.last.fired = true
		s.Fired[len(s.Fired)-1] = f.Fired
	}
	s.last.unwell = s.last.unwell || slices.ContainsFunc(f.After, func(h fact.Health) bool { return h.Sick() })
	switch f.Name {
	case fact.StepFiring:
		if f.Plan != nil && f.Plan.Kind == DaemonRestart {
			return
		}
		s.last.firing = true
		s.fire(f.At) // until it is told when exactly, which a daemon that dies never does
	case fact.StepFailed:
		s.last.failed = true
	case fact.StepRecovered:
		s.last.recovered = true
	case fact.StepClosed:
		switch l := s.last; {
		case !l.firing:
		case l.recovered && !l.failed:
			s.FailedRecoveries = 0
		case !l.recovered && l.unwell:
			s.FailedRecoveries++
		}
	}
}

// fire notes a firing. Older ones than an hour are needed by no rule, except the last by Limits.Every.
func (s *GuardState) fire(at memory.Instant) {
	s.Fired = append(slices.DeleteFunc(s.Fired, func(t memory.Instant) bool { return at.Sub(t) > time.Hour }), at)
}
