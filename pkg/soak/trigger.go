package soak

import (
	"context"
	"sync"
	"sync/atomic"

	"amnesia/chaos"
	"amnesia/pkg/memory"
	"amnesia/pkg/session"
)

// trigger finds the moment at which the injection of a cycle fires: its delay after the n-th point of its kind, or,
// for one without a point, after the start of the traffic.
type trigger struct {
	inj  chaos.Injection
	seen atomic.Int64
	once sync.Once
	hit  chan struct{}
}

func newTrigger(inj chaos.Injection) *trigger {
	t := &trigger{inj: inj, hit: make(chan struct{})}
	if inj.After == "" {
		t.release()
	}
	return t
}

func (t *trigger) release() { t.once.Do(func() { close(t.hit) }) }

// point is told of every point that passes; it never blocks.
func (t *trigger) point(p session.Point) {
	if string(p) == t.inj.After && t.seen.Add(1) == int64(max(t.inj.Nth, 1)) {
		t.release()
	}
}

// wait gives the instant at which to fire, as soon as it is known. When the traffic ends before the point was reached,
// that is at once: the plan counted on more traffic than there was.
func (t *trigger) wait(ctx context.Context, clock memory.Clock, trafficDone <-chan struct{}) (due memory.Instant, err error) {
	select {
	case <-t.hit:
		return clock.Now().Add(t.inj.Delay), nil
	case <-trafficDone:
		return clock.Now(), ctx.Err()
	case <-ctx.Done():
		return memory.Instant{}, ctx.Err()
	}
}
