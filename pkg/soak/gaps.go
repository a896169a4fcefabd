package soak

import (
	"context"
	"time"

	"go.uber.org/zap"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

const (
	gapsEvery = time.Second // the least gap that is seen, and how exactly its ends are known
	// leastJump is how far two clocks must move apart within gapsEvery. A clock that is set right step by step (adjtime(3))
	// moves by half a millisecond.
	leastJump = time.Second
	// longestLost is for how long lines are lost before that is recorded, so that it is not recorded every second.
	longestLost = 10 * time.Second
)

// dropper is an engine that counts the log lines and events that were lost because they came too fast.
type dropper interface{ Dropped() int64 }

// followGaps records the stretches in which the rig could not see: clocks that jumped and suspends, log lines that came
// too fast. It returns when ctx ends.
func (l *Loop) followGaps(ctx context.Context) {
	tick := time.NewTicker(gapsEvery)
	defer tick.Stop()
	began := time.Now()
	w := gaps{clock: l.Clock, awake: func() time.Duration { return time.Since(began) }, dropped: l.unkept.Load}
	if e, ok := l.Engine.(dropper); ok {
		w.dropped = func() int64 { return l.unkept.Load() + e.Dropped() }
	}
	w.look()
	for over := false; !over; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			over = true
		}
		found := w.look()
		if over {
			found = append(found, w.flush()...)
		}
		if len(found) == 0 {
			continue
		}
		for _, g := range found {
			l.Log.Warn("a stretch in which not all could be seen", zap.String("of", g.(fact.Gap).Of), zap.Int64("lost", g.(fact.Gap).Lost))
		}
		if err := l.lastAppend(ctx, found...); err != nil {
			l.Log.Error("could not record a gap", zap.Error(err))
		}
	}
}

// lastAppend appends what followers have, also when ctx has ended, but not for long.
func (l *Loop) lastAppend(ctx context.Context, facts ...fact.Fact) error {
	over, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(5*time.Second, cancel) })()
	return l.Ledger.Append(over, facts...)
}

// gaps compares the clocks with one another, and counts.
type gaps struct {
	clock   memory.Clock
	awake   func() time.Duration // by a clock that stands still during a suspend (CLOCK_MONOTONIC)
	dropped func() int64

	last     memory.Instant
	lastUp   time.Duration
	lastLost int64
	lost     *fact.Gap // open
}

// look gives what is new since it was called last.
func (w *gaps) look() (found []fact.Fact) {
	// Between the readings of two clocks this goroutine may have had to wait: a jump is one that is still there when they
	// are read again.
	now, up := w.clock.Now(), w.awake()
	for range 2 {
		if w.last.IsZero() || !w.apart(now, up) {
			break
		}
		now, up = w.clock.Now(), w.awake()
	}
	if !w.last.IsZero() && w.apart(now, up) {
		found = append(found, fact.Gap{Of: "clock", From: w.last, To: now})
	}
	n := w.dropped()
	if n > w.lastLost {
		if w.lost == nil {
			w.lost = &fact.Gap{Of: "logs", From: w.last}
		}
		w.lost.To, w.lost.Lost = now, w.lost.Lost+n-w.lastLost
	}
	if w.lost != nil && (n == w.lastLost || now.Sub(w.lost.From) >= longestLost) {
		found = append(found, w.flush()...)
	}
	w.last, w.lastUp, w.lastLost = now, up, n
	return found
}

// apart reports whether the wall clock was set, or the machine slept, since the last look.
func (w *gaps) apart(now memory.Instant, up time.Duration) bool {
	passed := now.Sub(w.last)
	wall := time.Duration(now.Wall - w.last.Wall)
	return (wall-passed).Abs() >= leastJump || (passed-(up-w.lastUp)).Abs() >= leastJump
}

// flush gives the gap that is still open.
func (w *gaps) flush() (found []fact.Fact) {
	if w.lost != nil {
		found = append(found, *w.lost)
		w.lost = nil
	}
	return found
}
