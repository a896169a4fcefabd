// Package browser gives sessions a real Chromium: one browser process, and a context of its own (cookies, storage, cache)
// for every user.
//
// It is the only importer of playwright-go, and installs what that needs (Install, Find). It knows the primitive actions
// of session.Surface and nothing of scripts, faults, stores or verdicts.
//
// # What Chromium does by itself
//
// A user's browser is not only a script. When a connection that was used before ends without an answer, Chromium sends the
// request once more on a new one, a POST too: an app that died in between may get a message twice.
//
// # Processes
//
// playwright-go starts a node process, the Playwright driver, and that starts Chromium. Node ends when its standard input
// closes and takes Chromium with it; Chromium ends when its debugging pipe to node closes. So a SIGKILL of the daemon, or
// of node, leaves no process behind; a test measures both.
package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"

	"amnesia/pkg/memory"
	"amnesia/pkg/session"
)

// Config says what to drive, and with what.
type Config struct {
	BaseURL        string // the target's; relative URLs of scripts are resolved against it
	DriverDir      string // Installation.DriverDir
	ExecutablePath string // Installation.ExecutablePath
	Headless       bool
	Args           []string // further Chromium flags
	Clock          memory.Clock
	// EvidenceDir is where Evidence writes; without it there is no evidence.
	EvidenceDir string
	// Trace records a Playwright trace of every session, with network and snapshots of the document but without film;
	// Evidence keeps it, any other end throws it away. It holds what users type, their passwords too: the folder is for
	// the daemon's user alone.
	Trace bool
	// ActionTimeout bounds one action, a Goto included; default 10s. The deadline of the call's ctx can only shorten it.
	ActionTimeout time.Duration
	// MaxContexts bounds the surfaces that are open at once; Open waits for its turn. 0 sets no bound.
	MaxContexts int
	// MaxAge and MaxMemory (bytes, with Playwright's own) are what a browser may reach: it is replaced by a new one when
	// nobody uses it. 0 sets no bound. Browsers and their drivers leak over days.
	MaxAge    time.Duration
	MaxMemory int64
	Logger    *zap.Logger // default: none
}

// Driver implements session.Driver. A browser (or a Playwright driver) that died is noticed at once by the surfaces that
// use it, and replaced by the next Open.
type Driver struct {
	cfg   Config
	log   *zap.Logger
	slots chan struct{} // nil: unbounded
	turn  chan struct{} // holds one token: whoever has it may look at and replace the engine

	mu      sync.Mutex
	engine  *engine
	closed  bool
	stats   Stats
	weighed memory.Instant // when its memory was measured
	endings sync.WaitGroup // of replaced engines
}

// Stats are the driver's counters since New.
type Stats struct {
	Opened   int            // surfaces ever
	Open     int            // surfaces now
	Restarts map[string]int // of the browser, by reason
	Browser  int            // process id of the browser's main process; 0 when it is not known
	Launched memory.Instant // when that browser was started
	Memory   int64          // bytes that it and Playwright have resident, as measured last; 0 when it is not known
}

// Reasons of a restart.
const (
	reasonBrowser = "browser_died"
	reasonDriver  = "driver_died"
	reasonAge     = "age"
	reasonMemory  = "memory"
)

// Reasons lists them all, so that each series can exist from the start.
func Reasons() []string { return []string{reasonBrowser, reasonDriver, reasonAge, reasonMemory} }

// measureEvery is how often the browser's memory is measured at most, which takes some milliseconds.
const measureEvery = 10 * time.Second

var _ session.Driver = (*Driver)(nil)

// New starts the browser. Errors are ours, never the target's.
func New(ctx context.Context, cfg Config) (*Driver, error) {
	if cfg.ActionTimeout <= 0 {
		cfg.ActionTimeout = 10 * time.Second
	}
	d := &Driver{cfg: cfg, log: cfg.Logger, turn: make(chan struct{}, 1)}
	if d.log == nil {
		d.log = zap.NewNop()
	}
	if cfg.EvidenceDir != "" {
		if err := os.MkdirAll(cfg.EvidenceDir, 0o700); err != nil {
			return nil, fmt.Errorf("making the folder for evidence: %w", err)
		}
	}
	if cfg.MaxContexts > 0 {
		d.slots = make(chan struct{}, cfg.MaxContexts)
	}
	d.stats.Restarts = map[string]int{}
	d.turn <- struct{}{}
	if _, err := d.running(ctx); err != nil {
		return nil, err
	}
	return d, nil
}

// Name gives "browser".
func (d *Driver) Name() string { return "browser" }

// Stats gives the counters.
func (d *Driver) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.stats
	s.Restarts = make(map[string]int, len(d.stats.Restarts))
	for reason, n := range d.stats.Restarts {
		s.Restarts[reason] = n
	}
	return s
}

