package oracle

import (
	"slices"
	"strings"

	"amnesia/pkg/memory"
)

// window is when a view came to miss a memory: (from, to].
type window struct{ from, to memory.Instant }

// vanished gives the window of a proven absence: from the later of the begin of the write and the last presence, to the
// first absence, which for a memory that was never there is the first after its deadline.
func vanished(h *History, v *View) window {
	w := window{from: h.Begun, to: v.Absence.First.Ended}
	if v.LastHere.None() {
		w.to = v.Absence.Due.Ended
	}
	w.from = memory.Later(w.from, v.LastHere.Began)
	return w
}

// meets reports whether the interval from start to end (zero: open) meets the window.
func (w window) meets(start, end memory.Instant) bool {
	return !start.After(w.to) && (end.IsZero() || end.After(w.from))
}

// suspected reports whether any fault or foreign death may be why the view misses the memory.
func (c *Context) suspected(h *History, v *View) bool { return c.met(vanished(h, v)) }

// met reports whether any fault or foreign death meets the window.
func (c *Context) met(w window) bool {
	for _, i := range c.struck {
		if w.meets(i.fired, i.healthy) {
			return true
		}
	}
	for _, d := range c.deaths {
		if w.meets(d.notBefore, d.healthy) {
			return true
		}
	}
	return false
}

// suspects gathers the injections and foreign deaths that meet the window of any view that misses the memory.
func (s *surveyed) suspects(h *History, c *Context) (ours []*injection, foreign []*death) {
	for i := range s.n {
		if s.views[i] != missing {
			continue
		}
		w := vanished(h, &h.Views[i])
		for _, i := range c.struck {
			if w.meets(i.fired, i.healthy) && !slices.Contains(ours, i) {
				ours = append(ours, i)
			}
		}
		for _, d := range c.deaths {
			if w.meets(d.notBefore, d.healthy) && !slices.Contains(foreign, d) {
				foreign = append(foreign, d)
			}
		}
	}
	return ours, foreign
}

// cause names the fault behind a loss (oracle.md §6). Foreign deaths alone are foreign, however many.
func (s *surveyed) cause(h *History, c *Context, v *memory.Verdict) {
	ours, foreign := s.suspects(h, c)
	var services []string
	for _, i := range ours {
		v.Suspects = append(v.Suspects, i.plan.ID)
		services = append(services, i.name())
	}
	for _, d := range foreign {
		services = append(services, d.service)
	}
	slices.Sort(v.Suspects)
	slices.Sort(services)
	v.Service = strings.Join(slices.Compact(services), "+")
	switch {
	case len(ours)+len(foreign) == 0:
		v.Fault, v.Service = memory.FaultNone, s.behind(h)
	case len(ours) == 0:
		v.Fault = memory.FaultForeign
	case len(ours) == 1 && len(foreign) == 0:
		v.Fault = ours[0].plan.Kind
		if h.Ack.Seen.After(ours[0].fired) {
			v.During = true
		} else if c.comparable(h.Ack.Seen, ours[0].fired) {
			exposure := ours[0].fired.Sub(h.Ack.Seen)
			v.Exposure = &exposure
		}
	default:
		v.Fault = memory.FaultSeveral
	}
}

// name is the service hit, or all of them.
func (i *injection) name() string {
	if i.plan.Service != "" {
		return i.plan.Service
	}
	return strings.Join(i.services, "+")
}

// behind is the service behind the first view that misses the memory, a store before a user view.
func (s *surveyed) behind(h *History) string {
	name := ""
	ks := h.terms.views
	for i := range s.n {
		if s.views[i] != missing {
			continue
		}
		if !ks[i].User {
			return ks[i].Service
		}
		if name == "" {
			name = ks[i].Service
		}
	}
	return name
}
