package stranger

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

// past is what the ledger knows beside verdicts: what users saw, when anybody looked, and when faults struck.
type past struct {
	of      map[memory.ID]*known
	sweeps  []fact.Sweep
	starts  []fact.Cycle // of the cycles' traffic
	strikes map[int64]*strike
	trouble error // why it tells nothing of the oracle
}

// known is one memory.
type known struct {
	memory  memory.Memory
	begun   memory.Instant
	settled fact.Settled
	forget  *fact.ForgetSettled // or that it was begun
	said    memory.Verdict
	tellers []*telling // the notes that the app made of it
}

// strike is one fault, from when it was let loose until all was well again.
type strike struct {
	plan              fact.Injection
	fired, done, well memory.Instant
}

func recall(entries []fact.Entry) *past {
	p := &past{of: map[memory.ID]*known{}, strikes: map[int64]*strike{}}
	for _, e := range entries {
		switch f := e.Fact.(type) {
		case fact.Begun:
			p.of[f.Memory.ID] = &known{memory: f.Memory, begun: f.At}
		case fact.Settled:
			p.of[f.Memory].settled = f
		case fact.ForgetBegun:
			p.of[f.Memory].forget = &fact.ForgetSettled{Outcome: memory.Unknown}
		case fact.ForgetSettled:
			p.of[f.Memory].forget = &f
		case fact.Judged:
			p.of[f.Verdict.Memory].said = f.Verdict
		case fact.Sweep:
			p.sweeps = append(p.sweeps, f)
		case fact.Cycle:
			if f.Phase == fact.PhaseTraffic {
				p.starts = append(p.starts, f)
			}
		case fact.Death:
			p.trouble = fmt.Errorf("%s died by other hands: %s %s", f.Service, f.Cause, f.Detail)
		case fact.Step:
			p.step(f)
		}
	}
	return p
}

func (p *past) step(f fact.Step) {
	s := p.strikes[f.Injection]
	if s == nil {
		s = &strike{}
		p.strikes[f.Injection] = s
	}
	switch f.Name {
	case fact.StepPlanned:
		s.plan = *f.Plan
	case fact.StepInjected:
		s.fired, s.done = f.Fired, f.At
	case fact.StepRecovered, fact.StepReverted:
		s.well = memory.Later(s.well, f.At)
	case fact.StepFailed:
		p.trouble = fmt.Errorf("injection %d failed: %s", f.Injection, f.Detail)
	}
}

// glance is one reading of one view for a memory.
type glance struct {
	began, ended memory.Instant
	found        bool
	copies       int // that were there for certain
}

// glances gives every reading of the view that could have found the memory. Of one during which it came or went only the
// reading itself knows what it must have found: then doubt decides, unless it is either; then the reading does.
func (p *past) glances(c *Case, k *known, view string, doubt finding) (all []glance) {
	var state memory.State
	for _, s := range p.sweeps {
		if s.View != view || !s.Read.Has(k.memory.ID) {
			continue
		}
		g := glance{began: s.Began, ended: s.Ended}
		for _, o := range s.Observations {
			if o.Memory == k.memory.ID {
				g.began, g.ended, state = o.Began, o.Ended, o.State
			}
		}
		if !s.Complete || state == memory.Unreadable {
			continue
		}
		must := c.look(k, view, g.began, g.ended)
		if must == either {
			must = doubt
		}
		g.found = must == there || must == either && state.Here()
		for _, t := range k.tellers {
			if c.lookFor(t, view, g.began, g.ended) == there {
				g.copies++
			}
		}
		all = append(all, g)
	}
	return all
}

// in gives when a note was where a view looks. People see the feed, and what is not yet written to it.
func (t *telling) in(view string) []stay {
	if view == "page" {
		return slices.Concat(t.stays["feed"], t.stays["hoard"])
	}
	return t.stays[view]
}

// look gives what a look at the view must come to.
func (c *Case) look(k *known, view string, a, b memory.Instant) finding {
	found := away
	for _, t := range k.tellers {
		switch c.lookFor(t, view, a, b) {
		case there:
			return there
		case either:
			found = either
		}
	}
	return found
}

