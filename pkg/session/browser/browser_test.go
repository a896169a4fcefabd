package browser_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/websocket"

	"amnesia/pkg/clock"
	"amnesia/pkg/session"
	"amnesia/pkg/session/browser"
)

func page(body string) string {
	return `<!doctype html><meta charset="utf-8"><title>test</title><body>` + body
}

// site serves documents by path, and what else the handlers say.
func site(t *testing.T, documents map[string]string, handlers map[string]http.HandlerFunc) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	for path, body := range documents {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			fmt.Fprint(w, page(body))
		})
	}
	for path, h := range handlers {
		mux.HandleFunc(path, h)
	}
	s := httptest.NewServer(mux)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func open(t *testing.T, d session.Driver, name string) session.Surface {
	t.Helper()
	s, err := d.Open(t.Context(), session.User{Run: "test", Name: name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing the surface: %v", err)
		}
	})
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// failed wants an error of the target's with the cause.
func failed(t *testing.T, err error, cause string) {
	t.Helper()
	var te *session.TargetError
	if session.IsRig(err) || !errors.As(err, &te) || te.Cause != cause {
		t.Errorf("got %v, want a failure of the target's: %s", err, cause)
	}
}

func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// brokenOff sends a part of what it promised.
func brokenOff(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html")
	w.Header().Set("Content-Length", "1000")
	fmt.Fprint(w, page(`<p class="message">the first</p>`))
	panic(http.ErrAbortHandler)
}

func drop(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// TestBrowser holds what needs only a browser that nobody hurts.
func TestBrowser(t *testing.T) {
	t.Parallel()
	d := start(t, "")
	for name, run := range map[string]func(*testing.T, *browser.Driver){
		"bounds of an element":        boundsOfElement,
		"bounds of a response":        boundsOfResponse,
		"broken responses":            brokenResponses,
		"the order of conditions":     order,
		"websocket frames":            frames,
		"strict policies and shadows": policies,
		"text":                        text,
		"a target that is down":       targetDown,
		"a message that is cut off":   messageCutOff,
		"ends with its context":       cancelled,
		"isolation":                   isolation,
		"navigations that meet":       navigationsMeet,
		"eight at once":               eight,
		"lists drawn by script":       drawn,
		"lists that scroll":           scrolls,
		"lists behind a button":       button,
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) { run(t, d) })
	}
}

// navigationsMeet: a navigation that meets the one that the click before it has begun is not the target's failure, whatever
// Playwright makes of it; only a page that cannot be had is.
func navigationsMeet(t *testing.T, d *browser.Driver) {
	srv := site(t, map[string]string{
		"/":        `<form method="post" action="/login"><button>Go</button></form>`,
		"/expired": "expired",
	}, map[string]http.HandlerFunc{
		"/login":   http.RedirectHandler("/expired", http.StatusSeeOther).ServeHTTP,
		"/chat":    http.RedirectHandler("/expired", http.StatusSeeOther).ServeHTTP,
		"/nothing": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
	})
	s := open(t, d.At(srv.URL), "meet")
	for i := range 40 { // where the two meet differs from one time to the next
		must(t, s.Goto(t.Context(), "/"))
		must(t, s.Click(t.Context(), "button"))
		if err := s.Goto(t.Context(), "/chat"); err != nil {
			t.Fatalf("try %d: %v", i, err)
		}
		if seen, err := s.Await(t.Context(), []session.Condition{{URL: "**/expired"}}); err != nil {
			t.Fatalf("try %d: %+v, %v", i, seen, err)
		}
	}
	failed(t, s.Goto(t.Context(), "/nothing"), session.CauseInterrupted)
}

