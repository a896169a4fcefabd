//go:build linux

package torture

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"amnesia/pkg/app"
	"amnesia/pkg/fact"
	"amnesia/pkg/ledger"
)

// TestALossIsFound: what a witness was told of is missed when the ledger has not got it, or has it otherwise.
func TestALossIsFound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	var told []fact.Entry
	books, err := ledger.Open(t.Context(), path, ledger.Options{Tap: func(es []fact.Entry) { told = append(told, es...) }})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		if err := books.Append(t.Context(), fact.Cycle{Run: "r", N: n + 1, Phase: fact.PhaseTraffic}); err != nil {
			t.Fatal(err)
		}
	}
	if err := books.Close(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(es []fact.Entry) []fact.Entry
		want   []string
	}{
		"as it is": {func(es []fact.Entry) []fact.Entry { return es }, nil},
		"gone":     {func(es []fact.Entry) []fact.Entry { return append(es, fact.Entry{Seq: 4, Fact: fact.Cycle{N: 4}}) }, []string{"fact 4 "}},
		"changed": {func(es []fact.Entry) []fact.Entry {
			es[1].Fact = fact.Cycle{Run: "r", N: 2, Phase: fact.PhaseClosed}
			return es
		}, []string{"fact 2 "}},
	} {
		file := filepath.Join(t.TempDir(), "witness")
		var lines []byte
		for _, e := range c.change(append([]fact.Entry(nil), told...)) {
			w, err := app.Witness(e)
			if err != nil {
				t.Fatal(err)
			}
			b, err := json.Marshal(w)
			if err != nil {
				t.Fatal(err)
			}
			lines = append(append(lines, b...), '\n')
		}
		// The last line is not whole: whoever writes it has died over it.
		if err := os.WriteFile(file, append(lines, `{"seq":9`...), 0o600); err != nil {
			t.Fatal(err)
		}
		witness, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		l := &life{witness: witness}
		if err := l.close(); err != nil {
			t.Fatal(err)
		}
		held, err := booked(path, 0)
		if err != nil {
			t.Fatal(err)
		}
		lost := missing(l.facts, held)
		if len(lost) != len(c.want) {
			t.Fatalf("%s: %q", name, lost)
		}
		for i := range c.want {
			if !strings.HasPrefix(lost[i], c.want[i]) {
				t.Errorf("%s: %q", name, lost[i])
			}
		}
	}
}

// Faults of the living daemon are counted, and what is told of them is left for those who wait for it.
func TestStrikes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "witness")
	var text strings.Builder
	tell := func(step fact.StepName) {
		w, err := app.Witness(fact.Entry{Seq: 1, Fact: fact.Step{Injection: 1, Name: step}})
		if err == nil {
			err = json.NewEncoder(&text).Encode(w)
		}
		if err == nil {
			err = os.WriteFile(file, []byte(text.String()), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	tell(fact.StepPlanned)
	witness, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	l := &life{witness: witness, over: make(chan struct{})}
	for i, c := range []struct {
		step fact.StepName
		n    int
		open bool
	}{{fact.StepGated, 0, false}, {fact.StepFiring, 1, true}, {fact.StepReverted, 1, true}, {fact.StepClosed, 1, false}, {fact.StepFiring, 2, true}} {
		tell(c.step)
		if n, open, err := l.strikes(); n != c.n || open != c.open || err != nil {
			t.Errorf("%d: after %s: %d, %v, %v", i, c.step, n, open, err)
		}
	}
	if err := l.await(t.Context(), func(w line) bool { return w.step() == fact.StepFiring }); err != nil || len(l.facts) != 3 {
		t.Errorf("%d facts were looked at (%v)", len(l.facts), err)
	}
	if err := l.close(); err != nil {
		t.Error(err)
	}
}

// TestACounterThatGoesBackIsFound, and what may go back or down is none.
func TestACounterThatGoesBackIsFound(t *testing.T) {
	const text = `# HELP amnesia_cycles_total Cycles that ended.
# TYPE amnesia_cycles_total counter
amnesia_cycles_total{outcome="clean",control="true"} 3
# TYPE amnesia_memories gauge
amnesia_memories{verdict="kept"} 7
# TYPE amnesia_visible_seconds histogram
amnesia_visible_seconds_bucket{le="1"} 2
amnesia_visible_seconds_sum 0.5
amnesia_visible_seconds_count 2
# TYPE go_gc_cycles_total counter
go_gc_cycles_total 9
`
	before, err := parse(strings.NewReader(text))
	if err != nil || len(before) != 4 {
		t.Fatalf("%v, %v", before, err)
	}
	for change, want := range map[[2]string]int{
		{"", ""}: 0, {"} 3", "} 2"}: 1, {"} 3", "} 4"}: 0, {"} 7", "} 1"}: 0, {"_total 9", "_total 1"}: 0, {"count 2", "count 1"}: 1,
		{`amnesia_cycles_total{outcome="clean",control="true"} 3` + "\n", ""}: 1,
	} {
		after, err := parse(strings.NewReader(strings.Replace(text, change[0], change[1], 1)))
		if err != nil {
			t.Fatal(err)
		}
		if back := after.behind(before); len(back) != want {
			t.Errorf("%q: %q, want %d", change, back, want)
		}
	}
}
