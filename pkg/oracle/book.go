package oracle

import (
	"iter"
	"slices"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

// Book folds facts into histories and gives verdicts. It is for one goroutine at a time; whoever shares it holds a
// mutex around every call. Its size depends on the memories that are not retired, not on how often they were read.
type Book struct {
	ctx     Context
	live    map[memory.ID]*History
	ids     memory.Set // every memory ever begun
	swept   memory.Set // those that are not retired
	retired retired
	cycles  map[int]*cycle
	trouble []ViewTrouble
	learned []Calibration
	stake   int // acknowledged memories that nobody has begun to delete, and that are not retired
	struck  map[FaultKey]int
	pass    int64
}

// NewBook gives an empty book.
func NewBook() *Book {
	return &Book{
		ctx: newContext(), live: map[memory.ID]*History{}, cycles: map[int]*cycle{}, struck: map[FaultKey]int{},
		retired: newRetired(),
	}
}

// Context gives what the judge knows beside the memories' own facts. Its Enough may be set before the first Apply.
func (b *Book) Context() *Context { return &b.ctx }

// Apply takes the next fact in. Facts must come in the order of their Seq.
func (b *Book) Apply(e fact.Entry) {
	c := &b.ctx
	switch f := e.Fact.(type) {
	case fact.Run:
		b.abandon(f)
		b.ctx.learned, b.ctx.learning, b.trouble, b.learned = false, 0, nil, nil // what is configured may be another view
	case fact.Contracts:
		c.contracts(f)
	case fact.Cycle:
		b.cycle(f)
	case fact.Begun:
		b.begin(f)
	case fact.Settled:
		b.settle(f)
	case fact.ForgetBegun:
		b.forget(f)
	case fact.ForgetSettled:
		if h := b.live[f.Memory]; h != nil && h.Forget != nil && h.Forget.Outcome == "" {
			h.Forget.Outcome, h.Forget.Settled = f.Outcome, f.At
		}
	case fact.Told:
		b.report(f.Memory, Report{By: f.By, Detail: f.Detail, At: f.At})
	case fact.Log:
		if severe(f.Level) {
			b.report(f.Memory, Report{By: "log", Detail: f.Line, At: f.At})
		}
	case fact.Retired:
		b.retire(f)
	case fact.Sweep:
		b.sweep(f)
	case fact.Step:
		b.step(f)
	case fact.Gate:
		b.gate(f)
	case fact.Death:
		c.died(f)
	case fact.Gap:
		c.gap(f)
	}
}

// severe reports whether a log level is error or worse.
func severe(level string) bool {
	switch level {
	case "error", "fatal", "panic", "critical", "alert", "emergency":
		return true
	}
	return false
}

// abandon ends the writes that an earlier daemon left in flight: they are unknown.
func (b *Book) abandon(f fact.Run) {
	for _, h := range b.live {
		if h.Outcome == "" {
			b.settle(fact.Settled{Memory: h.Memory.ID, Outcome: memory.Unknown, At: f.At})
		}
		if h.Forget != nil && h.Forget.Outcome == "" {
			h.Forget.Outcome, h.Forget.Settled = memory.Unknown, f.At
		}
	}
}

func (b *Book) begin(f fact.Begun) {
	id := f.Memory.ID
	if b.ids.Has(id) {
		return
	}
	b.ids, b.swept = include(b.ids, id), include(b.swept, id)
	t := b.ctx.current()
	h := &History{Memory: f.Memory, Begun: f.At, terms: t, Views: make([]View, len(t.views))}
	for i, k := range t.views {
		h.Views[i] = View{Name: k.View, Due: len(f.Memory.Views) == 0 || slices.Contains(f.Memory.Views, k.View)}
	}
	u := b.ctx.user(f.Memory.User)
	h.ord = u.dropped + len(u.writes)
	u.writes = append(u.writes, write{began: f.At})
	u.touched = memory.Later(u.touched, f.At)
	b.live[id] = h
}

func (b *Book) settle(f fact.Settled) {
	h := b.live[f.Memory]
	if h == nil || h.Outcome != "" {
		return
	}
	h.settle(f.Outcome, f.Levels, f.At)
	b.settled(h)
}

// settled brings the books of the user up to date with the outcome of a write.
func (b *Book) settled(h *History) {
	w := b.ctx.write(h)
	if h.acknowledged() && w.ack.IsZero() && h.Forget == nil {
		b.stake++
	}
	w.outcome, w.settled, w.ack = h.Outcome, h.Settled, h.Ack.Seen
}

// write gives the place of a memory among the writes of its user.
func (c *Context) write(h *History) *write {
	u := c.users[h.Memory.User]
	return &u.writes[h.ord-u.dropped]
}

func (b *Book) forget(f fact.ForgetBegun) {
	h := b.live[f.Memory]
	if h == nil || (h.Forget != nil && h.Forget.Outcome == memory.Acknowledged) {
		return
	}
	if h.Forget == nil && h.acknowledged() {
		b.stake--
	}
	h.Forget = &Forget{Begun: f.At}
	u := b.ctx.user(h.Memory.User)
	u.touched = memory.Later(u.touched, f.At)
}

func (b *Book) report(id memory.ID, r Report) {
	h := b.live[id]
	if h == nil {
		return
	}
	h.Reports = append(h.Reports, r)
	if h.Loss != nil {
		b.review(h, h.LossCycle, r.At)
	}
}

func (b *Book) step(f fact.Step) {
	c := &b.ctx
	i := c.step(f)
	for k := range f.Before {
		c.reading(&f.Before[k], f.At)
	}
	for k := range f.After {
		c.reading(&f.After[k], f.At)
	}
	cy := b.at(i.plan.Cycle)
	switch f.Name {
	case fact.StepPlanned:
		cy.injections = append(cy.injections, i)
	case fact.StepFiring:
		if !i.plan.DryRun {
			c.recall(i.plan.Cycle).struck = true
			if !slices.Contains(cy.injections, i) {
				cy.injections = append(cy.injections, i)
			}
		}
		if cy.stake == 0 {
			cy.stake = b.stake
		}
	case fact.StepInjected:
		b.struck[FaultKey{i.plan.Kind, i.name()}]++
	}
}

func (b *Book) gate(f fact.Gate) {
	for k := range f.Services {
		b.ctx.reading(&f.Services[k], f.At)
	}
	b.at(f.Cycle).gate(f)
}

// Verdict gives the verdict of a memory at the instant now; ok is false for a memory that was never begun.
func (b *Book) Verdict(id memory.ID, now memory.Instant) (v memory.Verdict, ok bool) {
	if h := b.live[id]; h != nil {
		return Judge(h, &b.ctx, now), true
	}
	return b.retired.verdict(id)
}

// All gives the verdict of every memory ever begun, by rising id.
func (b *Book) All(now memory.Instant) iter.Seq2[memory.ID, memory.Verdict] {
	return func(yield func(memory.ID, memory.Verdict) bool) {
		for id := range each(b.ids) {
			if v, ok := b.Verdict(id, now); ok && !yield(id, v) {
				return
			}
		}
	}
}

// Owes reports whether an absence of a memory from a view, in a reading that begins at an instant, would be held against the
// target: it is promised, its deadline has passed, and it is not known to be lost already.
func (b *Book) Owes(id memory.ID, view string, at memory.Instant) bool {
	h := b.live[id]
	if h == nil || h.Loss != nil {
		return false
	}
	for i := range min(len(h.terms.views), len(h.Views)) {
		k, v := &h.terms.views[i], &h.Views[i]
		if v.Name == view && v.Due {
			return b.ctx.demands(h, k, v, at) == must && b.ctx.deadlinePassed(k, h.Ack.Seen, at)
		}
	}
	return false
}

// History gives what is known of a memory, read-only; ok is false for one that was never begun or is retired.
func (b *Book) History(id memory.ID) (h *History, ok bool) {
	h, ok = b.live[id]
	return h, ok
}

// Due gives, by view, the memories that a sweep must read so that every verdict stands on what is there now: those that the
// view was never read for, whose reading is older than the end of a fault, could not be had or left something open, and, where
// a contract lets memories expire or be trimmed, those that have not gone yet. The others' last reading still stands.
//
// That includes views that the fault did not touch, whose last reading stands as well: only where all views were seen between
// two faults does a loss have one suspect.
func (b *Book) Due(now memory.Instant) map[string][]memory.ID {
	since, down := b.ctx.over, b.ctx.open > 0
	for _, s := range b.ctx.services {
		since, down = memory.Later(since, s.over), down || s.down > 0
	}
	due := map[string][]memory.ID{}
	for id := range each(b.swept) {
		h := b.live[id]
		if h == nil {
			continue
		}
		s := survey(h, &b.ctx, now)
		for i := range s.n {
			k, v := &h.terms.views[i], &h.Views[i]
			switch {
			case !v.Due:
			case down, v.Last.None(), !since.IsZero() && v.Last.Began.Before(since), v.State == memory.Unreadable, s.reads[i],
				(k.TTL > 0 || k.KeepLast > 0) && !(s.views[i] == unowed && v.State == memory.Absent):
				due[v.Name] = append(due[v.Name], id)
			}
		}
	}
	return due
}

// Open gives, by view, the memories whose verdict another reading of that view could still change; of the memories ids,
// or of all when none are given. While the first control cycle runs, views that have shown nothing yet are open too as
// long as they may. It ends a polling: nothing is open when the map is empty.
func (b *Book) Open(now memory.Instant, ids ...memory.ID) map[string][]memory.ID {
	open := map[string][]memory.ID{}
	look := func(id memory.ID) {
		h := b.live[id]
		if h == nil {
			return
		}
		s := survey(h, &b.ctx, now)
		if !s.open {
			return
		}
		for i := range s.n {
			if s.reads[i] {
				open[h.Views[i].Name] = append(open[h.Views[i].Name], id)
			}
		}
	}
	if len(ids) == 0 {
		for id := range each(b.swept) {
			look(id)
		}
	}
	for _, id := range ids {
		look(id)
	}
	for view, more := range b.unseen() {
		if len(open[view]) == 0 {
			open[view] = more
		}
	}
	return open
}
