package web

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	"amnesia/pkg/memory"
	"amnesia/pkg/session"
)

// outgoing is a request that is about to be sent.
type outgoing struct {
	method  string
	url     *url.URL
	body    []byte
	kind    string // content type of the body
	header  http.Header
	referer *url.URL
}

// key tells requests apart, to find lists that lead back.
func (o *outgoing) key() string { return o.method + " " + o.url.String() + "\n" + string(o.body) }

// exchange is a request and its response, ended or failed.
type exchange struct {
	url        string
	status     int
	began      memory.Instant
	ended      memory.Instant
	header     http.Header
	body       []byte // nil for a redirect, and for a page, whose text is in page
	page       *page
	err        error
	retryAfter time.Duration
}

// text is what the response said.
func (x *exchange) text() string {
	if x.page != nil {
		return textContent(x.page.tree())
	}
	return string(x.body)
}

// readable is what a person could read of it.
func (x *exchange) readable() string {
	if x.page != nil {
		return x.page.seen()
	}
	return strings.TrimSpace(string(x.body))
}

// fetch sends the request, follows redirects, and reads the last response to its end. It gives one exchange for each
// hop; the last one carries the error, if there was one. A request with a body goes out at most once: net/http repeats
// such a request only if not one byte of it was written (Transport, shouldRetryRequest).
func (s *surface) fetch(ctx context.Context, o *outgoing) []*exchange {
	ctx, cancel := context.WithTimeout(ctx, s.d.cfg.Timeout)
	defer cancel()
	now := s.d.cfg.Clock.Now
	cur := &exchange{url: o.url.String(), began: now()}
	hops := []*exchange{cur}
	fail := func(err error) []*exchange {
		cur.err, cur.ended = err, now()
		return hops
	}
	var body io.Reader
	if o.body != nil {
		body = bytes.NewReader(o.body)
	}
	req, err := http.NewRequestWithContext(ctx, o.method, o.url.String(), body)
	if err != nil {
		return fail(&session.RigError{Err: err})
	}
	for k, v := range o.header {
		req.Header[k] = v
	}
	req.Header.Set("User-Agent", s.d.cfg.UserAgent)
	if o.kind != "" {
		req.Header.Set("Content-Type", o.kind)
	}
	if o.referer != nil {
		req.Header.Set("Referer", withoutFragment(o.referer))
		if o.method == http.MethodPost {
			req.Header.Set("Origin", o.referer.Scheme+"://"+o.referer.Host)
		}
	}
	client := http.Client{Transport: s.d.pool, Jar: s.jar, CheckRedirect: func(next *http.Request, via []*http.Request) error {
		cur.status, cur.header, cur.ended = next.Response.StatusCode, next.Response.Header, now()
		if len(via) > s.d.cfg.Limits.Redirects {
			return fmt.Errorf("more than %d redirects in a row", s.d.cfg.Limits.Redirects)
		}
		cur = &exchange{url: next.URL.String(), began: now()}
		hops = append(hops, cur)
		return nil
	}}
	resp, err := client.Do(req)
	if err != nil {
		return fail(err)
	}
	defer resp.Body.Close()
	cur.url, cur.status, cur.header = resp.Request.URL.String(), resp.StatusCode, resp.Header
	cur.retryAfter = session.RetryAfter(resp.Header)
	data, err := io.ReadAll(io.LimitReader(resp.Body, s.d.cfg.Limits.Body+1))
	if err != nil {
		return fail(err)
	}
	if int64(len(data)) > s.d.cfg.Limits.Body {
		return fail(&session.RigError{Err: fmt.Errorf("the response of %s is longer than %d bytes — fix: raise the limit, or read less at a time",
			cur.url, s.d.cfg.Limits.Body)})
	}
	cur.body, cur.ended = data, now()
	return hops
}

func withoutFragment(u *url.URL) string {
	c := *u
	c.Fragment, c.RawFragment, c.User = "", "", nil
	return c.String()
}

// navigation is a page on its way.
type navigation struct {
	doing  string
	began  memory.Instant
	cancel context.CancelFunc
	sent   chan struct{} // closed once the request has been written, or has failed
	done   chan struct{} // closed when hops is set
	hops   []*exchange
}

// start sends a request whose response becomes the page. It runs under the surface's life and not under the caller's
// context: as in a browser, a click is over long before its answer.
func (s *surface) start(doing string, o *outgoing) *navigation {
	ctx, cancel := context.WithCancel(s.life)
	nav := &navigation{doing: doing, began: s.acted, cancel: cancel, sent: make(chan struct{}), done: make(chan struct{})}
	sent := sync.OnceFunc(func() { close(nav.sent) })
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(i httptrace.WroteRequestInfo) {
		if i.Err == nil {
			sent()
		}
	}})
	if o.header == nil {
		o.header = http.Header{"Accept": {"text/html,application/xhtml+xml,*/*;q=0.8"}}
	}
	go func() {
		defer cancel()
		defer sent()
		defer close(nav.done)
		hops := s.fetch(ctx, o)
		last := hops[len(hops)-1]
		if last.err == nil {
			s.load(last, o.url.Fragment)
		}
		nav.hops = hops
	}()
	s.nav = nav
	return nav
}

// load makes the response a page.
func (s *surface) load(x *exchange, fragment string) {
	u, err := url.Parse(x.url)
	if err != nil {
		x.err = err
		return
	}
	if u.Fragment == "" {
		u.Fragment = fragment
	}
	kind := x.header.Get("Content-Type")
	p := newPage(u, kind, x.body)
	p.status, p.began, p.ended = x.status, x.began, x.ended
	x.page = p
	if isHTML(kind, x.body) {
		x.body = nil
	}
}

// failure makes of whatever went wrong an error that says whose it is.
func (s *surface) failure(ctx context.Context, doing, at string, err error) error {
	if err == nil || session.IsRig(err) {
		return err
	}
	var te *session.TargetError
	if errors.As(err, &te) {
		return err
	}
	if s.life.Err() != nil {
		return errClosed
	}
	if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%s: %w", doing, ctx.Err())
	}
	if ours(err) {
		return &session.RigError{Err: fmt.Errorf("%s: %w", doing, err)}
	}
	return &session.TargetError{Cause: cause(err), Doing: doing, URL: at, Err: err}
}

var errClosed = &session.RigError{Err: errors.New("the session is closed")}

// ours reports whether the error is of this machine and says nothing of the target.
func ours(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL, syscall.EPERM, syscall.EACCES} {
		if errors.Is(err, e) {
			return true
		}
	}
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	return errors.As(err, &unknown) || errors.As(err, &host)
}

func cause(err error) string {
	var ne net.Error
	var dns *net.DNSError // a stopped container has no name either
	switch {
	case errors.As(err, &dns) && !dns.IsTimeout, errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return session.CauseRefused
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return session.CauseReset
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &ne) && ne.Timeout():
		return session.CauseTimeout
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return session.CauseEOF
	}
	return session.CauseInterrupted
}
