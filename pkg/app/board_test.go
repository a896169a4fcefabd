package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"amnesia/chaos"
	"amnesia/pkg/fact"
	"amnesia/pkg/incident"
	"amnesia/pkg/memory"
	"amnesia/pkg/web"
)

// newBoardOf gives a board that has followed cycles of ten memories each: each kill of the app loses the first of its cycle.
func newBoardOf(t *testing.T, cycles int) *board {
	t.Helper()
	d, _ := newDesk(t)
	a := d.a
	wall := time.Now().UnixNano()
	at := func(ms int) memory.Instant {
		return memory.Instant{Mono: int64(ms) * 1e6, Wall: wall + int64(ms)*1e6, Boot: "b"}
	}
	id := memory.ID(0)
	for n := 1; n <= cycles; n++ {
		ms := 10_000 * n
		plan := &fact.Injection{ID: int64(n), Cycle: n, Kind: chaos.Kill, Service: "app"}
		facts := []fact.Fact{fact.Cycle{Run: "r", N: n, Phase: fact.PhaseTraffic, At: at(ms)}, fact.Step{Injection: int64(n), Name: fact.StepPlanned, Plan: plan, At: at(ms)}}
		first := id + 1
		for range 10 {
			id++
			facts = append(facts, fact.Begun{Memory: memory.Memory{ID: id, Run: "r", Cycle: n, User: fmt.Sprintf("user-%d", id%2), Token: fmt.Sprintf("tok%03dx", id), Text: "text", Views: []string{"page"}}, At: at(ms + 1)},
				fact.Settled{Memory: id, Outcome: memory.Acknowledged, Levels: []memory.Level{{Name: "shown", NotSeen: at(ms + 2), Seen: at(ms + 3)}}, At: at(ms + 3)})
		}
		exposure := 40 * time.Millisecond
		lost := fact.Judged{Cycle: n, At: at(ms + 3000), Verdict: memory.Verdict{Memory: first, Kind: memory.Lost, Class: memory.Silent, Level: "shown",
			Fault: chaos.Kill, Service: "app", Exposure: &exposure, Missing: []string{"page"}, Because: "It is gone."}}
		facts = append(facts, fact.Step{Injection: int64(n), Name: fact.StepFiring, At: at(ms + 43)}, fact.Step{Injection: int64(n), Name: fact.StepInjected, Fired: at(ms + 43), At: at(ms + 44)},
			fact.Step{Injection: int64(n), Name: fact.StepRecovered, At: at(ms + 100)}, fact.Step{Injection: int64(n), Name: fact.StepClosed, At: at(ms + 101)},
			lost, lost, fact.Cycle{Run: "r", N: n, Phase: fact.PhaseClosed, Outcome: fact.CycleLosses, At: at(ms + 4000)})
		if err := a.Ledger.Append(t.Context(), facts...); err != nil {
			t.Fatal(err)
		}
	}
	refused := fact.Injection{ID: 999, Cycle: 1, Kind: chaos.Restart, Service: "app"}
	if err := a.Ledger.Append(t.Context(), fact.Step{Injection: 999, Name: fact.StepPlanned, Plan: &refused, At: at(9)},
		fact.Step{Injection: 999, Name: fact.StepRefused, Detail: (&chaos.Refusal{Kind: chaos.Restart, Service: "app", Reason: chaos.ReasonTooSoon, Why: "wait"}).Error(), At: at(9)}); err != nil {
		t.Fatal(err)
	}
	for e, err := range a.Ledger.Facts(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		a.Docket.Tap([]fact.Entry{e})
		a.board.tap([]fact.Entry{e})
	}
	return a.board
}

