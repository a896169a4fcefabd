package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/html"

	"amnesia/pkg/memory"
	"amnesia/pkg/session"
)

// Await looks once, as soon as nothing is on its way any more: a page without scripts does not change, and loading it
// again would be an action of its own. The time that the conditions have is for the answer to come.
func (s *surface) Await(ctx context.Context, any []session.Condition) (session.Sighting, error) {
	doing := "waiting for " + describe(any)
	ctx, cancel := patience(ctx, any)
	defer cancel()
	if err := s.settle(ctx, doing); err != nil {
		return session.Sighting{}, err
	}
	for i, c := range any {
		seen, held, err := s.holds(c)
		if err != nil {
			return session.Sighting{}, &session.RigError{Err: fmt.Errorf("%s: %w", doing, err)}
		}
		if held {
			seen.Index = i
			for _, x := range s.seen {
				if x.status > seen.Status {
					seen.Status, seen.RetryAfter = x.status, x.retryAfter
				}
			}
			return seen, nil
		}
	}
	for _, x := range s.seen {
		if x.err != nil {
			return session.Sighting{}, s.failure(s.life, doing, x.url, x.err)
		}
	}
	if s.page == nil && len(s.seen) == 0 {
		if _, err := s.shownPage(doing); err != nil {
			return session.Sighting{}, err
		}
	}
	e := s.responseFailed(doing, s.seen, s.page)
	if e.Status == 0 {
		e.Err = errors.New("it is not there, and nothing more is coming")
	}
	return session.Sighting{}, e
}

// patience bounds ctx by the longest of the conditions' timeouts.
func patience(ctx context.Context, any []session.Condition) (context.Context, context.CancelFunc) {
	var d time.Duration
	for _, c := range any {
		d = max(d, c.Timeout)
	}
	if d <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d)
}

func describe(any []session.Condition) string {
	var parts []string
	for _, c := range any {
		var b []string
		for _, f := range []struct{ name, value string }{{"url", c.URL}, {"selector", c.Selector}, {"state", c.State},
			{"response", c.Response}, {"json", c.JSON}, {"contains", c.Contains}} {
			if f.value != "" {
				b = append(b, fmt.Sprintf("%s %q", f.name, f.value))
			}
		}
		parts = append(parts, strings.Join(b, ", "))
	}
	return strings.Join(parts, " or ")
}

// holds looks at one condition. On a document that failed only what is visibly there can hold: a spinner is hidden on
// every error page.
func (s *surface) holds(c session.Condition) (session.Sighting, bool, error) {
	var seen session.Sighting
	when := func(from, to memory.Instant) {
		seen.NotSeen, seen.Seen = memory.Later(seen.NotSeen, from), memory.Later(seen.Seen, to)
	}
	if c.Response != "" {
		x, text, err := s.response(c)
		if x == nil || err != nil {
			return seen, false, err
		}
		last := s.seen[len(s.seen)-1]
		seen.Text, seen.URL = text, last.url
		when(x.began, last.ended)
	}
	if c.URL == "" && c.Selector == "" {
		return seen, true, nil
	}
	p := s.page
	if p == nil || (p.status >= 400 && (c.Selector == "" || c.State == "hidden")) {
		return seen, false, nil
	}
	when(p.began, p.ended)
	if c.URL != "" {
		match, err := session.Glob(c.URL)
		if err != nil || !match(p.url.String()) {
			return seen, false, err
		}
	}
	if c.Selector == "" {
		return seen, true, nil
	}
	nodes, err := p.find(c.Selector)
	if err != nil {
		return seen, false, err
	}
	for _, n := range nodes {
		if !visible(n) {
			continue
		}
		text := strings.TrimSpace(textContent(n))
		if c.Contains != "" && !session.Holds(text, c.Contains) {
			continue
		}
		if c.State == "enabled" && disabled(n) || c.State == "disabled" && !disabled(n) {
			continue
		}
		seen.Text = text
		return seen, c.State != "hidden", nil
	}
	return seen, c.State == "hidden", nil
}

// response finds a response since the last action that ended well and is as the condition wants it.
func (s *surface) response(c session.Condition) (*exchange, string, error) {
	match, err := session.Glob(c.Response)
	if err != nil {
		return nil, "", err
	}
	// What was seen since the last action is one chain of redirects: one action sends one request.
	if n := len(s.seen); n == 0 || s.seen[n-1].err != nil || s.seen[n-1].status >= 400 {
		return nil, "", nil
	}
	for _, x := range s.seen {
		if !match(x.url) {
			continue
		}
		text := x.text()
		if c.JSON != "" {
			found, err := session.Lookup(x.body, c.JSON)
			if session.IsRig(err) {
				return nil, "", err
			}
			if text = strings.Join(found, "\n"); len(found) == 0 {
				continue
			}
		}
		if c.Contains != "" && c.Selector == "" && !session.Holds(text, c.Contains) {
			continue
		}
		return x, text, nil
	}
	return nil, "", nil
}

