// Package page is the view that a user has: the history as the app shows it after a fresh login.
//
// It knows nothing of browsers, HTTP or scripts; an Opener gives it the hands.
package page

import (
	"context"
	"errors"
	"fmt"
	"time"

	"amnesia/pkg/memory"
	"amnesia/pkg/session"
	"amnesia/pkg/view"
)

// Opener opens fresh sessions: a browser context of its own, an empty cookie jar.
type Opener interface {
	Open(ctx context.Context, u session.User) (Reader, error)
}

// Reader is one user's session. Its methods honour ctx.
type Reader interface {
	Login(ctx context.Context) error
	Recall(ctx context.Context) (session.Transcript, error)
	Close() error
}

// Config says how to read.
type Config struct {
	Name   string
	Opener Opener
	// Account gives the account of a memory's user.
	Account func(user string) (session.User, error)
	Match   view.Match
	// Timeout bounds the reading of one user's history, login included; default 60s.
	Timeout  time.Duration
	Parallel int // users read at once; default 2: browsers are heavy
	Clock    memory.Clock
	// Missed is told of the memories that a whole history does not show, while its page is open; take saves the page under a
	// name. It may be nil, and is not asked of readers that save nothing.
	Missed func(user string, ids []memory.ID, take func(name string) (files []string))
}

// keeper is a reader that can save its page.
type keeper interface {
	Evidence(ctx context.Context, name string) []string
}

// View is the history as users see it.
type View struct{ cfg Config }

// New makes the view.
func New(cfg Config) *View {
	if cfg.Timeout <= 0 {
		cfg.Timeout = time.Minute
	}
	if cfg.Parallel <= 0 {
		cfg.Parallel = 2
	}
	return &View{cfg}
}

// Name is the name in the configuration.
func (v *View) Name() string { return v.cfg.Name }

// Close has nothing to end: every session ends within its Find.
func (v *View) Close() error { return nil }

// Find logs in as every user and reads the history.
func (v *View) Find(ctx context.Context, ms []memory.Memory) ([]memory.Observation, error) {
	m := view.NewMatcher(ms, view.Options{View: v.cfg.Name, Clock: v.cfg.Clock, Match: v.cfg.Match,
		Same: session.Same, Rig: isRig})
	m.Each(ctx, v.cfg.Parallel, v.read)
	return m.Observations(ctx), nil
}

var errIncomplete = errors.New("the page did not show its history to the end")

func (v *View) read(ctx context.Context, r *view.Reading) error {
	ctx, cancel := context.WithTimeoutCause(ctx, v.cfg.Timeout, fmt.Errorf("the page did not show its history within %s", v.cfg.Timeout))
	defer cancel()
	u, err := v.cfg.Account(r.User())
	if err != nil {
		return &session.RigError{Err: err}
	}
	s, err := v.cfg.Opener.Open(ctx, u)
	if err != nil {
		return fmt.Errorf("open a session for %s: %w", u.Name, err)
	}
	defer s.Close()
	if err := s.Login(ctx); err != nil {
		return fmt.Errorf("log in as %s: %w", u.Name, err)
	}
	// What counts is when the history was asked for: a memory told during the login may be there or not.
	r.Restart()
	t, err := s.Recall(ctx)
	own := 0
	for _, said := range t.Utterances {
		// Only the user's own words are evidence: confirmations and answers repeat the token. A script that names no
		// role reads the user's.
		if said.Role == "" || said.Role == "user" {
			own++
			r.Record(view.Record{Text: said.Text})
		} else {
			r.Echo(said.Text)
		}
	}
	r.Count(own)
	if own > 0 {
		r.Note(fmt.Sprintf("%d messages of the user, without it", own))
	}
	switch {
	case err != nil:
		return fmt.Errorf("read the history of %s: %w", u.Name, err)
	case !t.Complete:
		return errIncomplete
	}
	if k, can := s.(keeper); can && v.cfg.Missed != nil {
		if ids := r.Absent(); len(ids) > 0 {
			v.cfg.Missed(u.Name, ids, func(name string) []string { return k.Evidence(ctx, name) })
		}
	}
	return nil
}

// isRig: trouble of ours, time-outs and throttling, none of which says anything about the history.
func isRig(err error) bool {
	var t *session.TargetError
	throttled := errors.As(err, &t) && t.Cause == session.CauseThrottled
	return throttled || session.IsRig(err) || errors.Is(err, context.DeadlineExceeded)
}
