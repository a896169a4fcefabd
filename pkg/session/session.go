// Package session plays users. A script says in words what a user does (log in, tell a memory, look at the history,
// ask, forget, log out); a Driver gives the hands: a real browser (pkg/session/browser) or plain HTTP
// (pkg/session/web). The meaning of a script is written once, in Player, over the few primitive actions of Surface, so
// that the drivers cannot come to differ in what they call acknowledged.
//
// It knows nothing of faults, stores or verdicts.
package session

import (
	"context"
	"errors"
	"time"

	"amnesia/pkg/memory"
)

// User is one scripted persona.
type User struct {
	Run      string
	N        int    // 0-based
	Name     string // the account
	Password string
}

// Driver opens surfaces: one each for a user, isolated from all others.
type Driver interface {
	Name() string // browser, http
	// Open gives a fresh surface (a browser context of its own, an empty cookie jar) for the user.
	Open(ctx context.Context, u User) (Surface, error)
	// Close ends the driver and all that it started.
	Close() error
}

// Surface is what a user touches. One goroutine uses one surface at a time. Every method honours ctx, and returns a
// *RigError when the failure is ours (browser died, driver gone) and any other error when it is the target's (connection
// refused, no such element in time).
type Surface interface {
	// Goto loads a URL, relative to the target's, and waits until the page has loaded. A document with a status of 400
	// or more, or one whose body broke off, is an error: an empty list on an error page proves nothing.
	Goto(ctx context.Context, url string) error
	Fill(ctx context.Context, selector, text string) error
	// Click returns once the click is done and what it sent is on its way; it does not wait for the answer.
	Click(ctx context.Context, selector string) error
	Press(ctx context.Context, selector, key string) error
	Select(ctx context.Context, selector, value string) error
	// Request sends a request of the script's own with the session's cookies.
	Request(ctx context.Context, r Request) (Response, error)
	// Await waits until one of the conditions holds and says which, the first in order when several do at one look.
	// What was already there when the last Fill, Click, Press, Goto or Request began counts only for conditions on
	// the present state (URL, Selector); a Response condition wants a response to a request begun since then. Globs
	// match as Glob does, Contains as Holds does. When none holds by the conditions' Timeout (or the end of ctx, which
	// comes later) the error is a *TargetError; its Status and Text tell of a failed response since the last action.
	// On a document that failed (see Goto) only a visible element can hold: a spinner is hidden on every error page. A
	// redirect is no end: a Response condition matches any address of the chain, and wants its last response to be good.
	Await(ctx context.Context, any []Condition) (Sighting, error)
	// Read waits for Ready, then collects the trimmed textContent of the elements, following More to the end (and
	// waiting for Ready again after each). complete is false when the end was not reached. On a document that failed
	// (see Goto) it is an error. What was read before an error is returned with it.
	Read(ctx context.Context, r Read) (texts []string, complete bool, err error)
	// Evidence saves what the surface shows (screenshot, trace, or the last document) for a failure, and names the
	// files; best effort.
	Evidence(ctx context.Context, name string) []string
	Close() error
}

// Sighting says which condition was seen, with the bounds of the moment at which it came to hold.
type Sighting struct {
	Index   int
	NotSeen memory.Instant // last look without it
	Seen    memory.Instant // first look with it
	Text    string         // the text of the element seen, or what the response said; for a rejection, what the user saw
	// Status is the highest status of a response since the last action, 0 when there was none or it is not known;
	// RetryAfter what that response asked for.
	Status     int
	RetryAfter time.Duration
	// URL is where a Response condition's redirects ended; empty for other conditions.
	URL string
}

// Point is a moment at which a fault may strike.
type Point string

const (
	PointLoggedIn     Point = "logged_in"
	PointTold         Point = "told" // the message has been sent; no answer yet
	PointAcknowledged Point = "acknowledged"
	PointIdle         Point = "idle" // between two messages
)

// Watcher is told of the points as they pass. It must return at once.
type Watcher func(p Point, u User, m memory.ID)

// Receipt is what a user saw of a write or a forget. It is valid whatever error comes with it.
type Receipt struct {
	Outcome memory.Outcome
	Levels  []memory.Level // those reached, in the script's order
	Cause   string         // one of the Cause constants; empty when acknowledged
	Detail  string         // what the user saw
	At      memory.Instant
}

// Utterance is one message of the history as a page shows it.
type Utterance struct {
	Role string // user, assistant; empty when the script does not say
	Text string
}

// Transcript is one reading of a history (or of an answer).
type Transcript struct {
	Utterances []Utterance
	Complete   bool
	Began      memory.Instant
	Ended      memory.Instant
}

// RigError is a failure of ours: no evidence against the target.
type RigError struct{ Err error }

func (e *RigError) Error() string { return "rig: " + e.Err.Error() }
func (e *RigError) Unwrap() error { return e.Err }

// IsRig reports whether err is, or wraps, a failure of the rig.
func IsRig(err error) bool {
	var r *RigError
	return errors.As(err, &r)
}

// ErrRejected is wrapped by an error of an expect or login step in which the app told the user that it refused.
var ErrRejected = errors.New("the app refused")
