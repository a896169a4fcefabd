package browser

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/playwright-community/playwright-go"

	"amnesia/pkg/memory"
)

// exchange is one request of the page, or of the script itself, with what came of it.
type exchange struct {
	url, method string
	via         []string // the addresses that redirected to url
	request     playwright.Request
	kind        string // Playwright's resource type; "request" for one of the script's own, "frame" for a WebSocket's
	status      int    // 0 until the head of the response came
	retryAfter  time.Duration
	began       memory.Instant // when the rig heard that it began; it began earlier by a few milliseconds
	ended       bool
	failure     string         // why the request, or its response's body, broke off
	notSeen     memory.Instant // it had not ended yet
	seen        memory.Instant // the rig heard that it had ended
	response    playwright.Response
	body        []byte // of the script's own requests, of frames, and of responses that were looked into
	haveBody    bool
}

const (
	kindScript = "request" // a request of the script's own
	kindFrame  = "frame"   // a frame that came through a WebSocket
)

// network listens to what the page requests. Its handlers run on the goroutine that reads from Playwright, and so must
// never call it.
type network struct {
	clock memory.Clock

	mu      sync.Mutex
	since   memory.Instant // the last action's begin
	list    []*exchange    // begun since
	byReq   map[playwright.Request]*exchange
	doc     *exchange     // the main frame's last document
	changed chan struct{} // closed and replaced at every event
}

func newNetwork(clock memory.Clock) *network {
	return &network{clock: clock, byReq: map[playwright.Request]*exchange{}, changed: make(chan struct{})}
}

func (n *network) watch(c playwright.BrowserContext, page playwright.Page) {
	main := page.MainFrame()
	c.OnRequest(func(r playwright.Request) {
		x := &exchange{url: r.URL(), method: r.Method(), kind: r.ResourceType(), request: r}
		from := r.RedirectedFrom()
		document := r.IsNavigationRequest() && (r.Frame() == nil || r.Frame() == main)
		n.event(func(now memory.Instant) {
			x.began = now
			n.byReq[r] = x
			if document {
				n.doc = x
			}
			if from == nil || n.follow(from, x) { // else the first of the chain began before the last action
				n.list = append(n.list, x)
			}
		})
	})
	c.OnResponse(func(response playwright.Response) {
		start := response.Request().Timing().StartTime
		n.event(func(now memory.Instant) {
			x := n.byReq[response.Request()]
			if x == nil {
				return
			}
			x.response, x.status = response, response.Status()
			x.retryAfter = retryAfter(response.Headers())
			// The news of a request can come after the next action began. When it really began is known only now.
			if began := fromWall(x.began, start); began.Before(n.since) {
				n.forget(x)
			}
			if bodiless(response) {
				// Chromium reports the end of a body once the page has read it; one that is empty, and that the page
				// does not read, it reports as given up.
				x.ended, x.notSeen, x.seen = true, n.since, now
			}
		})
	})
	c.OnRequestFinished(func(r playwright.Request) {
		took := r.Timing().ResponseEnd
		n.event(func(now memory.Instant) { n.end(r, now, took, "") })
	})
	c.OnRequestFailed(func(r playwright.Request) {
		reason := "failed"
		if err := r.Failure(); err != nil {
			reason = err.Error()
		}
		n.event(func(now memory.Instant) { n.end(r, now, 0, reason) })
	})
	page.OnWebSocket(func(ws playwright.WebSocket) {
		address := ws.URL()
		ws.OnFrameReceived(func(payload []byte) {
			n.event(func(now memory.Instant) {
				n.list = append(n.list, &exchange{
					url: address, method: "GET", kind: kindFrame, status: http.StatusSwitchingProtocols, began: now,
					ended: true, notSeen: n.since, seen: now, body: payload, haveBody: true,
				})
			})
		})
	})
}

// event changes the record, and wakes whoever waits for a change.
func (n *network) event(change func(now memory.Instant)) {
	now := n.clock.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	change(now)
	close(n.changed)
	n.changed = make(chan struct{})
}

