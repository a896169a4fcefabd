package http

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/ohler55/ojg/oj"

	"amnesia/pkg/view"
)

// statusError is a response that is not the list.
type statusError struct {
	status int
	start  string // of the body
}

func (e *statusError) Error() string {
	return fmt.Sprintf("status %d %s: %s", e.status, http.StatusText(e.status), e.start)
}

// transportError is a request that got no whole response.
type transportError struct{ err error }

func (e *transportError) Error() string { return e.err.Error() }
func (e *transportError) Unwrap() error { return e.err }

// isRig: no connection, no whole response, or one that refuses the probe and not the user.
func isRig(err error) bool {
	var s *statusError
	if errors.As(err, &s) {
		return s.status == http.StatusTooManyRequests || s.status == http.StatusUnauthorized ||
			s.status == http.StatusForbidden || s.status == http.StatusProxyAuthRequired
	}
	var t *transportError
	return errors.As(err, &t)
}

// read follows the pages to their end.
func (v *View) read(ctx context.Context, r *view.Reading) error {
	at, err := url.Parse(address(v.cfg.URL, r.User()))
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	items, texts := 0, 0
	for at != nil {
		switch {
		case seen[at.String()]:
			return fmt.Errorf("GET %s: the pages go in a circle", at.Redacted())
		case len(seen) == v.cfg.MaxPages:
			return fmt.Errorf("GET %s: more than %d pages — fix: raise the limit, or let old memories retire", at.Redacted(), v.cfg.MaxPages)
		}
		seen[at.String()] = true
		n, withText, next, err := v.page(ctx, r, at)
		if err != nil {
			return fmt.Errorf("GET %s: %w", at.Redacted(), err)
		}
		items, texts = items+n, texts+withText
		at = next
	}
	if items > 0 && texts == 0 {
		return fmt.Errorf("none of %d items has anything at %s — fix: check the view's text path", items, v.cfg.Text)
	}
	return nil
}

// page reads one page and gives the number of its items, of those with a text, and the address of the next page.
func (v *View) page(ctx context.Context, r *view.Reading, at *url.URL) (items, texts int, next *url.URL, err error) {
	doc, err := v.get(ctx, at)
	if err != nil {
		return 0, 0, nil, err
	}
	list, err := v.records(doc)
	if err != nil {
		return 0, 0, nil, err
	}
	for _, item := range list {
		rec := view.Record{}
		if v.text == nil {
			rec.Text = text(item)
			texts++
		} else if found := v.text.Get(item); len(found) > 0 {
			rec.Text = text(found[0])
			texts++
		}
		if v.owner != nil {
			rec.Owner = text(v.owner.First(item))
		}
		if v.id != nil {
			rec.Key = text(v.id.First(item))
		}
		r.Record(rec)
	}
	if v.next == nil {
		return len(list), texts, nil, nil
	}
	to := text(v.next.First(doc))
	if to == "" {
		return len(list), texts, nil, nil
	}
	next, err = at.Parse(to)
	if err == nil {
		err = sameHost(at, next)
	}
	if err != nil {
		return 0, 0, nil, fmt.Errorf("the next page: %w", err)
	}
	return len(list), texts, next, nil
}

// records gives the items of a page, or says why it is not a page at all: an error message that comes as a success must
// not pass for an empty list.
func (v *View) records(doc any) ([]any, error) {
	if len(v.list.Get(doc)) == 0 {
		return nil, fmt.Errorf("the response has nothing at %s: %s", v.list, start(oj.JSON(doc)))
	}
	found := v.items.Get(doc)
	if len(v.list) < len(v.items) {
		return found, nil
	}
	switch list := found[0].(type) {
	case []any:
		return list, nil
	case nil: // an empty list, as some languages write it
		return nil, nil
	}
	return nil, fmt.Errorf("the response has no list at %s: %s", v.items, start(oj.JSON(doc)))
}

// get gives the one JSON document at the address.
func (v *View) get(ctx context.Context, at *url.URL) (any, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, v.cfg.Timeout, fmt.Errorf("no whole response within %s", v.cfg.Timeout))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	for name, values := range v.cfg.Headers {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	if host := v.cfg.Headers.Get("Host"); host != "" {
		req.Host = host
	}
	resp, err := v.client.Do(req)
	if err != nil {
		return nil, transport(ctx, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, v.cfg.MaxBody+1))
	switch {
	case err != nil:
		return nil, transport(ctx, fmt.Errorf("the response was cut: %w", err))
	case resp.StatusCode < 200 || resp.StatusCode >= 300:
		return nil, &statusError{resp.StatusCode, start(string(body))}
	case int64(len(body)) > v.cfg.MaxBody:
		return nil, fmt.Errorf("the response is longer than %d bytes — fix: raise the limit, or ask for smaller pages", v.cfg.MaxBody)
	case len(bytes.TrimSpace(body)) == 0:
		return nil, errors.New("the response is empty")
	}
	doc, err := oj.Parse(body)
	if err != nil {
		return nil, fmt.Errorf("the response is no JSON (%w): %s", err, start(string(body)))
	}
	return doc, nil
}

// transport names the deadline instead of what it did to the connection.
func transport(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // without the address, which the caller names
	}
	return &transportError{err}
}

// text gives a string as it is, nothing as "", and everything else as JSON.
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	return oj.JSON(v)
}

// start gives as much of a body as helps a person.
func start(body string) string {
	const most = 200
	if len(body) > most {
		return body[:most] + "…"
	}
	return body
}
