package zoo

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

// word is all that is compared of a verdict.
type word struct {
	kind    memory.Kind
	defects string // with spaces between
	class   memory.Class
	fault   string
	service string
}

func (w word) String() string {
	parts := []string{string(w.kind)}
	if w.kind.Loss() {
		parts = append(parts, string(w.class)+",", w.fault, "of", w.service)
	}
	if w.defects != "" {
		parts = append(parts, "+", w.defects)
	}
	return strings.Join(parts, " ")
}

// finding reports whether it is something to tell a person of.
func (w word) finding() bool { return w.kind.Loss() || w.defects != "" }

// wordOf is what the daemon said.
func wordOf(v memory.Verdict) word {
	w := word{kind: v.Kind}
	for i, d := range v.Defects {
		if i > 0 {
			w.defects += " "
		}
		w.defects += string(d)
	}
	if v.Kind.Loss() {
		w.class, w.fault, w.service = v.Class, v.Fault, v.Service
	}
	return w
}

// life is what the ledger alone knows of one memory: what the user saw, and when anybody looked.
type life struct {
	memory  memory.Memory
	begun   memory.Instant
	settled fact.Settled
	forget  fact.ForgetSettled
	begins  bool // its user set out to delete it
	said    memory.Verdict
}

// chronicle is what the ledger knows beside verdicts.
type chronicle struct {
	lives   map[memory.ID]*life
	sweeps  []fact.Sweep
	cycles  []fact.Cycle // their begins
	faults  map[int64]*injected
	foreign []fact.Death
	failed  []fact.Step
}

// injected is one fault with its bounds.
type injected struct {
	plan        fact.Injection
	fired, over memory.Instant
}

func recall(entries []fact.Entry) *chronicle {
	c := &chronicle{lives: map[memory.ID]*life{}, faults: map[int64]*injected{}}
	for _, e := range entries {
		switch f := e.Fact.(type) {
		case fact.Begun:
			c.lives[f.Memory.ID] = &life{memory: f.Memory, begun: f.At}
		case fact.Settled:
			c.lives[f.Memory].settled = f
		case fact.ForgetBegun:
			c.lives[f.Memory].begins = true
		case fact.ForgetSettled:
			c.lives[f.Memory].forget = f
		case fact.Judged:
			c.lives[f.Verdict.Memory].said = f.Verdict
		case fact.Sweep:
			c.sweeps = append(c.sweeps, f)
		case fact.Cycle:
			if f.Phase == fact.PhaseTraffic {
				c.cycles = append(c.cycles, f)
			}
		case fact.Death:
			c.foreign = append(c.foreign, f)
		case fact.Step:
			c.step(f)
		}
	}
	return c
}

func (c *chronicle) step(f fact.Step) {
	i := c.faults[f.Injection]
	if i == nil {
		i = &injected{}
		c.faults[f.Injection] = i
	}
	if f.Plan != nil {
		i.plan = *f.Plan
	}
	switch f.Name {
	case fact.StepInjected:
		i.fired = f.Fired
	case fact.StepRecovered, fact.StepReverted:
		i.over = memory.Later(i.over, f.At)
	case fact.StepFailed:
		c.failed = append(c.failed, f)
	}
}

// read is one look at one place for one memory.
type read struct {
	began, ended memory.Instant
	found        seen
}

// reads gives every look at a view for the memory that could have found it, in order, with what it must have found. Of a
// look during which the memory came or went, only the look itself can know on which side it fell: with doubt open it is
// taken at its word, else it found what doubt says.
func (c *chronicle) reads(l *life, view string, spans []span, doubt seen) (out []read) {
	var state memory.State
	for i := range c.sweeps {
		s := &c.sweeps[i]
		if s.View != view || !s.Read.Has(l.memory.ID) {
			continue
		}
		r := read{began: s.Began, ended: s.Ended} // of a member without an observation, which looked as before
		for _, o := range s.Observations {
			if o.Memory == l.memory.ID {
				r.began, r.ended, state = o.Began, o.Ended, o.State
			}
		}
		if !s.Complete || state == memory.Unreadable {
			continue
		}
		r.found = look(spans, r.began.Time(), r.ended.Time())
		switch {
		case r.found != open:
		case doubt != open:
			r.found = doubt
		case state.Here():
			r.found = here
		default:
			r.found = gone
		}
		out = append(out, r)
	}
	return out
}

// base is what a deadline at the moment counts from: the acknowledgement, or the end of a later fault.
func (c *chronicle) base(acked, at memory.Instant) memory.Instant {
	for _, i := range c.faults {
		if !i.over.IsZero() && i.over.Before(at) {
			acked = memory.Later(acked, i.over)
		}
	}
	return acked
}

