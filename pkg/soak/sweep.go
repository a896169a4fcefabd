package soak

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
	"amnesia/pkg/session"
	"amnesia/pkg/view"
)

// batch bounds how many memories one read is asked for, and with it the daemon's memory.
const batch = 4096

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

// sweep reads the views, in parallel, each for the memories that are due in it, and makes what was seen durable. last
// chooses between the views that come last and all others.
func (l *Loop) sweep(ctx context.Context, cycle int, last bool, due func(Look) []memory.Memory) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, look := range l.Looks {
		if look.Last != last {
			continue
		}
		g.Go(func() error {
			for part := range slices.Chunk(due(look), batch) {
				if err := l.read(ctx, cycle, look, part); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// read makes one sweep of one view. Trouble with the view is evidence (of nothing), not an error; an error is the
// ledger's, or the end of ctx.
func (l *Loop) read(ctx context.Context, cycle int, look Look, ms []memory.Memory) error {
	ms = slices.DeleteFunc(slices.Clone(ms), func(m memory.Memory) bool {
		return !slices.Contains(m.Views, look.Contract.View)
	})
	if len(ms) == 0 {
		return nil
	}
	s := fact.Sweep{ID: l.Ledger.NextSweep(), Cycle: cycle, View: look.Contract.View}
	s.Before = l.health(ctx, look.Contract.Service)
	s.Began = l.Clock.Now()

	rctx, cancel := context.WithTimeout(ctx, look.Timeout)
	obs, err := look.View.Find(rctx, ms)
	cancel()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.Ended = l.Clock.Now()
	s.After = l.health(ctx, look.Contract.Service)

	if err == nil && len(obs) != len(ms) {
		err = &session.RigError{Err: fmt.Errorf("view %s gave %d observations of %d memories", look.Contract.View, len(obs), len(ms))}
	}
	if err != nil {
		s.Error = err.Error()
		obs = unreadable(ms, s, session.IsRig(err))
	}
	s.Complete = err == nil
	ids := make([]memory.ID, len(ms))
	for i := range ms {
		ids[i] = ms[i].ID
	}
	s.Read = memory.SetOf(ids...)
	if why := unproven(s.Before, s.After); why != "" {
		for i := range obs {
			if obs[i].State == memory.Absent {
				obs[i].State, obs[i].Detail = memory.Unreadable, why
			}
		}
	}
	s.Observations = obs
	return l.Ledger.Append(ctx, s)
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

// health reads one service; nil for a view without one.
func (l *Loop) health(ctx context.Context, service string) *fact.Health {
	if service == "" {
		return nil
	}
	return &l.Prober.Check(ctx, l.Engine, []string{service})[0]
}
