package oracle

import (
	"slices"
	"time"

	"amnesia/pkg/memory"
)

// class says how a loss came to light (oracle.md §5).
func (s *surveyed) class(h *History, c *Context, kind memory.Kind) memory.Class {
	switch {
	case kind == memory.Hidden && s.page != missing && !c.forgetful(h.Memory.Cycle):
		return memory.Unsure
	case kind != memory.Hidden && s.excused(h, c):
		return memory.Permitted
	case reported(h, s.detected(h)):
		return memory.Reported
	}
	return memory.Silent
}

// detected is when the last of the missing views was proven to miss the memory.
func (s *surveyed) detected(h *History) memory.Instant {
	var at memory.Instant
	for i := range s.n {
		if s.views[i] == missing {
			at = memory.Later(at, h.Views[i].Absence.Proof.Ended)
		}
	}
	return at
}

// reported reports whether somebody was told of this memory between its acknowledgement, at the earliest, and the
// detection.
func reported(h *History, detected memory.Instant) bool {
	from := h.Ack.NotSeen
	if from.IsZero() {
		from = h.Ack.Seen
	}
	return slices.ContainsFunc(h.Reports, func(r Report) bool { return !r.At.Before(from) && !r.At.After(detected) })
}

// excused reports whether may_lose excuses every store that misses the memory, or the page where no store misses it.
func (s *surveyed) excused(h *History, c *Context) bool {
	ks := h.terms.views
	stores := false
	for i := range s.n {
		if s.views[i] == missing && !ks[i].User {
			stores = true
			if !c.excuses(h, &ks[i], &h.Views[i]) {
				return false
			}
		}
	}
	if stores {
		return true
	}
	for i := range s.n {
		if s.views[i] == missing && ks[i].View == viewPage {
			return c.excuses(h, &ks[i], &h.Views[i])
		}
	}
	return false
}

// excuses reports whether the contract excuses that this view misses the memory: a suspect is a fault of a kind that may
// lose, on the view's service, and the acknowledgement came no longer before it than the window, by the shortest
// distance that the bounds of both moments allow. A memory acknowledged after the fault had struck is not excused.
func (c *Context) excuses(h *History, k *contract, v *View) bool {
	if k.MayLose == nil {
		return false
	}
	w := vanished(h, v)
	for _, i := range c.struck {
		if !w.meets(i.fired, i.healthy) || !i.hits(k.Service) || !slices.Contains(k.MayLose.On, i.plan.Kind) {
			continue
		}
		acked := h.Ack.NotSeen
		if acked.IsZero() {
			acked = h.Ack.Seen
		}
		if struck := i.strikes(); !struck.IsZero() && acked.After(struck) {
			continue
		}
		if !c.comparable(h.Ack.Seen, i.fired) || i.fired.Sub(h.Ack.Seen) <= max(k.MayLose.Window, 0) {
			return true
		}
	}
	return false
}

// strikes is the latest moment at which the fault can have struck: when the engine had done it, or else when the target
// was healthy again. Zero: not known.
func (i *injection) strikes() memory.Instant {
	if i.struck.IsZero() {
		return i.healthy
	}
	return i.struck
}

// observedLoss reports whether a loss is of a memory that was never acknowledged but observed: reported apart, never
// paged.
func observedLoss(v *memory.Verdict) bool { return v.Level == memory.LevelObserved }

// counts reports whether a loss is one that pages: silent or reported, of an acknowledged memory.
func counts(v *memory.Verdict) bool {
	return v.Kind.Loss() && (v.Class == memory.Silent || v.Class == memory.Reported) && !observedLoss(v)
}

// short rounds a duration to what a person reads.
func short(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(10 * time.Millisecond).String()
}
