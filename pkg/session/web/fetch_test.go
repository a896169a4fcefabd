package web_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"amnesia/pkg/clock"
	"amnesia/pkg/session"
	"amnesia/pkg/session/sessiontest"
	"amnesia/pkg/session/web"
)

func serve(t *testing.T, h http.HandlerFunc) string {
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}

func html(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprint(w, text)
}

func TestListsThatLeadBackAreNotComplete(t *testing.T) {
	sf := surface(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.FormValue("p"))
		html(w, fmt.Sprintf(`<p class=m>%d</p><a id=more href="/?p=%d">more</a>`, n, (n+1)%3))
	}))
	texts, complete, err := sf.Read(t.Context(), session.Read{Selector: ".m", More: &session.More{Click: "#more"}})
	if complete || err == nil || session.IsRig(err) || !slices.Equal(texts, []string{"0", "1", "2"}) && len(texts) != 4 {
		t.Errorf("read %q, %v, %v", texts, complete, err)
	}
}

func TestListsHaveALimit(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.FormValue("p"))
		html(w, fmt.Sprintf(`<p class=m>%d</p><a id=more href="/?p=%d">more</a>`, n, n+1))
	})
	d, err := web.New(web.Config{BaseURL: url, Clock: clock.System(), Limits: web.Limits{Pages: 5}})
	must(t, err)
	sf, err := d.Open(t.Context(), session.User{})
	must(t, err)
	must(t, sf.Goto(t.Context(), "/"))
	texts, complete, err := sf.Read(t.Context(), session.Read{Selector: ".m", More: &session.More{Click: "#more"}})
	if complete || !session.IsRig(err) || len(texts) != 5 {
		t.Errorf("read %q, %v, %v", texts, complete, err)
	}
}

func TestPagesThatGrowAreNotCountedTwice(t *testing.T) {
	sf := surface(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.FormValue("n"))
		text := ""
		for i := 4 - n; i < 5; i++ { // the older ones come before
			text += fmt.Sprintf("<p class=m>%d</p>", i)
		}
		if n < 4 {
			text += fmt.Sprintf(`<a id=more href="/?n=%d">more</a>`, n+2)
		} else {
			text += `<a id=more aria-disabled=true href="/">more</a>`
		}
		html(w, text)
	}))
	texts, complete, err := sf.Read(t.Context(), session.Read{Selector: ".m", More: &session.More{Click: "#more"}})
	if !complete || err != nil || !slices.Equal(texts, []string{"0", "1", "2", "3", "4"}) {
		t.Errorf("read %q, %v, %v", texts, complete, err)
	}
}

func TestABodyHasALimit(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) { html(w, strings.Repeat("x", 2000)) })
	d, err := web.New(web.Config{BaseURL: url, Clock: clock.System(), Limits: web.Limits{Body: 1000}})
	must(t, err)
	sf, err := d.Open(t.Context(), session.User{})
	must(t, err)
	if err := sf.Goto(t.Context(), "/"); !session.IsRig(err) || !strings.Contains(err.Error(), "1000 bytes — fix:") {
		t.Errorf("got %v", err)
	}
}

func TestRedirectsHaveALimit(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path+"x", http.StatusFound) })
	sf, err := open(t, url).Open(t.Context(), session.User{})
	must(t, err)
	if err := sf.Goto(t.Context(), "/"); err == nil || session.IsRig(err) || !strings.Contains(err.Error(), "20 redirects") {
		t.Errorf("got %v", err)
	}
}

func TestPagesInOtherEncodings(t *testing.T) {
	for kind, text := range map[string]string{"text/html; charset=gbk": "\xc4\xe3\xba\xc3", "text/html; charset=utf-8": "你好"} {
		sf := surface(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", kind)
			_, _ = w.Write([]byte("<p>" + text + "</p>"))
		}))
		if texts, _, err := sf.Read(t.Context(), session.Read{Selector: "p"}); err != nil || !slices.Equal(texts, []string{"你好"}) {
			t.Errorf("%s: read %q, %v", kind, texts, err)
		}
		g, err := sf.(interface {
			Glance(context.Context) (session.Glance, error)
		}).Glance(t.Context())
		if err != nil || !strings.Contains(g.Document, "<p>你好</p>") || g.Loaded.IsZero() {
			t.Errorf("%s: glanced at %+v, %v", kind, g, err)
		}
	}
}

