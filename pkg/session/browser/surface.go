package browser

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/playwright-community/playwright-go"

	"amnesia/pkg/memory"
	"amnesia/pkg/session"
)

const (
	// endTimeout bounds the closing of one context.
	endTimeout = 10 * time.Second
	// grace is how much later than its deadline an action may come back on a busy machine, rather than be left behind.
	grace = 700 * time.Millisecond
)

// surface is one context with its page.
type surface struct {
	d    *Driver
	seat *seat
	e    *engine
	place
	user    session.User
	context playwright.BrowserContext
	page    playwright.Page
	net     *network

	acted   memory.Instant // when the last action began
	last    session.Response
	asked   map[string]string // the headers that the script gave its last request
	pierced atomic.Bool       // the page uses shadow roots, which only Playwright's own selectors look into
	spoilt  error             // an action was left behind half done: what the page does next is anyone's guess
	traced  time.Time         // when the part of the trace began that Evidence would keep
	closing sync.Once
	endErr  error
}

var _ session.Surface = (*surface)(nil)

func (d *Driver) newSurface(ctx context.Context, seat *seat, e *engine, at place, u session.User) (*surface, error) {
	s := &surface{d: d, seat: seat, e: e, place: at, user: u, net: newNetwork(d.cfg.Clock)}
	type opened struct {
		context playwright.BrowserContext
		page    playwright.Page
	}
	o, err := doOr(ctx, e, func() (opened, error) {
		c, err := e.browser.NewContext(playwright.BrowserNewContextOptions{
			BaseURL:  playwright.String(at.baseURL),
			Viewport: &playwright.Size{Width: 1280, Height: 800},
		})
		if err != nil {
			return opened{}, err
		}
		page, err := c.NewPage()
		if err == nil && at.trace {
			err = c.Tracing().Start(playwright.TracingStartOptions{
				Snapshots: playwright.Bool(true), Title: playwright.String(u.Name),
			})
		}
		if err != nil {
			_ = c.Close()
			return opened{}, err
		}
		return opened{c, page}, nil
	}, func(late opened) { _ = late.context.Close() })
	if err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("opening a browser context: %w", ctx.Err())
		}
		return nil, &session.RigError{Err: fmt.Errorf("opening a browser context: %w", err)}
	}
	s.context, s.page = o.context, o.page
	s.traced = time.Now()
	s.acted = d.cfg.Clock.Now()
	s.net.watch(s.context, s.page)
	return s, nil
}

// timeout gives Playwright the time that is left, in milliseconds: a little less than ctx has, so that it is Playwright
// that gives up, in an orderly way and with its reasons.
func (s *surface) timeout(ctx context.Context) *float64 {
	left := s.d.cfg.ActionTimeout
	if deadline, ok := ctx.Deadline(); ok {
		left = min(left, time.Until(deadline))
		left -= min(left/4, 100*time.Millisecond)
	}
	return playwright.Float(max(1, float64(left)/float64(time.Millisecond)))
}

// act runs one action that changes the page. If it is left behind, the surface is spoilt: Playwright may carry it out at
// any time later.
func (s *surface) act(ctx context.Context, doing string, fn func(timeout *float64) error) error {
	if s.spoilt != nil {
		return s.spoilt
	}
	s.mark()
	timeout := s.timeout(ctx)
	patient, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			time.AfterFunc(grace, cancel) // Playwright is about to give up by itself
			return
		}
		cancel()
	})
	defer stop()
	_, err := do(patient, s.e, func() (struct{}, error) {
		return struct{}{}, fn(timeout)
	})
	if patient.Err() != nil && errors.Is(err, patient.Err()) {
		s.spoilt = &session.RigError{Err: fmt.Errorf("the session was cut off in the middle of: %s", doing)}
		go func() { _ = s.page.Close() }()
	}
	return s.failure(ctx, doing, err)
}

// mark begins an action: what is requested from now on is its doing.
func (s *surface) mark() {
	s.acted = s.d.cfg.Clock.Now()
	s.net.begin(s.acted)
}

// startsOver is how often a Goto starts over that was given up through no fault of the target: because the machine's
// addresses changed (every container that starts or ends on the same machine changes them), or because a navigation that
// an earlier action had begun took its place. Of the latter Playwright says either that, or only that ours was aborted.
const startsOver = 5

func (s *surface) Goto(ctx context.Context, url string) error {
	doing := "goto " + url
	err := s.act(ctx, doing, func(timeout *float64) error {
		if s.trace && time.Since(s.traced) > traceFor {
			if err := s.cutTrace(); err != nil {
				return err
			}
		}
		_, err := s.page.Goto(url, playwright.PageGotoOptions{Timeout: timeout, WaitUntil: playwright.WaitUntilStateLoad})
		for range startsOver {
			if err == nil || !strings.Contains(err.Error(), "ERR_NETWORK_CHANGED") && !strings.Contains(err.Error(), "ERR_ABORTED") {
				break
			}
			_, err = s.page.Goto(url, playwright.PageGotoOptions{Timeout: timeout, WaitUntil: playwright.WaitUntilStateLoad})
		}
		if err != nil && strings.Contains(err.Error(), "interrupted by another navigation") {
			// The page sent the user on before it had loaded.
			err = s.loaded(timeout)
		}
		return err
	})
	if err != nil {
		return err
	}
	return s.document(ctx, doing)
}

