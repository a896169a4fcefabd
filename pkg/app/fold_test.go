package app

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"pgregory.net/rapid"

	"amnesia/chaos"
	"amnesia/pkg/clock"
	"amnesia/pkg/config"
	"amnesia/pkg/evidence"
	"amnesia/pkg/fact"
	"amnesia/pkg/image"
	"amnesia/pkg/incident"
	"amnesia/pkg/ledger"
	"amnesia/pkg/memory"
	"amnesia/pkg/metrics"
	"amnesia/pkg/oracle"
	"amnesia/pkg/soak"
)

// folding gives an app of which there is only what folds facts, and its folds.
func folding(t interface{ Fatal(...any) }) (*App, []ledger.Fold) {
	a := &App{cfg: &config.Config{}, clock: clock.System(), log: zap.NewNop(), Docket: soak.NewDocket()}
	a.desk, a.board = &desk{a: a}, newBoard(a)
	a.keeper = evidence.New("", evidence.Limits{}, a.clock, a.log)
	a.freezer = &incident.Freezer{Clock: a.clock, Log: a.log}
	m, err := metrics.New(prometheus.NewRegistry(), metrics.Setup{Driver: "http"})
	if err != nil {
		t.Fatal(err)
	}
	return a, a.folds(m)
}

// history draws the facts of a soak: nearly all that can happen, in an order in which it can.
type history struct {
	t     *rapid.T
	facts []fact.Fact
	now   int64
	book  *oracle.Book
	next  memory.ID
	live  []memory.ID
	inj   int64
	cycle int
	runs  int
}

func (h *history) at() memory.Instant {
	h.now += rapid.Int64Range(1, 3000).Draw(h.t, "ms") * int64(time.Millisecond)
	return memory.Instant{Mono: h.now, Wall: 1_700_000_000_000_000_000 + h.now, Boot: "b"}
}

func (h *history) add(facts ...fact.Fact) {
	for _, f := range facts {
		h.facts = append(h.facts, f)
		h.book.Apply(fact.Entry{Seq: int64(len(h.facts)), Fact: f})
	}
}

func (h *history) chance(percent int, what string) bool {
	return rapid.IntRange(1, 100).Draw(h.t, what) <= percent
}

func (h *history) health() fact.Health {
	return fact.Health{Service: "app", Healthy: h.chance(90, "healthy"), At: h.at(),
		Instances: []fact.Instance{{ID: fmt.Sprint(rapid.IntRange(1, 2).Draw(h.t, "instance")), Started: "then"}}}
}

func (h *history) start() {
	h.runs++
	h.add(fact.Run{ID: fmt.Sprint("r", h.runs), Seed: 1, Target: "t", Driver: "http", At: h.at()},
		fact.Contracts{Version: 1, Levels: []string{"shown", "settled"}, CountsFrom: "settled", At: h.at(), Contracts: []memory.Contract{
			{View: "page", Service: "app", User: true, Durable: true, Settle: time.Second},
			{View: "redis", TTL: time.Hour, Slack: time.Second, TTLFrom: memory.TTLFromLastWrite, Settle: time.Second},
			{View: "notes", Durable: true, KeepLast: 4, Settle: time.Second, MayLose: &memory.MayLose{Window: time.Second, On: []string{"kill"}}}}})
}

func (h *history) tell() {
	h.next++
	user := fmt.Sprint("u", h.next%3)
	m := memory.Memory{ID: h.next, Run: fmt.Sprint("r", h.runs), Cycle: h.cycle, User: user, Text: fmt.Sprint("text ", h.next), Token: fmt.Sprint("k", h.next), Payload: memory.PayloadShort}
	h.live = append(h.live, h.next)
	h.add(fact.Begun{Memory: m, At: h.at()})
	switch {
	case h.chance(80, "acknowledged"):
		a, b := h.at(), h.at()
		h.add(fact.Settled{Memory: m.ID, Outcome: memory.Acknowledged, Levels: []memory.Level{{Name: "shown", NotSeen: a, Seen: a}, {Name: "settled", NotSeen: a, Seen: b}}, At: b})
	case h.chance(50, "settled"):
		h.add(fact.Settled{Memory: m.ID, Outcome: rapid.SampledFrom([]memory.Outcome{memory.Rejected, memory.Unknown}).Draw(h.t, "outcome"), At: h.at()})
	}
	if h.chance(10, "forgets") {
		h.add(fact.ForgetBegun{Memory: m.ID, At: h.at()}, fact.ForgetSettled{Memory: m.ID, Outcome: memory.Acknowledged, At: h.at()})
	}
	if h.chance(20, "session") {
		h.add(fact.Session{User: user, Driver: "http", Outcome: "ok", Files: []string{"a/" + user + ".zip", user + ".png"}, Began: h.at(), Ended: h.at()})
	}
}

