package browser

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/playwright-community/playwright-go"

	"amnesia/pkg/session"
)

// disconnected reports whether err says that the Playwright driver process is gone. playwright-go has no error value for
// it: calls in flight get "Connection closed", later ones what their pipe says.
func disconnected(err error) bool {
	s := err.Error()
	return strings.Contains(s, "Connection closed") || strings.Contains(s, "transport closed") ||
		strings.Contains(s, "could not send message") || strings.Contains(s, "could not read protocol")
}

// gone reports whether err says that the page, its context, the browser or the driver has ended or crashed.
func gone(err error) bool {
	s := err.Error()
	return errors.Is(err, playwright.ErrTargetClosed) || disconnected(err) ||
		strings.Contains(s, "Page crashed") || strings.Contains(s, "Target crashed") ||
		strings.Contains(s, "has been closed") || strings.Contains(s, "has been collected")
}

var (
	netError  = regexp.MustCompile(`net::(ERR_[A-Z_]+)`)
	nodeError = regexp.MustCompile(`\b(E[A-Z]{4,}|socket hang up|aborted)\b`)
)

// causes sorts Chromium's and node's network errors. One that is not listed is an interruption.
var causes = map[string]string{
	"ERR_CONNECTION_REFUSED":          session.CauseRefused,
	"ERR_ADDRESS_UNREACHABLE":         session.CauseRefused,
	"ERR_NAME_NOT_RESOLVED":           session.CauseRefused,
	"ERR_CONNECTION_RESET":            session.CauseReset,
	"ERR_EMPTY_RESPONSE":              session.CauseEOF,
	"ERR_CONNECTION_CLOSED":           session.CauseEOF,
	"ERR_INCOMPLETE_CHUNKED_ENCODING": session.CauseEOF,
	"ERR_CONTENT_LENGTH_MISMATCH":     session.CauseEOF,
	"ERR_CONNECTION_TIMED_OUT":        session.CauseTimeout,
	"ERR_TIMED_OUT":                   session.CauseTimeout,
	"ERR_HTTP_RESPONSE_CODE_FAILURE":  session.CauseResponse,
	"ERR_INVALID_HTTP_RESPONSE":       session.CauseResponse,
	"ECONNREFUSED":                    session.CauseRefused,
	"EHOSTUNREACH":                    session.CauseRefused,
	"ENOTFOUND":                       session.CauseRefused,
	"ECONNRESET":                      session.CauseReset,
	"EPIPE":                           session.CauseReset,
	"socket hang up":                  session.CauseEOF,
	"aborted":                         session.CauseEOF,
	"ETIMEDOUT":                       session.CauseTimeout,
}

// ours are the network errors that say something of this machine and nothing of the target.
var ours = map[string]bool{
	"ERR_INSUFFICIENT_RESOURCES": true, "ERR_OUT_OF_MEMORY": true, "ERR_NO_BUFFER_SPACE": true,
	"ERR_INTERNET_DISCONNECTED": true, "ERR_NETWORK_CHANGED": true, "ERR_NETWORK_IO_SUSPENDED": true,
	"EMFILE": true, "ENFILE": true, "ENOBUFS": true, "EADDRNOTAVAIL": true,
}

// netCause names the network error in a message, and its cause; "" when there is none.
func netCause(message string) (name, cause string) {
	if m := netError.FindStringSubmatch(message); m != nil {
		name = m[1]
	} else if m := nodeError.FindStringSubmatch(message); m != nil {
		name = m[1]
	} else {
		return "", ""
	}
	if cause = causes[name]; cause == "" {
		cause = session.CauseInterrupted
	}
	return name, cause
}

// failure sorts what a call into Playwright returned.
func (s *surface) failure(ctx context.Context, doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case session.IsRig(err):
		return &session.RigError{Err: fmt.Errorf("%s: %w", doing, err)}
	case ctx.Err() != nil:
		return s.ended(ctx, doing)
	case gone(err):
		return &session.RigError{Err: fmt.Errorf("%s: %s", doing, brief(err))}
	}
	t := &session.TargetError{Doing: doing, URL: s.page.URL(), Err: errors.New(brief(err))}
	message := err.Error()
	name, cause := netCause(message)
	switch {
	case ours[name]:
		return &session.RigError{Err: t}
	case name != "":
		t.Cause, t.Err = cause, errors.New(name)
	case errors.Is(err, playwright.ErrTimeout) && strings.Contains(message, "waiting for") && !strings.Contains(message, "resolved to"):
		t.Cause = session.CauseMissing
	case errors.Is(err, playwright.ErrTimeout) || strings.Contains(message, "Request timed out"):
		t.Cause = session.CauseTimeout
	case strings.Contains(message, "SyntaxError") || strings.Contains(message, "while parsing"):
		return &session.RigError{Err: fmt.Errorf("%s: %w — fix: the script's selector", doing, t.Err)}
	default:
		t.Cause = session.CauseMissing
	}
	return t
}

// ended is the error of a call whose ctx is over.
func (s *surface) ended(ctx context.Context, doing string) error {
	cause := session.CauseAborted
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		cause = session.CauseTimeout
	}
	return &session.TargetError{Cause: cause, Doing: doing, URL: s.page.URL(), Err: ctx.Err()}
}

// brief is the part of a Playwright error that a person wants: its first line, and the last of its log.
func brief(err error) string {
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	first := strings.TrimSpace(strings.TrimPrefix(lines[0], "playwright: "))
	if len(lines) == 1 {
		return first
	}
	last := strings.Trim(lines[len(lines)-1], " \t-=")
	if last == "" || strings.HasPrefix(last, "at ") {
		return first
	}
	return first + " (" + last + ")"
}
