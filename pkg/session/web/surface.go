package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"amnesia/pkg/memory"
	"amnesia/pkg/session"
)

// surface is one user's browser without a browser.
type surface struct {
	d      *Driver
	jar    http.CookieJar
	life   context.Context
	end    context.CancelFunc
	closed func()

	page    *page // the document shown; nil before the first and after one that failed
	broken  error // why there is no page
	good    *page // the last one that was no error page
	goodAt  memory.Instant
	nav     *navigation // on its way; nil when none is
	acted   memory.Instant
	seen    []*exchange // since the last action
	last    []byte      // the last response that is no page
	lastURL *url.URL
	header  http.Header // of the last request step, for the pages of a JSON list
}

// begin marks a new action: what was answered before counts no more.
func (s *surface) begin() {
	s.acted = s.d.cfg.Clock.Now()
	s.seen = nil
}

// Goto loads an address.
func (s *surface) Goto(ctx context.Context, to string) error {
	doing := fmt.Sprintf("goto %q", to)
	if s.life.Err() != nil {
		return errClosed
	}
	u, err := s.d.base.Parse(to)
	if err != nil {
		return &session.RigError{Err: fmt.Errorf("%s: %w", doing, err)}
	}
	if err := ctx.Err(); err != nil { // an action that came too late sends nothing, however fast the answer would be
		return s.failure(ctx, doing, s.at(), err)
	}
	s.drop()
	s.begin()
	s.start(doing, &outgoing{method: http.MethodGet, url: u})
	if err := s.settle(ctx, doing); err != nil {
		s.drop()
		return err
	}
	_, err = s.document(doing)
	return err
}

// drop gives up the page that is on its way.
func (s *surface) drop() {
	if s.nav != nil {
		s.nav.cancel()
		<-s.nav.done
		s.nav = nil
	}
}

// settle waits for the page that is on its way, and shows it.
func (s *surface) settle(ctx context.Context, doing string) error {
	if s.life.Err() != nil {
		return errClosed
	}
	if s.nav == nil {
		return nil
	}
	select {
	case <-s.nav.done:
	default:
		select {
		case <-s.nav.done:
		case <-ctx.Done():
			return s.failure(ctx, doing, s.at(), ctx.Err())
		}
	}
	nav := s.nav
	s.nav = nil
	last := nav.hops[len(nav.hops)-1]
	s.seen = append(s.seen, nav.hops...)
	s.page, s.broken = last.page, s.failure(s.life, nav.doing, last.url, last.err)
	if s.page != nil && s.page.status < 400 {
		s.good, s.goodAt = s.page, nav.began
	}
	if last.body != nil {
		s.keep(last)
	}
	return nil
}

// keep holds a response for JSON reads.
func (s *surface) keep(x *exchange) {
	s.last = x.body
	s.lastURL, _ = url.Parse(x.url)
}

// at is the address of the page.
func (s *surface) at() string {
	if s.page == nil {
		return ""
	}
	return s.page.url.String()
}

// shownPage gives the page that is there, whatever its status.
func (s *surface) shownPage(doing string) (*page, error) {
	switch {
	case s.page != nil:
		return s.page, nil
	case s.broken != nil:
		return nil, s.broken
	}
	return nil, &session.RigError{Err: fmt.Errorf("%s: there is no page yet — fix: begin with a goto step", doing)}
}

// document gives the page, which must be no error page.
func (s *surface) document(doing string) (*page, error) {
	p, err := s.shownPage(doing)
	if err == nil && p.status >= 400 {
		return nil, s.responseFailed(doing, s.seen, p)
	}
	return p, err
}

// responseFailed tells of the worst response since the last action, or of the page.
func (s *surface) responseFailed(doing string, seen []*exchange, p *page) *session.TargetError {
	e := &session.TargetError{Cause: session.CauseTimeout, Doing: doing, URL: s.at()}
	if p != nil && p.status >= 400 {
		e.Cause, e.Status, e.Text = session.CauseResponse, p.status, p.seen()
	}
	for _, x := range seen {
		if x.status >= 400 && x.status >= e.Status {
			e.Cause, e.Status, e.Text, e.RetryAfter = session.CauseResponse, x.status, x.readable(), x.retryAfter
		}
	}
	return e
}