// lookFor is look for one of its notes.
func (c *Case) lookFor(t *telling, view string, a, b memory.Instant) finding {
	if view == "page" && c.Flaw == "field-mixup" && strings.Contains(t.kept, "\n") {
		return away // what comes in another field is not drawn
	}
	found := away
	for _, s := range t.in(view) {
		switch s.look(a.Time(), b.Time()) {
		case there:
			return there
		case either:
			found = either
		}
	}
	return found
}

// since is the last moment before at from which the app has time to show what it has: the moment from, or the end of a
// fault after it.
func (p *past) since(from, at memory.Instant) memory.Instant {
	for _, s := range p.strikes {
		if !s.well.IsZero() && s.well.Before(at) {
			from = memory.Later(from, s.well)
		}
	}
	return from
}

// right gives the words that the daemon must find for the memory.
func (p *past) right(c *Case, k *known, doubt finding) words {
	seen := map[string][]glance{}
	for _, view := range append([]string{"page"}, places...) {
		seen[view] = p.glances(c, k, view, doubt)
	}
	var kept memory.Instant // when its user knew that it is kept
	if n := len(k.settled.Levels); k.settled.Outcome == memory.Acknowledged {
		kept = k.settled.Levels[n-1].Seen
	} else if i := slices.IndexFunc(seen["page"], func(g glance) bool { return g.found }); i >= 0 {
		kept = seen["page"][i].ended
	}

	var w words
	if c.Flaw == "open-door" && p.othersSaw(c, k) {
		w.defects = append(w.defects, memory.Leaked)
	}
	if kept.IsZero() {
		w.kind = memory.Indeterminate
		return w
	}
	rewritten := slices.ContainsFunc(k.tellers, func(t *telling) bool { return strings.TrimSpace(t.kept) != strings.TrimSpace(t.text) })
	altered, twice, again := false, false, false
	for _, gs := range seen {
		for _, g := range gs {
			altered = altered || c.Match == "exact" && rewritten && g.found && !g.ended.Before(kept)
			twice = twice || g.copies > 1 && g.ended.After(kept)
			again = again || k.forget != nil && k.forget.Outcome == memory.Acknowledged && g.found &&
				g.began.After(p.since(k.forget.At, g.began).Add(c.Settle))
		}
	}
	if altered {
		w.defects = append(w.defects, memory.AlteredText)
	}
	if twice {
		w.defects = append(w.defects, memory.Duplicated)
	}
	if again {
		w.defects = append(w.defects, memory.Resurfaced)
	}
	slices.Sort(w.defects)
	if k.forget != nil {
		w.kind = memory.Released
		return w
	}

	missing := map[string]bool{}
	late := false
	for view, gs := range seen {
		missing[view] = p.missed(c, k, view, gs, kept)
		late = late || p.cameLate(c, gs, kept)
	}
	switch journal, feed, page := missing["journal"], missing["feed"], missing["page"]; {
	case journal && feed && !page:
		w.kind = memory.Volatile
	case journal && feed:
		w.kind = memory.Lost
	case journal || feed:
		w.kind = memory.Torn
	case page:
		w.kind = memory.Hidden
	case late:
		w.kind = memory.Late
	default:
		w.kind = memory.Kept
	}
	if w.kind.Loss() {
		w.fault, w.service = p.cause(k, missing), "jotter"
		w.class = p.class(c, k, w.fault)
	}
	return w
}

// missed reports whether the view misses the memory in the end. Where newer notes may push it out, it must have been
// proven to be missing before enough of them were told.
func (p *past) missed(c *Case, k *known, view string, gs []glance, kept memory.Instant) bool {
	if len(gs) == 0 || gs[len(gs)-1].found {
		return len(gs) == 0
	}
	if view == "journal" || c.KeepLast == 0 {
		return true
	}
	last := 0 // the first of the glances at the end that did not find it
	for i, g := range gs {
		if g.found {
			last = i + 1
		}
	}
	return slices.ContainsFunc(gs[min(last+1, len(gs)):], func(g glance) bool {
		return p.newer(k, g.ended) < c.KeepLast && g.began.After(p.since(kept, g.began).Add(c.Settle))
	})
}

// newer counts the notes that the user had set out to make after it by then, but for those that were refused.
func (p *past) newer(k *known, by memory.Instant) (n int) {
	for _, o := range p.of {
		if o.memory.User == k.memory.User && o.begun.After(k.begun) && o.begun.Before(by) && o.settled.Outcome != memory.Rejected {
			n++
		}
	}
	return n
}