// loaded waits until the document that shows has loaded. It asks again and again: Playwright's own waiting never ends when
// the load does so in the moment in which the waiting begins.
func (s *surface) loaded(timeout *float64) error {
	for end := time.Now().Add(time.Duration(*timeout * float64(time.Millisecond))); ; time.Sleep(5 * time.Millisecond) {
		complete, err := s.page.Evaluate(`() => document.readyState === "complete"`)
		if complete == true || err != nil && gone(err) {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("%w: the page does not load", playwright.ErrTimeout)
		}
	}
}

// document waits until the page's document has ended, and says whether it failed: Chromium shows what came of a document
// that broke off as if it were all.
func (s *surface) document(ctx context.Context, doing string) error {
	limit := time.NewTimer(s.d.cfg.ActionTimeout)
	defer limit.Stop()
	for {
		doc, changed := s.net.document()
		if doc == nil {
			return nil // about:blank
		}
		if doc.ended {
			return s.documentFailure(ctx, doing, doc)
		}
		select {
		case <-changed:
		case <-limit.C:
			return &session.TargetError{Cause: session.CauseTimeout, Doing: doing, URL: doc.url, Err: errors.New("the document does not end")}
		case <-ctx.Done():
			return s.ended(ctx, doing)
		case <-s.e.dead:
			return s.failure(ctx, doing, &session.RigError{Err: errors.New(s.e.reason())})
		}
	}
}

func (s *surface) documentFailure(ctx context.Context, doing string, doc *exchange) error {
	switch {
	case doc.failure != "":
		t := &session.TargetError{Doing: doing, URL: doc.url, Err: errors.New(doc.failure)}
		var name string
		if name, t.Cause = netCause(doc.failure); ours[name] {
			return &session.RigError{Err: t}
		}
		if t.Cause == "" {
			t.Cause = session.CauseInterrupted
		}
		return t
	case doc.status >= 400:
		return &session.TargetError{
			Cause: session.CauseResponse, Doing: doing, URL: doc.url, Status: doc.status, RetryAfter: doc.retryAfter,
			Text: s.shown(ctx),
		}
	}
	return nil
}

// shown is the text that the page shows, in short; best effort.
func (s *surface) shown(ctx context.Context) string {
	text, err := do(ctx, s.e, func() (any, error) {
		return s.page.Evaluate(`() => (document.body ? document.body.innerText : "").trim().slice(0, 1000)`)
	})
	if err != nil {
		return ""
	}
	shown, _ := text.(string)
	return shown
}

func (s *surface) Fill(ctx context.Context, selector, text string) error {
	return s.act(ctx, "fill "+selector, func(timeout *float64) error {
		return s.page.Locator(selector).Fill(text, playwright.LocatorFillOptions{Timeout: timeout})
	})
}

func (s *surface) Click(ctx context.Context, selector string) error {
	return s.act(ctx, "click "+selector, func(timeout *float64) error {
		//lint:ignore SA1019 it is to become the default, and until then it must be said: a click is over before its answer
		return s.page.Locator(selector).Click(playwright.LocatorClickOptions{Timeout: timeout, NoWaitAfter: playwright.Bool(true)})
	})
}

func (s *surface) Press(ctx context.Context, selector, key string) error {
	return s.act(ctx, "press "+key+" in "+selector, func(timeout *float64) error {
		//lint:ignore SA1019 it is to become the default, and until then it must be said: a click is over before its answer
		return s.page.Locator(selector).Press(key, playwright.LocatorPressOptions{Timeout: timeout, NoWaitAfter: playwright.Bool(true)})
	})
}

func (s *surface) Select(ctx context.Context, selector, value string) error {
	return s.act(ctx, "select "+value+" in "+selector, func(timeout *float64) error {
		_, err := s.page.Locator(selector).SelectOption(
			playwright.SelectOptionValues{ValuesOrLabels: &[]string{value}}, playwright.LocatorSelectOptionOptions{Timeout: timeout})
		return err
	})
}

// Close ends the context, and throws away its trace.
func (s *surface) Close() error {
	s.closing.Do(func() {
		defer s.d.released(s.seat)
		ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
		defer cancel()
		_, err := do(ctx, s.e, func() (struct{}, error) {
			if s.trace {
				_ = s.context.Tracing().Stop() // else its files stay
			}
			return struct{}{}, s.context.Close()
		})
		// A context that is already gone is closed.
		if err != nil && !session.IsRig(err) && !gone(err) {
			s.endErr = &session.RigError{Err: fmt.Errorf("closing a browser context: %w", err)}
		}
	})
	return s.endErr
}
