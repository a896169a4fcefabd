package oracle

import (
	"slices"
	"time"

	"amnesia/pkg/memory"
)

// standing is how a view stands towards a memory.
type standing uint8

const (
	unowed  standing = iota // nothing is wanted of it, or a cache that is excused
	here                    // found, since the last fault that touched the view
	missing                 // proven absent while it owed the memory
	pending                 // no evidence yet: never read, not since that fault, unreadable, or absent but not proven
)

// Judge gives the verdict of one memory at the instant now (oracle.md §4). It is pure: it changes neither argument. It
// takes about half a microsecond and allocates nothing for a memory that is kept.
func Judge(h *History, c *Context, now memory.Instant) memory.Verdict {
	if !h.Retired.IsZero() {
		now = h.Retired
	}
	s := survey(h, c, now)
	v := memory.Verdict{Memory: h.Memory.ID, Open: s.open && h.Retired.IsZero()}
	v.Kind = s.kind()
	if v.Kind == memory.Unverified && h.Loss != nil && s.stands(h) {
		// What else is unreadable now cannot hide a loss that was proven and that nothing contradicts.
		open := v.Open
		v = *h.Loss
		v.Open, v.Defects = open, s.defects(h, c)
		return v
	}
	switch {
	case v.Kind == memory.Unverified && !h.Retired.IsZero():
		v.Kind = memory.Released
		v.Because = "It was retired before it could be verified."
	case v.Kind == memory.Indeterminate:
		v.Recovered = s.stores > 0
		v.Because = becauseIndeterminate(h, v.Recovered)
	case v.Kind == memory.Released:
		v.Because = becauseReleased(h)
	case v.Kind == memory.Kept:
		v.Because = "It is everywhere where it must be."
	case v.Kind == memory.Late:
		v.Lateness = s.lateness
		v.Because = becauseLate(v.Lateness)
	default:
		v.Missing, v.Found = s.names(h)
		if v.Kind.Loss() {
			v.Level = h.level()
			s.cause(h, c, &v)
			v.Class = s.class(h, c, v.Kind)
		}
		v.Because = s.because(h, c, &v)
	}
	v.Defects = s.defects(h, c)
	return v
}

// surveyed is where all views of one memory stand at one moment.
type surveyed struct {
	now   memory.Instant
	views [maxViews]standing
	reads [maxViews]bool // another reading of the view could change the verdict
	n     int

	acked  bool
	open   bool
	owed   int // views that owe the memory
	gaps   int // pending ones among them
	stores int // stores that have it, whether they must or not

	durable, durableMissing, durableHere int // stores that must have it
	caches, cachesMissing, cachesHere    int // pending caches count in caches only
	page, answer                         standing
	hasPage                              bool
	shown                                bool // the page has it, whether it must or not

	late     bool
	lateness time.Duration
}

// maxViews bounds the views of one memory that are judged. Contracts with more are cut, the excess is a note.
const maxViews = 32

// survey looks at every view once.
func survey(h *History, c *Context, now memory.Instant) surveyed {
	s := surveyed{now: now, acked: h.acknowledged()}
	ks := h.terms.views
	s.n = min(len(ks), len(h.Views), maxViews)
	doubt := h.missed(s.n)
	for i := range s.n {
		k, v := &ks[i], &h.Views[i]
		if !v.Due {
			continue
		}
		at := c.stand(h, k, v, now, doubt)
		if at == missing && k.View != viewAnswer && h.cameSince(v) {
			at = pending
		}
		if k.User {
			switch k.View {
			case viewPage:
				s.page, s.hasPage = at, true
				// After a deletion nothing more can be lost: what the page last showed, it shows.
				s.shown = at == here || (at == unowed && v.State.Here() && (h.Forget != nil || c.fresh(k, v)))
			case viewAnswer:
				if at == pending && !c.fresh(k, v) {
					at = unowed // not asked since: no evidence for or against
				}
				s.answer = at
			default:
				continue
			}
		} else {
			s.store(k, v, at)
		}
		s.views[i] = at
		if at != unowed {
			s.owed++
		}
		if at == pending {
			s.gaps++
			s.reads[i] = c.opens(h, k, v, now)
		}
		if v.late && at != unowed {
			s.late, s.lateness = true, max(s.lateness, v.lateness)
		}
		s.reads[i] = s.reads[i] || c.unlooked(h, k, v)
		s.open = s.open || s.reads[i]
	}
	return s
}

