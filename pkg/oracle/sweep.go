package oracle

import (
	"slices"
	"time"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

// sweep folds one reading of one view. Members of Read without an observation were read again and looked as before.
func (b *Book) sweep(f fact.Sweep) {
	c := &b.ctx
	c.reading(f.Before, f.Began)
	c.reading(f.After, f.Ended)
	proven := f.Complete && f.Error == "" && sound(f.Before, f.After)
	b.pass++
	rows := make([]*History, len(f.Observations))
	beside := map[string]int{} // memories of each user that this sweep found
	answered := false
	for i := range f.Observations {
		o := &f.Observations[i]
		h := b.live[o.Memory]
		if h == nil {
			continue
		}
		rows[i] = h
		h.Views[h.view(f.View)].pass = b.pass
		answered = answered || o.State != memory.Unreadable
		if o.State.Here() {
			beside[h.Memory.User]++
		}
	}
	var again []*History
	for id := range each(f.Read) {
		h := b.live[id]
		if h == nil {
			continue
		}
		if v := &h.Views[h.view(f.View)]; v.pass != b.pass && v.raw.State != "" {
			again = append(again, h)
			answered = answered || v.raw.State != memory.Unreadable
			if v.raw.State.Here() {
				beside[h.Memory.User]++
			}
		}
	}
	if k := c.contract(f.View); k != nil && proven && answered && f.After == nil {
		c.healthy(k.Service, f.Ended) // nobody else asks whether it answers; it has just answered
	}
	r := Read{f.Began, f.Ended}
	if f.View == viewPage { // first, so that it does not matter in which order a page shows its memories
		for i, h := range rows {
			if h != nil && f.Observations[i].State.Here() {
				b.observe(h, bounds(f.Observations[i], r))
			}
		}
		for _, h := range again {
			if h.Views[h.view(f.View)].raw.State.Here() {
				b.observe(h, r)
			}
		}
	}
	for i, h := range rows {
		if h != nil {
			o := f.Observations[i]
			o.View = f.View
			b.fold(h, o, bounds(o, r), proven, o.TTL, beside[h.Memory.User])
		}
	}
	for _, h := range again {
		b.fold(h, h.Views[h.view(f.View)].raw, r, proven, 0, beside[h.Memory.User])
	}
	read := slices.DeleteFunc(slices.Concat(rows, again), func(h *History) bool { return h == nil })
	if f.View == viewAnswer {
		b.asked(f)
		b.recalled(f, read)
	}
	for _, h := range read {
		h.read = f.Cycle
		if h.watch {
			b.review(h, f.Cycle, f.Ended)
		}
	}
}

// observe takes it that a user has seen on a fresh page what was never acknowledged: from here on a promise.
func (b *Book) observe(h *History, r Read) {
	if h.Outcome == "" || h.acknowledged() || !h.Views[h.view(viewPage)].Due {
		return
	}
	h.acknowledge(Ack{Level: memory.LevelObserved, NotSeen: r.Began, Seen: r.Ended})
	b.settled(h)
}

// sound reports whether the service was healthy before and after, and the same.
func sound(before, after *fact.Health) bool {
	if before == nil && after == nil {
		return true
	}
	if before == nil || after == nil || !before.Healthy || !after.Healthy || len(before.Instances) != len(after.Instances) {
		return false
	}
	for _, i := range before.Instances {
		if !slices.Contains(after.Instances, i) {
			return false
		}
	}
	return true
}

// bounds are those of the observation where it has its own.
func bounds(o memory.Observation, sweep Read) Read {
	if o.Began.IsZero() || o.Ended.IsZero() {
		return sweep
	}
	return Read{o.Began, o.Ended}
}

// contract gives the contract in force of a view; nil where it has none.
func (c *Context) contract(view string) *contract {
	ks := c.current().views
	if i := slices.IndexFunc(ks, func(k contract) bool { return k.View == view }); i >= 0 {
		return &ks[i]
	}
	return nil
}

// asked notes the questions: asking writes history.
func (b *Book) asked(f fact.Sweep) {
	n := map[string]int{}
	for id := range each(f.Read) {
		if h := b.live[id]; h != nil {
			n[h.Memory.User]++
		}
	}
	for name, n := range n {
		u := b.ctx.user(name)
		u.asked = append(u.asked, asked{f.Ended, n})
	}
}

// fold takes one reading of one memory in one view. ttl is the remaining time that this reading saw, in milliseconds; 0
// where it says nothing about it. beside is how many memories of the user the sweep found.
func (b *Book) fold(h *History, o memory.Observation, r Read, proven bool, ttl int64, beside int) {
	c := &b.ctx
	n := h.view(o.View)
	v := &h.Views[n]
	v.raw = o // as it was recorded, to be what "as before" means
	o.Siblings = max(o.Siblings, beside)
	if o.State == memory.Absent {
		if why := h.unprovable(r, proven); why != "" {
			o.State, o.Detail = memory.Unreadable, why
		}
	}
	v.Last, v.State = r, o.State
	v.tell(o, r)
	if len(o.Strangers) > 0 {
		h.Leaked, h.watch = true, true
	}
	if !v.Due {
		return
	}
	k := &h.terms.views[n]
	switch {
	case o.State.Here():
		c.found(h, k, v, o, r, time.Duration(ttl)*time.Millisecond)
	case o.State == memory.Absent:
		c.missed(h, k, v, o, r)
	}
}

// unprovable says why an absence proves nothing; empty when it may.
func (h *History) unprovable(r Read, proven bool) string {
	switch {
	case !proven:
		return "the read was not complete, or the service was not healthy and the same before and after"
	case h.Outcome == "":
		return "the write was still in flight"
	case h.acknowledged() && r.Began.SameBoot(h.Ack.Seen) && !r.Began.After(h.Ack.Seen):
		return "the read began before the acknowledgement"
	}
	return ""
}

// found takes a presence.
func (c *Context) found(h *History, k *contract, v *View, o memory.Observation, r Read, ttl time.Duration) {
	if v.FirstHere.None() {
		v.FirstHere = r
	}
	if v.HereSince.None() || v.apart {
		v.HereSince, v.came, v.apart = r, v.apart, false
	}
	v.LastHere = r
	if ttl != 0 {
		v.TTL, v.TTLRead = ttl, r
	}
	if !h.acknowledged() {
		return
	}
	if v.Absence.Proven() {
		v.resurfaced = v.resurfaced || (h.Loss != nil && h.Loss.Class != memory.Unsure)
	} else if v.Absence.Reads > 0 {
		v.late = true
		if base, _ := c.base(h.Ack.Seen, k); c.comparable(base, r.Ended) {
			v.lateness = max(v.lateness, r.Ended.Sub(base))
		}
	}
	v.Absence, v.Empty, v.emptied = Absence{}, false, Read{}
	v.altered = v.altered || (o.State == memory.Altered && v.Name != viewAnswer)
	c.learn(h, v, o.Copies)
	if k.TTL > 0 {
		v.outlived = v.outlived || c.outlived(h, k, v, ttl, r)
		v.early = v.early || (ttl > 0 && c.expiresEarly(h, k, ttl, r))
	}
	if f := h.Forget; f != nil && f.Outcome == memory.Acknowledged && c.deadlinePassed(k, f.Settled, r.Began) {
		v.resurfaced = true
	}
	h.watch = h.watch || v.altered || v.outlived || v.early || v.resurfaced || v.Copies > 1
}

// missed takes a proven absence.
func (c *Context) missed(h *History, k *contract, v *View, o memory.Observation, r Read) {
	v.apart = true
	if !h.acknowledged() {
		return
	}
	if !k.Durable && o.Siblings == 0 {
		c.emptied(h, k, v, r)
		return
	}
	v.Empty, v.emptied = false, Read{}
	if c.demands(h, k, v, r.Ended) != must {
		return
	}
	a := &v.Absence
	if a.Reads == 0 {
		a.First = r
	}
	second := a.Reads > 0 && !r.Began.Before(a.First.Ended)
	a.Last = r
	a.Reads++
	if !c.deadlinePassed(k, h.Ack.Seen, r.Began) {
		return
	}
	if a.Due.None() {
		a.Due = r
	}
	if second && a.Proof.None() {
		a.Proof, h.watch = r, true
	}
}

// emptied takes a reading of a cache that holds nothing of the user: excused. It went early when the record itself had
// said that it had longer to live, nobody wrote or deleted since, and no fault explains it.
func (c *Context) emptied(h *History, k *contract, v *View, r Read) {
	v.Empty = true
	if !v.Absence.Proven() {
		v.Absence = Absence{}
	}
	if v.emptied.None() {
		v.emptied = r
		return
	}
	u := c.users[h.Memory.User]
	if k.TTL <= 0 || v.TTL <= 0 || v.early || r.Began.Before(v.emptied.Ended) || !u.touched.Before(v.TTLRead.Began) {
		return
	}
	if !c.deadlinePassed(k, h.Ack.Seen, r.Began) || c.demands(h, k, v, r.Ended) != must ||
		!c.comparable(v.TTLRead.Began, r.Ended) || !r.Ended.Before(v.TTLRead.Began.Add(v.TTL-k.Slack)) {
		return
	}
	if !c.met(window{v.LastHere.Began, v.emptied.Ended}) {
		v.early, h.watch = true, true
	}
}

// review judges a memory of which something was read that may make a loss or a defect, so that each is counted once,
// in the cycle whose sweep proved it.
func (b *Book) review(h *History, n int, now memory.Instant) {
	v := Judge(h, &b.ctx, now)
	cy := b.at(n)
	if v.Kind.Loss() {
		if h.Loss == nil {
			h.LossCycle = n
		}
		h.Loss = &v
		if counts(&v) && !h.counted {
			h.counted = true
			cy.losses++
			cy.note(&cy.firstLoss, &v)
		}
	}
	for _, d := range v.Defects {
		if !slices.Contains(h.found, d) {
			h.found = append(h.found, d)
			cy.defects++
			cy.note(&cy.firstDefect, &v)
		}
	}
}
