package browser

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/playwright-community/playwright-go"

	"amnesia/pkg/memory"
	"amnesia/pkg/session"
)

const (
	// defaultAwait is a condition's Timeout when it has none.
	defaultAwait = 10 * time.Second
	// textLimit bounds the text of a sighting, in bytes.
	textLimit = 4096
)

// awaited is one condition with what is known of it.
type awaited struct {
	session.Condition
	url, response func(string) bool

	held          bool // its part on the page, at the last look
	text          string
	notSeen, seen memory.Instant // bounds of that part
}

// onPage reports whether the condition says anything of the page.
func (a *awaited) onPage() bool { return a.url != nil || a.Selector != "" }

func (s *surface) compile(conditions []session.Condition) ([]*awaited, time.Duration, error) {
	var limit time.Duration
	list := make([]*awaited, len(conditions))
	for i, c := range conditions {
		a := &awaited{Condition: c, notSeen: s.acted}
		var err error
		if a.url, err = s.glob(c.URL); err != nil {
			return nil, 0, err
		}
		if a.response, err = s.glob(c.Response); err != nil {
			return nil, 0, err
		}
		if a.Selector == "" && c.Response == "" && c.Contains != "" {
			a.Selector = "body"
		}
		if a.response == nil && c.JSON != "" {
			a.response = func(string) bool { return true }
		}
		if c.Timeout <= 0 {
			c.Timeout = defaultAwait
		}
		limit = max(limit, c.Timeout)
		list[i] = a
	}
	return list, limit, nil
}

// glob compiles a pattern; nil for none. One that begins with / is of the target itself.
func (s *surface) glob(pattern string) (func(string) bool, error) {
	if pattern == "" {
		return nil, nil
	}
	if strings.HasPrefix(pattern, "/") {
		pattern = strings.TrimSuffix(s.baseURL, "/") + pattern
	}
	match, err := session.Glob(pattern)
	if err != nil {
		return nil, &session.RigError{Err: err}
	}
	return match, nil
}

