// Package browser gives sessions a real Chromium, and a context of its own (cookies, storage, cache) for every user: one
// browser process that it starts, or a pool of browsers elsewhere that it connects to.
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
// of node, leaves no process behind; a test measures both. Browsers elsewhere are others' to start and to end: of those,
// what is ended here is the contexts and the connection.
package browser

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
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
	ExecutablePath string // Installation.ExecutablePath; not needed with Connect
	// Connect are the addresses of browsers elsewhere, which are used instead of one that is started here. A Playwright server
	// is at ws:// or wss://; a browser's own debugging port is at http:// or https://, or at the ws:// address with
	// /devtools/ that it prints when it starts. Every browser must find the target at BaseURL.
	Connect  []string
	Headless bool
	Args     []string // further Chromium flags
	Clock    memory.Clock
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
// use it, whose errors are ours then and not the target's, and replaced by the next Open.
type Driver struct {
	cfg   Config
	log   *zap.Logger
	slots chan struct{} // nil: unbounded
	seats []*seat       // at least one

	mu       sync.Mutex
	closed   bool
	opened   int
	restarts map[string]int
	endings  sync.WaitGroup // of replaced engines
}

// Stats are the driver's counters since New.
type Stats struct {
	Opened   int            // surfaces ever
	Open     int            // surfaces now
	Restarts map[string]int // of the browser, by reason
	Browsers int            // that are connected
	Browser  int            // process id of the browser's main process; 0 when it is not known, or runs elsewhere
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

var _ session.Driver = (*Driver)(nil)

// New starts the browser. Errors are ours, never the target's.
func New(ctx context.Context, cfg Config) (*Driver, error) {
	if cfg.ActionTimeout <= 0 {
		cfg.ActionTimeout = 10 * time.Second
	}
	d := &Driver{cfg: cfg, log: cfg.Logger, restarts: map[string]int{}}
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
	for _, address := range cfg.Connect {
		d.seats = append(d.seats, newSeat(address))
	}
	if len(d.seats) == 0 {
		d.seats = []*seat{newSeat("")}
	}
	if err := d.seatAll(ctx); err != nil {
		return nil, err
	}
	return d, nil
}

// seatAll has all browsers started or connected to. Without any of them there is an error; where only some are missing, the
// others serve.
func (d *Driver) seatAll(ctx context.Context) error {
	var all sync.WaitGroup
	errs := make([]error, len(d.seats))
	for i, s := range d.seats {
		all.Go(func() { _, errs[i] = d.running(ctx, s) })
	}
	all.Wait()
	if !slices.Contains(errs, nil) {
		return errors.Join(errs...)
	}
	for _, err := range errs {
		if err != nil {
			d.log.Warn("a browser of the pool is missing", zap.Error(err))
		}
	}
	return nil
}

// Name gives "browser".
func (d *Driver) Name() string { return "browser" }

// Stats gives the counters.
func (d *Driver) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := Stats{Opened: d.opened, Restarts: maps.Clone(d.restarts)}
	for _, seat := range d.seats {
		s.Open += seat.open
		s.Memory += seat.memory
		if seat.engine != nil && seat.engine.alive() {
			s.Browsers++
			s.Browser = cmp.Or(s.Browser, seat.engine.pid)
		}
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

// open opens a surface in the browser with the fewest, or, where that one cannot be had, in the next.
func (d *Driver) open(ctx context.Context, at place, u session.User) (*surface, error) {
	var tried []*seat
	var errs []error
	for len(tried) < len(d.seats) && ctx.Err() == nil {
		seat := d.take(tried)
		s, err := d.openIn(ctx, seat, at, u)
		if err == nil {
			return s, nil
		}
		d.leave(seat)
		tried, errs = append(tried, seat), append(errs, err)
	}
	if len(errs) == 0 {
		return nil, fmt.Errorf("opening a browser context: %w", ctx.Err())
	}
	return nil, errors.Join(errs...)
}

func (d *Driver) openIn(ctx context.Context, seat *seat, at place, u session.User) (*surface, error) {
	for again := true; ; again = false {
		e, err := d.running(ctx, seat)
		if err != nil {
			return nil, err
		}
		s, err := d.newSurface(ctx, seat, e, at, u)
		if err == nil {
			d.mu.Lock()
			d.opened++
			seat.open++
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
func (d *Driver) released(s *seat) {
	d.mu.Lock()
	s.open--
	d.mu.Unlock()
	d.leave(s)
	if d.slots != nil {
		<-d.slots
	}
}

// Close ends the browser and the Playwright driver, or the connections to browsers elsewhere, and all surfaces with them.
func (d *Driver) Close() error {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	var errs []error
	for _, s := range d.seats {
		<-s.turn // a launch in progress ends first
		d.mu.Lock()
		e := s.engine
		s.engine = nil
		d.mu.Unlock()
		if e != nil {
			e.end()
			errs = append(errs, e.endErr)
		}
		s.turn <- struct{}{}
	}
	d.endings.Wait()
	return errors.Join(errs...)
}
