package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"time"

	"amnesia/pkg/memory"
)

// errLoggedOut says that the page is the login page.
var errLoggedOut = errors.New("the login has expired")

// run is one pass through a section.
type run struct {
	s    *Session
	sec  *section
	m    memory.Memory
	t    Transcript
	sent bool // a step ran that must not be run twice
	// pending is true between an action and the first expect after it.
	pending bool
}

// again runs fn, and once more after a new login when the login had expired before anything was sent. A login that
// expires again is trouble of ours.
func (r *run) again(ctx context.Context, fn func(context.Context) error) error {
	err := fn(ctx)
	if err == nil || r.sent || ctx.Err() != nil {
		return err
	}
	var te *TargetError
	if !errors.Is(err, errLoggedOut) && !(errors.As(err, &te) && te.Status == http.StatusUnauthorized) {
		if IsRig(err) || r.loggedIn(ctx) == nil {
			return err
		}
	}
	if err := r.s.Login(ctx); err != nil {
		return fmt.Errorf("logging in again: %w", err)
	}
	r.pending = false
	if err = fn(ctx); errors.Is(err, errLoggedOut) {
		return &RigError{fmt.Errorf("%w again right after a new login — fix: check the script's login", errLoggedOut)}
	}
	return err
}

// loggedIn gives errLoggedOut when the page is the login page.
func (r *run) loggedIn(ctx context.Context) error {
	c := r.s.p.login
	if c.URL == "" || r.sec.name == "login" || r.sec.name == "signup" || r.sec.name == "logout" {
		return nil
	}
	c.Timeout = time.Millisecond // one look
	if _, err := r.await(ctx, c); err != nil {
		return nil
	}
	return errLoggedOut
}

