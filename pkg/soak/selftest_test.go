package soak

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"amnesia/chaos"
	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
	"amnesia/pkg/oracle"
	"amnesia/pkg/session"
)

// sees is a view whose states follow from the memory.
type sees struct {
	clock memory.Clock
	state func(memory.Memory) memory.State
	asked int
	err   error
}

func (*sees) Name() string { return "sees" }
func (*sees) Close() error { return nil }
func (v *sees) Find(_ context.Context, ms []memory.Memory) ([]memory.Observation, error) {
	v.asked++
	if v.err != nil {
		return nil, v.err
	}
	obs := make([]memory.Observation, len(ms))
	for i, m := range ms {
		obs[i] = memory.Observation{Memory: m.ID, State: v.state(m), Began: v.clock.Now(), Ended: v.clock.Now()}
	}
	return obs, nil
}

// everything is what a view holds that is blind to absence, onlyTold what an honest one does.
func everything(memory.Memory) memory.State { return memory.Present }
func onlyTold(m memory.Memory) memory.State {
	if m.Token == "kept" {
		return memory.Present
	}
	return memory.Absent
}

// tested is a loop with one memory that was found kept in the views v0 to vn.
func tested(t *testing.T, contract memory.Contract, states ...func(memory.Memory) memory.State) (l *Loop, views []*sees, passed, failed *int) {
	t.Helper()
	c := &ticking{now: noon.now}
	passed, failed = new(int), new(int)
	l = &Loop{Users: 1, Clock: c, Engine: &engine{id: "a"}, Prober: chaos.NewProber(c, 0), Log: zap.NewNop(), Docket: NewDocket(), turn: make([]int, 1),
		Accounts: func(n int) session.User { return session.User{N: n, Name: "u"} },
		Teller:   func(u session.User, k int) memory.Memory { return memory.Memory{Token: "planted"} },
		SelfTested: func(_ memory.Instant, wrong error) {
			if wrong == nil {
				*passed++
			} else {
				*failed++
			}
		},
		live: map[memory.ID]memory.Memory{}, tokens: map[string]memory.ID{}, begun: map[memory.ID]memory.Instant{},
		last: map[memory.ID]memory.Verdict{7: {Memory: 7, Kind: memory.Kept}}}
	m := memory.Memory{ID: 7, Cycle: 1, User: "u", Token: "kept"}
	var contracts []memory.Contract
	for i, state := range states {
		v := &sees{clock: c, state: state}
		views = append(views, v)
		k := contract
		k.View, k.Service = "v"+string(rune('0'+i)), "app"
		m.Views, contracts = append(m.Views, k.View), append(contracts, k)
		l.Looks = append(l.Looks, Look{View: v, Timeout: time.Minute, Contract: k})
	}
	at := c.Now()
	facts := []fact.Fact{fact.Contracts{Version: 1, Contracts: contracts, Levels: []string{"shown"}, CountsFrom: "shown", At: at},
		fact.Begun{Memory: m, At: at}, fact.Settled{Memory: 7, Outcome: memory.Acknowledged, Levels: []memory.Level{{Name: "shown", NotSeen: at, Seen: at}}, At: at}}
	for _, k := range contracts {
		facts = append(facts, fact.Sweep{View: k.View, Began: c.Now(), Ended: c.Now(), Complete: true, Read: memory.SetOf(7),
			Observations: []memory.Observation{{Memory: 7, View: k.View, State: memory.Present}}})
	}
	for i, f := range facts {
		l.Docket.Tap([]fact.Entry{{Seq: int64(i + 1), Fact: f}})
	}
	l.adopt(m)
	return l, views, passed, failed
}

func durable() memory.Contract { return memory.Contract{Durable: true, Settle: time.Hour} }

