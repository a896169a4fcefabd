package soak

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
	"amnesia/pkg/session"
	"amnesia/pkg/view"
)

// Look is a view with what it promises.
type Look struct {
	View     view.View
	Contract memory.Contract
	// Last is true for a view whose reading writes into the target (asking the assistant): it comes after all others,
	// and only for the memories of the cycle and those still open.
	Last bool
	// Timeout bounds one read; a store that hangs gives unreadable.
	Timeout time.Duration
}

// sweep reads the views, each for the memories that are due in it, and makes what was seen durable. last chooses
// between the views that come last and all others. Nothing is recorded before ready has returned.
func (l *Loop) sweep(ctx context.Context, cycle int, last bool, ready func() error, due func(Look) []memory.Memory) error {
	var rounds [][]reading
	for _, look := range l.Looks {
		if look.Last != last {
			continue
		}
		ms := slices.DeleteFunc(slices.Clone(due(look)), func(m memory.Memory) bool {
			return !slices.Contains(m.Views, look.Contract.View)
		})
		n := 0
		for part := range parts(ms, view.Batch) {
			if n == len(rounds) {
				rounds = append(rounds, nil)
			}
			rounds[n] = append(rounds[n], reading{look: look, ms: part})
			n++
		}
	}
	for _, r := range rounds {
		if err := l.round(ctx, cycle, ready, r); err != nil {
			return err
		}
	}
	return nil
}

// parts cuts memories into parts for one read each, of at most so many unless one user has more: what a view holds of a
// user is read once, and all of the user's memories are looked for in it (memory.Observation.Siblings).
func parts(ms []memory.Memory, most int) iter.Seq[[]memory.Memory] {
	slices.SortStableFunc(ms, func(a, b memory.Memory) int { return cmp.Compare(a.User, b.User) })
	return func(yield func([]memory.Memory) bool) {
		for len(ms) > 0 {
			n := 0
			for n < len(ms) {
				end := n + 1
				for end < len(ms) && ms[end].User == ms[n].User {
					end++
				}
				if n > 0 && end > most {
					break
				}
				n = end
			}
			if !yield(ms[:n:n]) {
				return
			}
			ms = ms[n:]
		}
	}
}

// reading is one read of one view.
type reading struct {
	look         Look
	ms           []memory.Memory
	obs          []memory.Observation
	began, ended memory.Instant
	err          error
}

// round reads several views at the same time. One reading of the services' health precedes all of the reads, another
// follows them all: what stands between the two for one view does so for each. Trouble with a view is evidence (of
// nothing), not an error; an error is the ledger's, or the end of ctx.
func (l *Loop) round(ctx context.Context, cycle int, ready func() error, rs []reading) error {
	sweeps, err := l.look(ctx, rs, l.takeRecovered())
	if err != nil {
		return err
	}
	facts := make([]fact.Fact, len(sweeps))
	for i, s := range sweeps {
		s.ID, s.Cycle = l.Ledger.NextSweep(), cycle
		facts[i] = s
	}
	if err := ready(); err != nil {
		return err
	}
	return l.Ledger.Append(ctx, facts...)
}

// look reads the views and says what was seen, as facts that are in no ledger yet. known is what stands for a reading of
// the services before the reads. The error is the end of ctx.
func (l *Loop) look(ctx context.Context, rs []reading, known []fact.Health) ([]fact.Sweep, error) {
	before := l.health(ctx, rs, known)
	var wg sync.WaitGroup
	for i := range rs {
		wg.Go(func() { l.read(ctx, &rs[i]) })
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	after := l.health(ctx, rs, nil)
	sweeps := make([]fact.Sweep, len(rs))
	for i := range rs {
		service := rs[i].look.Contract.Service
		sweeps[i] = swept(&rs[i], before[service], after[service])
	}
	return sweeps, nil
}

func (l *Loop) read(ctx context.Context, r *reading) {
	ctx, cancel := context.WithTimeout(ctx, r.look.Timeout)
	defer cancel()
	r.began = l.Clock.Now()
	r.obs, r.err = r.look.View.Find(ctx, r.ms)
	r.ended = l.Clock.Now()
	if r.err == nil && len(r.obs) != len(r.ms) {
		r.err = &session.RigError{Err: fmt.Errorf("view %s gave %d observations of %d memories", r.look.Contract.View, len(r.obs), len(r.ms))}
	}
}

// swept is the fact of one read, without its place in a ledger.
func swept(r *reading, before, after *fact.Health) fact.Sweep {
	s := fact.Sweep{View: r.look.Contract.View, Began: r.began, Ended: r.ended,
		Before: before, After: after, Complete: r.err == nil, Observations: r.obs}
	if r.err != nil {
		s.Error = r.err.Error()
		s.Observations = unreadable(r.ms, s, session.IsRig(r.err))
	}
	slices.SortFunc(s.Observations, func(a, b memory.Observation) int { return cmp.Compare(a.Memory, b.Memory) })
	ids := make([]memory.ID, len(r.ms))
	for i := range r.ms {
		ids[i] = r.ms[i].ID
	}
	s.Read = memory.SetOf(ids...)
	if why := unproven(before, after); why != "" {
		for i, o := range s.Observations {
			if o.State == memory.Absent {
				s.Observations[i].State, s.Observations[i].Detail = memory.Unreadable, why
			}
		}
	}
	return s
}

func unreadable(ms []memory.Memory, s fact.Sweep, rig bool) []memory.Observation {
	obs := make([]memory.Observation, len(ms))
	for i, m := range ms {
		obs[i] = memory.Observation{Memory: m.ID, View: s.View, State: memory.Unreadable, Began: s.Began, Ended: s.Ended,
			Rig: rig, Detail: s.Error}
	}
	return obs
}

// unproven says why an absence in this sweep proves nothing; empty when it does.
func unproven(before, after *fact.Health) string {
	switch {
	case before == nil || after == nil:
		return ""
	case !before.Healthy:
		return before.Service + " was not healthy before the read: " + before.Detail
	case !after.Healthy:
		return after.Service + " was not healthy after the read: " + after.Detail
	case !slices.Equal(before.Instances, after.Instances):
		return after.Service + " was replaced during the read"
	}
	return ""
}

// health reads the services behind the views, by name, but for those that are known to be well. A view without a
// service has none.
func (l *Loop) health(ctx context.Context, rs []reading, known []fact.Health) map[string]*fact.Health {
	health := map[string]*fact.Health{}
	for i, h := range known {
		if h.Healthy {
			health[h.Service] = &known[i]
		}
	}
	var ask []string
	for _, r := range rs {
		if s := r.look.Contract.Service; s != "" && health[s] == nil && !slices.Contains(ask, s) {
			ask = append(ask, s)
		}
	}
	if len(ask) > 0 {
		for _, h := range l.Prober.Check(ctx, l.Engine, ask) {
			health[h.Service] = &h
		}
	}
	return health
}

// takeRecovered gives, once, the readings with which the recovery from this cycle's fault ended. They precede the first
// sweep's reads as well as new ones would, and stand for more: that nothing happened since.
func (l *Loop) takeRecovered() []fact.Health {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.recovered
	l.recovered = nil
	return h
}