// all runs every step of the section.
func (r *run) all(ctx context.Context) error {
	for i := range r.sec.steps {
		if _, err := r.step(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// refusal is a rejected condition that held.
type refusal struct{ Sighting }

func (f *refusal) Error() string { return fmt.Sprintf("%v: %s", ErrRejected, f.Text) }
func (f *refusal) Unwrap() error { return ErrRejected }

// step runs step i; for an awaited one it gives the sighting.
func (r *run) step(ctx context.Context, i int) (Sighting, error) {
	st, err := r.render(i)
	if err != nil {
		return Sighting{}, err
	}
	fail := func(err error) error {
		if err == nil {
			return nil
		}
		return fmt.Errorf("%s step %d: %w", r.sec.name, i+1, err)
	}
	switch {
	case st.Rejected != nil:
		return Sighting{}, nil
	case st.Expect != nil:
		r.pending = false
		seen, err := r.expect(ctx, *st.Expect)
		return seen, fail(err)
	case st.Acknowledged != nil:
		r.pending = false
		seen, err := r.expect(ctx, st.Acknowledged.Expect)
		if err == nil && r.s.p.isLogin(seen.URL) {
			err = errLoggedOut // answered, but by sending the user away
		}
		return seen, fail(err)
	case st.Read != nil:
		return Sighting{}, fail(r.read(ctx, *st.Read))
	}
	r.sent = r.sent || (r.sec.memory && st.sends())
	r.pending = true
	if err := r.act(ctx, st, r.patience(i)); err != nil {
		return Sighting{}, fail(err)
	}
	if st.Goto != "" {
		return Sighting{}, fail(r.loggedIn(ctx))
	}
	return Sighting{}, nil
}

func (r *run) render(i int) (Step, error) {
	st, err := r.s.p.script.render(*r.sec, i, r.s.vars(r.m))
	if err != nil {
		return st, &RigError{err}
	}
	return st, nil
}

// patience is how long action i may take: a request step ends only with its answer, for which the next awaited step
// has the time.
func (r *run) patience(i int) time.Duration {
	d := r.s.p.opts.StepTimeout
	if r.sec.steps[i].Request == nil {
		return d
	}
	for _, st := range r.sec.steps[i+1:] {
		switch {
		case st.Acknowledged != nil:
			return max(d, st.Acknowledged.Timeout)
		case st.Expect != nil:
			return max(d, st.Expect.Timeout)
		}
	}
	return d
}

// act does one action within d.
func (r *run) act(ctx context.Context, st Step, d time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	sf := r.s.surface
	switch {
	case st.Goto != "":
		return sf.Goto(ctx, st.Goto)
	case st.Fill != nil:
		return sf.Fill(ctx, st.Fill.Selector, st.Fill.Text)
	case st.Click != "":
		return sf.Click(ctx, st.Click)
	case st.Press != nil:
		return sf.Press(ctx, st.Press.Selector, st.Press.Key)
	case st.Select != nil:
		return sf.Select(ctx, st.Select.Selector, st.Select.Value)
	}
	resp, err := sf.Request(ctx, *st.Request)
	if err != nil {
		return err
	}
	return r.response(*st.Request, resp)
}

// response checks what a request step got, and captures from it.
func (r *run) response(req Request, resp Response) error {
	failed := &TargetError{Cause: CauseResponse, Doing: "request", URL: resp.URL}
	if r.sec.name != "login" && r.sec.name != "signup" && r.s.p.isLogin(resp.URL) {
		return errLoggedOut
	}
	ok := resp.Status < 400
	if req.Expect != nil && req.Expect.Status != 0 {
		ok = resp.Status == req.Expect.Status
	}
	if !ok {
		failed.Status, failed.Text = resp.Status, excerpt(string(resp.Body))
		failed.RetryAfter = RetryAfter(resp.Header)
		return failed
	}
	find := func(path string) (string, error) {
		found, err := Lookup(resp.Body, path)
		if err != nil && IsRig(err) {
			return "", err
		}
		if err == nil && len(found) == 0 {
			err = fmt.Errorf("nothing at %s", path)
		}
		if err != nil {
			failed.Err = err
			return "", failed
		}
		return found[0], nil
	}
	if req.Expect != nil && req.Expect.JSON != "" {
		if _, err := find(req.Expect.JSON); err != nil {
			return err
		}
	}
	got := map[string]string{}
	for name, path := range req.Capture {
		v, err := find(path)
		if err != nil {
			return err
		}
		got[name] = v
	}
	maps.Copy(r.s.captured, got)
	return nil
}

// expect waits for the condition, and for every rejected condition of the section with it. A page that shows both
// counts as a refusal: its user cannot rely on it.
func (r *run) expect(ctx context.Context, c Condition) (Sighting, error) {
	var any []Condition
	for i, st := range r.sec.steps {
		if st.Rejected != nil {
			st, err := r.render(i)
			if err != nil {
				return Sighting{}, err
			}
			any = append(any, *st.Rejected)
		}
	}
	seen, err := r.await(ctx, append(any, c)...)
	if err == nil && seen.Index < len(any) {
		return seen, &refusal{seen}
	}
	return seen, err
}

// await asks the surface, with the last condition's timeout for all of them. The surface's own timeout ends before
// that of ctx, so that it can say what it saw.
func (r *run) await(ctx context.Context, any ...Condition) (Sighting, error) {
	d := any[len(any)-1].Timeout
	if d <= 0 {
		d = r.s.p.opts.StepTimeout
	}
	for i := range any {
		any[i].Timeout = d
	}
	ctx, cancel := context.WithTimeout(ctx, d+2*time.Second)
	defer cancel()
	return r.s.surface.Await(ctx, any)
}

// read collects one list into the transcript.
func (r *run) read(ctx context.Context, rd Read) error {
	if r.sec.name == "ask" && r.pending && rd.Ready == nil {
		if err := r.answered(ctx); err != nil {
			return err
		}
	}
	r.pending = false
	if rd.Role == "" {
		rd.Role = "user"
	}
	// A list may be many pages long, so its time is the caller's; each page has the driver's own limit.
	texts, complete, err := r.s.surface.Read(ctx, rd)
	for _, t := range texts {
		r.t.Utterances = append(r.t.Utterances, Utterance{Role: rd.Role, Text: t})
	}
	r.t.Complete = r.t.Complete && complete && err == nil
	return err
}

// answered waits for what tell waits for, except that an answer holds the memory.
func (r *run) answered(ctx context.Context) error {
	tell := r.s.p.section("tell")
	for i, st := range tell.steps {
		if st.Acknowledged == nil {
			continue
		}
		st, err := r.s.p.script.render(*tell, i, r.s.vars(r.m))
		if err != nil {
			return &RigError{err}
		}
		c := st.Acknowledged.Expect
		if raw := tell.steps[i].Acknowledged.Contains; strings.Contains(raw, "{{") {
			c.Contains = ""
		}
		if _, err := r.expect(ctx, c); err != nil {
			return fmt.Errorf("waiting for the answer: %w", err)
		}
	}
	return nil
}

// excerpt is as much of a text as a person wants to see.
func excerpt(s string) string {
	var v any
	if json.Unmarshal([]byte(s), &v) != nil {
		s = fields(s)
	}
	if r := []rune(s); len(r) > 300 {
		s = string(r[:300]) + "…"
	}
	return s
}

// onSent gives a context that calls fn once when a request under it has been written, and fn itself, for surfaces that
// do not say so.
func onSent(ctx context.Context, fn func()) (context.Context, func()) {
	fn = sync.OnceFunc(fn)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(i httptrace.WroteRequestInfo) {
			if i.Err == nil {
				fn()
			}
		},
	}), fn
}