// store counts one store.
func (s *surveyed) store(k *contract, v *View, at standing) {
	// One that owes nothing is not asked again after every fault: what it last had, it has.
	if at == here || (at == unowed && v.State.Here()) {
		s.stores++
	}
	if !k.Durable {
		switch at {
		case here:
			s.caches++
			s.cachesHere++
		case missing:
			s.caches++
			s.cachesMissing++
		case pending:
			s.caches++
		}
		return
	}
	switch at {
	case here:
		s.durable++
		s.durableHere++
	case missing:
		s.durable++
		s.durableMissing++
	case pending:
		s.durable++
	}
}

// missed reports whether one of the first n views that are evidence is proven to miss the memory.
func (h *History) missed(n int) bool {
	for i := range n {
		if v := &h.Views[i]; v.Due && v.Absence.Proven() && h.terms.views[i].evidence() {
			return true
		}
	}
	return false
}

// evidence reports whether the view is more than a note.
func (k *contract) evidence() bool { return !k.User || k.View == viewPage || k.View == viewAnswer }

// stand says how one view stands. A proof of absence outlasts whatever later ends the promise. With doubt, only what was read
// since the last fault is taken for there.
func (c *Context) stand(h *History, k *contract, v *View, now memory.Instant, doubt bool) standing {
	if !h.acknowledged() {
		return unowed
	}
	if v.Absence.Proven() {
		return missing
	}
	switch d := c.demands(h, k, v, now); {
	case d == may:
		return unowed
	case !c.fresh(k, v) && (doubt || k.View == viewAnswer || !c.untouched(k, v)):
		return pending
	case v.State.Here():
		return here
	case v.Empty && v.State == memory.Absent:
		return unowed
	}
	return pending
}

// cameSince reports whether the memory, which durable stores had missed, has come to one of them since view v was last read:
// it may have come to v at the same time. An absence of before and a presence of after that are of different times, and
// prove no tear and nothing hidden.
func (h *History) cameSince(v *View) bool {
	ks := h.terms.views
	for i := range min(len(ks), len(h.Views), maxViews) {
		if w := &h.Views[i]; w.Due && !ks[i].User && ks[i].Durable && w.came && w.State.Here() && w.HereSince.Began.After(v.Last.Ended) {
			return true
		}
	}
	return false
}

// fresh reports whether the last reading of a view tells of the present: it began after the end of every injection and
// after the view's own service was back from every foreign death.
func (c *Context) fresh(k *contract, v *View) bool {
	if v.Last.None() {
		return false
	}
	since, waiting := c.base(memory.Instant{}, k)
	return !waiting && (since.IsZero() || !v.Last.Began.Before(since))
}

// untouched reports whether the last reading of a view still tells of the present because nothing touched the view since.
func (c *Context) untouched(k *contract, v *View) bool {
	if v.Last.None() || c.open > 0 || k.by.down > 0 {
		return false
	}
	since := memory.Later(k.touched, k.by.over)
	return since.IsZero() || !v.Last.Began.Before(since)
}

// opens reports whether another reading of a pending view could change the verdict: it has not been read since the last
// fault, it could not be read (which is tried again without end: whoever polls has a bound of its own), or an absence waits
// for the reading that confirms it, where the clock can still tell that one began after the deadline and in time.
func (c *Context) opens(h *History, k *contract, v *View, now memory.Instant) bool {
	if !c.fresh(k, v) || v.State == memory.Unreadable {
		return true
	}
	base, _ := c.base(h.Ack.Seen, k)
	return c.comparable(base, now) && c.demands(h, k, v, now) == must
}

