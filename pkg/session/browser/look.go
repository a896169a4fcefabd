package browser

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"amnesia/pkg/memory"
	"amnesia/pkg/session"
)

const (
	// lookFor is how long one look in the page goes on: many small looks for one crossing into it.
	lookFor = 250 * time.Millisecond
	// lookEvery is the pause between looks that take a crossing each.
	lookEvery = 10 * time.Millisecond
	// lookLimit is when a look counts as lost: the page's script is busy, or its timers do not run.
	lookLimit = 2 * time.Second
)

// glimpse is what a look saw: the page's address, and what became of each condition's part on the page.
type glimpse struct {
	href  string
	parts []part // empty: nothing was seen, the page is on its way elsewhere
	err   error
}

// part is one condition at one look.
type part struct {
	held    bool
	text    string
	notSeen memory.Instant // the last moment at which it was looked for and not seen; zero when there was none
}

// apply brings what is known of the conditions up to what was seen just now.
func (s *surface) apply(list []*awaited, g glimpse) {
	now := s.d.cfg.Clock.Now()
	for i, p := range g.parts {
		a := list[i]
		if !a.onPage() {
			continue
		}
		if !p.held || !a.held {
			a.notSeen = memory.Later(a.notSeen, p.notSeen)
			a.seen = now
		}
		a.held, a.text = p.held, p.text
	}
}

// look looks at the page, for up to wait while no condition holds and the address is href. It does not touch the list.
func (s *surface) look(ctx context.Context, list []*awaited, href string, wait time.Duration) chan glimpse {
	conditions := make([]*pageCondition, len(list)) // for the browser's own selectors; nil elsewhere
	foreign := map[int]pageCondition{}              // for Playwright's
	held := false
	for i, a := range list {
		held = held || a.held
		switch c := (pageCondition{a.Selector, a.Contains, a.State}); {
		case a.Selector == "":
		case s.pierced.Load() || beyondCSS.MatchString(a.Selector):
			foreign[i] = c
		default:
			conditions[i] = &c
		}
	}
	matches := make([]func(string) bool, len(list))
	for i, a := range list {
		matches[i] = a.url
	}
	pause := time.Duration(0)
	if wait > 0 && (held || len(foreign) > 0) {
		wait, pause = 0, lookEvery
	}
	result := make(chan glimpse, 1)
	go func() {
		if pause > 0 {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		}
		ctx, cancel := context.WithTimeout(ctx, wait+lookLimit)
		defer cancel()
		g := s.glimpse(ctx, conditions, foreign, matches, href, wait)
		if g.err != nil && passing(g.err) {
			g = glimpse{}
			select { // the new document is not there yet
			case <-time.After(lookEvery):
			case <-ctx.Done():
			}
		}
		result <- g
	}()
	return result
}

func (s *surface) glimpse(ctx context.Context, conditions []*pageCondition, foreign map[int]pageCondition, matches []func(string) bool, href string, wait time.Duration) glimpse {
	arg, err := json.Marshal(map[string]any{"href": href, "conditions": conditions, "wait": wait.Milliseconds()})
	if err != nil {
		return glimpse{err: &session.RigError{Err: err}}
	}
	sent := s.d.cfg.Clock.Now()
	var saw struct {
		Href       string
		Held       []*struct{ Text string }
		At, Before float64 // milliseconds after a moment that came after sent
		Pierce     bool
	}
	if err := s.evaluate(ctx, &saw, func() (any, error) { return s.page.Evaluate(lookScript, string(arg)) }); err != nil {
		return glimpse{err: err}
	}
	after := func(ms float64) memory.Instant {
		if ms < 0 {
			return memory.Instant{}
		}
		t, now := sent.Add(time.Duration(ms*float64(time.Millisecond))), s.d.cfg.Clock.Now()
		if t.After(now) { // a page can set its own clock
			return now
		}
		return t
	}
	g := glimpse{href: saw.Href, parts: make([]part, len(conditions))}
	for i := range g.parts {
		p := &g.parts[i]
		p.held, p.notSeen = true, after(saw.Before)
		if c, ok := foreign[i]; ok {
			from := s.d.cfg.Clock.Now()
			if p.held, p.text, err = s.find(ctx, c); err != nil {
				return glimpse{err: err}
			}
			if !p.held {
				p.notSeen = from
			}
		} else if conditions[i] != nil {
			if p.held = i < len(saw.Held) && saw.Held[i] != nil; p.held {
				p.text = saw.Held[i].Text
			} else {
				p.notSeen = after(saw.At)
			}
		}
		if matches[i] != nil && !matches[i](saw.Href) {
			p.held, p.text = false, ""
			p.notSeen = memory.Later(p.notSeen, after(saw.At))
		}
	}
	if saw.Pierce {
		s.pierced.Store(true)
	}
	return g
}

// pageCondition is what crosses into the page.
type pageCondition struct {
	Selector string `json:"selector"`
	Contains string `json:"contains"`
	State    string `json:"state"`
}

// find looks once for an element by a selector of Playwright's.
func (s *surface) find(ctx context.Context, c pageCondition) (held bool, text string, err error) {
	arg, err := json.Marshal(c)
	if err != nil {
		return false, "", &session.RigError{Err: err}
	}
	var saw *struct{ Text string }
	err = s.evaluate(ctx, &saw, func() (any, error) {
		return s.page.Locator(c.Selector).EvaluateAll(findScript, string(arg))
	})
	if err != nil || saw == nil {
		return false, "", err
	}
	return true, saw.Text, nil
}

// evaluate runs one of our scripts, and reads the JSON text that it gives.
func (s *surface) evaluate(ctx context.Context, into any, script func() (any, error)) error {
	v, err := do(ctx, s.e, script)
	if err != nil {
		return err
	}
	text, _ := v.(string)
	return json.Unmarshal([]byte(text), into)
}

// passing reports whether err came of a page that was on its way elsewhere, or too busy to look at.
func passing(err error) bool {
	m := err.Error()
	return err == context.DeadlineExceeded || strings.Contains(m, "Execution context was destroyed") ||
		strings.Contains(m, "Cannot find context") || strings.Contains(m, "because of a navigation")
}