// element gives the first match, which must be visible.
func (s *surface) element(ctx context.Context, doing, selector string) (*page, *html.Node, error) {
	if err := s.settle(ctx, doing); err != nil {
		return nil, nil, err
	}
	p, err := s.shownPage(doing)
	if err != nil {
		return nil, nil, err
	}
	nodes, err := p.find(selector)
	if err != nil {
		return nil, nil, &session.RigError{Err: fmt.Errorf("%s: %w", doing, err)}
	}
	missing := &session.TargetError{Cause: session.CauseMissing, Doing: doing, URL: p.url.String(), Status: failedStatus(p.status)}
	if len(nodes) == 0 {
		missing.Err = errors.New("there is no such element")
		return nil, nil, missing
	}
	if !visible(nodes[0]) {
		missing.Err = errors.New("the element is hidden")
		return nil, nil, missing
	}
	return p, nodes[0], nil
}

func failedStatus(status int) int {
	if status < 400 {
		return 0
	}
	return status
}

// Fill types into a field, over what stands there.
func (s *surface) Fill(ctx context.Context, selector, text string) error {
	doing := fmt.Sprintf("fill %q", selector)
	p, n, err := s.element(ctx, doing, selector)
	if err != nil {
		return err
	}
	if n.DataAtom == atom.Label {
		if c := p.labelled(n); c != nil {
			n = c
		}
	}
	switch {
	case n.DataAtom != atom.Textarea && (n.DataAtom != atom.Input || !textField(n)):
		return &session.RigError{Err: fmt.Errorf("%s on %s: <%s> is no field for text — fix: name an <input> or <textarea>", doing, p.url, n.Data)}
	case disabled(n) || has(n, "readonly"):
		return &session.TargetError{Cause: session.CauseMissing, Doing: doing, URL: p.url.String(), Err: errDisabled}
	case n.DataAtom == atom.Input && strings.ContainsAny(text, "\r\n"):
		// A browser would drop the line breaks without a word, and the memory told would not be the one recorded.
		return &session.RigError{Err: fmt.Errorf("%s on %s: the field has one line and the text several — fix: leave the payload multiline out", doing, p.url)}
	}
	s.begin()
	p.typed[n] = text
	return nil
}

// Click follows a link, submits a form, or sets a control.
func (s *surface) Click(ctx context.Context, selector string) error {
	doing := fmt.Sprintf("click %q", selector)
	p, n, err := s.element(ctx, doing, selector)
	if err != nil {
		return err
	}
	o, err := p.follow(n)
	return s.send(ctx, doing, o, err)
}

// Press presses Enter: the only key that does something without a script.
func (s *surface) Press(ctx context.Context, selector, key string) error {
	doing := fmt.Sprintf("press %s in %q", key, selector)
	p, n, err := s.element(ctx, doing, selector)
	if err != nil {
		return err
	}
	if key != "Enter" {
		return s.send(ctx, doing, nil, errScript)
	}
	o, err := p.enter(n)
	return s.send(ctx, doing, o, err)
}

// send starts what an element does and returns once it is on its way.
func (s *surface) send(ctx context.Context, doing string, o *outgoing, err error) error {
	switch {
	case errors.Is(err, errDisabled):
		return &session.TargetError{Cause: session.CauseMissing, Doing: doing, URL: s.at(), Err: err}
	case err != nil:
		return &session.RigError{Err: fmt.Errorf("%s on %s: %w", doing, s.at(), err)}
	}
	s.begin()
	if o == nil {
		return nil
	}
	if err := ctx.Err(); err != nil { // as in Goto
		return s.failure(ctx, doing, o.url.String(), err)
	}
	nav := s.start(doing, o)
	select {
	case <-nav.sent:
	case <-ctx.Done():
		return s.failure(ctx, doing, o.url.String(), ctx.Err())
	}
	select {
	case <-nav.done:
		if err := s.settle(ctx, doing); err != nil {
			return err
		}
		return s.broken
	default:
		return nil
	}
}