func boundsOfElement(t *testing.T, d *browser.Driver) {
	srv := site(t, map[string]string{"/": `<button onclick="setTimeout(() => {
		document.body.insertAdjacentHTML('beforeend', '<p id=done>' + Date.now() + '</p>')
	}, 150)">Go</button>`}, nil)
	s := open(t, d.At(srv.URL), "bounds")
	must(t, s.Goto(t.Context(), "/"))
	for _, selector := range []string{"#done", "css=#done >> visible=true"} {
		best := time.Hour
		for range 5 { // how close the bounds are depends on what else the machine does; that they are right does not
			must(t, s.Goto(t.Context(), "/"))
			must(t, s.Click(t.Context(), "button"))
			seen, err := s.Await(t.Context(), []session.Condition{{Selector: selector}})
			must(t, err)
			var at int64
			fmt.Sscan(seen.Text, &at)
			if seen.NotSeen.Wall > (at+2)*1e6 || seen.Seen.Wall < at*1e6 || !seen.NotSeen.Before(seen.Seen) {
				t.Errorf("%s: shown at %d ms, but the bounds are %d and %d ms", selector, at, seen.NotSeen.Wall/1e6, seen.Seen.Wall/1e6)
			}
			if best = min(best, seen.Seen.Sub(seen.NotSeen)); best < 100*time.Millisecond {
				break
			}
		}
		if best >= 140*time.Millisecond {
			t.Errorf("%s: the bounds are %v apart at best", selector, best)
		}
		t.Logf("%s: bounds %v apart", selector, best)
	}
}

func boundsOfResponse(t *testing.T, d *browser.Driver) {
	srv := site(t, map[string]string{"/": `<p id="done"></p><button onclick="fetch('/stream').then(r => r.text()).then(() => {
		document.querySelector('#done').textContent = Date.now();
	})">Go</button>`}, map[string]http.HandlerFunc{"/stream": func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "half, ")
		_ = http.NewResponseController(w).Flush()
		select { // the stream's own length
		case <-time.After(200 * time.Millisecond):
		case <-r.Context().Done():
		}
		fmt.Fprint(w, "half")
	}})
	s := open(t, d.At(srv.URL), "stream")
	must(t, s.Goto(t.Context(), "/"))
	began := clock.System().Now()
	must(t, s.Click(t.Context(), "button"))
	seen, err := s.Await(t.Context(), []session.Condition{{Response: "**/stream", Contains: "half, half"}})
	must(t, err)
	shown, err := s.Await(t.Context(), []session.Condition{{Selector: "#done"}})
	must(t, err)
	var at int64
	fmt.Sscan(shown.Text, &at)
	if seen.NotSeen.Wall > (at+2)*1e6 || seen.NotSeen.Sub(began) < 200*time.Millisecond || seen.Seen.Before(seen.NotSeen) || seen.Status != 200 {
		t.Errorf("ended before %d ms, begun at %d ms, saw %+v", at, began.Wall/1e6, seen)
	}
	t.Logf("bounds %v apart", seen.Seen.Sub(seen.NotSeen))
}

func brokenResponses(t *testing.T, d *browser.Driver) {
	srv := site(t, map[string]string{"/": `
		<button id="broken" onclick="fetch('/broken').then(r => r.text())">a</button>
		<button id="chunked" onclick="fetch('/chunked').then(r => r.text())">b</button>
		<button id="failed" onclick="fetch('/failed')">c</button>
		<button id="given-up" onclick="a = new AbortController(); fetch('/hang', {signal: a.signal}); setTimeout(() => a.abort(), 50)">d</button>`,
	}, map[string]http.HandlerFunc{
		"/broken": brokenOff, "/hang": hang,
		"/chunked": func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "data: saved\n\n")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		},
		"/failed": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusTooManyRequests)
		},
	})
	s := open(t, d.At(srv.URL), "broken")
	must(t, s.Goto(t.Context(), "/"))
	for id, cause := range map[string]string{
		"broken": session.CauseEOF, "chunked": session.CauseEOF, "failed": session.CauseResponse, "given-up": session.CauseTimeout,
	} {
		must(t, s.Click(t.Context(), "#"+id))
		// An Await tells of what failed when its time is up, which on a busy machine may be before it has failed.
		var err error
		var te *session.TargetError
		for patience := 250 * time.Millisecond; patience < 10*time.Second; patience *= 2 {
			_, err = s.Await(t.Context(), []session.Condition{{Response: "**", Timeout: patience}})
			if errors.As(err, &te) && te.Cause == cause {
				break
			}
		}
		failed(t, err, cause)
		if id == "failed" && (!errors.As(err, &te) || te.Status != 429 || te.RetryAfter != 7*time.Second) {
			t.Errorf("%v: want the status and the time to wait", err)
		}
	}
}