func TestSelfTestPassesAndIsMadeNowAndThen(t *testing.T) {
	for name, contract := range map[string]memory.Contract{
		"stores": durable(), "caches": {Settle: time.Hour}, "keeping the last": {Durable: true, KeepLast: 1}, "pages": {User: true, Durable: true},
	} {
		l, views, passed, failed := tested(t, contract, onlyTold, onlyTold)
		if name == "caches" { // that it was late is no matter
			l.last[7] = memory.Verdict{Memory: 7, Kind: memory.Late}
		}
		if contract.User {
			l, views, passed, failed = tested(t, contract, onlyTold)
			l.Looks[0].Contract.View = "page"
			l.live[7] = memory.Memory{ID: 7, Cycle: 1, User: "u", Token: "kept", Views: []string{"page"}}
			l.Docket = paged(l)
		}
		before := l.alive()
		for range 3 {
			l.selfTest(t.Context(), oracle.NewBook())
		}
		if *passed != 1 || *failed != 0 || views[0].asked != 2 {
			t.Errorf("%s: %d passed, %d failed, the view was asked %d times", name, *passed, *failed, views[0].asked)
		}
		if len(l.alive()) != len(before) || len(l.tokens) != 1 {
			t.Errorf("%s: the planted memory is in the books", name)
		}
		l.tested = l.tested.Add(-selfTestEvery)
		if l.selfTest(t.Context(), oracle.NewBook()); *passed != 2 {
			t.Errorf("%s: not made again", name)
		}
	}
}

// paged is a docket in which the page has shown the memory.
func paged(l *Loop) *Docket {
	d, at := NewDocket(), l.Clock.Now()
	d.Tap([]fact.Entry{
		{Seq: 1, Fact: fact.Contracts{Version: 1, Contracts: []memory.Contract{l.Looks[0].Contract}, Levels: []string{"shown"}, CountsFrom: "shown", At: at}},
		{Seq: 2, Fact: fact.Begun{Memory: l.live[7], At: at}},
		{Seq: 3, Fact: fact.Sweep{View: "page", Began: l.Clock.Now(), Ended: l.Clock.Now(), Complete: true, Read: memory.SetOf(7),
			Observations: []memory.Observation{{Memory: 7, View: "page", State: memory.Present}}}},
	})
	return d
}

// A view that finds whatever it is asked for would never show a loss.
func TestSelfTestFindsABlindView(t *testing.T) {
	l, _, passed, failed := tested(t, durable(), onlyTold, everything)
	if l.selfTest(t.Context(), oracle.NewBook()); *passed != 0 || *failed != 1 {
		t.Errorf("%d passed, %d failed", *passed, *failed)
	}
	_, wrong := l.examine(t.Context(), oracle.NewBook())
	if wrong == nil || !strings.Contains(wrong.Error(), "the view v1 ") || !strings.Contains(wrong.Error(), " — fix: ") {
		t.Errorf("it says %v", wrong)
	}
}

// always is an oracle with one verdict for all.
type always struct{ kind memory.Kind }

func (always) Apply(fact.Entry) {}
func (a always) Verdict(memory.ID, memory.Instant) (memory.Verdict, bool) {
	return memory.Verdict{Kind: a.kind}, a.kind != ""
}

func TestSelfTestFindsABlindOracle(t *testing.T) {
	for _, kind := range append(memory.Kinds[:], "") {
		l, _, passed, failed := tested(t, durable(), onlyTold)
		if l.selfTest(t.Context(), always{kind}); *passed != 0 || *failed != 1 {
			t.Errorf("an oracle that always says %q: %d passed, %d failed", kind, *passed, *failed)
		}
	}
}

// What cannot be tested is neither passed nor failed, and tried again after the next cycle.
func TestSelfTestThatIsNotPossible(t *testing.T) {
	for name, prepare := range map[string]func(*Loop, *sees){
		"nothing is kept":              func(l *Loop, _ *sees) { l.last[7] = memory.Verdict{Kind: memory.Unverified} },
		"every reading writes":         func(l *Loop, _ *sees) { l.Looks[0].Last = true },
		"it may expire meanwhile":      func(l *Loop, _ *sees) { l.Looks[0].Contract.TTL = time.Second },
		"the view cannot be read":      func(_ *Loop, v *sees) { v.err = errors.New("refused") },
		"the memory was lost just now": func(_ *Loop, v *sees) { v.state = func(memory.Memory) memory.State { return memory.Absent } },
	} {
		l, views, passed, failed := tested(t, durable(), onlyTold)
		prepare(l, views[0])
		if l.selfTest(t.Context(), oracle.NewBook()); *passed != 0 || *failed != 0 || !l.tested.IsZero() {
			t.Errorf("%s: %d passed, %d failed", name, *passed, *failed)
		}
	}
	l, _, passed, failed := tested(t, durable(), onlyTold)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if l.selfTest(ctx, oracle.NewBook()); *passed != 0 || *failed != 0 {
		t.Errorf("told to stop: %d passed, %d failed", *passed, *failed)
	}
}
