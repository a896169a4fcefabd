package soak

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"go.uber.org/zap"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

// Past is what earlier daemons left behind in a ledger. The zero value is an empty ledger's.
type Past struct {
	Runs map[string]fact.Run // by id
	End  memory.Instant      // of the last fact

	memories  map[memory.ID]left
	told      map[string]int
	open      map[int]fact.Cycle
	unsettled map[memory.ID]bool
	planned   map[int64]fact.Injection // that are not closed, as they were planned last
	fired     []int64                  // those that fired and were not undone, in order
}

// left is a memory that is not retired.
type left struct {
	memory memory.Memory
	begun  memory.Instant
	last   memory.Verdict
}

// Apply takes the next fact of the ledger in.
func (p *Past) Apply(f fact.Fact) {
	if p.Runs == nil {
		p.Runs, p.memories, p.told, p.open = map[string]fact.Run{}, map[memory.ID]left{}, map[string]int{}, map[int]fact.Cycle{}
		p.unsettled, p.planned = map[memory.ID]bool{}, map[int64]fact.Injection{}
	}
	p.End = memory.Later(p.End, fact.At(f))
	switch f := f.(type) {
	case fact.Run:
		p.Runs[f.ID] = f
	case fact.Begun:
		p.memories[f.Memory.ID] = left{memory: f.Memory, begun: f.At}
		p.told[f.Memory.User]++
		p.unsettled[f.Memory.ID] = true
	case fact.Settled:
		delete(p.unsettled, f.Memory)
	case fact.Judged:
		if m, ok := p.memories[f.Verdict.Memory]; ok {
			m.last = f.Verdict
			p.memories[f.Verdict.Memory] = m
		}
	case fact.Step:
		p.step(f)
	case fact.Retired:
		maps.DeleteFunc(p.memories, func(id memory.ID, _ left) bool { return f.Memories.Has(id) })
	case fact.Cycle:
		p.open[f.N] = f
		if f.Phase == fact.PhaseClosed {
			delete(p.open, f.N)
		}
	}
}

func (p *Past) step(f fact.Step) {
	if f.Plan != nil {
		p.planned[f.Injection] = *f.Plan
	}
	undone := func(id int64) bool { return id == f.Injection }
	switch f.Name {
	case fact.StepFiring:
		p.fired = append(slices.DeleteFunc(p.fired, undone), f.Injection)
	case fact.StepReverted:
		p.fired = slices.DeleteFunc(p.fired, undone)
	case fact.StepRefused, fact.StepClosed:
		p.fired = slices.DeleteFunc(p.fired, undone)
		delete(p.planned, f.Injection)
	}
}

// Clone gives a copy that stays as it is when the next fact is applied.
func (p *Past) Clone() Past {
	c := *p
	c.Runs, c.memories, c.told, c.open = maps.Clone(p.Runs), maps.Clone(p.memories), maps.Clone(p.told), maps.Clone(p.open)
	c.unsettled, c.planned, c.fired = maps.Clone(p.unsettled), maps.Clone(p.planned), slices.Clone(p.fired)
	return c
}

// Unsettled gives the memories that were begun and never settled, by id: writes that the death of a daemon cut off.
func (p *Past) Unsettled() []memory.ID { return slices.Sorted(maps.Keys(p.unsettled)) }

// OpenInjections gives the injections that have fired and were neither reverted nor closed, in the order in which they
// fired: what a daemon that starts must undo first.
func (p *Past) OpenInjections() []fact.Injection {
	var open []fact.Injection
	for _, id := range p.fired {
		open = append(open, p.planned[id])
	}
	return open
}

// Memories gives those that are not retired, by id.
func (p *Past) Memories() []memory.Memory {
	ms := make([]memory.Memory, 0, len(p.memories))
	for _, m := range p.memories {
		ms = append(ms, m.memory)
	}
	slices.SortFunc(ms, func(a, b memory.Memory) int { return cmp.Compare(a.ID, b.ID) })
	return ms
}

// resume goes on where an earlier daemon ended, before anything new is told: its memories are swept again, and the cycle
// that it left open is settled, swept, judged and closed.
func (l *Loop) resume(ctx context.Context) error {
	defer func() { l.Past = Past{} }() // a soak is long
	if err := l.takeBack(ctx); err != nil {
		return err
	}
	open := slices.Sorted(maps.Keys(l.Past.open))
	for i, n := range open {
		// What could be seen of more than one can be seen only once, now: the sweeps are the last one's.
		if err := l.finish(ctx, l.Past.open[n], i == len(open)-1); err != nil {
			return err
		}
	}
	return nil
}

// takeBack takes the memories of earlier runs among those that are swept. One that nobody could look for as it was told
// is retired: it would stay without evidence for ever, and each cycle with it.
func (l *Loop) takeBack(ctx context.Context) error {
	var gone []memory.ID
	var why error
	for _, m := range l.Past.Memories() {
		if err := l.reach(m); err != nil {
			gone, why = append(gone, m.ID), err
			continue
		}
		l.adopt(m)
		from := l.Past.memories[m.ID]
		l.begun[m.ID] = from.begun
		l.drawnFor[m.ID] = true // by the run that told it, or never
		if from.last.Kind != "" {
			l.last[m.ID] = from.last
		}
	}
	maps.Copy(l.told, l.Past.told)
	if len(l.live) > 0 {
		l.Log.Info("memories of earlier runs are swept again", zap.Int("memories", len(l.live)))
	}
	if len(gone) == 0 {
		return nil
	}
	l.Log.Warn("memories of earlier runs are retired: they cannot be looked for any more", zap.Int("memories", len(gone)), zap.Error(why))
	return l.Ledger.Append(ctx, fact.Retired{Memories: memory.SetOf(gone...), At: l.Clock.Now()})
}

// reach reports why a memory of an earlier run can no longer be looked for.
func (l *Loop) reach(m memory.Memory) error {
	for _, v := range m.Views {
		if !slices.ContainsFunc(l.Looks, func(k Look) bool { return k.Contract.View == v }) {
			return fmt.Errorf("the view %s is no longer configured", v)
		}
	}
	if l.Reach == nil {
		return nil
	}
	return l.Reach(m)
}

// finish sees a cycle through that an earlier daemon began. When that one had come as far as the sweeps, nothing was lost
// to the experiment but time, and its outcome stands; before that, only what is proven does. The phases from here on are
// this run's, so that no phase lasts as long as no daemon lived.
func (l *Loop) finish(ctx context.Context, c fact.Cycle, last bool) error {
	doubt := ""
	if c.Phase != fact.PhaseSettle && c.Phase != fact.PhaseJudge {
		doubt = "The daemon died before the traffic and the fault of this cycle were over."
	}
	l.Log.Warn("seeing a cycle through that an earlier daemon left open", zap.Int("cycle", c.N), zap.String("phase", string(c.Phase)))
	c.Run = l.Run
	if !last {
		return l.conclude(ctx, c, nil, cmp.Or(doubt, "The daemon died before this cycle was judged."))
	}
	err := l.lookAgain(ctx, c)
	if err != nil && ctx.Err() == nil {
		return err
	}
	return l.conclude(ctx, c, err, doubt)
}

// lookAgain is the part of a cycle that a later daemon can make up for.
func (l *Loop) lookAgain(ctx context.Context, c fact.Cycle) error {
	if _, err := l.readGate(ctx, c.N); err != nil {
		return err
	}
	c.Phase, c.At = fact.PhaseSettle, l.Clock.Now()
	if err := l.Ledger.Append(ctx, c); err != nil {
		return err
	}
	return l.settle(ctx, c.N, func() error { return nil })
}
