package browser

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/playwright-community/playwright-go"

	"amnesia/pkg/session"
)

const (
	// stillFor is how long a list must not change, and nothing be under way on the network, before it is taken for drawn.
	stillFor = 60 * time.Millisecond
	// lazyFor is the same at an end of a scrolled list: what loads more may wait before it begins.
	lazyFor = 300 * time.Millisecond
	// growFor is how long a button for more may take to bring something when nothing is under way on the network.
	growFor = 2 * time.Second
)

// listing is one reading of a list.
type listing struct {
	Born  float64 // of the document, so that two documents can be told apart
	Texts []string
}

// Read collects the list.
//
// Where the script names no Ready, the driver looks for proof of its own that the list is all there: nothing that could
// bring content is under way, nothing of it failed, and the list stands still. Where it finds none, the reading is not
// complete.
func (s *surface) Read(ctx context.Context, r session.Read) (texts []string, complete bool, err error) {
	doing := "read " + r.Selector + r.JSON
	if s.spoilt != nil {
		return nil, false, s.spoilt
	}
	if r.JSON != "" {
		texts, complete, err = s.readJSON(ctx, r)
	} else {
		var first listing
		if first, complete, err = s.ready(ctx, doing, r); err == nil {
			texts, complete, err = s.readOn(ctx, doing, r, first, complete)
		}
	}
	if r.Last && len(texts) > 1 {
		texts = texts[len(texts)-1:]
	}
	return texts, complete, err
}

// readOn follows More from the first listing.
func (s *surface) readOn(ctx context.Context, doing string, r session.Read, first listing, whole bool) ([]string, bool, error) {
	texts := first.Texts
	switch {
	case r.More == nil:
		return texts, whole, nil
	case r.More.Click != "":
		return s.readByClick(ctx, doing, r, first, whole)
	case r.More.Scroll != "":
		for _, way := range []int{-1, 1} { // older messages may be at either end
			var ended bool
			var err error
			if texts, ended, err = s.readByScroll(ctx, doing, r, texts, way); err != nil {
				return texts, false, err
			}
			whole = whole && ended
		}
		return texts, whole, nil
	}
	return texts, false, &session.RigError{Err: errors.New("more: json goes with read: json")}
}

// ready waits until the list can be read, and reads it. whole is false when there is no proof that all of it is there.
func (s *surface) ready(ctx context.Context, doing string, r session.Read) (l listing, whole bool, err error) {
	if r.Ready != nil {
		if _, err := s.Await(ctx, []session.Condition{*r.Ready}); err != nil {
			return listing{}, false, err
		}
		if err := s.document(ctx, doing); err != nil {
			return listing{}, false, err
		}
		l, err = s.list(ctx, doing, r.Selector)
		return l, err == nil, err
	}
	if err := s.document(ctx, doing); err != nil {
		return listing{}, false, err
	}
	return s.drawn(ctx, doing, r.Selector, stillFor)
}

// drawn reads the list until it has stood still for so long, with nothing under way that could change it. whole is false
// when that does not come about within an action's time, or when something that may belong to the list failed.
func (s *surface) drawn(ctx context.Context, doing, selector string, still time.Duration) (l listing, whole bool, err error) {
	limit := time.NewTimer(s.d.cfg.ActionTimeout)
	defer limit.Stop()
	tick := time.NewTicker(stillFor / 3)
	defer tick.Stop()
	var since time.Time
	for seen := -1; ; {
		exchanges, _ := s.net.exchanges()
		now, err := s.list(ctx, doing, selector)
		if err != nil {
			return l, false, err
		}
		busy := slices.ContainsFunc(exchanges, func(x exchange) bool { return x.ofPage() && !x.ended })
		if seen != len(exchanges) || busy || now.Born != l.Born || !slices.Equal(now.Texts, l.Texts) {
			seen, since = len(exchanges), time.Now()
		}
		l = now
		if time.Since(since) >= still {
			broken := slices.ContainsFunc(exchanges, func(x exchange) bool {
				return x.ofPage() && x.broken() && sameOrigin(x.url, s.page.URL())
			})
			return l, !broken, nil
		}
		select {
		case <-tick.C:
		case <-limit.C:
			return l, false, nil
		case <-ctx.Done():
			return l, false, s.ended(ctx, doing)
		}
	}
}

// list reads the list as it stands.
func (s *surface) list(ctx context.Context, doing, selector string) (listing, error) {
	for deadline := time.Now().Add(s.d.cfg.ActionTimeout); ; {
		var l listing
		err := s.evaluate(ctx, &l, func() (any, error) { return s.page.Locator(selector).EvaluateAll(collectScript) })
		if err == nil {
			return l, nil
		}
		if !passing(err) || ctx.Err() != nil || time.Now().After(deadline) {
			return listing{}, s.failure(ctx, doing, err)
		}
	}
}

// readByClick follows a button or link until it is gone or disabled.
func (s *surface) readByClick(ctx context.Context, doing string, r session.Read, l listing, whole bool) ([]string, bool, error) {
	texts := l.Texts
	for {
		v, err := do(ctx, s.e, func() (any, error) { return s.page.Locator(r.More.Click).EvaluateAll(moreScript) })
		if err != nil {
			return texts, false, s.failure(ctx, doing, err)
		}
		if more, _ := v.(bool); !more {
			return texts, whole, nil
		}
		if err := s.Click(ctx, r.More.Click); err != nil {
			return texts, false, err
		}
		next, all, err := s.grown(ctx, doing, r, l)
		if err != nil {
			return texts, false, err
		}
		whole = whole && all
		switch {
		case next.Born != l.Born: // a page of its own
			texts = append(texts, next.Texts...)
		case slices.Equal(next.Texts, l.Texts):
			return texts, false, nil // the button is there, and brings nothing
		default:
			texts = merge(texts, next.Texts)
		}
		l = next
	}
}

