package incident

import (
	"context"
	"errors"
	"flag"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

var update = flag.Bool("update", false, "write the golden files anew")

// recorded is a ledger in memory.
type recorded []fact.Fact

func (r recorded) Facts(_ context.Context, after int64) iter.Seq2[fact.Entry, error] {
	return func(yield func(fact.Entry, error) bool) {
		for i, f := range r {
			if seq := int64(i + 1); seq > after && !yield(fact.Entry{Seq: seq, Fact: f}, nil) {
				return
			}
		}
	}
}

// at is so many milliseconds after the start of the story.
func at(ms float64) memory.Instant {
	d := int64(ms * float64(time.Millisecond))
	start := time.Date(2026, 11, 30, 2, 0, 0, 0, time.UTC).UnixNano()
	return memory.Instant{Mono: 1e9 + d, Wall: start + d, Boot: "boot"}
}

func health(ms float64, pid string) *fact.Health {
	return &fact.Health{Service: "app", Healthy: true, Instances: []fact.Instance{{ID: pid, Started: pid}}, At: at(ms)}
}

func sweep(id int64, view string, began float64, pid string, states ...memory.State) fact.Sweep {
	s := fact.Sweep{ID: id, Cycle: 2, View: view, Began: at(began), Ended: at(began + 2), Before: health(began, pid), After: health(began+2, pid),
		Complete: true, Read: memory.SetOf(1)}
	for _, st := range states {
		copies := 0
		if st.Here() {
			copies = 1
		}
		s.Observations = append(s.Observations, memory.Observation{Memory: 1, View: view, State: st, Copies: copies, Began: s.Began, Ended: s.Ended})
	}
	return s
}

// lost is a memory that the user saw acknowledged, that was there, and that a kill of the app took.
func lost() recorded {
	inj := fact.Injection{ID: 1, Cycle: 2, Kind: "kill", Service: "app", Instances: "all", After: "acknowledged", Nth: 1}
	before, after := []fact.Health{*health(30, "10")}, []fact.Health{*health(90, "11")}
	return recorded{
		fact.Run{ID: "run", Seed: 42, Version: "test", Target: "http://app", Driver: "http", Config: []string{"app/amnesia.yaml"}, At: at(-20)},
		fact.Contracts{Version: 1, Levels: []string{"shown", "settled"}, CountsFrom: "settled", At: at(-20), Contracts: []memory.Contract{
			{View: "page", Service: "app", User: true, Durable: true, Settle: time.Second},
			{View: "database", Service: "app", Durable: true, Settle: time.Second},
		}},
		fact.Cycle{Run: "run", N: 2, Phase: fact.PhaseTraffic, At: at(-10)},
		fact.Gate{Cycle: 2, Services: []fact.Health{*health(-5, "10")}, At: at(-5)},
		fact.Step{Injection: 1, Name: fact.StepPlanned, Plan: &inj, At: at(-4)},
		fact.Step{Injection: 1, Name: fact.StepGated, Before: before, At: at(-3)},
		fact.Begun{Memory: memory.Memory{ID: 1, Run: "run", Cycle: 2, User: "amnesia-run-0", Text: "My locker code is amnabc.\x1b[2J\nReally.", Token: "amnabc",
			Payload: memory.PayloadMultiline, Views: []string{"page", "database"}}, At: at(0)},
		fact.Settled{Memory: 1, Outcome: memory.Acknowledged, At: at(12), Levels: []memory.Level{
			{Name: "shown", NotSeen: at(8), Seen: at(10)}, {Name: "settled", NotSeen: at(10), Seen: at(12)}}},
		sweep(1, "database", 15, "10", memory.Present),
		fact.Step{Injection: 1, Name: fact.StepFiring, Plan: &inj, Before: before, At: at(49)},
		fact.Log{Service: "app", Level: "error", Line: `{"level":"error","msg":"queue dropped \u001b[31m"}`, At: at(51)},
		fact.Log{Service: "app", Level: "error", Line: "long before the fault", At: at(-9000)},
		fact.Step{Injection: 1, Name: fact.StepInjected, Fired: at(50), At: at(60)},
		fact.Step{Injection: 1, Name: fact.StepProven, At: at(90)},
		fact.Step{Injection: 1, Name: fact.StepRecovered, After: after, At: at(90)},
		fact.Step{Injection: 1, Name: fact.StepClosed, At: at(91)},
		sweep(2, "database", 100, "11", memory.Absent),
		sweep(3, "page", 101, "11", memory.Absent),
		sweep(4, "database", 500, "11", memory.Absent),
		sweep(5, "page", 501, "11"), // read again, as before
		sweep(6, "database", 1200, "11"),
		sweep(7, "page", 1201, "11", memory.Absent),
	}
}

// TestStory holds the form of a story. Control characters of the target do not reach the terminal.
func TestStory(t *testing.T) {
	for _, what := range []string{"m1", "amnabc"} {
		s, err := Tell(t.Context(), lost(), what)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := s.Write(&b, "amnesia.db", func(file string) (string, bool) { return "/evidence/" + file, file == "there.png" }); err != nil {
			t.Fatal(err)
		}
		golden(t, "lost.txt", b.String())
	}
}

// TestStoryOfADeadDaemon: it could say of its last fault only that it was about to do it, and the next daemon that the
// services had ended with it.
func TestStoryOfADeadDaemon(t *testing.T) {
	var facts recorded
	restart := fact.Injection{ID: 2, Kind: "daemon_restart", Services: []string{"app"}, Instances: "all"}
	for _, f := range lost() {
		switch s, _ := f.(fact.Step); s.Name {
		case fact.StepInjected:
			facts = append(facts, fact.Step{Injection: 1, Name: fact.StepReverted, At: at(80)}, fact.Step{Injection: 1, Name: fact.StepClosed, At: at(80)},
				fact.Step{Injection: 2, Name: fact.StepFiring, Plan: &restart, At: at(52)}, fact.Step{Injection: 2, Name: fact.StepInjected, At: at(70)},
				fact.Step{Injection: 2, Name: fact.StepRecovered, After: []fact.Health{*health(90, "11")}, At: at(90)},
				fact.Step{Injection: 2, Name: fact.StepClosed, At: at(90)})
		case fact.StepProven, fact.StepRecovered, fact.StepClosed:
		default:
			facts = append(facts, f)
		}
	}
	s, err := Tell(t.Context(), facts, "m1")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := s.Write(&b, "amnesia.db", func(file string) (string, bool) { return "/evidence/" + file, file == "there.png" }); err != nil {
		t.Fatal(err)
	}
	golden(t, "died.txt", b.String())
}

// TestStoryOfNobody says what to do when the memory is not in the ledger.
func TestStoryOfNobody(t *testing.T) {
	_, err := Tell(t.Context(), lost(), "m2")
	if !errors.Is(err, ErrNoMemory) || !strings.Contains(err.Error(), "fix:") {
		t.Fatalf("got %v, want an ErrNoMemory with a fix", err)
	}
}

// TestStoryStopsAtABrokenLedger gives the ledger's own error.
func TestStoryStopsAtABrokenLedger(t *testing.T) {
	broken := errors.New("page 7 is torn")
	facts := factsFunc(func(yield func(fact.Entry, error) bool) { yield(fact.Entry{}, broken) })
	if _, err := Tell(t.Context(), facts, "m1"); !errors.Is(err, broken) {
		t.Fatalf("got %v, want %v", err, broken)
	}
}

type factsFunc func(yield func(fact.Entry, error) bool)

func (f factsFunc) Facts(context.Context, int64) iter.Seq2[fact.Entry, error] {
	return iter.Seq2[fact.Entry, error](f)
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", name, diff)
	}
}