// Select chooses an option by its value or label.
func (s *surface) Select(ctx context.Context, selector, value string) error {
	doing := fmt.Sprintf("select %q in %q", value, selector)
	p, n, err := s.element(ctx, doing, selector)
	if err != nil {
		return err
	}
	if n.DataAtom != atom.Select {
		return &session.RigError{Err: fmt.Errorf("%s on %s: <%s> is no <select>", doing, p.url, n.Data)}
	}
	missing := &session.TargetError{Cause: session.CauseMissing, Doing: doing, URL: p.url.String()}
	if disabled(n) {
		missing.Err = errDisabled
		return missing
	}
	var found *html.Node
	for _, o := range options(n) {
		if !disabled(o) && (optionValue(o) == value || attr(o, "label") == value || spaced(textContent(o)) == spaced(value)) {
			found = o
			break
		}
	}
	if found == nil {
		missing.Err = errors.New("there is no such option")
		return missing
	}
	s.begin()
	for _, o := range options(n) {
		dropAttr(o, "selected")
	}
	setAttr(found, "selected", "")
	return nil
}

// Request sends a request of the script's own.
func (s *surface) Request(ctx context.Context, r session.Request) (session.Response, error) {
	doing := fmt.Sprintf("request %s", r.Path)
	if err := s.settle(ctx, doing); err != nil {
		return session.Response{}, err
	}
	to, err := s.d.base.Parse(r.Path)
	if err != nil {
		return session.Response{}, &session.RigError{Err: fmt.Errorf("%s: %w", doing, err)}
	}
	o := &outgoing{method: r.Method, url: to, header: http.Header{"Accept": {"*/*"}}}
	switch {
	case r.JSON != nil:
		if o.body, err = json.Marshal(r.JSON); err != nil {
			return session.Response{}, &session.RigError{Err: fmt.Errorf("%s: %w", doing, err)}
		}
		o.kind = "application/json"
	case r.Form != nil:
		form := url.Values{}
		for k, v := range r.Form {
			form.Set(k, v)
		}
		o.body, o.kind = []byte(form.Encode()), "application/x-www-form-urlencoded"
	}
	if o.method == "" {
		o.method = http.MethodGet
		if o.body != nil {
			o.method = http.MethodPost
		}
	}
	for k, v := range r.Headers {
		o.header.Set(k, v)
		if http.CanonicalHeaderKey(k) == "Content-Type" {
			o.kind = v
		}
	}
	s.header = o.header
	return s.request(ctx, doing, o)
}

func (s *surface) request(ctx context.Context, doing string, o *outgoing) (session.Response, error) {
	s.begin()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	hops := s.fetch(ctx, o)
	s.seen = append(s.seen, hops...)
	x := hops[len(hops)-1]
	if x.err != nil {
		return session.Response{}, s.failure(ctx, doing, x.url, x.err)
	}
	s.keep(x)
	return session.Response{URL: x.url, Status: x.status, Header: x.header, Body: x.body}, nil
}

// Loaded says when the last document was asked for that is no error page: it stays before its user's eyes, whatever comes
// after it.
func (s *surface) Loaded() memory.Instant { return s.goodAt }

// Glance gives that document, or else the last response to a request step.
func (s *surface) Glance(context.Context) (session.Glance, error) {
	g := session.Glance{Loaded: s.goodAt, At: s.d.cfg.Clock.Now()}
	switch {
	case s.good != nil:
		var err error
		g.URL = s.good.url.String()
		if g.Document, err = s.good.text(); err != nil {
			return g, err
		}
	case s.last != nil && s.lastURL != nil:
		g.Loaded, g.URL, g.Document = s.acted, s.lastURL.String(), "<pre>"+html.EscapeString(string(s.last))+"</pre>"
	default:
		return g, errors.New("there is no page")
	}
	return g, nil
}

// Evidence saves the last document.
func (s *surface) Evidence(_ context.Context, name string) []string {
	if s.d.cfg.Evidence == "" || s.page == nil {
		return nil
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "<!-- %s, status %d -->\n", strings.ReplaceAll(s.page.url.Redacted(), "--", "- -"), s.page.status)
	if html.Render(&b, s.page.tree()) != nil {
		return nil
	}
	file := filepath.Join(s.d.cfg.Evidence, session.EvidenceName(s.d.cfg.Clock.Now(), name)+".html")
	if os.WriteFile(file, []byte(session.StillDocument(b.String())), 0o600) != nil {
		return nil
	}
	return []string{file}
}

// Close gives up whatever is on its way. It may be called twice.
func (s *surface) Close() error {
	s.closed()
	if s.nav != nil {
		<-s.nav.done
	}
	return nil
}