// TestBoardNow: each loss is counted once, and of a long soak what goes on now is no more than of a short one.
func TestBoardNow(t *testing.T) {
	b := newBoardOf(t, recent+5)
	changed := b.Changed()
	l, err := b.Live(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if c := l.Counts; c.Cycles != 65 || c.Begun != 650 || c.Acknowledged != 650 || c.Losses[memory.Silent] != 65 || c.Outcomes[fact.CycleLosses] != 65 {
		t.Errorf("it has counted %+v", c)
	}
	if len(l.Last) != recent || l.Last[0].N != 65 || l.Last[0].Lost != 1 || l.Last[0].Fault() != "kill of app" || l.Incidents != 1 {
		t.Errorf("the last of %d is %+v, with %d incidents", len(l.Last), l.Last[0], l.Incidents)
	}
	if text, err := json.Marshal(l); err != nil || len(text) > 600*recent {
		t.Errorf("what is sent at each change has %d bytes (%v)", len(text), err)
	}
	l.Counts.Losses[memory.Silent] = 7 // it is the caller's
	b.tap([]fact.Entry{{Fact: fact.Muting{Known: []fact.Known{{Fingerprint: "silent/kill/app/page", Until: time.Now().Add(time.Hour), Reason: "ticket 7"}}}},
		{Fact: fact.Retired{Memories: memory.Set{{First: 1, Last: 640}}}}})
	select {
	case <-changed:
	default:
		t.Error("who follows is not told of a change")
	}
	if l, err = b.Live(t.Context()); err != nil || l.Incidents != 0 || l.Counts.Losses[memory.Silent] != 65 {
		t.Errorf("what is known counts as %d incidents, %+v (%v)", l.Incidents, l.Counts, err)
	}
	if len(b.once) != 1 {
		t.Errorf("it remembers %d of the memories that are not judged any more", len(b.once)-1)
	}
}

// TestBoardLooksUp: what is in the ledger is found, with its verdict and its story.
func TestBoardLooksUp(t *testing.T) {
	b := newBoardOf(t, 4)
	ctx := t.Context()
	all, err := b.Cycles(ctx, 4, 2)
	if err != nil || len(all) != 2 || all[0].N != 3 || all[1].N != 2 || all[0].Acknowledged != 10 || len(all[0].Found) != 1 || len(all[0].Injections[0].Steps) != 5 {
		t.Errorf("two before the fourth are %+v (%v)", all, err)
	}
	found, err := b.Memories(ctx, web.Search{User: "user-1", Verdict: memory.Lost, Limit: 3})
	if err != nil || len(found) != 3 || found[0].ID != 31 || found[0].Fault != chaos.Kill || found[0].Cycle != 4 || found[0].Missing[0] != "page" {
		t.Errorf("lost memories of a user are %+v (%v)", found, err)
	}
	story, err := b.Memory(ctx, 21)
	if err != nil {
		t.Fatal(err)
	}
	told, err := incident.Tell(ctx, b.a.Ledger, "m21")
	if err != nil {
		t.Fatal(err)
	}
	// Both end with how it stands: one as of now, one as of the last fact.
	if n := len(story.Events) - 1; n < 5 || len(told.Events) != n+1 || !slices.Equal(story.Events[:n], told.Events[:n]) || story.Memory.Token != "tok021x" || story.Cycle != told.Cycle {
		t.Errorf("the page tells %+v, a terminal %+v", story, told)
	}
	if _, err := b.Memory(ctx, 999); !errors.Is(err, incident.ErrNoMemory) {
		t.Errorf("of no memory is told %v", err)
	}
	incidents, err := b.Incidents(ctx)
	if err != nil || len(incidents) != 1 || incidents[0].Found != 4 {
		t.Errorf("the incidents are %+v (%v)", incidents, err)
	}
	if i, ok, err := b.Incident(ctx, incidents[0].Fingerprint); err != nil || !ok || len(i.Members) != 4 {
		t.Errorf("the incident is %+v (%v)", i, err)
	}
}

// TestBoardOfFaults: what is declared is there without having been injected, what was injected without being declared, and
// what was refused.
func TestBoardOfFaults(t *testing.T) {
	b := newBoardOf(t, 4)
	b.a.cfg.Faults = b.a.cfg.Faults[1:] // the kill is not declared any more
	f, err := b.Faults(t.Context())
	if err != nil || len(f.Faults) != 3 {
		t.Fatalf("%+v (%v)", f, err)
	}
	for i, want := range []struct {
		kind               string
		injected, declared int
	}{{chaos.CrashAll, 0, 1}, {chaos.Kill, 4, 0}, {chaos.Restart, 0, 1}} {
		if got := f.Faults[i]; got.Kind != want.kind || got.Injected != want.injected || len(got.Declared) != want.declared {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	if len(f.Refusals) != 1 || f.Refusals[0].Times != 1 || f.Refusals[0].Reason != chaos.ReasonTooSoon || f.Refusals[0].Kind != chaos.Restart || f.Refusals[0].Service != "app" {
		t.Errorf("refused was %+v", f.Refusals)
	}
}

// TestBoardOpensEvidenceOnly: what a link in the folder leads to is none.
func TestBoardOpensEvidenceOnly(t *testing.T) {
	d, _ := newDesk(t)
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	d.a.cfg.Evidence.Dir = dir
	for path, text := range map[string]string{outside: "secret", filepath.Join(dir, "a.png"): "picture"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(dir, "b.png")); err != nil {
		t.Fatal(err)
	}
	f, err := d.a.board.Evidence("a.png")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if text, err := io.ReadAll(f); err != nil || string(text) != "picture" {
		t.Errorf("a.png is %q (%v)", text, err)
	}
	for _, name := range []string{"b.png", "../" + filepath.Base(filepath.Dir(outside)) + "/secret", outside} {
		if f, err := d.a.board.Evidence(name); err == nil {
			f.Close()
			t.Errorf("%s was opened", name)
		}
	}
	if _, err := d.a.board.Evidence("gone.png"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what is gone gives %v", err)
	}
}
