package app

import (
	"context"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"amnesia/pkg/config"
	"amnesia/pkg/oracle"
	"amnesia/pkg/report"
)

// Manager is whoever looks after the daemon: what it may ask of it, and what it is told (sd_notify(3)).
type Manager struct {
	// Reload has the configuration read again, once for each value.
	Reload <-chan struct{}
	// Notify tells of the daemon's state; may be nil.
	Notify func(state string)
	// Watchdog is how often the manager must hear that the daemon lives; 0: it need not.
	Watchdog time.Duration
}

// What the manager is told.
const (
	managerReady     = "READY=1"
	managerReloading = "RELOADING=1"
	managerStopping  = "STOPPING=1"
	managerAlive     = "WATCHDOG=1"
)

func (m Manager) tell(state string) {
	if m.Notify != nil {
		m.Notify(state)
	}
}

// daemon is a run that outlives its configuration: reloaded, it ends with the cycle under way and goes on with the new one,
// on the same ledger. What cannot be read or cannot run is refused, and the old one goes on.
type daemon struct {
	load func() (*config.Config, error)
	opts Options // Cycles and For are those of the whole run
	Manager

	mu     sync.Mutex
	next   *config.Config // to go on with; nil: nothing was reloaded
	finish chan struct{}  // closed when the cycle under way is to be the last
	app    *App           // the one that runs; nil before the first and between two
}

// run runs until a bound, an error or ctx ends it, and sums up what the ledger then holds.
func (d *daemon) run(ctx context.Context, cfg *config.Config) (s report.Summary, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer cancel()
	d.finish = make(chan struct{})
	beside.Go(func() { d.listen(ctx) })
	beside.Go(func() { d.live(ctx) })
	defer d.tell(managerStopping)

	a, err := d.open(ctx, cfg)
	if err != nil {
		return s, err
	}
	for began := a.clock.Now(); ; {
		d.hold(a)
		d.tell(managerReady)
		s, err = a.soak(ctx, cfg.Target.URL)
		d.hold(nil)
		next := d.take()
		if err != nil || ctx.Err() != nil || next == nil || d.spent(a.loop.Ran(), a.clock.Now().Sub(began)) {
			return s, err
		}
		began = a.clock.Now()
		d.tell(managerReloading)
		if a, err = d.open(ctx, next); err == nil {
			cfg = next
			continue
		}
		if ctx.Err() != nil {
			return s, nil
		}
		d.opts.Log.Error("the new configuration cannot run: the old one goes on", zap.Error(err))
		if a, err = d.open(ctx, cfg); err != nil {
			return s, err
		}
	}
}

// spent takes what a configuration ran off the bounds of the whole, and reports whether nothing is left.
func (d *daemon) spent(cycles int, took time.Duration) bool {
	if d.opts.Cycles > 0 {
		if d.opts.Cycles -= cycles; d.opts.Cycles <= 0 {
			return true
		}
	}
	if d.opts.For > 0 {
		if d.opts.For -= took; d.opts.For <= 0 {
			return true
		}
	}
	return false
}

func (d *daemon) open(ctx context.Context, cfg *config.Config) (*App, error) {
	o := d.opts
	d.mu.Lock()
	o.Finish = d.finish
	d.mu.Unlock()
	return open(ctx, cfg, o)
}

// take gives what was reloaded away.
func (d *daemon) take() *config.Config {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := d.next
	if next != nil {
		d.next, d.finish = nil, make(chan struct{})
	}
	return next
}

func (d *daemon) hold(a *App) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.app = a
}

// listen reads the configuration again whenever it is asked to.
func (d *daemon) listen(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.Reload:
		}
		next, err := d.load()
		if err != nil {
			d.opts.Log.Error("the configuration was not reloaded: the old one goes on", zap.Strings("wrong", strings.Split(err.Error(), "\n")))
			continue
		}
		d.opts.Log.Info("the configuration is read anew: the run goes on with it after the cycle under way")
		d.mu.Lock()
		if d.next == nil {
			close(d.finish)
		}
		d.next = next
		d.mu.Unlock()
	}
}

// live tells the manager that the daemon lives, for as long as its books can be read: what hangs in there hangs for good.
func (d *daemon) live(ctx context.Context) {
	if d.Watchdog <= 0 {
		return
	}
	for tick := time.NewTicker(d.Watchdog / 2); ; {
		d.mu.Lock()
		a := d.app
		d.mu.Unlock()
		if a != nil {
			a.Docket.Read(func(*oracle.Book) {})
			a.guard.Paused()
		}
		d.tell(managerAlive)
		select {
		case <-tick.C:
		case <-ctx.Done():
			tick.Stop()
			return
		}
	}
}
