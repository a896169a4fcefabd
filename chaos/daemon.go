package chaos

import (
	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

// DaemonRestart is the kind of what nobody plans and no engine is asked for: an engine that runs the services itself ends
// them with its daemon, in order or by SIGKILL from the guardian, and the next daemon starts them again. That is a fault on
// the target, and it is ours. So it is journaled as an injection when the target is up again: a memory that it took is laid
// to it, and neither to strangers nor to nothing.
const DaemonRestart = "daemon_restart"

// Restarted gives the life of a restart, complete, with the number id: ended is the last that is known of the daemon before,
// started is when its services had been started again, and after is how they then became healthy. The services died
// after ended, nobody knows how soon: an exposure that is measured from there is the shortest there can have been. It
// belongs to no cycle, and to no limit of the guard.
func Restarted(id int64, services []string, ended, started memory.Instant, after []fact.Health) []fact.Step {
	inj := Injection{ID: id, Kind: DaemonRestart, Services: services, Instances: All}
	steps := []fact.Step{
		{Name: fact.StepFiring, Plan: &inj, At: ended.Add(1)},
		{Name: fact.StepInjected, At: started},
		{Name: fact.StepRecovered, After: after},
		{Name: fact.StepClosed},
	}
	for _, h := range after {
		steps[2].At = memory.Later(steps[2].At, h.At)
	}
	steps[3].At = steps[2].At
	for i := range steps {
		steps[i].Injection = id
	}
	return steps
}
