package bench

import (
	"testing"
	"time"

	"amnesia/pkg/fact"
	"amnesia/pkg/ledger"
	"amnesia/pkg/memory"
)

// TestVerifiedPerMinute: what a fault did not strike, or was not found, is not verified; and the time of a control is not spent.
func TestVerifiedPerMinute(t *testing.T) {
	path := t.TempDir() + "/l.db"
	l, err := ledger.Open(t.Context(), path, ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	at := func(s int) memory.Instant {
		return memory.Instant{Mono: int64(s) * int64(time.Second), Wall: int64(s) * int64(time.Second), Boot: "b"}
	}
	facts := []fact.Fact{}
	for n := 1; n <= 2; n++ {
		start := 100 * n
		facts = append(facts, fact.Cycle{N: n, Control: n == 1, Phase: fact.PhaseTraffic, At: at(start)})
		for k, kind := range []memory.Kind{memory.Kept, memory.Late, memory.Indeterminate, memory.Lost} {
			id := memory.ID(10*n + k)
			facts = append(facts, fact.Begun{Memory: memory.Memory{ID: id, Cycle: n, Token: "t" + id.String()}, At: at(start + 1)},
				fact.Judged{Verdict: memory.Verdict{Memory: id, Kind: kind}, Cycle: n, At: at(start + 29)})
		}
		if n == 2 {
			facts = append(facts, fact.Step{Injection: 1, Name: fact.StepFiring, Plan: &fact.Injection{ID: 1, Cycle: 2, Kind: "kill"}, At: at(start + 2)})
		}
		facts = append(facts, fact.Cycle{N: n, Control: n == 1, Phase: fact.PhaseClosed, At: at(start + 30)})
	}
	if err := l.Append(t.Context(), facts...); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := verifiedPerMinute(t.Context(), path); err != nil || got != 4 {
		t.Errorf("%g a minute, %v; want 2 in half a minute", got, err)
	}
}
