package oracle

import (
	"fmt"
	"strings"
	"time"

	"amnesia/pkg/memory"
)

func becauseIndeterminate(h *History, recovered bool) string {
	if recovered {
		return "It was never acknowledged, but a store has it; neither is a promise broken."
	}
	switch h.Outcome {
	case "":
		return "Its write has begun and has no outcome yet."
	case memory.Rejected:
		return "The user was told that it was not saved, so nothing was promised."
	}
	return "The user never saw it acknowledged, so nothing was promised."
}

func becauseReleased(h *History) string {
	switch {
	case h.Forget != nil && h.Forget.Outcome == memory.Acknowledged:
		return "Its user deleted it, so no view has to have it any more."
	case h.Forget != nil:
		return "Its user began to delete it, so no view has to have it any more."
	}
	return "By the contracts no view has to have it any more."
}

func becauseLate(by time.Duration) string {
	if by <= 0 {
		return "It is everywhere where it must be, after it was not at first."
	}
	return "It is everywhere where it must be, but took " + short(by) + " to get there."
}

// because explains what is not well, in one sentence.
func (s *surveyed) because(h *History, c *Context, v *memory.Verdict) string {
	gone, found := list(v.Missing), list(v.Found)
	switch v.Kind {
	case memory.Volatile:
		return fmt.Sprintf("No store has it (gone from %s), and it lives on only in %s: the next crash takes it.", gone, found)
	case memory.Unverified:
		return s.becauseUnverified(h, c)
	}
	var b strings.Builder
	switch v.Kind {
	case memory.Lost:
		fmt.Fprintf(&b, "The user saw it %s, and it is gone from %s", h.acked(), gone)
	case memory.Torn:
		fmt.Fprintf(&b, "The user saw it %s, and it is gone from %s although %s", h.acked(), gone, have(v.Found))
	case memory.Hidden:
		fmt.Fprintf(&b, "The user saw it %s, and it does not show in %s", h.acked(), gone)
		if found != "" {
			fmt.Fprintf(&b, " although %s", have(v.Found))
		}
	}
	b.WriteString("; ")
	switch {
	case v.Fault == memory.FaultNone:
		b.WriteString("no fault explains it")
	case v.Fault == memory.FaultForeign:
		fmt.Fprintf(&b, "%s died meanwhile, and not by us", v.Service)
	case v.Fault == memory.FaultSeveral:
		fmt.Fprintf(&b, "several faults hit %s meanwhile", v.Service)
	case v.Exposure != nil:
		fmt.Fprintf(&b, "%s of %s came %s after the acknowledgement", v.Fault, v.Service, short(*v.Exposure))
	case v.During:
		fmt.Fprintf(&b, "%s of %s had come before the acknowledgement", v.Fault, v.Service)
	default:
		fmt.Fprintf(&b, "%s of %s came meanwhile", v.Fault, v.Service)
	}
	b.WriteString("; ")
	switch v.Class {
	case memory.Silent:
		if s.forgotten() {
			r := c.recall(h.Memory.Cycle)
			fmt.Fprintf(&b, "since the fault the answers know %d of %d, which bad answers do not explain; ", r.found, r.asked)
		}
		b.WriteString("nobody was told.")
	case memory.Reported:
		b.WriteString("it was reported.")
	case memory.Permitted:
		b.WriteString("the contract permits it.")
	case memory.Unsure:
		b.WriteString("only the answer misses it, and a model may answer badly.")
	}
	return b.String()
}

func (h *History) acked() string {
	switch h.Ack.Level {
	case memory.LevelObserved:
		return "on the page"
	case "":
		return "acknowledged"
	}
	return "acknowledged (" + h.Ack.Level + ")"
}

// becauseUnverified names the first view without evidence, and what is wrong with it.
func (s *surveyed) becauseUnverified(h *History, c *Context) string {
	ks := h.terms.views
	for i := range s.n {
		if s.views[i] != pending {
			continue
		}
		k, v := &ks[i], &h.Views[i]
		base, _ := c.base(h.Ack.Seen, k)
		switch {
		case v.Last.None():
			return v.Name + " has not been read yet."
		case !c.fresh(k, v):
			return v.Name + " has not been read since the last fault."
		case v.State == memory.Unreadable:
			if n := len(v.Runs); n > 0 && v.Runs[n-1].Detail != "" {
				return v.Name + " could not be read: " + v.Runs[n-1].Detail
			}
			return v.Name + " could not be read."
		case !c.comparable(base, s.now):
			return "It is not in " + v.Name + ", but a reboot or a clock gap lies between, so how long is not known."
		}
		return "It is not in " + v.Name + " yet; an absence counts when it is read again after the deadline."
	}
	return "No evidence yet."
}

// have says that views have it.
func have(names []string) string {
	if len(names) == 1 {
		return names[0] + " has it"
	}
	return list(names) + " have it"
}

func list(names []string) string {
	switch n := len(names); n {
	case 0:
		return ""
	case 1:
		return names[0]
	default:
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
}
