package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/metrics"
	"slices"
	"time"

	"amnesia/pkg/clock"
	"amnesia/pkg/memory"
	"amnesia/pkg/session"
	"amnesia/pkg/view"
	"amnesia/pkg/view/viewtest/servers"
)

const (
	sweepUsers = 2000
	perUser    = 50
	peakHeapOf = ": peak heap, against a tenth"
	sweeps     = 5 // of each kind, in turns, after one that warms the server up
)

// kept is a store that holds the memories, and the two ways to read them.
type kept struct {
	fill func(ctx context.Context, url string, ms []memory.Memory) error
	view func(url string) (view.View, error)
	// raw reads the memories' records with the plain client, in bulk and without looking at them, and counts them.
	raw func(ctx context.Context, url string, ms []memory.Memory) (int, error)
}

// sweeping compares sweeps of a store's view with the plain client's bulk read of the same records, in turns.
func sweeping(name string, start func() (*servers.Server, error), k kept, users int) func(context.Context, string, string) ([]Line, error) {
	what := fmt.Sprintf("sweep of %d in %s", users*perUser, name)
	const goal = 0.8
	return func(ctx context.Context, _, _ string) (lines []Line, err error) {
		s, err := start()
		if errors.Is(err, servers.ErrMissing) {
			return []Line{unmeasured(what, err), unmeasured(what+peakHeapOf, err)}, nil
		}
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		ms, err := tell(users, perUser)
		if err != nil {
			return nil, err
		}
		if err := k.fill(ctx, s.URL, ms); err != nil {
			return nil, fmt.Errorf("filling %s: %w", name, err)
		}
		v, err := k.view(s.URL)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, v.Close()) }()
		var ours, raw []time.Duration
		for i := range 1 + sweeps {
			var a, b time.Duration
			if b, err = timed(func() error {
				n, err := k.raw(ctx, s.URL, ms)
				if err == nil && n != len(ms) {
					err = fmt.Errorf("it gave %d records, want %d", n, len(ms))
				}
				return err
			}); err != nil {
				return nil, fmt.Errorf("reading %s with the plain client: %w", name, err)
			}
			if a, err = timed(func() error { return find(ctx, v, ms) }); err != nil {
				return nil, fmt.Errorf("sweeping %s: %w", name, err)
			}
			if i > 0 {
				ours, raw = append(ours, a), append(raw, b)
			}
		}
		const most = 2 // two parts of a sweep may be in use at once; what grows with it would give 10
		few, err := peakHeap(func() (err error) {
			for i := 0; i < 10 && err == nil; i++ { // as often looked at as one of all
				err = find(ctx, v, ms[:len(ms)/10])
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		many, err := peakHeap(func() error { return find(ctx, v, ms) })
		if err != nil {
			return nil, err
		}
		speed := float64(len(ms)) / median(ours).Seconds()
		reference := float64(len(ms)) / median(raw).Seconds()
		return []Line{
			atLeast(what, "1/s", speed, reference, goal),
			atMost(what+peakHeapOf, "MiB", many, few, most),
		}, nil
	}
}

// tell gives memories as users tell them, in the users' order.
func tell(users, each int) ([]memory.Memory, error) {
	teller, err := session.NewTeller(session.Personas{Seed: 1, Run: "bench"})
	if err != nil {
		return nil, err
	}
	ms := make([]memory.Memory, 0, users*each)
	for n := range users {
		u := teller.User(n)
		for k := range each {
			m := teller.Memory(u, k)
			m.ID = memory.ID(len(ms) + 1)
			ms = append(ms, m)
		}
	}
	return ms, nil
}

// find sweeps as the daemon does, a bounded number of memories at a time. All of them must be there.
func find(ctx context.Context, v view.View, ms []memory.Memory) error {
	for some := range slices.Chunk(ms, view.Batch) {
		obs, err := v.Find(ctx, some)
		if err != nil {
			return err
		}
		for _, o := range obs {
			if o.State != memory.Present {
				return fmt.Errorf("%s is %s: %s", o.Memory, o.State, o.Detail)
			}
		}
	}
	return nil
}

func timed(fn func() error) (time.Duration, error) {
	runtime.GC() // nobody pays for what was before
	c := clock.System()
	start := c.Now()
	err := fn()
	return c.Now().Sub(start), err
}

// peakHeap gives how many MiB more were in use at most than before, as the garbage collector finds them in one round
// after the other.
func peakHeap(fn func() error) (float64, error) {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	inUse := func() uint64 {
		runtime.GC()
		metrics.Read(live)
		return live[0].Value.Uint64()
	}
	before := inUse()
	peak, stop, done := before, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				peak = max(peak, inUse())
			}
		}
	}()
	err := fn()
	close(stop)
	<-done
	return float64(peak-before) / (1 << 20), err
}
