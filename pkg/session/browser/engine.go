package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/playwright-community/playwright-go"
	"go.uber.org/zap"

	"amnesia/pkg/session"
)

// launchTimeout bounds the start of node and Chromium, which takes under a second on an idle machine.
const launchTimeout = 60 * time.Second

// flags keep Chromium from doing anything but what it is told: no traffic, no dialogues, no service of its own.
var flags = [...]string{
	"--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
	"--disable-sync",
}

// connectTimeout bounds the connecting to a browser elsewhere, one that a Playwright server starts for it included.
const connectTimeout = 20 * time.Second

// engine is one Playwright driver process with the one browser that it runs, or is connected to. It is never repaired, only
// replaced.
type engine struct {
	pw      *playwright.Playwright
	browser playwright.Browser
	pid     int // of the browser; 0 when it is not known, or runs elsewhere

	dead   chan struct{} // closed when the browser or the driver is gone
	once   sync.Once
	why    string
	ending sync.Once
	endErr error
}

// launch starts a browser, or connects to the one at an address.
func launch(ctx context.Context, cfg Config, address string, log *zap.Logger) (*engine, error) {
	ctx, cancel := context.WithTimeout(ctx, launchTimeout)
	defer cancel()
	e := &engine{dead: make(chan struct{})}
	started := make(chan error, 1)
	go func() { started <- e.start(cfg, address, log) }()
	var err error
	select {
	case err = <-started:
	case <-ctx.Done():
		err = ctx.Err()
		go func() { // Playwright cannot be interrupted in its start
			if <-started == nil {
				e.end()
			}
		}()
	}
	if err != nil {
		doing := "starting the browser"
		if address != "" {
			doing = "connecting to the browser at " + shown(address)
		}
		return nil, &session.RigError{Err: fmt.Errorf("%s: %w", doing, err)}
	}
	return e, nil
}

func (e *engine) start(cfg Config, address string, log *zap.Logger) (err error) {
	if cfg.DriverDir == "" || cfg.ExecutablePath == "" && address == "" { // either would have Playwright look in places of its own
		return errors.New("nobody said where it is — fix: run `amnesia browser install`")
	}
	defer func() {
		if err != nil {
			e.end()
		}
	}()
	// Its Stderr and Logger are left alone: setting either changes the whole process's logging, and races with other drivers.
	e.pw, err = playwright.Run(&playwright.RunOptions{DriverDirectory: cfg.DriverDir, SkipInstallBrowsers: true})
	if err != nil {
		return fmt.Errorf("the Playwright driver in %s: %w — fix: run `amnesia browser install`", cfg.DriverDir, err)
	}
	if address == "" {
		err = e.launch(cfg)
	} else {
		err = e.connect(address)
	}
	if err != nil {
		return err
	}
	e.browser.OnDisconnected(func(playwright.Browser) { e.died(reasonBrowser) })
	if address != "" {
		log.Info("connected to a browser", zap.String("version", e.browser.Version()), zap.String("at", shown(address)))
		return nil
	}
	e.pid = e.browserPID()
	log.Info("browser started", zap.String("version", e.browser.Version()), zap.Int("pid", e.pid))
	return nil
}

func (e *engine) launch(cfg Config) (err error) {
	sandbox := os.Geteuid() != 0 && !slices.Contains(cfg.Args, "--no-sandbox")
	e.browser, err = e.pw.Chromium.Launch(playwright.BrowserTypeLaunchOptions{
		ExecutablePath:  playwright.String(cfg.ExecutablePath),
		Headless:        playwright.Bool(cfg.Headless),
		Args:            slices.Concat(flags[:], cfg.Args),
		ChromiumSandbox: playwright.Bool(sandbox), // false passes --no-sandbox, without which Chromium refuses to run as root
		// Signals are the daemon's: a Ctrl-C reaches the whole process group, and the sweep after it needs the browser.
		HandleSIGINT:  playwright.Bool(false),
		HandleSIGTERM: playwright.Bool(false),
		HandleSIGHUP:  playwright.Bool(false),
	})
	if err != nil {
		return fmt.Errorf("%s: %s — fix: see that it starts by hand, or run `amnesia browser install`", cfg.ExecutablePath, brief(err))
	}
	return nil
}

