package browser

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"amnesia/pkg/memory"
	"amnesia/pkg/session"
)

// seat is a place for one browser at a time: one that is started here, or one at an address. What it counts is guarded by
// the driver's mu.
type seat struct {
	address string        // empty: a browser is started
	turn    chan struct{} // holds one token: whoever has it may look at and replace the engine

	engine   *engine
	taken    int            // surfaces that are open in it, or about to be
	open     int            // surfaces that are open in it
	launched memory.Instant // when its browser was started or connected to
	weighed  memory.Instant // when its memory was measured
	memory   int64          // bytes, as measured last
	missed   memory.Instant // when no browser could be had; zero: one could, the last time
}

func newSeat(address string) *seat {
	s := &seat{address: address, turn: make(chan struct{}, 1)}
	s.turn <- struct{}{}
	return s
}

const (
	// measureEvery is how often the browser's memory is measured at most, which takes some milliseconds.
	measureEvery = 10 * time.Second
	// missedFor is how long a seat without a browser comes after all others.
	missedFor = 15 * time.Second
)

// take reserves a place in a seat that was not tried: those with a browser come first, and of these the one with the fewest
// surfaces.
func (d *Driver) take(tried []*seat) *seat {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.cfg.Clock.Now()
	missing := func(s *seat) int {
		if !s.missed.IsZero() && now.Sub(s.missed) < missedFor {
			return 1
		}
		return 0
	}
	var best *seat
	for _, s := range d.seats {
		if !slices.Contains(tried, s) && (best == nil || cmp.Or(missing(s)-missing(best), s.taken-best.taken) < 0) {
			best = s
		}
	}
	best.taken++
	return best
}

func (d *Driver) leave(s *seat) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s.taken--
}

// running gives an engine that is alive in a seat, starting one if need be. Whether an engine still serves is decided here
// alone.
func (d *Driver) running(ctx context.Context, s *seat) (*engine, error) {
	select {
	case <-s.turn:
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for the browser: %w", ctx.Err())
	}
	defer func() { s.turn <- struct{}{} }()

	d.mu.Lock()
	old, closed := s.engine, d.closed
	d.mu.Unlock()
	switch {
	case closed:
		return nil, &session.RigError{Err: errors.New("the browser driver is closed")}
	case old != nil && old.alive():
		worn := d.worn(s)
		if worn == "" {
			return old, nil
		}
		old.died(worn)
		fallthrough
	case old != nil:
		d.log.Warn("restarting the browser", zap.String("reason", old.reason()), zap.String("at", shown(s.address)))
		d.endings.Go(old.end)
	}
	e, err := launch(ctx, d.cfg, s.address, d.log)
	d.mu.Lock()
	defer d.mu.Unlock()
	if old != nil {
		d.restarts[old.reason()]++
	}
	s.engine, s.missed = nil, d.cfg.Clock.Now()
	if err != nil {
		return nil, err
	}
	s.engine, s.missed = e, memory.Instant{}
	s.launched, s.memory = d.cfg.Clock.Now(), 0
	return e, nil
}

// worn says why the seat's browser should be replaced now; empty while it should not.
func (d *Driver) worn(s *seat) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.open > 0 {
		return ""
	}
	now := d.cfg.Clock.Now()
	if d.cfg.MaxAge > 0 && now.Sub(s.launched) > d.cfg.MaxAge {
		return reasonAge
	}
	if now.Sub(memory.Later(s.launched, s.weighed)) >= measureEvery {
		s.weighed, s.memory = now, resident(s.engine.pid)
	}
	if d.cfg.MaxMemory > 0 && s.memory > d.cfg.MaxMemory {
		return reasonMemory
	}
	return ""
}

// debugging reports whether an address is that of a browser's debugging port.
func debugging(address string) bool {
	u, err := url.Parse(address)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https" || strings.Contains(u.Path, "/devtools/"))
}

// shown is an address without what may be secret in it.
func shown(address string) string {
	u, err := url.Parse(address)
	if err != nil || address == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host
}
