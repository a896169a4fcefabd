package zoo

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"amnesia/chaos"
	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

// life is what the ledger alone knows of one memory: what the user saw, and when anybody looked.
type life struct {
	memory  memory.Memory
	begun   memory.Instant
	settled fact.Settled
	forget  fact.ForgetSettled
	begins  bool // its user set out to delete it
	said    memory.Verdict
	judged  memory.Instant
}

// chronicle is what the ledger knows beside verdicts.
type chronicle struct {
	lives   map[memory.ID]*life
	sweeps  []fact.Sweep
	cycles  []fact.Cycle // their begins
	closed  []fact.Cycle // their ends
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
			c.lives[f.Verdict.Memory].said, c.lives[f.Verdict.Memory].judged = f.Verdict, f.At
		case fact.Sweep:
			c.sweeps = append(c.sweeps, f)
		case fact.Cycle:
			switch f.Phase {
			case fact.PhaseTraffic:
				c.cycles = append(c.cycles, f)
			case fact.PhaseClosed:
				c.closed = append(c.closed, f)
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

// hits are the services that a fault hurts.
func (i *injected) hits() []string {
	if i.plan.Service != "" {
		return []string{i.plan.Service}
	}
	return i.plan.Services
}

// ends gives the faults that ended the processes of a service without a warning, in their order.
func (c *chronicle) ends(service string) (list []*injected) {
	for _, i := range c.faults {
		if !i.fired.IsZero() && i.plan.Kind != chaos.Pause && i.plan.Kind != chaos.Restart && slices.Contains(i.hits(), service) {
			list = append(list, i)
		}
	}
	slices.SortFunc(list, func(a, b *injected) int { return a.fired.Time().Compare(b.fired.Time()) })
	return list
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
func (c *chronicle) right(k Case, w *witness, l *life, doubt seen) Word {
	t := w.of[l.memory.ID]
	places := places(k, t)
	reads := map[string][]read{}
	for view, spans := range places {
		reads[view] = c.reads(l, view, spans, doubt)
	}

	var v Word
	var defects []memory.Defect
	if k.strangers && c.shownToOthers(l, places["page"]) {
		defects = append(defects, memory.Leaked)
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
	if !acked.IsZero() {
		defects = append(defects, c.defects(k, w, l, t, reads)...)
	}
	slices.Sort(defects)
	for _, d := range defects {
		v.Defects = strings.TrimSpace(v.Defects + " " + string(d))
	}
	switch {
	case acked.IsZero():
		v.Kind = memory.Indeterminate
		return v
	case l.begins || c.expired(k, l, t, doubt):
		v.Kind = memory.Released
		return v
	}

	// What must have it: the homes, the page, and a cache that has others of the same user.
	var missing, stores []string
	late, unseen := false, false
	for view, rs := range reads {
		if k.Blind != nil && view == k.Blind.View && c.unseen(k.Blind, l.memory.ID) && (len(rs) == 0 || rs[len(rs)-1].found == here) {
			unseen = true
			continue
		}
		if n := len(rs); n == 0 || rs[n-1].found != here {
			if view == redisServer && k.cached() && !c.hasOthers(w, l, rs) {
				continue
			}
			missing = append(missing, view)
			if view != "page" {
				stores = append(stores, view)
			}
		}
		late = late || c.late(rs, acked, k.Settle)
	}
	slices.Sort(missing)
	blank := slices.Contains(missing, "page")
	homeless := !slices.ContainsFunc(k.Homes, func(home string) bool { return !slices.Contains(stores, home) })
	switch {
	case homeless && !blank:
		v.Kind = memory.Volatile
		return v
	case homeless:
		v.Kind = memory.Lost
	case len(stores) > 0:
		v.Kind = memory.Torn
	case blank:
		v.Kind = memory.Hidden
	case unseen:
		v.Kind = memory.Unverified
		return v
	case late:
		v.Kind = memory.Late
		return v
	default:
		v.Kind = memory.Kept
		return v
	}
	v.Class = memory.Silent
	v.Fault, v.Service = c.cause(k, l, missing, places)
	return v
}

// places gives when the memory was where it is looked for, by view.
func places(k Case, t *truthOf) map[string][]span {
	show := func(spans []span) []span {
		if k.slow {
			return delayed(spans, t.id, k.IndexDelay)
		}
		return spans
	}
	places := map[string][]span{}
	for _, home := range k.Homes {
		places[home] = t.stores[home]
	}
	if k.cached() {
		places[redisServer] = t.stores[redisServer]
	}
	places["page"] = show(t.stores[k.Homes[0]])
	if k.page != nil {
		places["page"] = k.page(t)
	}
	if k.Home(vectors) {
		places[vectors] = show(t.stores[vectors]) // read through the app
	}
	return places
}

// defects are those of a memory that its user saw.
func (c *chronicle) defects(k Case, w *witness, l *life, t *truthOf, reads map[string][]read) (ds []memory.Defect) {
	again, listed := false, false
	for view, rs := range reads {
		for _, r := range rs {
			again = again || l.forget.Outcome == memory.Acknowledged && r.found == here && r.began.After(c.base(l.forget.At, r.began).Add(k.Settle))
			listed = listed || view == redisServer && r.found == here
		}
	}
	if again {
		ds = append(ds, memory.Resurfaced)
	}
	if t.copies[redisServer] > 1 {
		ds = append(ds, memory.Duplicated)
	}
	// At the end Redis itself said for how long the list is to live.
	if end, lives := w.ends[t.user]; k.TTL > 0 && listed && lives {
		due := w.written(t.user).Add(k.TTL)
		switch {
		case end.IsZero() || end.After(due.Add(k.Slack)):
			ds = append(ds, memory.Outlived)
		case end.Before(due.Add(-k.Slack)):
			ds = append(ds, memory.ExpiredEarly)
		}
	}
	return ds
}

// expired reports whether the life of the user's list was over when the memory was judged. Where that was just about to
// be, doubt decides, or else the daemon is taken at its word.
func (c *chronicle) expired(k Case, l *life, t *truthOf, doubt seen) bool {
	spans := t.stores[redisServer]
	if k.TTL == 0 || !k.Home(redisServer) || len(spans) == 0 {
		return false
	}
	s, judged := spans[len(spans)-1], l.judged.Time()
	switch {
	case s.until.IsZero() || judged.Before(l.begun.Time().Add(k.TTL-k.Slack)):
		return false
	case judged.After(s.gone.Add(k.Slack)):
		return true
	case doubt == open:
		return l.said.Kind == memory.Released
	}
	return doubt == gone
}

// hasOthers reports whether at the last of the looks Redis had another memory of the user.
func (c *chronicle) hasOthers(w *witness, l *life, rs []read) bool {
	if len(rs) == 0 {
		return false
	}
	last := rs[len(rs)-1]
	for id, other := range c.lives {
		if id != l.memory.ID && other.memory.User == l.memory.User && look(w.of[id].stores[redisServer], last.began.Time(), last.ended.Time()) == here {
			return true
		}
	}
	return false
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

// cause names the fault of the cycle in which the memory went from a place, of that in which it was told, for a place
// where it never was, and the services that it hit. A fault that was over before the memory was told is none of its
// causes.
func (c *chronicle) cause(k Case, l *life, missing []string, places map[string][]span) (fault, service string) {
	suspects := map[int64]*injected{}
	for _, view := range missing {
		cycle := l.memory.Cycle
		if spans := places[view]; len(spans) > 0 && !spans[len(spans)-1].gone.IsZero() {
			cycle = c.during(spans[len(spans)-1].gone)
		}
		for id, i := range c.faults {
			if i.plan.Cycle == cycle && !i.fired.IsZero() && i.over.After(l.begun) {
				suspects[id] = i
			}
		}
	}
	fault = memory.FaultNone
	var services []string
	for _, i := range suspects {
		fault = i.plan.Kind
		services = append(services, strings.Join(i.hits(), "+"))
	}
	switch {
	case len(suspects) == 0: // the service behind a store, if one misses it
		if at := slices.IndexFunc(missing, func(view string) bool { return view != "page" }); at >= 0 {
			return fault, k.service(missing[at])
		}
		return fault, "app"
	case len(suspects) > 1:
		fault = memory.FaultSeveral
	}
	slices.Sort(services)
	return fault, strings.Join(slices.Compact(services), "+")
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