// class says how a loss by the fault came to light. The windows of the cases hold all that a fault can take; only what was
// acknowledged after it had struck is in none.
func (p *past) class(c *Case, k *known, fault string) memory.Class {
	var known memory.Instant // the user did not know before that it is kept
	if n := len(k.settled.Levels); n > 0 {
		known = k.settled.Levels[n-1].NotSeen
	}
	switch {
	case c.MayLose != "" && fault == c.MayLose && slices.ContainsFunc(slices.Collect(maps.Values(p.strikes)), func(s *strike) bool {
		return s.plan.Kind == fault && s.well.After(k.begun) && s.plan.Cycle == k.memory.Cycle && !known.After(s.done)
	}):
		return memory.Permitted
	case slices.ContainsFunc(k.tellers, func(t *telling) bool { return t.sorry.After(known.Time()) }):
		return memory.Reported
	}
	return memory.Silent
}

// cameLate reports whether the memory was missed at first and came in good time.
func (p *past) cameLate(c *Case, gs []glance, kept memory.Instant) bool {
	missed, proven := 0, false
	for _, g := range gs {
		switch {
		case !g.began.After(kept):
		case !g.found:
			missed++
			proven = proven || missed > 1 && g.began.After(p.since(kept, g.began).Add(c.Settle))
		case missed > 0 && !proven:
			return true
		default:
			missed, proven = 0, false
		}
	}
	return false
}

// othersSaw reports whether the page of somebody else was read while the memory was in the feed, for which everybody's
// pages were asked.
func (p *past) othersSaw(c *Case, k *known) bool {
	for _, s := range p.sweeps {
		if s.View != "page" || !s.Read.Has(k.memory.ID) {
			continue
		}
		for _, o := range s.Observations {
			if other := p.of[o.Memory].memory; other.User != k.memory.User && o.State != memory.Unreadable &&
				c.look(k, "page", o.Began, o.Ended) == there {
				return true
			}
		}
	}
	return false
}

// cause names the fault of the cycle in which the memory went from a place that misses it, or in which it was told, where
// it never came to one. A fault that was over before the memory was told caused nothing.
func (p *past) cause(k *known, missing map[string]bool) string {
	cause := map[string]bool{}
	for view := range missing {
		if !missing[view] {
			continue
		}
		cycle := k.memory.Cycle
		for _, t := range k.tellers {
			if stays := t.in(view); len(stays) > 0 && stays[len(stays)-1].over() {
				cycle = p.cycleAt(stays[len(stays)-1].to[1])
			}
		}
		for _, s := range p.strikes {
			if s.plan.Cycle == cycle && !s.fired.IsZero() && s.well.After(k.begun) {
				cause[s.plan.Kind] = true
			}
		}
	}
	switch len(cause) {
	case 0:
		return memory.FaultNone
	case 1:
		for kind := range cause {
			return kind
		}
	}
	return memory.FaultSeveral
}

func (p *past) cycleAt(at time.Time) int {
	n := 0
	for _, s := range p.starts {
		if s.At.Time().Before(at) {
			n = s.N
		}
	}
	return n
}

// words is what is compared of a verdict.
type words struct {
	kind           memory.Kind
	defects        []memory.Defect
	class          memory.Class
	fault, service string
}

// said are the daemon's words.
func said(v memory.Verdict) words {
	w := words{kind: v.Kind, defects: v.Defects}
	if v.Kind.Loss() {
		w.class, w.fault, w.service = v.Class, v.Fault, v.Service
	}
	return w
}

func (w words) String() string {
	text := string(w.kind)
	if w.kind.Loss() {
		text += fmt.Sprintf(" %s, %s of %s", w.class, w.fault, w.service)
	}
	for _, d := range w.defects {
		text += " + " + string(d)
	}
	return text
}

// has reports whether it holds the verdict, the class or the defect.
func (w words) has(word string) bool {
	return string(w.kind) == word || string(w.class) == word || slices.Contains(w.defects, memory.Defect(word))
}

// alarm reports whether somebody is to hear of it.
func (w words) alarm() bool { return w.kind.Loss() || len(w.defects) > 0 }