// connect goes to a browser elsewhere. Of a Playwright server the version must be that of the driver here, up to the patch.
func (e *engine) connect(address string) (err error) {
	timeout := playwright.Float(float64(connectTimeout.Milliseconds()))
	if debugging(address) {
		e.browser, err = e.pw.Chromium.ConnectOverCDP(address, playwright.BrowserTypeConnectOverCDPOptions{Timeout: timeout})
	} else {
		e.browser, err = e.pw.Chromium.Connect(address, playwright.BrowserTypeConnectOptions{Timeout: timeout})
	}
	if err != nil {
		return fmt.Errorf("%s — fix: see that a Playwright server of version %s, or a browser with --remote-debugging-port, answers there", brief(err), driverVersion)
	}
	return nil
}

// browserPID asks the browser for the id of its main process; 0 when it does not say.
func (e *engine) browserPID() int {
	cdp, err := e.browser.NewBrowserCDPSession()
	if err != nil {
		return 0
	}
	defer func() { _ = cdp.Detach() }()
	reply, err := cdp.Send("SystemInfo.getProcessInfo", nil)
	if err != nil {
		return 0
	}
	list, _ := reply.(map[string]any)
	all, _ := list["processInfo"].([]any)
	for _, one := range all {
		p, _ := one.(map[string]any)
		if p["type"] == "browser" {
			id, _ := p["id"].(float64)
			return int(id)
		}
	}
	return 0
}

func (e *engine) died(reason string) {
	e.once.Do(func() {
		e.why = reason
		close(e.dead)
	})
}

func (e *engine) alive() bool {
	select {
	case <-e.dead:
		return false
	default:
		return true
	}
}

// reason is why the engine died; it may be asked for once alive is false.
func (e *engine) reason() string {
	<-e.dead
	return e.why
}

// end stops the browser and the driver, by force when they do not go by themselves.
func (e *engine) end() {
	e.ending.Do(func() {
		defer e.died("closed")
		stop := func(limit time.Duration, fn func() error) error {
			done := make(chan error, 1)
			go func() { done <- fn() }()
			select {
			case err := <-done:
				return err
			case <-time.After(limit):
				return fmt.Errorf("no answer for %s", limit)
			}
		}
		if e.browser != nil && e.alive() {
			if err := stop(5*time.Second, func() error { return e.browser.Close() }); err != nil && !gone(err) {
				e.endErr = errors.Join(e.endErr, fmt.Errorf("closing the browser: %w", err))
				if p, err := os.FindProcess(e.pid); e.pid > 0 && err == nil {
					_ = p.Kill()
				}
			}
		}
		if e.pw != nil {
			// An error here says only that the process had already ended.
			_ = stop(10*time.Second, e.pw.Stop)
		}
	})
}

// do runs one call into Playwright, which knows no contexts. It comes back as soon as the call, ctx or the engine ends; a
// call that was left behind ends by its own time-out or with the engine.
func do[T any](ctx context.Context, e *engine, call func() (T, error)) (T, error) {
	return doOr(ctx, e, call, func(T) {})
}

// doOr is do; undo gets what a call that was left behind still brought.
func doOr[T any](ctx context.Context, e *engine, call func() (T, error), undo func(T)) (T, error) {
	type result struct {
		value T
		err   error
	}
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	done := make(chan result, 1)
	go func() {
		v, err := call()
		done <- result{v, err}
	}()
	var err error
	select {
	case r := <-done:
		if r.err != nil && disconnected(r.err) {
			e.died(reasonDriver)
		}
		return r.value, r.err
	case <-ctx.Done():
		err = ctx.Err()
	case <-e.dead:
		err = &session.RigError{Err: errors.New(e.reason())}
	}
	go func() {
		if r := <-done; r.err == nil {
			undo(r.value)
		}
	}()
	return none, err
}