// end records the end of a request. took is what Chromium measured from its begin, in milliseconds by its own monotonic
// clock.
func (n *network) end(r playwright.Request, now memory.Instant, took float64, failure string) {
	x := n.byReq[r]
	if x == nil {
		return
	}
	delete(n.byReq, r)
	if x.ended {
		return // with its head
	}
	x.ended, x.failure, x.seen = true, failure, now
	// It began after the action did, and lasted so long: so it had not ended before this.
	x.notSeen = n.since.Add(time.Duration(took * float64(time.Millisecond)))
	if x.notSeen.After(now) {
		x.notSeen = now
	}
	if x == n.doc && (strings.Contains(failure, "ERR_ABORTED") || x.status == http.StatusNoContent) {
		n.doc = nil // a download, or nothing to show: the document before stays
	}
}

// begin forgets what was requested before the action that begins now; the document stays.
func (n *network) begin(at memory.Instant) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.since, n.list = at, nil
	for r, x := range n.byReq {
		if x != n.doc {
			delete(n.byReq, r)
		}
	}
}

// follow puts a redirected request in the place of the one that it came of, if that is remembered.
func (n *network) follow(from playwright.Request, x *exchange) bool {
	for _, f := range n.list {
		if f.request == from {
			x.via, x.method = append(f.via, f.url), f.method
			n.forget(f)
			return true
		}
	}
	return false
}

func (n *network) forget(x *exchange) {
	for i := range n.list {
		if n.list[i] == x {
			n.list = append(n.list[:i:i], n.list[i+1:]...)
			return
		}
	}
}

// add records a request of the script's own.
func (n *network) add(x *exchange) {
	n.event(func(now memory.Instant) {
		x.notSeen, x.seen = n.since, now
		n.list = append(n.list, x)
	})
}

// document gives the page's document as it stands, and what to wait on for a change.
func (n *network) document() (*exchange, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.doc == nil {
		return nil, n.changed
	}
	x := *n.doc
	return &x, n.changed
}

// exchanges gives what was requested since the last action, as it stands, and what to wait on for a change.
func (n *network) exchanges() ([]exchange, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	list := make([]exchange, len(n.list))
	for i, x := range n.list {
		list[i] = *x
	}
	return list, n.changed
}

// ofPage are the kinds of requests that can bring, or draw, the content of a page.
func (x *exchange) ofPage() bool {
	switch x.kind {
	case "document", "xhr", "fetch", "script":
		return true
	}
	return false
}

// broken reports whether the request failed through the server, and not because the page gave it up.
func (x *exchange) broken() bool {
	return x.ended && (x.failure != "" && !strings.Contains(x.failure, "ERR_ABORTED") || x.status >= 500 || x.status == http.StatusTooManyRequests)
}

// answered reports whether the request has its answer, and a good one. A redirect is none: it goes on.
func (x *exchange) answered() bool {
	redirect := x.status >= 300 && x.status < 400 && x.status != http.StatusNotModified
	return x.ended && x.failure == "" && x.status != 0 && x.status < 400 && !redirect
}

// matches reports whether an address of its chain is meant.
func (x *exchange) matches(glob func(string) bool) bool {
	return glob(x.url) || slices.ContainsFunc(x.via, glob)
}

// failed reports whether a document shows no page of the target's.
func (x *exchange) failed() bool { return x != nil && (x.failure != "" || x.status >= 400) }

// unanswered reports whether a document failed on the way: what shows is the browser's own error page, which stays.
func (x *exchange) unanswered() bool {
	return x != nil && x.ended && x.failure != "" && !strings.Contains(x.failure, "ERR_ABORTED")
}

// sameOrigin compares scheme and host.
func sameOrigin(a, b string) bool {
	u, err := url.Parse(a)
	if err != nil {
		return false
	}
	v, err := url.Parse(b)
	return err == nil && u.Scheme == v.Scheme && u.Host == v.Host
}

// fromWall turns Chromium's wall clock (milliseconds since 1970) into an instant near one of ours. A clock that was set
// in between is not believed.
func fromWall(near memory.Instant, ms float64) memory.Instant {
	before := time.Duration(near.Wall - int64(ms*1e6))
	if ms <= 0 || before < 0 || before > 10*time.Second {
		return near
	}
	return near.Add(-before)
}

// bodiless reports whether the response is over with its head.
func bodiless(r playwright.Response) bool {
	return r.Status() == http.StatusNoContent || r.Headers()["content-length"] == "0"
}

// retryAfter reads the header's seconds (RFC 9110, 10.2.3); a date is left alone, 0.
func retryAfter(headers map[string]string) time.Duration {
	seconds, err := strconv.Atoi(headers["retry-after"])
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}
