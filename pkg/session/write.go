package session

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"amnesia/pkg/memory"
)

// Tell tells the app one memory and says what its user saw. The steps run in order; the message counts as sent after
// the last action before the first acknowledged step; each acknowledged step is awaited in order, together with every
// rejected step of the section. Nothing that may send is ever done twice.
//
//	what happened                                                  outcome        cause
//	every level reached                                            acknowledged
//	a rejected condition held                                      rejected       rejected
//	a response with status 429                                     rejected       throttled
//	a response with status 400 or more whose page or body says so  rejected       rejected
//	… and the user saw nothing of it                               unknown        response_failed
//	a response without what the script wants of it                 unknown        response_failed
//	nothing came in time                                           unknown        timeout
//	nobody listens                                                 unknown        refused
//	the connection broke                                           unknown        interrupted
//	an element that the script needs is not there                  unknown        missing
//	sent, and the answer was the login page                        unknown        logged_out
//	ctx ended                                                      unknown        aborted
//	trouble of ours                                                unknown        rig
//
// Levels reached before a failure stay in the receipt. The error is nil for an acknowledged and a rejected write.
func (s *Session) Tell(ctx context.Context, m memory.Memory) (Receipt, error) {
	s.emit(PointIdle, m.ID)
	rc, err := s.write(ctx, "tell", m)
	// A person whose message failed reloads the page: what it shows (an alert, half an answer) is of the past.
	s.stale = rc.Outcome != memory.Acknowledged
	return rc, err
}

// Forget deletes the memory. Outcomes and errors are those of Tell.
func (s *Session) Forget(ctx context.Context, m memory.Memory) (Receipt, error) {
	if len(s.p.section("forget").steps) == 0 {
		err := &RigError{errors.New("the script has no forget — fix: write one")}
		return Receipt{Outcome: memory.Unknown, Cause: CauseRig, Detail: err.Error(), At: s.now()}, err
	}
	return s.write(ctx, "forget", m)
}

func (s *Session) write(ctx context.Context, name string, m memory.Memory) (Receipt, error) {
	r := &run{s: s, sec: s.p.section(name), m: m}
	var levels []memory.Level
	err := s.backoff(ctx)
	if err == nil {
		err = r.again(ctx, func(ctx context.Context) error {
			levels = nil
			if err := r.reload(ctx); err != nil {
				return err
			}
			return r.write(ctx, &levels)
		})
	}
	rc := Receipt{Levels: levels, At: s.now()}
	var refused *refusal
	var te *TargetError
	switch {
	case err == nil:
		rc.Outcome = memory.Acknowledged
		return rc, nil
	case errors.As(err, &refused):
		rc.Outcome, rc.Cause, rc.Detail = memory.Rejected, CauseRejected, excerpt(refused.Text)
		if refused.Status == http.StatusTooManyRequests {
			rc.Cause = CauseThrottled
			s.throttled(refused.RetryAfter)
		}
		return rc, nil
	case ctx.Err() != nil:
		rc.Outcome, rc.Cause = memory.Unknown, CauseAborted
	case IsRig(err):
		rc.Outcome, rc.Cause = memory.Unknown, CauseRig
	case errors.As(err, &te) && te.Status == http.StatusTooManyRequests:
		rc.Outcome, rc.Cause, rc.Detail = memory.Rejected, CauseThrottled, excerpt(te.Text)
		s.throttled(te.RetryAfter)
		return rc, nil
	case te != nil && te.Status >= 400 && te.Text != "" && r.sent:
		rc.Outcome, rc.Cause, rc.Detail = memory.Rejected, CauseRejected, excerpt(te.Text)
		return rc, nil
	case errors.Is(err, errLoggedOut), r.sent && r.loggedIn(ctx) != nil:
		rc.Outcome, rc.Cause = memory.Unknown, CauseLoggedOut
	case te != nil && te.Status >= 400:
		rc.Outcome, rc.Cause = memory.Unknown, CauseResponse
	case te != nil && (te.Cause == CauseReset || te.Cause == CauseEOF):
		rc.Outcome, rc.Cause = memory.Unknown, CauseInterrupted
	case te != nil:
		rc.Outcome, rc.Cause = memory.Unknown, te.Cause
	case errors.Is(err, context.DeadlineExceeded):
		rc.Outcome, rc.Cause = memory.Unknown, CauseTimeout
	default:
		rc.Outcome, rc.Cause = memory.Unknown, CauseInterrupted
	}
	rc.Detail = err.Error()
	return rc, err
}

// reload loads the app's page again before a tell that follows one that went wrong, unless tell begins with a page.
func (r *run) reload(ctx context.Context) error {
	p := r.s.p
	if !r.s.stale || r.sec.name != "tell" || p.home < 0 || r.sec.steps[0].Goto != "" {
		return nil
	}
	home := run{s: r.s, sec: p.homeOf, m: r.m}
	_, err := home.step(ctx, p.home)
	return err
}

// write runs the steps of tell or forget.
func (r *run) write(ctx context.Context, levels *[]memory.Level) error {
	last := -1 // the last action before the first acknowledged step
	for i, st := range r.sec.steps {
		if st.Acknowledged != nil {
			break
		}
		if st.action() {
			last = i
		}
	}
	tells := r.sec.name == "tell"
	for i, st := range r.sec.steps {
		stepCtx, told := ctx, func() {}
		if tells && i == last {
			stepCtx, told = onSent(ctx, func() { r.s.emit(PointTold, r.m.ID) })
		}
		seen, err := r.step(stepCtx, i)
		if err != nil {
			return err
		}
		if i == last {
			told()
		}
		if a := st.Acknowledged; a != nil {
			*levels = append(*levels, memory.Level{Name: a.level(), NotSeen: seen.NotSeen, Seen: seen.Seen})
			if tells && a.level() == r.s.p.countsFrom {
				r.s.emit(PointAcknowledged, r.m.ID)
			}
		}
	}
	return nil
}

// RetryAfter reads the header of that name (RFC 9110, 10.2.3): seconds or a date. 0: none.
func RetryAfter(h http.Header) time.Duration {
	v := h.Get("Retry-After")
	if n, err := strconv.Atoi(v); err == nil && n > 0 {
		return time.Duration(min(n, 24*3600)) * time.Second
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(0, time.Until(t))
	}
	return 0
}
