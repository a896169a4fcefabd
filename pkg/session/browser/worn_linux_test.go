package browser_test

import (
	"sync"
	"testing"
	"time"

	"amnesia/pkg/clock"
	"amnesia/pkg/memory"
	"amnesia/pkg/session"
	"amnesia/pkg/session/browser"
)

// dial is a clock that is ahead by what a test says.
type dial struct {
	mu    sync.Mutex
	ahead time.Duration
}

func (d *dial) Now() memory.Instant {
	d.mu.Lock()
	defer d.mu.Unlock()
	return clock.System().Now().Add(d.ahead)
}

func (d *dial) move(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ahead += by
}

// TestWorn: a browser that is too old or too large is replaced by the next Open, but not while anybody uses it, and leaves
// no process behind.
func TestWorn(t *testing.T) {
	for _, c := range []struct {
		reason string
		config func(*browser.Config)
	}{
		{"age", func(c *browser.Config) { c.MaxAge = time.Hour }},
		{"memory", func(c *browser.Config) { c.MaxMemory = 1 }},
	} {
		t.Run(c.reason, func(t *testing.T) {
			t.Parallel()
			var now dial
			d := start(t, "http://127.0.0.1:1", c.config, func(c *browser.Config) { c.Clock = &now })
			first := d.Stats()
			old := append(children(t, driver(t, first.Browser)), process{driver(t, first.Browser), begin(t, driver(t, first.Browser))})
			one := open(t, d, "ann")
			must(t, one.Close())
			if got := d.Stats().Browser; got != first.Browser {
				t.Fatalf("a new browser is replaced by %d", got)
			}
			one = open(t, d, "ann")
			now.move(2 * time.Hour)
			two := open(t, d, "ben")
			if got := d.Stats().Browser; got != first.Browser {
				t.Errorf("a browser that is in use is replaced by %d", got)
			}
			must(t, one.Goto(t.Context(), "data:text/html,<p>still here"))
			must(t, one.Close())
			must(t, two.Close())
			three, err := d.Open(t.Context(), session.User{Name: "cem"})
			must(t, err)
			must(t, three.Goto(t.Context(), "data:text/html,<p>here"))
			s := d.Stats()
			if s.Browser == first.Browser || s.Restarts[c.reason] != 1 || len(s.Restarts) != 1 {
				t.Errorf("%+v, and it was %+v", s, first)
			}
			must(t, three.Close())
			allGone(t, old)
			now.move(time.Minute)
			must(t, open(t, d, "dan").Close())
			if s := d.Stats(); c.reason == "age" && (s.Memory < 20<<20 || s.Memory > 4<<30) {
				t.Errorf("it says that it takes %d bytes", s.Memory)
			}
		})
	}
}