func TestStreamsAreReadToTheirEnd(t *testing.T) {
	clicked := make(chan struct{}) // a stream that is cut before the click is done makes the click fail
	sf := surface(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			html(w, `<form method=post action=/api/chat><button>x</button></form><a href=/cut>x</a>`)
		case "/api/chat":
			w.Header().Set("Content-Type", "text/event-stream")
			for _, word := range []string{"It", "is", "done"} {
				fmt.Fprintf(w, "data: %s\n\n", word)
				_ = http.NewResponseController(w).Flush()
			}
		default:
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: It\n\n")
			_ = http.NewResponseController(w).Flush()
			<-clicked
			panic(http.ErrAbortHandler)
		}
	}))
	must(t, sf.Click(t.Context(), "button"))
	seen, err := sf.Await(t.Context(), []session.Condition{{Response: "**/api/chat", Contains: "done"}})
	if err != nil || !strings.Contains(seen.Text, "data: done") {
		t.Errorf("saw %+v, %v", seen, err)
	}
	must(t, sf.Goto(t.Context(), "/"))
	err = sf.Click(t.Context(), "a")
	close(clicked)
	must(t, err)
	_, err = sf.Await(t.Context(), []session.Condition{{Response: "**/cut"}})
	var te *session.TargetError
	if !errors.As(err, &te) || te.Cause != session.CauseEOF {
		t.Errorf("a cut stream: %v", err)
	}
}

func TestFormsCarryWhereTheyComeFrom(t *testing.T) {
	var got http.Header
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			got = r.Header.Clone()
		}
		html(w, `<form method=post action=/to><button>x</button></form>`)
	})
	sf := surface(t, url)
	must(t, sf.Click(t.Context(), "button"))
	if _, err := sf.Await(t.Context(), []session.Condition{{URL: "**/to"}}); err != nil {
		t.Fatal(err)
	}
	if got.Get("Origin") != url || got.Get("Referer") != url+"/" || got.Get("User-Agent") != "amnesia" {
		t.Errorf("sent %v", got)
	}
}

func TestHeadersOfAScriptStayWithItsApp(t *testing.T) {
	var leaked string
	other := serve(t, func(w http.ResponseWriter, r *http.Request) {
		leaked = r.Header.Get("Authorization")
		fmt.Fprint(w, `{"m":["b"]}`)
	})
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		next := other
		if r.URL.Path == "/list" {
			next = "/list2"
		}
		fmt.Fprintf(w, `{"m":[%q],"next":%q}`, r.Header.Get("Authorization"), next)
	})
	sf := surface(t, url)
	_, err := sf.Request(t.Context(), session.Request{Path: "/list", Headers: map[string]string{"Authorization": "secret"}})
	must(t, err)
	texts, complete, err := sf.Read(t.Context(), session.Read{JSON: "$.m[*]", More: &session.More{JSON: "$.next"}})
	if err != nil || !complete || !slices.Equal(texts, []string{"secret", "secret", "b"}) || leaked != "" {
		t.Errorf("read %q, %v, %v; leaked %q", texts, complete, err, leaked)
	}
}

func TestAnEndlessAnswerEndsWithItsContext(t *testing.T) {
	srv := sessiontest.NewServer(t, false)
	sf, err := open(t, srv.URL).Open(t.Context(), session.User{})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := sf.Goto(ctx, "/login"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	must(t, sf.Goto(t.Context(), "/login"))
	must(t, sf.Close())
	if err := sf.Goto(t.Context(), "/login"); !session.IsRig(err) {
		t.Errorf("after Close: %v", err)
	}
}

func TestNewChecksItsConfiguration(t *testing.T) {
	for _, bad := range []string{"", "localhost:8080", "ftp://h", "http://", "::"} {
		if _, err := web.New(web.Config{BaseURL: bad, Clock: clock.System()}); err == nil || !strings.Contains(err.Error(), "— fix:") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