func order(t *testing.T, d *browser.Driver) {
	// The alert is shown before the response of the same request has ended.
	srv := site(t, map[string]string{"/": `<button onclick="document.body.insertAdjacentHTML('beforeend', '<p role=alert>No</p>'); fetch('/ok')">Go</button>`},
		map[string]http.HandlerFunc{"/ok": func(http.ResponseWriter, *http.Request) {}})
	s := open(t, d.At(srv.URL), "order")
	must(t, s.Goto(t.Context(), "/"))
	must(t, s.Click(t.Context(), "button"))
	ok, alert := session.Condition{Response: "**/ok"}, session.Condition{Selector: "[role=alert]"}
	seen, err := s.Await(t.Context(), []session.Condition{ok})
	must(t, err)
	if both, err := s.Await(t.Context(), []session.Condition{alert, ok}); err != nil || both.Index != 0 || both.Text != "No" {
		t.Errorf("got %+v, %v", both, err)
	}
	if both, err := s.Await(t.Context(), []session.Condition{ok, alert}); err != nil || both.Index != 0 || both.Seen != seen.Seen {
		t.Errorf("got %+v, %v; the response was seen at %v", both, err, seen.Seen)
	}
	// One condition of both.
	if both, err := s.Await(t.Context(), []session.Condition{{Selector: "[role=alert]", Contains: "No", Response: "**/ok", URL: "/"}}); err != nil {
		t.Errorf("got %+v, %v", both, err)
	}
}

func frames(t *testing.T, d *browser.Driver) {
	srv := site(t, map[string]string{"/": `<button>Go</button><script>
		const ws = new WebSocket(location.href.replace('http', 'ws') + 'socket');
		ws.onopen = () => document.body.insertAdjacentHTML('beforeend', '<p id="open">open</p>');
		document.querySelector('button').onclick = () => ws.send('hello');</script>`},
		map[string]http.HandlerFunc{"/socket": websocket.Handler(func(ws *websocket.Conn) {
			for _, reply := range []string{`{"event": "typing"}`, `{"event": "saved", "id": "m1"}`} {
				var told string
				if websocket.Message.Receive(ws, &told) != nil || websocket.Message.Send(ws, reply) != nil {
					return
				}
			}
			_ = websocket.Message.Receive(ws, new(string)) // until the page goes
		}).ServeHTTP})
	s := open(t, d.At(srv.URL), "frames")
	must(t, s.Goto(t.Context(), "/"))
	_, err := s.Await(t.Context(), []session.Condition{{Selector: "#open"}})
	must(t, err)
	saved := []session.Condition{{Response: "ws://**/socket", JSON: "$.event", Contains: "saved", Timeout: 300 * time.Millisecond}}
	must(t, s.Click(t.Context(), "button"))
	if seen, err := s.Await(t.Context(), saved); err == nil {
		t.Errorf("another frame was taken for it: %+v", seen)
	}
	saved[0].Timeout = 0
	must(t, s.Click(t.Context(), "button"))
	if seen, err := s.Await(t.Context(), saved); err != nil || seen.Text != "saved" || seen.Seen.Before(seen.NotSeen) {
		t.Errorf("got %+v, %v", seen, err)
	}
}

func policies(t *testing.T, d *browser.Driver) {
	srv := site(t, nil, map[string]http.HandlerFunc{
		"/": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; require-trusted-types-for 'script'")
			fmt.Fprint(w, page(`<h1>Strict</h1><chat-log></chat-log><script src="/script.js"></script>`))
		},
		"/script.js": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/javascript")
			fmt.Fprint(w, `customElements.define('chat-log', class extends HTMLElement { connectedCallback() {
				const p = document.createElement('p'); p.className = 'message'; p.textContent = 'in the shade';
				this.attachShadow({mode: 'open'}).append(p); } });`)
		},
	})
	s := open(t, d.At(srv.URL), "strict")
	must(t, s.Goto(t.Context(), "/"))
	for _, selector := range []string{"h1", ".message", "role=heading"} {
		_, err := s.Await(t.Context(), []session.Condition{{Selector: selector, Timeout: 3 * time.Second}})
		must(t, err)
	}
}

