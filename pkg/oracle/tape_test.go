package oracle

import (
	"testing"
	"time"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

// tape writes facts as a test tells them, in seconds since the boot of the rig. Everything settles within ten seconds.
type tape struct {
	book  *Book
	seq   int64
	sweep int64
	boot  string
	cycle int // of the next fault
	end   float64
}

const settle = 10 * time.Second

func store(name string) memory.Contract {
	return memory.Contract{View: name, Service: name, Durable: true, Settle: settle}
}

func cache(name string) memory.Contract {
	k := store(name)
	k.Durable = false
	return k
}

func look(name string) memory.Contract {
	return memory.Contract{View: name, Service: "app", User: true, Durable: true, Settle: settle}
}

// stack is a store, a second store, a cache and the page.
func stack() []memory.Contract {
	return []memory.Contract{store("db"), store("vec"), cache("redis"), look("page")}
}

func newTape(ks ...memory.Contract) *tape {
	p := &tape{book: NewBook(), boot: "boot-1", cycle: 1}
	p.contracts(ks...)
	return p
}

func (p *tape) at(s float64) memory.Instant {
	p.end = max(p.end, s)
	ns := int64(s * 1e9)
	return memory.Instant{Mono: ns, Wall: ns, Boot: p.boot}
}

func (p *tape) add(f fact.Fact) {
	p.seq++
	p.book.Apply(fact.Entry{Seq: p.seq, Fact: f})
}

func (p *tape) contracts(ks ...memory.Contract) {
	p.add(fact.Contracts{Version: 1, Contracts: ks, Levels: []string{"shown", "settled"}, CountsFrom: "settled", At: p.at(0)})
}

func (p *tape) begin(id memory.ID, at float64) {
	p.add(fact.Begun{Memory: memory.Memory{ID: id, User: "ann", Cycle: 1}, At: p.at(at)})
}

func (p *tape) level(name string, at float64) memory.Level {
	return memory.Level{Name: name, NotSeen: p.at(at - 0.1), Seen: p.at(at)}
}

// tellIn is tell in another cycle than the first.
func (p *tape) tellIn(cycle int, id memory.ID, at float64) {
	p.add(fact.Begun{Memory: memory.Memory{ID: id, User: "ann", Cycle: cycle}, At: p.at(at)})
	p.settle(id, memory.Acknowledged, at+1, p.level("shown", at+0.9), p.level("settled", at+1))
}

// tell begins a memory at one second and has it acknowledged, level shown and then settled, at the next.
func (p *tape) tell(id memory.ID, at float64) {
	p.begin(id, at)
	p.settle(id, memory.Acknowledged, at+1, p.level("shown", at+0.9), p.level("settled", at+1))
}

func (p *tape) settle(id memory.ID, o memory.Outcome, at float64, levels ...memory.Level) {
	p.add(fact.Settled{Memory: id, Outcome: o, Levels: levels, At: p.at(at)})
}

func (p *tape) forget(id memory.ID, at float64, o memory.Outcome) {
	p.add(fact.ForgetBegun{Memory: id, At: p.at(at)})
	if o != "" {
		p.add(fact.ForgetSettled{Memory: id, Outcome: o, At: p.at(at + 1)})
	}
}

// obs is one row of a sweep.
func obs(id memory.ID, s memory.State) memory.Observation {
	o := memory.Observation{Memory: id, State: s}
	if s.Here() {
		o.Copies = 1
	}
	return o
}

// health is a service called name, run by one instance.
func (p *tape) health(name, instance string, at float64, healthy bool) *fact.Health {
	return &fact.Health{Service: name, Healthy: healthy, Instances: []fact.Instance{{ID: instance, Started: "then"}}, At: p.at(at)}
}

func (p *tape) swept(view string, at float64, rows ...memory.Observation) fact.Sweep {
	p.sweep++
	var ids []memory.ID
	for _, o := range rows {
		ids = append(ids, o.Memory)
	}
	return fact.Sweep{ID: p.sweep, Cycle: 1, View: view, Began: p.at(at), Ended: p.at(at + 0.1), Complete: true, Read: memory.SetOf(ids...), Observations: rows}
}

// read sweeps a view for m1.
func (p *tape) read(view string, s memory.State, ats ...float64) {
	for _, at := range ats {
		p.add(p.swept(view, at, obs(1, s)))
	}
}

// all reads every view of the stack for m1 with the same result.
func (p *tape) all(s memory.State, ats ...float64) {
	for _, at := range ats {
		for _, view := range []string{"db", "vec", "redis", "page"} {
			p.read(view, s, at)
		}
	}
}

// fault fires an injection at from, has it done a tenth of a second later and the target healthy at to.
func (p *tape) fault(id int64, kind, service string, from, to float64) {
	inj := fact.Injection{ID: id, Cycle: p.cycle, Kind: kind, Service: service, Instances: "one"}
	p.add(fact.Step{Injection: id, Name: fact.StepPlanned, Plan: &inj, At: p.at(from)})
	p.add(fact.Step{Injection: id, Name: fact.StepGated, Before: []fact.Health{*p.health(service, "a", from, true)}, At: p.at(from)})
	p.add(fact.Step{Injection: id, Name: fact.StepFiring, Plan: &inj, At: p.at(from)})
	p.add(fact.Step{Injection: id, Name: fact.StepInjected, Fired: p.at(from), At: p.at(from + 0.1)})
	if to > 0 {
		p.add(fact.Step{Injection: id, Name: fact.StepProven, At: p.at(to)})
		p.add(fact.Step{Injection: id, Name: fact.StepRecovered, At: p.at(to)})
		p.add(fact.Step{Injection: id, Name: fact.StepClosed, At: p.at(to)})
	}
}

func (p *tape) phase(n int, control bool, phase fact.Phase, at float64) {
	p.add(fact.Cycle{N: n, Control: control, Phase: phase, At: p.at(at)})
}

// verdict judges m1 at the end of the tape.
func (p *tape) verdict(t *testing.T) memory.Verdict {
	t.Helper()
	v, ok := p.book.Verdict(1, p.at(p.end))
	if !ok {
		t.Fatal("m1 is not in the book")
	}
	return v
}
