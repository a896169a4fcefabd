package app

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap/zaptest"

	"amnesia/chaos"
	"amnesia/pkg/clock"
	"amnesia/pkg/config"
	"amnesia/pkg/fact"
	"amnesia/pkg/ledger"
	"amnesia/pkg/memory"
	"amnesia/pkg/soak"
	"amnesia/pkg/web"
)

// newDesk gives the desk of a daemon with three faults declared.
func newDesk(t *testing.T) (*desk, func() []fact.Fact) {
	t.Helper()
	a := &App{Docket: soak.NewDocket(), clock: clock.System(), log: zaptest.NewLogger(t), opts: Options{Seed: 3}, cfg: &config.Config{
		Sessions: config.Sessions{Users: 2, Memories: 2},
		Faults: []config.Fault{{Kind: chaos.Kill, Service: "app", Weight: 50}, {Kind: chaos.Restart, Service: "app", Weight: 1},
			{Kind: chaos.CrashAll, Weight: 1}}}}
	l, err := ledger.Open(t.Context(), filepath.Join(t.TempDir(), "a.db"), ledger.Options{Tap: func(e []fact.Entry) { a.desk.tap(e) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	a.Ledger, a.books, a.desk, a.board = l, newPatient(l, a.clock, a.log), &desk{a: a}, newBoard(a)
	a.guard = chaos.NewGuard(chaos.Limits{Armed: true, HaltAfter: 1}, &untouched{}, a.clock, chaos.GuardState{})
	return a.desk, func() (facts []fact.Fact) {
		for e, err := range l.Facts(t.Context(), 0) {
			if err != nil {
				t.Fatal(err)
			}
			facts = append(facts, e.Fact)
		}
		return facts
	}
}

// TestAskedForIsPlanned: what a person asks for takes the next cycle, whatever would have been drawn for it, and one cycle only;
// the first cycle calibrates.
func TestAskedForIsPlanned(t *testing.T) {
	d, _ := newDesk(t)
	for _, ask := range []web.Ask{{Kind: chaos.Restart, Service: "app"}, {Kind: chaos.CrashAll}} {
		drawn := 0
		plan := d.plan(d.a.planConfig(), func(cycle int) (chaos.Injection, bool) {
			drawn++
			return chaos.Injection{Kind: chaos.Kill, Service: "app"}, cycle == 1
		})
		if err := d.Inject(t.Context(), ask); err != nil {
			t.Fatal(err)
		}
		if _, control := plan(1); !control || drawn != 1 {
			t.Errorf("%v: it took the cycle that calibrates", ask)
		}
		if st, err := d.Status(t.Context()); err != nil || st.Asked == nil || *st.Asked != ask {
			t.Errorf("it is not shown: %+v, %v", st.Asked, err)
		}
		if r, ok := errors.AsType[*chaos.Refusal](d.Inject(t.Context(), ask)); !ok || r.Reason != chaos.ReasonBusy {
			t.Errorf("a second one: %v", r)
		}
		inj, control := plan(2)
		if control || inj.Kind != ask.Kind || inj.Service != ask.Service || drawn != 1 {
			t.Errorf("asked for %v, planned %+v, a control: %v", ask, inj, control)
		}
		if plan(3); drawn != 2 {
			t.Errorf("%v took another cycle", ask)
		}
	}
}

// TestRefusedAtTheDesk: what is not declared or held back is refused, on record, and changes no plan.
func TestRefusedAtTheDesk(t *testing.T) {
	d, facts := newDesk(t)
	for _, c := range []struct {
		ask    web.Ask
		paused bool
		want   chaos.Reason
	}{
		{web.Ask{Kind: chaos.Wipe, Service: "app"}, false, chaos.ReasonUnavailable},
		{web.Ask{Kind: chaos.Kill, Service: "db"}, false, chaos.ReasonUnavailable},
		{web.Ask{Kind: "melt"}, false, chaos.ReasonUnavailable},
		{web.Ask{Kind: chaos.Kill, Service: "app"}, true, chaos.ReasonPaused},
	} {
		if c.paused {
			if err := d.Pause(t.Context(), "a release"); err != nil {
				t.Fatal(err)
			}
		}
		before := len(facts())
		err := d.Inject(t.Context(), c.ask)
		if r, ok := errors.AsType[*chaos.Refusal](err); !ok || r.Reason != c.want || d.asked != nil {
			t.Errorf("%v: %v, asked %v", c.ask, err, d.asked)
		}
		all := facts()
		if s, ok := all[len(all)-1].(fact.Step); !ok || len(all) != before+2 || s.Name != fact.StepRefused || s.Detail != err.Error() {
			t.Errorf("%v: on record is %+v", c.ask, all[before:])
		}
	}
}

// TestAskedForHalf: who leaves out what is needed is told what, and what there is.
func TestAskedForHalf(t *testing.T) {
	d, _ := newDesk(t)
	const fix = ` — fix: ask for one of ["crash_all" "kill app" "restart app"], which are declared, or add it to faults`
	for ask, want := range map[web.Ask]string{
		{}:                                   "a fault refused (unavailable): no kind of fault is named" + fix,
		{Kind: chaos.Kill}:                   "kill refused (unavailable): no service is named" + fix,
		{Kind: chaos.Kill, Service: "cache"}: "kill of cache refused (unavailable): it is not among the faults that the configuration declares" + fix,
	} {
		if err := d.Inject(t.Context(), ask); err == nil || err.Error() != want {
			t.Errorf("%v: got %v, want %s", ask, err, want)
		}
	}
}

// TestStatusInACycle: what a fault has put in doubt until it is read again is told from what nobody could ever verify.
func TestStatusInACycle(t *testing.T) {
	b := newBoardOf(t, 2)
	d := b.a.desk
	at := b.a.clock.Now()
	facts := []fact.Fact{fact.Contracts{Version: 1, Levels: []string{"shown"}, CountsFrom: "shown", At: at,
		Contracts: []memory.Contract{{View: "page", Service: "app", User: true, Durable: true}}}}
	for id := memory.ID(101); id <= 103; id++ {
		facts = append(facts, fact.Begun{Memory: memory.Memory{ID: id, Cycle: 2, User: "ann", Token: id.String(), Views: []string{"page"}}, At: at},
			fact.Settled{Memory: id, Outcome: memory.Acknowledged, Levels: []memory.Level{{Name: "shown", NotSeen: at, Seen: at}}, At: at})
	}
	for _, f := range facts {
		b.a.Docket.Tap([]fact.Entry{{Fact: f}})
	}
	for _, c := range []struct {
		phase fact.Phase
		want  int
	}{{fact.PhaseTraffic, 2}, {fact.PhaseClosed, 0}} {
		now := b.a.clock.Now()
		judge := func(id memory.ID, k memory.Kind) fact.Entry {
			return fact.Entry{Fact: fact.Judged{Cycle: 2, At: now, Verdict: memory.Verdict{Memory: id, Kind: k}}}
		}
		b.tap([]fact.Entry{judge(101, memory.Kept), judge(102, memory.Kept), judge(103, memory.Unverified)}) // of none is there a reading
		d.tap([]fact.Entry{{Fact: fact.Cycle{N: 3, Phase: c.phase, At: now}}})
		st, err := d.Status(t.Context())
		if err != nil || st.ToRead != c.want || st.Summary.Verdicts[memory.Unverified] != 3 {
			t.Errorf("%s: %d of %v are to be read again, want %d (%v)", c.phase, st.ToRead, st.Summary.Verdicts, c.want, err)
		}
		var text strings.Builder
		if err := writeStatus(&text, st); err != nil || strings.Contains(text.String(), "2 memories again in this cycle") != (c.want > 0) {
			t.Errorf("%s: it says %s (%v)", c.phase, text.String(), err)
		}
	}
}

// TestPauseThatIsNotRecorded holds all the same, and says for how long; what lets faults go again is on record first.
func TestPauseThatIsNotRecorded(t *testing.T) {
	d, _ := newDesk(t)
	d.a.Ledger.Close()
	if err := d.Pause(t.Context(), ""); err == nil || d.a.guard.Paused() != chaos.ReasonPaused {
		t.Errorf("a pause: %v, the guard is %q", err, d.a.guard.Paused())
	}
	if err := d.Resume(t.Context()); err == nil || d.a.guard.Paused() != chaos.ReasonPaused {
		t.Errorf("a resume: %v, the guard is %q", err, d.a.guard.Paused())
	}
}
