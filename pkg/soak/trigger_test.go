package soak

import (
	"context"
	"testing"
	"time"

	"amnesia/chaos"
	"amnesia/pkg/memory"
	"amnesia/pkg/session"
)

// clock stands still.
type clock struct{ now memory.Instant }

func (c clock) Now() memory.Instant { return c.now }

var noon = clock{memory.Instant{Mono: 1e9, Wall: 1e18, Boot: "b"}}

func TestTriggerFiresAfterTheNthPoint(t *testing.T) {
	tr := newTrigger(chaos.Injection{After: "acknowledged", Nth: 2, Delay: 30 * time.Millisecond})
	never := make(chan struct{})
	tr.point(session.PointTold)
	tr.point(session.PointAcknowledged)
	select {
	case <-tr.hit:
		t.Fatal("the first point is not the second, and another kind of point is none")
	default:
	}
	tr.point(session.PointAcknowledged)
	tr.point(session.PointAcknowledged) // one too many does no harm
	due, err := tr.wait(t.Context(), noon, never)
	if want := noon.now.Add(30 * time.Millisecond); err != nil || due != want {
		t.Fatalf("due at %v, %v, want %v", due, err, want)
	}
}

func TestTriggerByTimeCountsFromTheStart(t *testing.T) {
	tr := newTrigger(chaos.Injection{Delay: time.Second})
	due, err := tr.wait(t.Context(), noon, make(chan struct{}))
	if want := noon.now.Add(time.Second); err != nil || due != want {
		t.Fatalf("due at %v, %v, want %v", due, err, want)
	}
}

func TestTriggerFiresAtTheEndOfTheTrafficAtTheLatest(t *testing.T) {
	tr := newTrigger(chaos.Injection{After: "told", Nth: 9, Delay: time.Hour})
	done := make(chan struct{})
	close(done)
	if due, err := tr.wait(t.Context(), noon, done); err != nil || due != noon.now {
		t.Fatalf("due at %v, %v, want now", due, err)
	}
}

func TestTriggerEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	tr := newTrigger(chaos.Injection{After: "told", Nth: 1})
	if _, err := tr.wait(ctx, noon, make(chan struct{})); err == nil {
		t.Fatal("no error although the context has ended")
	}
}