func (h *history) strike() {
	h.inj++
	plan := &fact.Injection{ID: h.inj, Cycle: h.cycle, Kind: rapid.SampledFrom([]string{"kill", "wipe"}).Draw(h.t, "kind"), Service: "app", Instances: "one", Undo: []byte(`{"a":1}`)}
	step := func(name fact.StepName) fact.Step { return fact.Step{Injection: plan.ID, Name: name, At: h.at()} }
	planned, firing, injected, gated, recovered := step(fact.StepPlanned), step(fact.StepFiring), step(fact.StepInjected), step(fact.StepGated), step(fact.StepRecovered)
	planned.Plan, firing.Plan, injected.Fired = plan, plan, firing.At
	gated.Before, recovered.After = []fact.Health{h.health()}, []fact.Health{h.health()}
	h.add(planned)
	if h.chance(10, "refused") {
		refused := step(fact.StepRefused)
		refused.Detail = (&chaos.Refusal{Kind: "kill", Reason: chaos.ReasonTooSoon, Why: "it is"}).Error()
		h.add(refused)
		return
	}
	h.add(gated, firing, injected, step(fact.StepProven))
	if h.chance(80, "undone") {
		h.add(step(fact.StepReverted), recovered, step(fact.StepClosed))
	}
}

func (h *history) sweep() {
	view := rapid.SampledFrom([]string{"page", "redis", "notes"}).Draw(h.t, "view")
	before, after := h.health(), h.health()
	s := fact.Sweep{ID: int64(len(h.facts)), Cycle: h.cycle, View: view, Began: h.at(), Ended: h.at(), Before: &before, After: &after, Complete: h.chance(90, "complete")}
	for _, id := range h.live {
		o := memory.Observation{Memory: id, View: view, State: memory.Present, Copies: 1, Began: s.Began, Ended: s.Ended}
		switch n := rapid.IntRange(1, 20).Draw(h.t, "look"); {
		case n <= 6:
			continue // looks as before
		case n <= 9:
			o.State, o.Copies, o.Records = memory.Absent, 0, 2
		case n == 10:
			o.State, o.Copies, o.Detail = memory.Unreadable, 0, "refused"
		case n == 11:
			o.State = memory.Altered
		case n == 12:
			o.Copies, o.Strangers, o.TTL = 2, []string{"u9"}, 1000
		}
		s.Observations = append(s.Observations, o)
	}
	s.Read = memory.SetOf(h.live...)
	h.add(s)
}

func (h *history) judge() {
	now := h.at()
	var incidents []string
	for _, id := range h.live {
		if v, ok := h.book.Verdict(id, now); ok {
			h.add(fact.Judged{Verdict: v, Cycle: h.cycle, At: now})
			incidents = append(incidents, incident.Fingerprints(v)...)
		}
	}
	if len(incidents) > 0 && h.chance(50, "frozen") {
		h.add(fact.Frozen{Incident: incidents[0], Cycle: h.cycle, Pictures: []fact.Picture{{File: "p.png"}}, At: now})
	}
}

func (h *history) draw() []fact.Fact {
	h.start()
	for range rapid.IntRange(1, 6).Draw(h.t, "cycles") {
		h.cycle++
		phase := func(p fact.Phase) fact.Cycle {
			return fact.Cycle{N: h.cycle, Run: fmt.Sprint("r", h.runs), Control: h.cycle%3 == 1, Phase: p, At: h.at()}
		}
		h.add(phase(fact.PhaseTraffic), fact.Gate{Cycle: h.cycle, Services: []fact.Health{h.health()}, At: h.at()})
		for range rapid.IntRange(0, 5).Draw(h.t, "told") {
			h.tell()
		}
		if h.cycle%3 != 1 {
			h.strike()
		}
		if h.chance(15, "killed") {
			h.start()
			continue
		}
		h.add(phase(fact.PhaseSettle))
		for range rapid.IntRange(1, 6).Draw(h.t, "sweeps") {
			h.sweep()
		}
		switch rapid.IntRange(0, 5).Draw(h.t, "odd") {
		case 0:
			h.add(fact.Death{Service: "app", Instance: fact.Instance{ID: "1"}, Cause: "oom", NotBefore: h.at(), At: h.at(), Healthy: h.at()})
		case 1:
			h.add(fact.Gap{Of: "clock", From: h.at(), To: h.at()}, fact.Pause{On: true, Reason: "why", At: h.at()})
		case 2:
			h.add(fact.Muting{Known: []fact.Known{{Fingerprint: "silent/kill/app/notes", Until: time.Unix(1_800_000_000, 0).UTC()}}, At: h.at()})
		case 3:
			h.add(fact.Log{Service: "app", Level: "error", Line: "bad", Memory: 1, At: h.at()}, fact.Told{Memory: 1, By: "page", At: h.at()})
		}
		h.add(phase(fact.PhaseJudge))
		h.judge()
		end := phase(fact.PhaseClosed)
		end.Outcome = h.book.Cycle(h.cycle, end.At).Outcome
		h.add(end)
		if n := len(h.live) / 2; h.chance(40, "retired") && n > 0 {
			h.add(fact.Retired{Memories: memory.SetOf(h.live[:n]...), At: h.at()})
			h.live = h.live[n:]
		}
	}
	return h.facts
}

