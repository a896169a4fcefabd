package soak

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
	"amnesia/pkg/oracle"
	"amnesia/pkg/session"
)

// selfTestEvery is the least time between two self-tests: two more readings of each view for one user are nothing in ten
// minutes, and an alert on a self-test that is an hour old has had several to wait for.
const selfTestEvery = 10 * time.Minute

// judge is what a self-test asks of an oracle.Book.
type judge interface {
	Apply(fact.Entry)
	Verdict(memory.ID, memory.Instant) (memory.Verdict, bool)
}

// selfTest tests, once the first cycle has calibrated and then every so often, that the daemon would see a loss: a memory
// that was never told is looked for as any other is, and must be found lost; one that is kept must be found kept. book
// must be empty and is thrown away: nothing of this is in the ledger, in a count or in the target.
//
// When a view cannot be read, or no memory is kept, nothing can be tested, which says nothing about the daemon; it is
// tried again after the next cycle.
func (l *Loop) selfTest(ctx context.Context, book judge) {
	if !l.tested.IsZero() && l.Clock.Now().Sub(l.tested) < selfTestEvery {
		return
	}
	why, wrong := l.examine(ctx, book)
	if ctx.Err() != nil {
		return
	}
	if why != "" {
		l.Log.Info("no self-test was possible", zap.String("why", why))
		return
	}
	l.tested = l.Clock.Now()
	if wrong != nil {
		l.Log.Error("the self-test failed: a loss may go unseen", zap.Error(wrong))
	}
	if l.SelfTested != nil {
		l.SelfTested(l.tested, wrong)
	}
}

// examine makes one self-test. why says why nothing can be said; empty when something can.
func (l *Loop) examine(ctx context.Context, book judge) (why string, wrong error) {
	kept, planted, ok := l.sample()
	if !ok {
		return "no memory was found kept in a view that can be read without writing", nil
	}
	acknowledged := l.Clock.Now().Add(-time.Millisecond)
	var contracts []memory.Contract
	var rs []reading
	for _, look := range l.Looks {
		if look.Last {
			continue
		}
		// What ends a promise by itself is left out: what is tested are the eyes and the verdict.
		k := look.Contract
		k.Settle, k.TTL, k.KeepLast, k.MayLose = 0, 0, 0, nil
		contracts = append(contracts, k)
		rs = append(rs, reading{look: look, ms: []memory.Memory{kept, planted}})
	}
	var sweeps []fact.Sweep
	for range 2 { // a loss is proven by the second absence
		seen, err := l.look(ctx, rs, nil)
		if err != nil {
			return err.Error(), nil
		}
		sweeps = append(sweeps, seen...)
	}
	if why, wrong := seenRight(kept, planted, sweeps); why != "" || wrong != nil {
		return why, wrong
	}
	return "", judgedRight(book, kept, planted, contracts, acknowledged, sweeps, l.Clock.Now())
}

// sample gives the newest memory that was found kept, if late, due in the views that had it when they were last read, and one of
// the same user that was never told and never will be. Views whose reading writes are left out, and for the kept one those
// from which it may expire meanwhile.
func (l *Loop) sample() (kept, planted memory.Memory, ok bool) {
	alive := l.alive()
	for n := range l.Users {
		l.mu.Lock()
		u := l.Accounts(n + l.turn[n]*l.Users)
		l.mu.Unlock()
		for _, m := range slices.Backward(alive) {
			if m.User != u.Name || !l.whole(m.ID) {
				continue
			}
			kept, planted = m, l.Teller(u, session.MaxMemories-1)
			planted.ID, planted.Cycle, planted.User = m.ID+1, m.Cycle, m.User
			has := l.has(m.ID)
			kept.Views = nil
			for _, look := range l.Looks {
				if look.Last {
					continue
				}
				planted.Views = append(planted.Views, look.Contract.View)
				if look.Contract.TTL == 0 && slices.Contains(has, look.Contract.View) {
					kept.Views = append(kept.Views, look.Contract.View)
				}
			}
			if len(kept.Views) > 0 {
				return kept, planted, true
			}
		}
	}
	return kept, planted, false
}

// whole reports whether the memory was found everywhere where it must be, however late.
func (l *Loop) whole(id memory.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.last[id].Kind
	return k == memory.Kept || k == memory.Late
}

// has gives the views that had the memory when they were last read.
func (l *Loop) has(id memory.ID) (views []string) {
	l.Docket.Read(func(b *oracle.Book) {
		if h, ok := b.History(id); ok {
			for _, v := range h.Views {
				if v.Due && v.State.Here() {
					views = append(views, v.Name)
				}
			}
		}
	})
	return views
}

// seenRight says what is wrong with the views' readings. A kept memory that a view suddenly misses may be a loss, which
// is for the next sweep to find and no mistake of ours.
func seenRight(kept, planted memory.Memory, sweeps []fact.Sweep) (why string, wrong error) {
	for _, s := range sweeps {
		for _, o := range s.Observations {
			due := o.Memory == planted.ID || slices.Contains(kept.Views, s.View)
			switch {
			case due && o.State == memory.Unreadable:
				why = fmt.Sprintf("the view %s could not be read: %s", s.View, o.Detail)
			case o.Memory == planted.ID && (o.State.Here() || len(o.Strangers) > 0):
				return "", fmt.Errorf("the view %s says that it has a memory that was never told — fix: see how the view finds a memory: its selector, query or path, and its match", s.View)
			case o.Memory == kept.ID && due && !o.State.Here():
				why = fmt.Sprintf("the view %s had %s and misses it now: the next sweep will tell", s.View, kept.ID)
			}
		}
	}
	return why, nil
}

// judgedRight says what is wrong with the verdicts on two memories that are said to have been acknowledged.
func judgedRight(book judge, kept, planted memory.Memory, contracts []memory.Contract, acknowledged memory.Instant, sweeps []fact.Sweep, now memory.Instant) error {
	const level = "told"
	facts := []fact.Fact{fact.Contracts{Version: 1, Contracts: contracts, Levels: []string{level}, CountsFrom: level, At: acknowledged}}
	for _, m := range []memory.Memory{kept, planted} {
		facts = append(facts, fact.Begun{Memory: m, At: acknowledged}, fact.Settled{Memory: m.ID, Outcome: memory.Acknowledged,
			Levels: []memory.Level{{Name: level, NotSeen: acknowledged, Seen: acknowledged}}, At: acknowledged})
	}
	for i, s := range sweeps {
		s.ID = int64(i + 1)
		facts = append(facts, s)
	}
	for i, f := range facts {
		book.Apply(fact.Entry{Seq: int64(i + 1), Fact: f})
	}
	for _, want := range []struct {
		memory memory.Memory
		what   string
		kind   memory.Kind
	}{{planted, "never told", memory.Lost}, {kept, "found in every view", memory.Kept}} {
		if v, ok := book.Verdict(want.memory.ID, now); !ok || v.Kind != want.kind {
			return fmt.Errorf("the oracle judged a memory that was %s as %q, and not as %s (%s) — fix: this is a mistake of Amnesia: please report it, with the ledger",
				want.what, v.Kind, want.kind, v.Because)
		}
	}
	return nil
}
