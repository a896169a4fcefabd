package session

import (
	"fmt"
	"strings"
	"time"
)

// Causes of a write that was not acknowledged, and of a TargetError.
const (
	CauseThrottled   = "throttled"       // 429
	CauseRejected    = "rejected"        // the app told the user so
	CauseTimeout     = "timeout"         // no answer in time
	CauseRefused     = "refused"         // nobody listens
	CauseReset       = "reset"           // the connection was reset; a receipt says interrupted
	CauseEOF         = "eof"             // the connection ended too early; a receipt says interrupted
	CauseInterrupted = "interrupted"     // the connection broke
	CauseResponse    = "response_failed" // a response came, but it failed or was not the one wanted
	CauseMissing     = "missing"         // an element of the page that the script needs is not there
	CauseLoggedOut   = "logged_out"      // the message went out, and the answer was the login page
	CauseAborted     = "aborted"         // the run ended
	CauseRig         = "rig"             // trouble of our own
)

// TargetError is a failure of the target as a surface met it.
type TargetError struct {
	Cause string // a Cause constant
	Doing string // what was being done: click "#send"
	URL   string // of the page or the request
	// Status and Text are those of a response that failed: Text is what the user could read of it, empty when the page
	// showed nothing.
	Status     int
	Text       string
	RetryAfter time.Duration
	Err        error // may be nil
}

func (e *TargetError) Error() string {
	var b strings.Builder
	b.WriteString(e.Doing)
	if e.URL != "" {
		b.WriteString(" on " + e.URL)
	}
	b.WriteString(": " + e.Cause)
	if e.Status != 0 {
		fmt.Fprintf(&b, ", status %d", e.Status)
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

func (e *TargetError) Unwrap() error { return e.Err }