// TestFoldsFromImages cuts random histories anywhere: of the image of the first part and the facts of the second comes what
// comes of all facts, to the last field.
func TestFoldsFromImages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		facts := (&history{t: t, book: oracle.NewBook()}).draw()
		cut := rapid.IntRange(0, len(facts)).Draw(t, "cut")
		whole, all := folding(t)
		_, first := folding(t)
		later, second := folding(t)
		apply := func(folds []ledger.Fold, from, to int) {
			for i, f := range facts[from:to] {
				for _, fold := range folds {
					fold.Apply(fact.Entry{Seq: int64(from + i + 1), Fact: f})
				}
			}
		}
		apply(all, 0, len(facts))
		apply(first, 0, cut)
		for i := range first {
			var b bytes.Buffer
			err := first[i].Lend(func(state any) error { return image.Encode(&b, state, math.MaxInt64) })
			if err == nil {
				err = second[i].Lend(func(state any) error { return image.Decode(b.Bytes(), state) })
			}
			if err != nil {
				t.Fatal(first[i].Name, err)
			}
		}
		apply(second, cut, len(facts))
		for i := range all {
			_ = all[i].Lend(func(want any) error {
				return second[i].Lend(func(got any) error {
					if !reflect.DeepEqual(want, got) {
						t.Errorf("cut after %d of %d facts, %s is\n%+v, want\n%+v", cut, len(facts), all[i].Name, got, want)
					}
					return nil
				})
			})
		}
		now := fact.At(facts[len(facts)-1])
		later.Docket.Read(func(got *oracle.Book) {
			whole.Docket.Read(func(want *oracle.Book) {
				for id, v := range want.All(now) {
					if w, ok := got.Verdict(id, now); !ok || !reflect.DeepEqual(v, w) {
						t.Errorf("cut after %d of %d facts, %s is judged %+v, want %+v", cut, len(facts), id, w, v)
					}
				}
				if a, b := want.Totals(now), got.Totals(now); !reflect.DeepEqual(a, b) {
					t.Errorf("cut after %d of %d facts, the totals are %+v, want %+v", cut, len(facts), b, a)
				}
			})
		})
	})
}

// TestPastIsTheLedgers: what is undone at a start is what the ledger says is open.
func TestPastIsTheLedgers(t *testing.T) {
	dir, n := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		l, err := ledger.Open(context.Background(), filepath.Join(dir, fmt.Sprint(n)), ledger.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		var past soak.Past
		facts := (&history{t: t, book: oracle.NewBook()}).draw()
		if err := l.Append(context.Background(), facts...); err != nil {
			t.Fatal(err)
		}
		for _, f := range facts {
			past.Apply(f)
		}
		open, err := l.OpenInjections(context.Background())
		if got := past.OpenInjections(); err != nil || !reflect.DeepEqual(got, open) {
			t.Errorf("open are %+v, want %+v (%v)", got, open, err)
		}
		ids, err := l.Unsettled(context.Background())
		if got := past.Unsettled(); err != nil || !reflect.DeepEqual(got, ids) {
			t.Errorf("unsettled are %v, want %v (%v)", got, ids, err)
		}
	})
}

// TestJudgeUsesNoImage: what a daemon had made of the facts is nothing to who judges them again, so that one is a check of
// the other.
func TestJudgeUsesNoImage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	a, folds := folding(t)
	l, err := ledger.Open(t.Context(), path, ledger.Options{Tap: func(entries []fact.Entry) {
		a.Docket.Tap(entries)
		a.Docket.Tap([]fact.Entry{{Seq: 99, Fact: fact.Begun{Memory: memory.Memory{ID: 7}}}}) // which is in no ledger
	}})
	if err != nil {
		t.Fatal(err)
	}
	at := a.clock.Now()
	if err = l.Restore(t.Context(), folds...); err == nil {
		err = l.Append(t.Context(), fact.Begun{Memory: memory.Memory{ID: 1}, At: at}, fact.Settled{Memory: 1, Outcome: memory.Rejected, At: at})
	}
	if err == nil {
		err = l.KeepImages(t.Context(), true)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	s, _, err := judge(t.Context(), path)
	if n := s.Writes.Rejected + s.Writes.Unknown + s.Writes.Acknowledged; err != nil || n != 1 {
		t.Errorf("%d memories are judged (%v), want the one that is in the ledger", n, err)
	}
	if l, err = ledger.Open(t.Context(), path, ledger.Options{}); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b, folds := folding(t)
	if err := l.Restore(t.Context(), folds...); err != nil {
		t.Fatal(err)
	}
	b.Docket.Read(func(book *oracle.Book) {
		if _, ok := book.Verdict(7, at); !ok {
			t.Error("the image was not used at all, so that this test shows nothing")
		}
	})
}
