package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
	"amnesia/pkg/session"
)

// reopen bounds how often one user starts over within a cycle after trouble.
const reopen = 8

// mostTraces bounds how many of the sessions that a cycle's fault struck leave their trace. To save one takes as long as
// some loads of a page, while the first reads after the fault are waited for.
const mostTraces = 3

// traffic lets every user play the script once, all at the same time, and returns when the last is done.
func (l *Loop) traffic(ctx context.Context, cycle int) error {
	ctx, cancel := context.WithTimeout(ctx, l.TrafficWithin)
	defer cancel()
	var wg sync.WaitGroup
	var traces atomic.Int32
	errs := make([]error, l.Users)
	for n := range l.Users {
		wg.Go(func() { errs[n] = l.play(ctx, cycle, n, &traces) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// play is one user's part of a cycle: log in, tell, sometimes forget, log out. A failure in between is the point of the
// exercise: the user waits until the application answers again and goes on in a fresh session. The error is the
// ledger's; what befell the user is in the facts. traces counts the traces that the cycle's sessions leave.
func (l *Loop) play(ctx context.Context, cycle, n int, traces *atomic.Int32) error {
	u := l.account(n)
	p := &part{Loop: l, cycle: cycle, user: u, left: l.Memories, forgets: l.forgetful(cycle, n, u.Name), rand: l.random(cycle, l.Users+n), traces: traces}
	for try := 0; try < reopen && !p.done() && ctx.Err() == nil; try++ {
		if try > 0 {
			l.await(ctx, l.App)
		}
		if err := p.session(ctx); err != nil {
			return err
		}
	}
	return nil
}

// part is what one user still has to do in a cycle.
type part struct {
	*Loop
	cycle   int
	user    session.User
	left    int             // memories to tell
	forgets []memory.Memory // memories to delete
	rand    *rand.Rand      // of the pace
	began   memory.Instant  // of the session
	loaded  memory.Instant  // the document that was seen last
	traces  *atomic.Int32   // saved in this cycle
}

func (p *part) done() bool { return p.left == 0 && len(p.forgets) == 0 }

// session is one session of the user, until its part is done or something fails.
func (p *part) session(ctx context.Context) error {
	f := fact.Session{User: p.user.Name, Driver: p.Driver, Outcome: "ok", Began: p.Clock.Now()}
	p.began = f.Began
	s, err := p.Player.Open(ctx, p.user)
	if err == nil {
		var broken error // the ledger's
		broken, err = p.script(ctx, s)
		if err != nil {
			p.seen(ctx, s, memory.Instant{})
		}
		if err != nil && ctx.Err() == nil {
			// Evidence is for the unexpected. That a fault of ours cuts a session off is expected; the loop keeps only
			// the facts of it.
			if session.IsRig(err) || !p.underFire() {
				f.Files = s.Evidence(context.WithoutCancel(ctx), fmt.Sprintf("cycle%d-%s", p.cycle, p.user.Name))
			}
		}
		if p.Freezer != nil && p.struck(p.began) && p.traces.Add(1) <= mostTraces {
			if file := s.SaveTrace(context.WithoutCancel(ctx), fmt.Sprintf("cycle%d-%s-session", p.cycle, p.user.Name)); file != "" {
				p.Freezer.Traced(p.user.Name, file)
			}
		}
		if cerr := s.Close(); err == nil {
			err = cerr
		}
		if broken != nil {
			return broken
		}
	}
	switch {
	case err == nil:
	case ctx.Err() != nil:
		f.Outcome, f.Detail = "aborted", err.Error()
	case session.IsRig(err):
		f.Outcome, f.Detail = "rig_error", err.Error()
	default:
		f.Outcome, f.Detail = "target_error", err.Error()
	}
	f.Ended = p.Clock.Now()
	return p.Ledger.Append(context.WithoutCancel(ctx), f)
}

// script plays the session's steps. broken is the ledger's error: nothing may be told that is not in the books.
func (p *part) script(ctx context.Context, s *session.Session) (broken, err error) {
	if err := s.Login(ctx); err != nil {
		return nil, err
	}
	for p.left > 0 {
		if err := p.pause(ctx); err != nil {
			return nil, err
		}
		if broken, err := p.tell(ctx, s); broken != nil || err != nil {
			return broken, err
		}
	}
	for len(p.forgets) > 0 {
		m := p.forgets[0]
		p.forgets = p.forgets[1:]
		if broken, err := p.forget(ctx, s, m); broken != nil || err != nil {
			return broken, err
		}
	}
	p.seen(ctx, s, memory.Instant{})
	return nil, s.Logout(ctx)
}

// seen keeps what the user's page shows, in case that a memory on it is found missing, unless it is still the document
// of the last time.
func (p *part) seen(ctx context.Context, s *session.Session, last memory.Instant) {
	if p.Freezer == nil {
		return
	}
	if g, ok := s.Glance(context.WithoutCancel(ctx), last); ok {
		p.loaded = g.Loaded
		p.Freezer.Seen(p.user.Name, g)
	}
}

// tell makes the memory durable in the books, tells it, and records what the user saw.
func (p *part) tell(ctx context.Context, s *session.Session) (broken, err error) {
	m := p.compose(p.user, p.cycle)
	p.left--
	// The end of the traffic is no reason to leave open whether this is on record.
	if err := p.Ledger.Append(context.WithoutCancel(ctx), fact.Begun{Memory: m, At: p.Clock.Now()}); err != nil {
		return err, nil
	}
	p.adopt(m)
	r, err := s.Tell(ctx, m)
	if broken := p.Ledger.Append(context.WithoutCancel(ctx), fact.Settled{
		Memory: m.ID, Outcome: r.Outcome, Levels: r.Levels, Cause: r.Cause, Detail: r.Detail, At: r.At,
	}); broken != nil {
		return broken, nil
	}
	// A page that is loaded anew with each message shows at the end what a fault has left of it: so it is seen before.
	if err == nil && !p.struck(p.began) {
		p.seen(ctx, s, p.loaded)
	}
	return nil, err
}

func (p *part) forget(ctx context.Context, s *session.Session, m memory.Memory) (broken, err error) {
	if err := p.Ledger.Append(context.WithoutCancel(ctx), fact.ForgetBegun{Memory: m.ID, At: p.Clock.Now()}); err != nil {
		return err, nil
	}
	r, err := s.Forget(ctx, m)
	if broken := p.Ledger.Append(context.WithoutCancel(ctx), fact.ForgetSettled{
		Memory: m.ID, Outcome: r.Outcome, Detail: r.Detail, At: r.At,
	}); broken != nil {
		return broken, nil
	}
	return nil, err
}

// pause keeps the pace between two messages.
func (p *part) pause(ctx context.Context) error {
	wait := p.Pace[0]
	if span := p.Pace[1] - p.Pace[0]; span > 0 {
		wait += time.Duration(p.rand.Int64N(int64(span) + 1))
	}
	if wait <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// compose makes the next memory of a user.
func (l *Loop) compose(u session.User, cycle int) memory.Memory {
	l.mu.Lock()
	k := l.told[u.Name]
	l.told[u.Name]++
	l.mu.Unlock()
	m := l.Teller(u, k)
	m.ID, m.Cycle, m.User = l.Ledger.NextMemory(), cycle, u.Name
	for _, look := range l.Looks {
		m.Views = append(m.Views, look.Contract.View)
	}
	return m
}

// account gives the account that user n plays this cycle with: a new one before it would hold more than PerAccount
// memories, so that no page grows for ever. What was told decides, not how many cycles there were.
func (l *Loop) account(n int) session.User {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.Accounts(n + l.turn[n]*l.Users)
	if told := l.told[u.Name]; l.PerAccount > 0 && told > 0 && told+l.Memories > l.PerAccount {
		l.turn[n]++
		u = l.Accounts(n + l.turn[n]*l.Users)
	}
	return u
}

// forgetful draws which of its memories user n deletes in this cycle. Each memory is drawn for once, in the first cycle
// after the one in which it was told, if it was kept; those of an account that was used up are not drawn for.
func (l *Loop) forgetful(cycle, n int, user string) []memory.Memory {
	if l.ForgetShare <= 0 {
		return nil
	}
	r := l.random(cycle, n)
	var of []memory.Memory
	for _, m := range l.alive() {
		if m.User != user || l.drawn(m.ID) {
			continue
		}
		if r.Float64() < l.ForgetShare && l.kept(m.ID) {
			of = append(of, m)
		}
	}
	return of
}