// Read collects a list, page by page. Pages that only add to what was there, and pages that show the next part, are
// told apart by what they show.
func (s *surface) Read(ctx context.Context, r session.Read) (texts []string, complete bool, err error) {
	if r.JSON != "" {
		texts, complete, err = s.readJSON(ctx, r)
	} else {
		texts, complete, err = s.readPages(ctx, r)
	}
	if r.Last && len(texts) > 1 {
		texts = texts[len(texts)-1:]
	}
	return texts, complete, err
}

func (s *surface) readPages(ctx context.Context, r session.Read) (all []string, complete bool, err error) {
	doing := fmt.Sprintf("reading %q", r.Selector)
	visited := map[string]bool{}
	for range s.d.cfg.Limits.Pages {
		if r.Ready != nil {
			if _, err := s.Await(ctx, []session.Condition{*r.Ready}); err != nil {
				return all, false, err
			}
		}
		if err := s.settle(ctx, doing); err != nil {
			return all, false, err
		}
		p, err := s.document(doing)
		if err != nil {
			return all, false, err
		}
		nodes, err := p.find(r.Selector)
		if err != nil {
			return all, false, &session.RigError{Err: fmt.Errorf("%s: %w", doing, err)}
		}
		got := make([]string, len(nodes))
		for i, n := range nodes {
			got[i] = strings.TrimSpace(textContent(n))
		}
		all = merge(all, got)
		if r.More == nil {
			return all, true, nil
		}
		more, err := p.find(r.More.Click)
		if err != nil {
			return all, false, &session.RigError{Err: fmt.Errorf("%s: %w", doing, err)}
		}
		var n *html.Node
		for _, m := range more {
			if visible(m) && !disabled(m) {
				n = m
				break
			}
		}
		if n == nil {
			return all, true, nil
		}
		visited["GET "+withoutFragment(p.url)+"\n"] = true
		o, err := p.follow(n)
		if err == nil && o != nil && visited[o.key()] {
			return all, false, &session.TargetError{Cause: session.CauseResponse, Doing: doing, URL: p.url.String(),
				Err: fmt.Errorf("the list leads back to %s", o.url)}
		}
		if err == nil && o == nil {
			err = errScript
		}
		if err == nil {
			visited[o.key()] = true
		}
		if err := s.send(ctx, fmt.Sprintf("click %q", r.More.Click), o, err); err != nil {
			return all, false, err
		}
	}
	return all, false, s.tooLong(doing)
}

func (s *surface) tooLong(doing string) error {
	return &session.RigError{Err: fmt.Errorf("%s: more than %d pages — fix: raise the limit, or tell fewer memories per account", doing, s.d.cfg.Limits.Pages)}
}

// merge adds a page to what was read. A page that holds all of it, in order, replaces it.
func merge(all, got []string) []string {
	for i := 0; len(all) > 0 && i+len(all) <= len(got); i++ {
		same := true
		for j := range all {
			if same = got[i+j] == all[j]; !same {
				break
			}
		}
		if same {
			return got
		}
	}
	return append(all, got...)
}

func (s *surface) readJSON(ctx context.Context, r session.Read) (all []string, complete bool, err error) {
	doing := "reading " + r.JSON
	if err := s.settle(ctx, doing); err != nil {
		return nil, false, err
	}
	if s.last == nil {
		return nil, false, &session.RigError{Err: fmt.Errorf("%s: there is no response yet — fix: put a request step before it", doing)}
	}
	visited := map[string]bool{}
	lookup := func(path string) ([]string, error) {
		found, err := session.Lookup(s.last, path)
		if err != nil && !session.IsRig(err) {
			err = &session.TargetError{Cause: session.CauseResponse, Doing: doing, URL: s.lastURL.String(), Err: err}
		}
		return found, err
	}
	for range s.d.cfg.Limits.Pages {
		if r.Ready != nil {
			if _, err := s.Await(ctx, []session.Condition{*r.Ready}); err != nil {
				return all, false, err
			}
		}
		got, err := lookup(r.JSON)
		if err != nil {
			return all, false, err
		}
		all = append(all, got...)
		if r.More == nil {
			return all, true, nil
		}
		next, err := lookup(r.More.JSON)
		if err != nil {
			return all, false, err
		}
		if len(next) == 0 || next[0] == "" || next[0] == "false" {
			return all, true, nil
		}
		visited[s.lastURL.String()] = true
		to, err := s.lastURL.Parse(next[0])
		if err != nil || visited[to.String()] {
			return all, false, &session.TargetError{Cause: session.CauseResponse, Doing: doing, URL: s.lastURL.String(),
				Err: fmt.Errorf("the list leads to %q, where no more of it can be", next[0])}
		}
		header := s.header.Clone()
		header.Del("Content-Type")
		if to.Host != s.lastURL.Host { // what the script sends to its app is for nobody else
			header = http.Header{"Accept": {"*/*"}}
		}
		resp, err := s.request(ctx, doing, &outgoing{method: http.MethodGet, url: to, header: header})
		if err != nil {
			return all, false, err
		}
		if resp.Status >= 400 {
			return all, false, s.responseFailed(doing, s.seen, nil)
		}
	}
	return all, false, s.tooLong(doing)
}
