package oracle

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"amnesia/pkg/memory"
)

// shape is what the number of copies depends on: a store that cuts long texts into pieces makes more records of them.
type shape struct {
	view    string
	payload memory.Payload
}

// Calibration is what a run's first control cycle showed of a view.
type Calibration struct {
	View     string
	Memories int           // that it showed
	Copies   int           // records that one write makes; the most frequent number
	Appeared time.Duration // the longest from acknowledgement to the end of the first read that found it
}

// ViewTrouble is a view that showed no memory at all in a run's first control cycle, although memories were acknowledged: it
// looks in the wrong place. A user's view that shows as many records as there should be, none of them right, does not.
type ViewTrouble struct {
	View         string
	Acknowledged int    // memories that it should have shown
	Instead      string // what was there instead
}

// learn takes the number of copies of an acknowledged memory in, and while the first control cycle runs, learns from it
// how many one write makes: the largest number seen of a memory counts once.
func (c *Context) learn(h *History, v *View, copies int) {
	if copies <= v.Copies {
		return
	}
	if c.learning > 0 {
		at := shape{v.Name, h.Memory.Payload}
		for _, s := range [...]shape{at, {view: v.Name}} {
			if c.copies[s] == nil {
				c.copies[s] = map[int]int{}
			}
			if v.Copies > 0 && c.copies[s][v.Copies] > 0 {
				c.copies[s][v.Copies]--
			}
			c.copies[s][copies]++
			if at.payload == "" {
				break
			}
		}
	}
	v.Copies = copies
}

// expected is how many copies of a memory a view may hold: as the contract says; or what was calibrated for its payload,
// or else for the view; or 1. While the first control cycle runs and has shown nothing, any number may be right.
func (c *Context) expected(h *History, k *contract) int {
	if k.Copies > 0 {
		return k.Copies
	}
	for _, s := range [...]shape{{k.View, h.Memory.Payload}, {view: k.View}} {
		if n := mode(c.copies[s]); n > 0 {
			return n
		}
	}
	if c.learning > 0 {
		return math.MaxInt
	}
	return 1
}

// mode is the most frequent number; of equally frequent ones the largest.
func mode(counts map[int]int) int {
	best, most := 0, 0
	for n, times := range counts {
		if times > most || (times == most && times > 0 && n > best) {
			best, most = n, times
		}
	}
	return best
}

// calibrate ends the learning when the first control cycle closes.
func (b *Book) calibrate(n int) {
	b.ctx.learning = 0
	type seen struct {
		due, here int
		blank     int // memories for each of which the user sees as many records, and not it
		appeared  time.Duration
		instead   map[string]int
		copies    map[int]int
	}
	views := map[string]*seen{}
	var order []string
	told := map[string]int{}
	stored := false
	for _, h := range b.live {
		if h.Memory.Cycle == n && h.acknowledged() && h.Forget == nil {
			told[h.Memory.User]++
		}
	}
	for _, h := range b.live {
		if h.Memory.Cycle != n || !h.acknowledged() || h.Forget != nil {
			continue
		}
		for i := range h.terms.views {
			v := &h.Views[i]
			if !v.Due || (v.Name == viewAnswer && v.Last.None()) || b.ctx.early(h, i) {
				continue
			}
			s := views[v.Name]
			if s == nil {
				s = &seen{instead: map[string]int{}, copies: map[int]int{}}
				views[v.Name] = s
				order = append(order, v.Name)
			}
			s.due++
			if k := &h.terms.views[i]; k.User && v.raw.Records >= told[h.Memory.User] {
				s.blank++
			}
			if !v.FirstHere.None() {
				s.here++
				stored = stored || !h.terms.views[i].User
				s.copies[v.Copies]++
				if b.ctx.comparable(h.Ack.Seen, v.FirstHere.Ended) {
					s.appeared = max(s.appeared, v.FirstHere.Ended.Sub(h.Ack.Seen))
				}
				continue
			}
			s.instead[instead(v)]++
		}
	}
	b.ctx.learned = len(order) > 0 // else the next control cycle shows it
	slices.Sort(order)
	for _, name := range order {
		s := views[name]
		if s.here > 0 {
			b.learned = append(b.learned, Calibration{View: name, Memories: s.here, Copies: mode(s.copies), Appeared: s.appeared})
			continue
		}
		// Who finds as many records as the user was told of, and stores that have them, does not look in the wrong place:
		// what the user is shown is the finding.
		if stored && s.blank == s.due {
			continue
		}
		what := ""
		for w, times := range s.instead {
			if times > s.instead[what] || (times == s.instead[what] && cmp.Less(w, what)) {
				what = w
			}
		}
		b.trouble = append(b.trouble, ViewTrouble{View: name, Acknowledged: s.due, Instead: what})
	}
}

// early reports whether a memory of which view i has shown nothing may still appear there: it could be read, but not yet
// after the time that it may take.
func (c *Context) early(h *History, i int) bool {
	k, v := &h.terms.views[i], &h.Views[i]
	if !v.FirstHere.None() || v.Last.None() || v.State == memory.Unreadable {
		return false
	}
	base, _ := c.base(h.Ack.Seen, k)
	return c.comparable(base, v.Last.Began) && v.Last.Began.Before(base.Add(k.Settle))
}

// unseen gives, while the first control cycle runs, the memories that a view is to be asked for again because it has
// shown none of them yet and may still: also of a view that no verdict waits for, such as a cache.
func (b *Book) unseen() map[string][]memory.ID {
	if b.ctx.learning == 0 {
		return nil
	}
	seen, ids := map[string]bool{}, map[string][]memory.ID{}
	for id := range each(b.swept) {
		h := b.live[id]
		if h == nil || h.Memory.Cycle != b.ctx.learning || !h.acknowledged() || h.Forget != nil {
			continue
		}
		for i := range h.terms.views {
			switch v := &h.Views[i]; {
			case !v.FirstHere.None():
				seen[v.Name] = true
			case v.Due && b.ctx.early(h, i):
				ids[v.Name] = append(ids[v.Name], id)
			}
		}
	}
	for name := range seen {
		delete(ids, name)
	}
	return ids
}

// instead says what a view that does not show a memory has.
func instead(v *View) string {
	switch {
	case v.Last.None():
		return "it was never read"
	case v.raw.Detail != "":
		return v.raw.Detail
	case v.raw.Siblings > 0:
		return fmt.Sprintf("%d other memories of the user", v.raw.Siblings)
	case v.State == memory.Unreadable:
		return "it could not be read"
	}
	return "nothing of the user"
}

// Misconfigured gives the views that showed no memory at all in the first control cycle of the latest run although some
// were acknowledged, by name; none before that cycle is closed.
func (b *Book) Misconfigured() []ViewTrouble { return slices.Clone(b.trouble) }

// Calibrated gives what that cycle showed of the other views, by name; none before it is closed.
func (b *Book) Calibrated() []Calibration { return slices.Clone(b.learned) }
