package oracle

import (
	"slices"
	"testing"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

// dead is a kill of which the daemon could say only that it was about to fire, at 5 s; the next daemon undid it at 20 s.
func (p *tape) dead(id int64) {
	inj := fact.Injection{ID: id, Cycle: 1, Kind: "kill", Service: "db", Instances: "all"}
	p.add(fact.Step{Injection: id, Name: fact.StepPlanned, Plan: &inj, At: p.at(4)})
	p.add(fact.Step{Injection: id, Name: fact.StepGated, Before: []fact.Health{*p.health("db", "a", 4, true)}, At: p.at(4)})
	p.add(fact.Step{Injection: id, Name: fact.StepFiring, Plan: &inj, At: p.at(5)})
	p.add(fact.Step{Injection: id, Name: fact.StepReverted, At: p.at(20)})
	p.add(fact.Step{Injection: id, Name: fact.StepClosed, At: p.at(20)})
}

func (p *tape) seen(cycle int, instance string, at float64) {
	p.add(fact.Gate{Cycle: cycle, Services: []fact.Health{*p.health("db", instance, at, true)}, At: p.at(at)})
}

// TestAFaultInWhichTheDaemonDied is a suspect from its firing to the first healthy reading after its undo, and explains
// that the process is another one.
func TestAFaultInWhichTheDaemonDied(t *testing.T) {
	p := newTape(store("db"))
	p.tell(1, 1)
	p.read("db", memory.Present, 3)
	p.tell(2, 3)
	p.dead(7)
	p.add(fact.Run{ID: "later", At: p.at(21)})
	p.seen(1, "b", 22)
	p.add(p.swept("db", 40, obs(1, memory.Absent), obs(2, memory.Present)))
	p.add(p.swept("db", 41, obs(1, memory.Absent), obs(2, memory.Present)))
	p.add(p.swept("db", 60, obs(2, memory.Absent)))
	p.add(p.swept("db", 61, obs(2, memory.Absent)))
	v := p.verdict(t)
	if v.Kind != memory.Lost || v.Fault != "kill" || v.Service != "db" || !slices.Equal(v.Suspects, []int64{7}) || v.Exposure == nil {
		t.Errorf("m1: %+v", v)
	}
	if v, _ := p.book.Verdict(2, p.at(70)); v.Kind != memory.Lost || v.Fault != memory.FaultNone {
		t.Errorf("m2, which was there after the fault: %+v", v)
	}
	if r := p.book.Cycle(1, p.at(70)); r.Outcome != fact.CycleLosses {
		t.Errorf("the cycle: %+v", r)
	}
}

// TestARestartWithTheDaemon: that the services of a daemon died with it is nobody else's doing, and what they lost is laid
// to it.
func TestARestartWithTheDaemon(t *testing.T) {
	for _, noted := range []bool{true, false} {
		p := newTape(store("db"))
		p.tell(1, 1)
		p.seen(1, "a", 3)
		p.read("db", memory.Present, 4)
		want := memory.FaultForeign
		if noted {
			want = "daemon_restart"
			inj := fact.Injection{ID: 8, Kind: want, Services: []string{"db"}, Instances: "all"}
			p.add(fact.Step{Injection: 8, Name: fact.StepFiring, Plan: &inj, At: p.at(5)})
			p.add(fact.Step{Injection: 8, Name: fact.StepInjected, At: p.at(20)})
			p.add(fact.Step{Injection: 8, Name: fact.StepRecovered, After: []fact.Health{*p.health("db", "b", 21, true)}, At: p.at(21)})
			p.add(fact.Step{Injection: 8, Name: fact.StepClosed, At: p.at(21)})
		}
		p.add(fact.Run{ID: "later", At: p.at(22)})
		p.seen(1, "b", 23)
		p.read("db", memory.Absent, 40, 41)
		if v := p.verdict(t); v.Kind != memory.Lost || v.Fault != want {
			t.Errorf("noted %v: %+v", noted, v)
		}
	}
}

// TestAControlThatALaterRunSeesThrough teaches how many copies a write makes, and calibrates nothing: a fault was in it.
func TestAControlThatALaterRunSeesThrough(t *testing.T) {
	p := newTape(store("db"), cache("redis"))
	cycle := func(run string, n int, phase fact.Phase, at float64) {
		p.add(fact.Cycle{Run: run, N: n, Control: true, Phase: phase, At: p.at(at)})
	}
	twice := func(id memory.ID, at float64) {
		o := obs(id, memory.Present)
		o.Copies = 2
		p.add(p.swept("db", at, o))
	}
	p.add(fact.Run{ID: "early", At: p.at(0)})
	cycle("early", 1, fact.PhaseTraffic, 0)
	p.tell(1, 1)
	p.add(fact.Run{ID: "later", At: p.at(10)})
	cycle("later", 1, fact.PhaseSettle, 11)
	twice(1, 30)
	p.add(p.swept("redis", 31, obs(1, memory.Absent)))
	p.add(p.swept("redis", 32, obs(1, memory.Absent)))
	cycle("later", 1, fact.PhaseClosed, 40)
	if v := p.verdict(t); len(v.Defects) > 0 {
		t.Errorf("two copies are the rule: %+v", v)
	}
	if got := p.book.Misconfigured(); got != nil {
		t.Errorf("misconfigured: %+v", got)
	}

	cycle("later", 2, fact.PhaseTraffic, 50)
	p.tellIn(2, 2, 51)
	twice(2, 70)
	p.add(p.swept("redis", 71, obs(2, memory.Absent)))
	cycle("later", 2, fact.PhaseClosed, 80)
	if got := p.book.Misconfigured(); len(got) != 1 || got[0].View != "redis" {
		t.Errorf("the run's own control calibrates: misconfigured is %+v", got)
	}
}