// At gives a driver for another target that shares this one's browser. To close it ends nothing: the browser is d's, and
// surfaces are closed by those who opened them.
func (d *Driver) At(baseURL string) session.Driver { return &sharing{d, place{baseURL, d.cfg.Trace}} }

// Untraced gives a driver for those who only look: it shares this one's browser as At does, and records no trace, which
// costs as much as the page itself.
func (d *Driver) Untraced() session.Driver { return &sharing{d, place{d.cfg.BaseURL, false}} }

// place is where a surface begins, and whether it is traced.
type place struct {
	baseURL string
	trace   bool
}

type sharing struct {
	*Driver
	place
}

func (s *sharing) Open(ctx context.Context, u session.User) (session.Surface, error) {
	return s.openAt(ctx, s.place, u)
}

func (*sharing) Close() error { return nil }

// Open gives the user a fresh context. Every error of it is a *session.RigError, or that of ctx.
func (d *Driver) Open(ctx context.Context, u session.User) (session.Surface, error) {
	return d.openAt(ctx, place{d.cfg.BaseURL, d.cfg.Trace}, u)
}

func (d *Driver) openAt(ctx context.Context, at place, u session.User) (session.Surface, error) {
	if d.slots != nil {
		select {
		case d.slots <- struct{}{}:
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for a free browser context: %w", ctx.Err())
		}
	}
	s, err := d.open(ctx, at, u)
	if err != nil {
		if d.slots != nil {
			<-d.slots
		}
		return nil, err
	}
	return s, nil
}

func (d *Driver) open(ctx context.Context, at place, u session.User) (*surface, error) {
	for again := true; ; again = false {
		e, err := d.running(ctx)
		if err != nil {
			return nil, err
		}
		s, err := d.newSurface(ctx, e, at, u)
		if err == nil {
			d.mu.Lock()
			d.stats.Opened++
			d.stats.Open++
			d.mu.Unlock()
			return s, nil
		}
		// A driver that died while nobody used it is found out only here.
		if !again || e.alive() || ctx.Err() != nil {
			return nil, err
		}
	}
}

// released is called once by each surface that closes.
func (d *Driver) released() {
	d.mu.Lock()
	d.stats.Open--
	d.mu.Unlock()
	if d.slots != nil {
		<-d.slots
	}
}

// running gives an engine that is alive, starting one if need be. Whether an engine still serves is decided here alone.
func (d *Driver) running(ctx context.Context) (*engine, error) {
	select {
	case <-d.turn:
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for the browser: %w", ctx.Err())
	}
	defer func() { d.turn <- struct{}{} }()

	d.mu.Lock()
	old, closed := d.engine, d.closed
	d.mu.Unlock()
	switch {
	case closed:
		return nil, &session.RigError{Err: errors.New("the browser driver is closed")}
	case old != nil && old.alive():
		worn := d.worn()
		if worn == "" {
			return old, nil
		}
		old.died(worn)
		fallthrough
	case old != nil:
		d.log.Warn("restarting the browser", zap.String("reason", old.reason()))
		d.endings.Go(old.end)
	}
	e, err := launch(ctx, d.cfg, d.log)
	d.mu.Lock()
	defer d.mu.Unlock()
	if old != nil {
		d.stats.Restarts[old.reason()]++
	}
	d.engine = nil
	if err != nil {
		return nil, err
	}
	d.engine = e
	d.stats.Browser, d.stats.Launched, d.stats.Memory = e.pid, d.cfg.Clock.Now(), 0
	return e, nil
}

// worn says why the browser should be replaced now; empty while it should not.
func (d *Driver) worn() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stats.Open > 0 {
		return ""
	}
	now := d.cfg.Clock.Now()
	if d.cfg.MaxAge > 0 && now.Sub(d.stats.Launched) > d.cfg.MaxAge {
		return reasonAge
	}
	if now.Sub(memory.Later(d.stats.Launched, d.weighed)) >= measureEvery {
		d.weighed, d.stats.Memory = now, resident(d.stats.Browser)
	}
	if d.cfg.MaxMemory > 0 && d.stats.Memory > d.cfg.MaxMemory {
		return reasonMemory
	}
	return ""
}

// Close ends the browser and the Playwright driver, and all surfaces with them.
func (d *Driver) Close() error {
	<-d.turn // a launch in progress ends first
	defer func() { d.turn <- struct{}{} }()
	d.mu.Lock()
	e := d.engine
	d.engine, d.closed = nil, true
	d.mu.Unlock()
	if e != nil {
		e.end()
	}
	d.endings.Wait()
	if e != nil {
		return e.endErr
	}
	return nil
}
