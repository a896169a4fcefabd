// Package answer is the view that a user has of what the assistant remembers: each memory is asked for, as a person
// would ask, and must come back in the answer.
//
// A model may answer badly, so this view is evidence of a weaker kind: a memory is absent only if every attempt fails.
// Asking writes history; whoever runs the sweep reads this view after all others, in a conversation of its own.
//
// It knows nothing of browsers, HTTP or scripts; an Opener gives it the hands.
package answer

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
	Open(ctx context.Context, u session.User) (Asker, error)
}

// Asker is one user's session. Its methods honour ctx.
type Asker interface {
	Login(ctx context.Context) error
	// Ask asks for the memory. Every utterance of the transcript counts as the answer, so a script must read the
	// answer alone and not the history above it.
	Ask(ctx context.Context, m memory.Memory) (session.Transcript, error)
	Close() error
}

// Config says how to ask.
type Config struct {
	Name   string
	Opener Opener
	// Account gives the account of a memory's user.
	Account func(user string) (session.User, error)
	// Attempts is how often a memory is asked for until its token comes; default 3.
	Attempts int
	// Timeout bounds the login, and each attempt; default 60s.
	Timeout  time.Duration
	Parallel int // users who ask at once; default 2: browsers are heavy, and model calls cost money
	Clock    memory.Clock
}

// View is the assistant as users meet it.
type View struct{ cfg Config }

// New makes the view.
func New(cfg Config) *View {
	if cfg.Attempts <= 0 {
		cfg.Attempts = 3
	}
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

// Find logs in as every user and asks for each of their memories. It counts no copies: an answer is not a record.
func (v *View) Find(ctx context.Context, ms []memory.Memory) ([]memory.Observation, error) {
	m := view.NewMatcher(ms, view.Options{View: v.cfg.Name, Clock: v.cfg.Clock, Match: view.MatchToken, Rig: isRig})
	m.Each(ctx, v.cfg.Parallel, v.read)
	return m.Observations(ctx), nil
}

func (v *View) read(ctx context.Context, r *view.Reading) error {
	u, err := v.cfg.Account(r.User())
	if err != nil {
		return &session.RigError{Err: err}
	}
	s, err := v.login(ctx, u)
	if err != nil {
		return err
	}
	defer s.Close()
	for n, told := range r.Memories() {
		one := r.One(n)
		err := v.ask(ctx, s, told, one)
		one.End(err)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case session.IsRig(err):
			return fmt.Errorf("not asked, since asking for %s failed: %w", told.ID, err)
		}
	}
	return nil
}

func (v *View) login(ctx context.Context, u session.User) (Asker, error) {
	ctx, cancel := v.within(ctx, "the login did not end")
	defer cancel()
	s, err := v.cfg.Opener.Open(ctx, u)
	if err != nil {
		return nil, fmt.Errorf("open a session for %s: %w", u.Name, err)
	}
	if err := s.Login(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("log in as %s: %w", u.Name, err), s.Close())
	}
	return s, nil
}

var errIncomplete = errors.New("the answer was not read to its end")

// ask asks until the token comes. An attempt that got no whole answer is no proof that the assistant has forgotten.
func (v *View) ask(ctx context.Context, s Asker, told memory.Memory, r *view.Reading) error {
	var failed error
	for range v.cfg.Attempts {
		t, err := v.attempt(ctx, s, told)
		for _, said := range t.Utterances {
			// One key for all: however often the answer says it, it is no second copy.
			r.Record(view.Record{Key: "answer", Text: said.Text})
		}
		if r.Found() > 0 {
			return nil
		}
		if err == nil && !t.Complete {
			err = errIncomplete
		}
		if err != nil {
			failed = err
		}
		if ctx.Err() != nil || session.IsRig(err) {
			break
		}
	}
	return failed
}

func (v *View) attempt(ctx context.Context, s Asker, told memory.Memory) (session.Transcript, error) {
	ctx, cancel := v.within(ctx, "no answer came")
	defer cancel()
	return s.Ask(ctx, told)
}

func (v *View) within(ctx context.Context, what string) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, v.cfg.Timeout, fmt.Errorf("%s within %s", what, v.cfg.Timeout))
}

// isRig: trouble of ours, time-outs and throttling, none of which says anything about what the assistant remembers.
func isRig(err error) bool {
	var t *session.TargetError
	throttled := errors.As(err, &t) && t.Cause == session.CauseThrottled
	return throttled || session.IsRig(err) || errors.Is(err, context.DeadlineExceeded)
}