func text(t *testing.T, d *browser.Driver) {
	srv := site(t, map[string]string{"/": `<textarea id="in"></textarea><pre id="out"></pre>
		<button onclick="document.querySelector('#out').textContent = document.querySelector('#in').value">Go</button>`}, nil)
	s := open(t, d.At(srv.URL), "text")
	must(t, s.Goto(t.Context(), "/"))
	for _, want := range []string{"one\n\n  two\nthree", "👩‍👩‍👧‍👦🏳️‍🌈 𝕏", strings.Repeat("as long as it gets ", 110) + "end", `"quotes' <b>&amp;</b> \ ${x} {{y}}`} {
		begin := time.Now()
		must(t, s.Fill(t.Context(), "#in", want))
		took := time.Since(begin)
		must(t, s.Click(t.Context(), "button"))
		got, complete, err := s.Read(t.Context(), session.Read{Selector: "#out"})
		if err != nil || !complete || len(got) != 1 || got[0] != want {
			t.Errorf("got %q, %v, %v; want %q", got, complete, err, want)
		}
		t.Logf("%d bytes filled in %v", len(want), took)
	}
}

func targetDown(t *testing.T, d *browser.Driver) {
	srv := site(t, nil, map[string]http.HandlerFunc{"/broken": brokenOff, "/drop": drop, "/503": func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "come back later", http.StatusServiceUnavailable)
	}})
	s := open(t, d.At(srv.URL), "down")
	failed(t, s.Goto(t.Context(), "/broken"), session.CauseEOF)
	if texts, complete, err := s.Read(t.Context(), session.Read{Selector: ".message"}); err == nil || complete {
		t.Errorf("read %q, complete %v, of a document that broke off", texts, complete)
	}
	failed(t, s.Goto(t.Context(), "/drop"), session.CauseEOF)
	err := s.Goto(t.Context(), "/503")
	failed(t, err, session.CauseResponse)
	var te *session.TargetError
	if !errors.As(err, &te) || te.Status != 503 || te.Text != "come back later" {
		t.Errorf("%v: want the status and the text", err)
	}
	srv.Close()
	failed(t, s.Goto(t.Context(), "/"), session.CauseRefused)
	_, err = s.Request(t.Context(), session.Request{Path: "/"})
	failed(t, err, session.CauseRefused)
}

// messageCutOff: nothing comes to hold any more once the message failed on the way, unless the page tries again; an await
// does not sit out its time-out then.
func messageCutOff(t *testing.T, d *browser.Driver) {
	var asked atomic.Int64
	srv := site(t, map[string]string{
		"/":      `<form method=post action=/drop><button id=form>Go</button></form><button id=once onclick="fetch('/drop', {method: 'POST'})">Go</button>`,
		"/again": `<button onclick="fetch('/drop', {method: 'POST'}).catch(() => fetch('/second', {method: 'POST'})).then(r => r.text()).then(t => document.body.append(t))">Go</button>`,
	}, map[string]http.HandlerFunc{"/drop": drop, "/second": func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		fmt.Fprint(w, "saved after all")
	}})
	s := open(t, d.At(srv.URL), "cut")
	for _, button := range []string{"#once", "#form"} {
		must(t, s.Goto(t.Context(), "/"))
		must(t, s.Click(t.Context(), button))
		began := time.Now()
		_, err := s.Await(t.Context(), []session.Condition{{Selector: "#saved", Timeout: time.Minute}})
		failed(t, err, session.CauseEOF)
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("%s: the await went on for %s", button, took)
		}
	}
	must(t, s.Goto(t.Context(), "/again"))
	must(t, s.Click(t.Context(), "button"))
	_, err := s.Await(t.Context(), []session.Condition{{Selector: "body", Contains: "saved after all"}})
	must(t, err)
	if asked.Load() == 0 {
		t.Error("the page did not try again")
	}
}