// grown waits, for up to growFor, until the list differs from what it was, and until it is drawn.
func (s *surface) grown(ctx context.Context, doing string, r session.Read, was listing) (l listing, whole bool, err error) {
	for deadline := time.Now().Add(growFor); ; {
		if l, whole, err = s.drawn(ctx, doing, r.Selector, stillFor); err != nil {
			return l, false, err
		}
		if l.Born != was.Born || !slices.Equal(l.Texts, was.Texts) || time.Now().After(deadline) {
			break
		}
		// The same list and no button any more: there was nothing more.
		v, err := do(ctx, s.e, func() (any, error) { return s.page.Locator(r.More.Click).EvaluateAll(moreScript) })
		if err != nil {
			return l, false, s.failure(ctx, doing, err)
		}
		if more, _ := v.(bool); !more {
			return l, whole, nil
		}
	}
	if r.Ready != nil {
		return s.ready(ctx, doing, r)
	}
	if err := s.document(ctx, doing); err != nil {
		return l, false, err
	}
	return l, whole, nil
}

// readByScroll scrolls one way until nothing new comes.
func (s *surface) readByScroll(ctx context.Context, doing string, r session.Read, texts []string, way int) ([]string, bool, error) {
	s.mark()
	whole := true
	for {
		before := texts
		v, err := do(ctx, s.e, func() (any, error) {
			return s.page.Locator(r.More.Scroll).Evaluate(scrollScript, way, playwright.LocatorEvaluateOptions{Timeout: s.timeout(ctx)})
		})
		if err != nil {
			return texts, false, s.failure(ctx, "scroll "+r.More.Scroll, err)
		}
		moved, _ := v.(bool)
		still := stillFor
		if !moved {
			still = lazyFor
		}
		l, all, err := s.drawn(ctx, doing, r.Selector, still)
		if err != nil {
			return texts, false, err
		}
		if r.Ready != nil {
			if l, all, err = s.ready(ctx, doing, r); err != nil {
				return texts, false, err
			}
		}
		whole = whole && all
		texts = merge(texts, l.Texts)
		if !moved && slices.Equal(before, texts) {
			return texts, whole, nil
		}
		if err := ctx.Err(); err != nil {
			return texts, false, s.ended(ctx, doing)
		}
	}
}

// merge joins what was read so far with what a list shows now: all of it, or a window that moved on either way.
func merge(read, now []string) []string {
	switch {
	case contains(now, read):
		return now
	case contains(read, now):
		return read
	}
	for n := min(len(read), len(now)) - 1; n > 0; n-- {
		if slices.Equal(read[len(read)-n:], now[:n]) {
			return slices.Concat(read, now[n:])
		}
		if slices.Equal(now[len(now)-n:], read[:n]) {
			return slices.Concat(now, read[n:])
		}
	}
	return slices.Concat(read, now)
}

// contains reports whether part stands in whole, in one piece.
func contains(whole, part []string) bool {
	for i := 0; i+len(part) <= len(whole); i++ {
		if slices.Equal(whole[i:i+len(part)], part) {
			return true
		}
	}
	return false
}

// readJSON reads the last response, and follows the addresses of the next ones.
func (s *surface) readJSON(ctx context.Context, r session.Read) (texts []string, complete bool, err error) {
	if r.Ready != nil {
		if _, err := s.Await(ctx, []session.Condition{*r.Ready}); err != nil {
			return nil, false, err
		}
	}
	for visited := map[string]bool{}; ; {
		if s.last.URL == "" {
			return nil, false, &session.RigError{Err: fmt.Errorf("read %s: there was no response — fix: a request step before it", r.JSON)}
		}
		if s.last.Status >= 400 {
			return texts, false, &session.TargetError{Cause: session.CauseResponse, Doing: "read " + r.JSON, URL: s.last.URL, Status: s.last.Status}
		}
		found, err := session.Lookup(s.last.Body, r.JSON)
		if err != nil {
			return texts, false, s.unreadable("read "+r.JSON, err)
		}
		texts = append(texts, found...)
		if r.More == nil {
			return texts, true, nil
		}
		next, err := session.Lookup(s.last.Body, r.More.JSON)
		if err != nil {
			return texts, false, s.unreadable("read "+r.More.JSON, err)
		}
		if len(next) == 0 || next[0] == "" {
			return texts, true, nil
		}
		// As a link would be: from where the list stands. What the script sends to its app is for nobody else.
		from, err := url.Parse(s.last.URL)
		if err != nil {
			return texts, false, s.unreadable("read "+r.More.JSON, err)
		}
		to, err := from.Parse(next[0])
		if err != nil {
			return texts, false, s.unreadable("read "+r.More.JSON, err)
		}
		if visited[to.String()] {
			return texts, false, nil // it goes in circles
		}
		visited[to.String()] = true
		page := session.Request{Path: to.String()}
		if to.Host == from.Host {
			page.Headers = s.asked
		}
		if _, err := s.Request(ctx, page); err != nil {
			return texts, false, err
		}
	}
}

func (s *surface) unreadable(doing string, err error) error {
	if session.IsRig(err) {
		return err
	}
	return &session.TargetError{Cause: session.CauseResponse, Doing: doing, URL: s.last.URL, Err: err}
}