// right gives what must be said of a memory. For doubt see reads.
func (c *chronicle) right(k Case, l *life, t *truthOf, doubt seen) (w word) {
	places := map[string][]span{}
	show := func(spans []span) []span {
		if k.slow {
			return delayed(spans, t.id, k.IndexDelay)
		}
		return spans
	}
	for _, home := range k.Homes {
		places[home] = t.stores[home]
	}
	places["page"] = show(t.stores[k.Homes[0]])
	if k.page != nil {
		places["page"] = k.page(t)
	}
	if k.Home(vectors) {
		places[vectors] = show(t.stores[vectors]) // read through the app
	}
	reads := map[string][]read{}
	for view, spans := range places {
		reads[view] = c.reads(l, view, spans, doubt)
	}

	if k.strangers && c.shownToOthers(l, places["page"]) {
		w.defects = string(memory.Leaked)
	}
	acked := l.acknowledged()
	if acked.IsZero() { // unless the user found it on the page later
		for _, r := range reads["page"] {
			if r.found == here {
				acked = r.ended
				break
			}
		}
	}
	switch {
	case acked.IsZero():
		w.kind = memory.Indeterminate
		return w
	case l.begins:
		w.kind = memory.Released
		for _, rs := range reads {
			for _, r := range rs {
				if l.forget.Outcome == memory.Acknowledged && r.found == here && r.began.After(c.base(l.forget.At, r.began).Add(k.Settle)) {
					w.defects = string(memory.Resurfaced)
				}
			}
		}
		return w
	}

	var missing []string
	late := false
	for view, rs := range reads {
		if len(rs) == 0 || rs[len(rs)-1].found != here {
			missing = append(missing, view)
		}
		late = late || c.late(rs, acked, k.Settle)
	}
	slices.Sort(missing)
	stores := len(missing)
	blank := slices.Contains(missing, "page")
	if blank {
		stores--
	}
	switch {
	case stores == len(k.Homes) && !blank:
		w.kind = memory.Volatile
		return w
	case stores == len(k.Homes):
		w.kind = memory.Lost
	case stores > 0:
		w.kind = memory.Torn
	case blank:
		w.kind = memory.Hidden
	case late:
		w.kind = memory.Late
		return w
	default:
		w.kind = memory.Kept
		return w
	}
	w.class, w.service = memory.Silent, "app"
	w.fault = c.cause(l, missing, places)
	return w
}

// acknowledged is when the user saw the last confirmation; zero when he did not.
func (l *life) acknowledged() memory.Instant {
	if n := len(l.settled.Levels); l.settled.Outcome == memory.Acknowledged && n > 0 {
		return l.settled.Levels[n-1].Seen
	}
	return memory.Instant{}
}

// late reports whether the memory came to a place after it had been missed there, and before that was proven.
func (c *chronicle) late(rs []read, acked memory.Instant, settle time.Duration) bool {
	missed, proven := 0, false
	for _, r := range rs {
		if !r.began.After(acked) {
			continue
		}
		if r.found == here {
			if missed > 0 && !proven {
				return true
			}
			missed, proven = 0, false
			continue
		}
		missed++
		proven = proven || missed > 1 && r.began.After(c.base(acked, r.began).Add(settle))
	}
	return false
}

// shownToOthers reports whether the page of another user was read while the memory was in what pages show.
func (c *chronicle) shownToOthers(l *life, page []span) bool {
	for i := range c.sweeps {
		s := &c.sweeps[i]
		if s.View != "page" || !s.Read.Has(l.memory.ID) {
			continue
		}
		for _, o := range s.Observations {
			other := c.lives[o.Memory]
			if other.memory.User != l.memory.User && o.State != memory.Unreadable && look(page, o.Began.Time(), o.Ended.Time()) == here {
				return true
			}
		}
	}
	return false
}

// cause names the fault of the cycle in which the memory went from a place: of that in which it was told, for a place
// where it never was. A fault that was over before the memory was told is none of its causes.
func (c *chronicle) cause(l *life, missing []string, places map[string][]span) string {
	suspects := map[int64]string{}
	for _, view := range missing {
		cycle := l.memory.Cycle
		if spans := places[view]; len(spans) > 0 && !spans[len(spans)-1].gone.IsZero() {
			cycle = c.during(spans[len(spans)-1].gone)
		}
		for id, i := range c.faults {
			if i.plan.Cycle == cycle && !i.fired.IsZero() && i.over.After(l.begun) {
				suspects[id] = i.plan.Kind
			}
		}
	}
	switch len(suspects) {
	case 0:
		return memory.FaultNone
	case 1:
		for _, kind := range suspects {
			return kind
		}
	}
	return memory.FaultSeveral
}

// during gives the cycle that ran at the moment.
func (c *chronicle) during(at time.Time) int {
	n := 0
	for _, cy := range c.cycles {
		if cy.At.Time().Before(at) {
			n = cy.N
		}
	}
	return n
}

// trouble says why a run tells nothing of the oracle: the target died by other hands, or a fault did not go as planned.
func (c *chronicle) trouble() error {
	switch {
	case len(c.foreign) > 0:
		return fmt.Errorf("%s died by other hands: %s %s", c.foreign[0].Service, c.foreign[0].Cause, c.foreign[0].Detail)
	case len(c.failed) > 0:
		return fmt.Errorf("injection %d failed: %s", c.failed[0].Injection, c.failed[0].Detail)
	}
	return nil
}