// Await watches the network by its events, and the page by looks a few milliseconds apart.
func (s *surface) Await(ctx context.Context, any []session.Condition) (session.Sighting, error) {
	doing := "await " + describe(any)
	if s.spoilt != nil {
		return session.Sighting{}, s.spoilt
	}
	list, limit, err := s.compile(any)
	if err != nil {
		return session.Sighting{}, err
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	over, late, last := timer.C, false, false
	var grace <-chan time.Time                               // running while the message is known to have been cut off
	firstOnPage := slices.IndexFunc(list, (*awaited).onPage) // -1: nothing to look at

	bodies := map[playwright.Response][]byte{}
	var looking chan glimpse // of the look under way; nil between looks
	href, looked := "", false
	for {
		exchanges, changed := s.net.exchanges()
		found, err := s.decide(ctx, list, exchanges, bodies)
		if found != nil && !looked && firstOnPage >= 0 && firstOnPage < found.Index {
			// A response ended. Whether an earlier condition holds as well, only a look can say.
			s.apply(list, <-s.look(ctx, list, href, 0))
			found, err = s.decide(ctx, list, exchanges, bodies)
		}
		if err != nil {
			return session.Sighting{}, s.failure(ctx, doing, err)
		}
		if found != nil {
			found.Status, found.RetryAfter = worst(exchanges)
			return *found, nil
		}
		// On the browser's own error page nothing comes to hold any more.
		if doc, _ := s.net.document(); looked && (late || doc.unanswered()) {
			return session.Sighting{}, s.timedOut(ctx, doing, exchanges)
		}
		if cut := cutOff(exchanges); !cut {
			grace = nil
		} else if grace == nil && !late {
			grace = time.After(afterCut)
		}
		looked = false
		if firstOnPage >= 0 && looking == nil {
			looking = s.look(ctx, list, href, lookFor)
		}
		select {
		case g := <-looking:
			looking, looked, href = nil, true, g.href
			if g.err != nil {
				return session.Sighting{}, s.failure(ctx, doing, g.err)
			}
			s.apply(list, g)
		case <-changed:
		case <-over:
			late = true
		case <-grace:
			late = true
		case <-ctx.Done():
			return session.Sighting{}, s.ended(ctx, doing)
		case <-s.e.dead:
			return session.Sighting{}, s.failure(ctx, doing, &session.RigError{Err: errors.New(s.e.reason())})
		}
		if late && !last {
			if firstOnPage < 0 {
				return session.Sighting{}, s.timedOut(ctx, doing, exchanges)
			}
			// However short the time was, and however slow the machine: the last word is that of a look.
			over, grace, last, looking = nil, nil, true, s.look(ctx, list, href, 0)
		}
	}
}

// afterCut is how long a page has to react to its message being cut off: to tell the user, or to try again.
const afterCut = 500 * time.Millisecond

// cutOff reports whether the last message that the page sent, in whatever form, failed on the way, with nothing else
// under way that could still bring an answer.
func cutOff(exchanges []exchange) bool {
	cut := false
	for i := range exchanges {
		x := &exchanges[i]
		if !x.ofPage() {
			continue
		}
		if !x.ended {
			return false
		}
		if x.method != http.MethodGet && x.method != http.MethodHead {
			cut = x.unanswered()
		}
	}
	return cut
}

// decide gives the first condition that holds; nil when none does.
func (s *surface) decide(ctx context.Context, list []*awaited, exchanges []exchange, bodies map[playwright.Response][]byte) (*session.Sighting, error) {
	doc, _ := s.net.document()
	for i, a := range list {
		if a.onPage() && !a.held || doc.failed() && (a.Selector == "" || a.State == "hidden") {
			continue // on an error page, everything is hidden
		}
		found := session.Sighting{Index: i, NotSeen: a.notSeen, Seen: a.seen, Text: a.text}
		if a.response == nil {
			return &found, nil
		}
		x, text, err := s.responded(ctx, a, exchanges, bodies)
		if err != nil {
			return nil, err
		}
		if x == nil {
			continue
		}
		// All of it holds since the last of its parts came to hold.
		found.URL = x.url
		found.NotSeen, found.Seen = memory.Later(found.NotSeen, x.notSeen), memory.Later(found.Seen, x.seen)
		if found.Text == "" {
			found.Text = text
		}
		return &found, nil
	}
	return nil, nil
}

// responded gives the first exchange that fulfils the condition's part on the network.
func (s *surface) responded(ctx context.Context, a *awaited, exchanges []exchange, bodies map[playwright.Response][]byte) (*exchange, string, error) {
	for i := range exchanges {
		x := &exchanges[i]
		if !x.answered() || !x.matches(a.response) {
			continue
		}
		contains := a.Contains
		if a.Selector != "" {
			contains = "" // is of the element
		}
		if a.JSON == "" && contains == "" {
			return x, fmt.Sprintf("%s %s: %d", x.method, x.url, x.status), nil
		}
		body, err := s.body(ctx, x, bodies)
		if err != nil {
			return nil, "", err
		}
		s.last = session.Response{URL: x.url, Status: x.status, Body: body}
		texts := []string{string(body)}
		if a.JSON != "" {
			if texts, err = session.Lookup(body, a.JSON); session.IsRig(err) {
				return nil, "", err
			}
		}
		for _, text := range texts {
			if session.Holds(text, contains) {
				return x, strings.ToValidUTF8(text[:min(len(text), textLimit)], ""), nil
			}
		}
	}
	return nil, "", nil
}

// body fetches the body of an exchange that has ended. One that the browser has no more of is empty.
func (s *surface) body(ctx context.Context, x *exchange, bodies map[playwright.Response][]byte) ([]byte, error) {
	if x.haveBody || x.response == nil {
		return x.body, nil
	}
	if body, ok := bodies[x.response]; ok {
		return body, nil
	}
	body, err := do(ctx, s.e, x.response.Body)
	if err != nil && (session.IsRig(err) || ctx.Err() != nil) {
		return nil, err
	}
	bodies[x.response] = body
	return body, nil
}

// timedOut is the error of an Await in which nothing came to hold; it tells of a response that failed.
func (s *surface) timedOut(ctx context.Context, doing string, exchanges []exchange) error {
	t := &session.TargetError{Cause: session.CauseTimeout, Doing: doing, URL: s.page.URL()}
	for _, x := range exchanges {
		if !x.ofPage() && x.kind != kindScript || strings.Contains(x.failure, "ERR_ABORTED") {
			continue
		}
		if name, cause := netCause(x.failure); name != "" && !ours[name] {
			t.Cause, t.Err = cause, fmt.Errorf("%s %s: %s", x.method, x.url, name)
		}
	}
	if status, after := worst(exchanges); status >= 400 {
		t.Cause, t.Status, t.RetryAfter = session.CauseResponse, status, after
	}
	if doc, _ := s.net.document(); doc.failed() {
		t.Text = s.shown(ctx)
	}
	return t
}

// worst gives the highest status among the responses that bring content, and what that response asked to wait.
func worst(exchanges []exchange) (status int, after time.Duration) {
	for _, x := range exchanges {
		if (x.ofPage() || x.kind == kindScript) && x.status > status {
			status, after = x.status, x.retryAfter
		}
	}
	return status, after
}

// describe names conditions for an error.
func describe(conditions []session.Condition) string {
	var names []string
	for _, c := range conditions {
		var parts []string
		for _, part := range []struct{ word, value string }{
			{"url", c.URL}, {"selector", c.Selector}, {"state", c.State}, {"response", c.Response}, {"json", c.JSON}, {"contains", c.Contains},
		} {
			if part.value != "" {
				parts = append(parts, part.word+" "+part.value)
			}
		}
		names = append(names, strings.Join(parts, ", "))
	}
	return strings.Join(names, " or ")
}
