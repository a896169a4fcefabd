package oracle

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

// opinions gives what the book says of every memory.
func opinions(b *Book, now memory.Instant) map[memory.ID]opinion {
	all := map[memory.ID]opinion{}
	for id, v := range b.All(now) {
		all[id] = opinionOf(v)
	}
	return all
}

// The same facts give the same verdicts, to the last word.
func TestDeterminism(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDrawn(t)
		facts := d.ledger()
		now := d.tick(1, 100)
		a, b := apply(facts), apply(facts)
		for id, v := range a.All(now) {
			again, _ := a.Verdict(id, now)
			other, _ := b.Verdict(id, now)
			if diff := cmp.Diff(v, again); diff != "" {
				t.Fatalf("judging changed something: %s", diff)
			}
			if diff := cmp.Diff(v, other); diff != "" {
				t.Fatalf("two books differ: %s", diff)
			}
		}
		if diff := cmp.Diff(a.Totals(now), b.Totals(now)); diff != "" {
			t.Fatalf("two totals differ: %s", diff)
		}
	})
}

// A ledger that leaves out what was read again as before says the same as one with every row.
func TestReadAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDrawn(t)
		facts := d.ledger()
		now := d.tick(1, 100)
		whole := slices.Clone(facts)
		raw := map[string]memory.Observation{}
		for i, f := range whole {
			s, ok := f.(fact.Sweep)
			if !ok {
				continue
			}
			s.Observations = slices.Clone(s.Observations)
			for _, o := range s.Observations {
				raw[o.Memory.String()+s.View] = o
			}
			for id := range each(s.Read) {
				o, known := raw[id.String()+s.View]
				if !known || slices.ContainsFunc(s.Observations, func(o memory.Observation) bool { return o.Memory == id }) {
					continue
				}
				o.Began, o.Ended, o.TTL = s.Began, s.Ended, 0
				s.Observations = append(s.Observations, o)
			}
			whole[i] = s
		}
		if diff := cmp.Diff(opinions(apply(facts), now), opinions(apply(whole), now)); diff != "" {
			t.Fatalf("(-as recorded +with every row):\n%s", diff)
		}
	})
}

// Where nothing is ever proven absent, nothing is ever lost.
func TestUnreadableIsNoLoss(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDrawn(t)
		facts := d.ledger()
		now := d.tick(1, 100)
		for _, f := range facts {
			if s, ok := f.(fact.Sweep); ok {
				for i := range s.Observations {
					if s.Observations[i].State == memory.Absent {
						s.Observations[i].State = memory.Unreadable
					}
				}
			}
		}
		for id, v := range apply(facts).All(now) {
			if v.Kind.Loss() || v.Kind == memory.Volatile || v.Kind == memory.Late {
				t.Fatalf("%s is %s: %s", id, v.Kind, v.Because)
			}
		}
	})
}

// Every view that misses a lost memory was read without it at least twice, by sound sweeps that began after the
// acknowledgement; the book is asked after every fact.
func TestNoLossWithoutTwoAbsentReads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDrawn(t)
		facts := d.ledger()
		b := NewBook()
		state, absences := map[string]memory.State{}, map[string]int{}
		for i, f := range facts {
			b.Apply(fact.Entry{Seq: int64(i + 1), Fact: f})
			s, ok := f.(fact.Sweep)
			if !ok {
				continue
			}
			for _, o := range s.Observations {
				state[o.Memory.String()+s.View] = o.State
			}
			for id := range each(s.Read) {
				at := id.String() + s.View
				switch h, live := b.History(id); {
				case state[at].Here():
					absences[at] = 0
				case state[at] == memory.Absent && s.Complete && s.Error == "" && live && h.acknowledged() && s.Began.After(h.Ack.Seen):
					absences[at]++
				}
			}
			for id, v := range b.All(s.Ended) {
				if !v.Kind.Loss() {
					continue
				}
				for _, view := range v.Missing {
					if n := absences[id.String()+view]; n < 2 {
						t.Fatalf("%s is %s after %d absent reads of %s", id, v.Kind, n, view)
					}
				}
			}
		}
	})
}