func cancelled(t *testing.T, d *browser.Driver) {
	srv := site(t, map[string]string{"/": `<p>nothing</p>`}, map[string]http.HandlerFunc{"/hang": hang})
	for name, run := range map[string]func(context.Context, session.Surface) error{
		"goto":  func(ctx context.Context, s session.Surface) error { return s.Goto(ctx, "/hang") },
		"click": func(ctx context.Context, s session.Surface) error { return s.Click(ctx, "#nowhere") },
		"request": func(ctx context.Context, s session.Surface) error {
			_, err := s.Request(ctx, session.Request{Path: "/hang"})
			return err
		},
		"await": func(ctx context.Context, s session.Surface) error {
			_, err := s.Await(ctx, []session.Condition{{Selector: "#nowhere"}, {Response: "**/nowhere"}})
			return err
		},
	} {
		for _, timeout := range []bool{true, false} {
			s := open(t, d.At(srv.URL), "cancelled")
			must(t, s.Goto(t.Context(), "/"))
			ctx, cancel := context.WithCancel(t.Context())
			if timeout {
				ctx, cancel = context.WithTimeout(t.Context(), 200*time.Millisecond)
			} else {
				time.AfterFunc(200*time.Millisecond, cancel)
			}
			defer cancel()
			begin := time.Now()
			err := run(ctx, s)
			if took := time.Since(begin); err == nil || session.IsRig(err) || took > 1200*time.Millisecond {
				t.Errorf("%s came back after %v with %v", name, took, err)
			}
			if !timeout && !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v does not say that it was cancelled", name, err)
			}
		}
	}
}

func isolation(t *testing.T, d *browser.Driver) {
	srv := site(t, map[string]string{"/": `<p id="kept"></p><script>
		document.querySelector('#kept').textContent = 'storage ' + localStorage.getItem('who') + ', ' + document.cookie + '.';
		localStorage.setItem('who', 'somebody'); document.cookie = 'who=somebody';</script>`}, nil)
	for range 2 {
		s := open(t, d.At(srv.URL), "isolated")
		for _, want := range []string{"storage null, .", "storage somebody, who=somebody."} {
			must(t, s.Goto(t.Context(), "/"))
			if got, _, err := s.Read(t.Context(), session.Read{Selector: "#kept"}); err != nil || !slices.Equal(got, []string{want}) {
				t.Errorf("kept %q, %v; want %q", got, err, want)
			}
		}
	}
}

func eight(t *testing.T, d *browser.Driver) {
	srv := site(t, map[string]string{"/": `<input id="in"><ul id="log"></ul><button onclick="
		fetch('/echo?' + document.querySelector('#in').value).then(r => r.text()).then(t => {
			document.querySelector('#log').insertAdjacentHTML('beforeend', '<li>' + t + '</li>');
		})">Go</button>`}, map[string]http.HandlerFunc{"/echo": func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.RawQuery) }})
	at := d.At(srv.URL)
	begin := time.Now()
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			err := func() error {
				s, err := at.Open(t.Context(), session.User{Name: fmt.Sprint("user", n)})
				if err != nil {
					return err
				}
				defer s.Close()
				if err := s.Goto(t.Context(), "/"); err != nil {
					return err
				}
				for i := range 3 {
					token := fmt.Sprintf("u%dm%d", n, i)
					if err := errors.Join(s.Fill(t.Context(), "#in", token), s.Click(t.Context(), "button")); err != nil {
						return err
					}
					if _, err := s.Await(t.Context(), []session.Condition{{Selector: "#log li", Contains: token, Response: "**/echo?*"}}); err != nil {
						return err
					}
				}
				got, _, err := s.Read(t.Context(), session.Read{Selector: "#log li"})
				if len(got) != 3 {
					return errors.Join(err, fmt.Errorf("read %q", got))
				}
				return err
			}()
			if err != nil {
				t.Errorf("user %d: %v", n, err)
			}
		})
	}
	all.Wait()
	t.Logf("8 users, 3 messages each: %v", time.Since(begin))
}

func TestEvidence(t *testing.T) {
	t.Parallel()
	d := start(t, "", func(c *browser.Config) { c.Trace = true })
	srv := site(t, map[string]string{"/": `<h1>Look at me</h1>`}, nil)
	s := open(t, d.At(srv.URL), "../some one")
	must(t, s.Goto(t.Context(), "/"))
	for range 2 { // the trace goes on
		files := s.Evidence(t.Context(), "../some one-a/b")
		var kinds []string
		for _, f := range files {
			if info, err := os.Stat(f); err != nil || info.Size() == 0 || !strings.Contains(f, "Z-.._some_one-a_b.") {
				t.Errorf("%s: %v", f, err)
			}
			kinds = append(kinds, f[strings.LastIndexByte(f, '.'):])
		}
		if !slices.Equal(kinds, []string{".png", ".html", ".zip"}) {
			t.Errorf("evidence is %q", files)
		}
	}
}
