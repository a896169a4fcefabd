package incident

import (
	"fmt"
	"testing"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

func TestCycles(t *testing.T) {
	at := func(n int64) memory.Instant { return memory.Instant{Mono: n, Wall: n, Boot: "b"} }
	c := Cycles{Keep: 2}
	apply := func(facts ...fact.Fact) {
		for _, f := range facts {
			c.Apply(fact.Entry{Fact: f})
		}
	}
	for n := 1; n <= 3; n++ {
		id, inj := memory.ID(n), fact.Injection{ID: int64(n), Cycle: n, Kind: "kill", Service: "redis"}
		apply(fact.Cycle{Run: "r", N: n, Phase: fact.PhaseTraffic, At: at(int64(n))},
			fact.Begun{Memory: memory.Memory{ID: id, Cycle: n}}, fact.Settled{Memory: id, Outcome: memory.Acknowledged},
			fact.Begun{Memory: memory.Memory{ID: id + 100, Cycle: n}}, fact.Settled{Memory: id + 100, Outcome: memory.Unknown},
			fact.Step{Injection: int64(n), Name: fact.StepPlanned, Plan: &inj}, fact.Step{Injection: int64(n), Name: fact.StepFiring, At: at(8)},
			fact.Step{Injection: int64(n), Name: fact.StepInjected, Fired: at(9)}, fact.Step{Injection: int64(n), Name: fact.StepRecovered},
			fact.Step{Injection: int64(n), Name: fact.StepClosed},
			fact.Judged{Cycle: n, Verdict: memory.Verdict{Memory: id, Kind: memory.Lost, Class: memory.Unsure}},
			fact.Judged{Cycle: n, Verdict: memory.Verdict{Memory: id, Kind: memory.Lost, Class: memory.Silent}}, // the same, known better
			fact.Judged{Cycle: n, Verdict: memory.Verdict{Memory: id + 100, Kind: memory.Lost, Class: memory.Permitted}},
			fact.Cycle{Run: "r", N: n, Phase: fact.PhaseClosed, Outcome: fact.CycleLosses, At: at(10)})
	}
	apply(fact.Judged{Cycle: 1, Verdict: memory.Verdict{Memory: 1, Kind: memory.Lost}}) // of one that is forgotten
	all := c.All()
	if len(all) != 2 || all[0].N != 3 || all[1].N != 2 {
		t.Fatalf("kept %+v", all)
	}
	got := all[0]
	if got.Told != 2 || got.Acknowledged != 1 || got.Lost != 1 || len(got.Found) != 1 || got.Found[0].Class != memory.Silent || got.Outcome != fact.CycleLosses ||
		got.Fault() != "kill of redis" || got.Injections[0].State != "recovered" || got.Injections[0].Fired != at(9) || len(got.Injections[0].Steps) != 5 {
		t.Errorf("cycle 3 is %+v", got)
	}
	if len(c.told)+len(c.of) > 2 {
		t.Errorf("of the forgotten it keeps %v, %v", c.told, c.of)
	}
}

// TestEndsOfInjections: what came of an injection is what the metrics call it.
func TestEndsOfInjections(t *testing.T) {
	sick := []fact.Health{{Service: "redis"}}
	for want, steps := range map[string][]fact.Step{
		"planned":     {{Name: fact.StepPlanned}},
		"fired":       {{Name: fact.StepFiring}},
		"recovered":   {{Name: fact.StepFiring}, {Name: fact.StepInjected}, {Name: fact.StepRecovered}, {Name: fact.StepClosed}},
		"unrecovered": {{Name: fact.StepFiring}, {Name: fact.StepInjected}, {Name: fact.StepFailed, After: sick}, {Name: fact.StepReverted}, {Name: fact.StepClosed}},
		"failed":      {{Name: fact.StepFiring}, {Name: fact.StepFailed, After: sick}, {Name: fact.StepRecovered}, {Name: fact.StepClosed}},
		"refused":     {{Name: fact.StepPlanned}, {Name: fact.StepRefused}},
		"called off":  {{Name: fact.StepPlanned}, {Name: fact.StepClosed}},
		"announced":   {{Name: fact.StepPlanned, Plan: &fact.Injection{Cycle: 1, DryRun: true}}, {Name: fact.StepFiring}, {Name: fact.StepClosed}},
	} {
		c := Cycles{}
		for i, s := range append([]fact.Step{{Name: fact.StepPlanned, Plan: &fact.Injection{Cycle: 1}}}, steps...) {
			if i == 0 {
				c.Apply(fact.Entry{Fact: fact.Cycle{N: 1}})
			}
			s.At = memory.Instant{Mono: 1, Wall: 1}
			c.Apply(fact.Entry{Fact: s})
		}
		if got := fmt.Sprint(c.All()[0].Injections[0].State); got != want {
			t.Errorf("%v is %s, want %s", steps, got, want)
		}
	}
}