// Once the faults are over, reading what is open again and again ends: as soon as nothing is open, or soon after the
// deadline; and then more readings that show the same change nothing.
func TestPollingEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDrawn(t)
		facts := d.ledger()
		for j := range d.views { // (shared with the first fact) a promise that ends by itself changes verdicts
			d.views[j].TTL, d.views[j].KeepLast = 0, 0
		}
		b := apply(facts)
		add := func(f fact.Fact) { b.Apply(fact.Entry{Seq: 1, Fact: f}) }
		if d.open != 0 {
			add(fact.Step{Injection: d.open, Name: fact.StepRecovered, At: d.tick(1, 5)})
		}
		for _, service := range d.services {
			g := fact.Gate{Services: []fact.Health{*d.health(service, d.tick(1, 2), true)}}
			add(g)
		}
		mood := map[string]memory.State{}
		for _, k := range d.views {
			mood[k.View] = draw(d, memory.Present, memory.Absent, memory.Unreadable)
		}
		read := func(k memory.Contract, ids []memory.ID) {
			f := fact.Sweep{View: k.View, Complete: true, Began: d.tick(1, 2), Ended: d.tick(1, 2), Read: memory.SetOf(ids...)}
			for _, id := range ids {
				f.Observations = append(f.Observations, memory.Observation{Memory: id, State: mood[k.View], Copies: 1})
			}
			add(f)
		}
		end := d.instant().Add(10 * time.Second)
		for {
			open := b.Open(d.instant())
			if len(open) == 0 {
				break
			}
			for _, k := range d.views {
				if ids := open[k.View]; len(ids) > 0 {
					if mood[k.View] == memory.Unreadable && d.instant().After(end) {
						return // an absence waits for a read that never comes; the loop has a bound of its own
					}
					read(k, ids)
				}
			}
			if d.instant().After(end.Add(10 * time.Second)) {
				t.Fatalf("still open: %v", open)
			}
			d.tick(5, 10)
		}
		before := opinions(b, d.instant())
		for range 3 {
			for _, k := range d.views {
				f := fact.Sweep{View: k.View, Complete: true, Began: d.tick(1, 2), Ended: d.tick(1, 2), Read: memory.SetOf(d.kept...)}
				if k.View == viewAnswer { // asking writes history
					continue
				}
				for id := range each(f.Read) {
					h, live := b.History(id)
					// Only what was there, and known to be: else the reading would say more than was known.
					if !live || !h.acknowledged() || h.Views[h.view(k.View)].State != memory.Present || h.Views[h.view(k.View)].raw.State != memory.Present {
						f.Read = without(f.Read, id)
					}
				}
				add(f)
			}
		}
		// Defects aside: what stood there before the acknowledgement is first looked at now.
		if diff := cmp.Diff(before, opinions(b, d.instant()), cmpopts.IgnoreFields(opinion{}, "Defects")); diff != "" {
			t.Fatalf("reading again what was there changed verdicts:\n%s", diff)
		}
	})
}

func without(s memory.Set, id memory.ID) memory.Set {
	var ids []memory.ID
	for other := range each(s) {
		if other != id {
			ids = append(ids, other)
		}
	}
	return memory.SetOf(ids...)
}

// A set built one by one is the set built at once.
func TestInclude(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOf(rapid.Custom(func(t *rapid.T) memory.ID { return memory.ID(rapid.Int64Range(1, 30).Draw(t, "id")) })).Draw(t, "ids")
		var s memory.Set
		for _, id := range ids {
			s = include(s, id)
		}
		if diff := cmp.Diff(memory.SetOf(ids...), s); diff != "" {
			t.Fatal(diff)
		}
	})
}