// unlooked reports whether a view must still be read to see that a deletion holds.
func (c *Context) unlooked(h *History, k *contract, v *View) bool {
	f := h.Forget
	if f == nil || f.Outcome != memory.Acknowledged || k.View == viewAnswer || !h.acknowledged() {
		return false
	}
	base, waiting := c.base(f.Settled, k)
	return waiting || v.Last.Began.Before(base) || (c.comparable(base, v.Last.Began) && !v.Last.Began.After(base.Add(k.Settle)))
}

// kind applies the nine rules in their order; the first that matches wins.
func (s *surveyed) kind() memory.Kind {
	// Stores that must have it: the durable ones, and a cache that holds others of the user but not this.
	owing, owingMissing := s.durable+s.cachesMissing, s.durableMissing+s.cachesMissing
	none := owing > 0 && owingMissing == owing
	switch {
	case !s.acked:
		return memory.Indeterminate
	case s.owed == 0:
		return memory.Released
	case none && s.shown,
		none && !s.hasPage && s.cachesHere > 0:
		return memory.Volatile
	case none && s.hasPage && s.page != pending,
		none && !s.hasPage && s.caches == s.cachesMissing,
		owing == 0 && s.page == missing && s.stores == 0 && s.caches == s.cachesHere:
		return memory.Lost
	case owingMissing > 0 && s.durableHere > 0:
		return memory.Torn
	case owingMissing == 0 && (s.page == missing && s.stores > 0 || s.answer == missing && s.evident()):
		return memory.Hidden
	case s.gaps > 0:
		return memory.Unverified
	case s.late:
		return memory.Late
	}
	return memory.Kept
}

// stands reports whether every view that missed the memory when its loss was proven still does.
func (s *surveyed) stands(h *History) bool {
	for i := range s.n {
		if s.views[i] != missing && slices.Contains(h.Loss.Missing, h.Views[i].Name) {
			return false
		}
	}
	return true
}

// evident reports whether the memory is known to exist apart from the answer: a store has it, or the page shows it, or
// there is nothing else to ask.
func (s *surveyed) evident() bool {
	return s.stores > 0 || s.shown || s.gaps == 0
}

// names gives the views that miss the memory and those that have it.
func (s *surveyed) names(h *History) (gone, found []string) {
	for i := range s.n {
		switch v := &h.Views[i]; {
		case s.views[i] == missing:
			gone = append(gone, v.Name)
		case s.views[i] == here:
			found = append(found, v.Name)
		}
	}
	return gone, found
}

// defects gathers what is wrong beside the verdict, sorted.
func (s *surveyed) defects(h *History, c *Context) []memory.Defect {
	var altered, duplicated, early, outlived, resurfaced bool
	if s.acked {
		ks := h.terms.views
		for i := range s.n {
			k, v := &ks[i], &h.Views[i]
			if !v.Due {
				continue
			}
			altered = altered || v.altered
			duplicated = duplicated || (v.Copies > 1 && k.View != viewAnswer && v.Copies > c.expected(h, k))
			early = early || v.early || (k.TTL > 0 && s.views[i] == missing && !c.suspected(h, v))
			outlived = outlived || v.outlived
			resurfaced = resurfaced || v.resurfaced
		}
	}
	var ds []memory.Defect
	for _, d := range [...]struct {
		is   bool
		name memory.Defect
	}{
		{altered, memory.AlteredText}, {duplicated, memory.Duplicated}, {early, memory.ExpiredEarly},
		{h.Leaked, memory.Leaked}, {outlived, memory.Outlived}, {resurfaced, memory.Resurfaced},
	} {
		if d.is {
			ds = append(ds, d.name)
		}
	}
	return ds
}
