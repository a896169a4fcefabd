package http_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"amnesia/pkg/clock"
	"amnesia/pkg/memory"
	"amnesia/pkg/view"
	viewhttp "amnesia/pkg/view/http"
	"amnesia/pkg/view/viewtest"
)

type item struct {
	ID   int    `json:"id"`
	User string `json:"user"`
	Text string `json:"text"`
}

// store is a server with an API like the sample target's: ?user=NAME gives the pages of a user's items.
type store struct {
	*httptest.Server
	whole bool // whatever is asked for, all users' items are given

	mu      sync.Mutex
	items   []item
	trouble viewtest.Trouble
	mended  chan struct{}
}

const pageSize = 50

func newStore(t *testing.T, whole bool) *store {
	s := &store{whole: whole}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Server.Close)
	return s
}

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user := r.FormValue("user")
	from, _ := strconv.Atoi(r.FormValue("from"))
	s.mu.Lock()
	trouble, mended := s.trouble, s.mended
	var mine []item
	for _, it := range s.items {
		if s.whole || it.User == user {
			mine = append(mine, it)
		}
	}
	s.mu.Unlock()
	doc := map[string]any{"items": mine[min(from, len(mine)):min(from+pageSize, len(mine))], "next": ""}
	if from+pageSize < len(mine) {
		doc["next"] = "?" + url.Values{"user": {user}, "from": {strconv.Itoa(from + pageSize)}}.Encode()
	}
	body, _ := json.Marshal(doc)
	switch trouble {
	case viewtest.Hang:
		select {
		case <-mended:
		case <-r.Context().Done():
		}
	case viewtest.Refuse:
		http.Error(w, "the store is down", http.StatusServiceUnavailable)
		return
	case viewtest.Vanish:
		http.NotFound(w, r)
		return
	case viewtest.Garbage:
		body = []byte("<html>Please log in</html>")
	case viewtest.Cut:
		if from > 0 {
			w.Header().Set("Content-Length", strconv.Itoa(len(body)))
			body = body[:len(body)/2]
		}
	case viewtest.Short:
		if from > 0 {
			http.Error(w, "slow down", http.StatusTooManyRequests)
			return
		}
	}
	_, _ = w.Write(body)
}

func (s *store) Open(t *testing.T) view.View {
	cfg := viewhttp.Config{Name: "vectors", URL: s.URL + "/debug/vectors?user={user}", Items: "$.items", Text: "$.text", ID: "$.id", Next: "$.next", Clock: clock.System()}
	if s.whole {
		cfg.URL, cfg.Owner = s.URL+"/debug/vectors", "$.user"
	}
	return open(t, cfg)
}

func open(t *testing.T, cfg viewhttp.Config) view.View {
	t.Helper()
	v, err := viewhttp.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (s *store) Put(_ *testing.T, user string, texts ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, text := range texts {
		s.items = append(s.items, item{len(s.items) + 1, user, text})
	}
}

func (s *store) Delete(_ *testing.T, user, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items = slices.DeleteFunc(s.items, func(it item) bool { return it.User == user && it.Text == text })
}

func (s *store) Break(_ *testing.T, how viewtest.Trouble) func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	mended := make(chan struct{})
	s.trouble, s.mended = how, mended
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.trouble = ""
		close(mended)
	}
}

func TestConformance(t *testing.T) {
	for name, whole := range map[string]bool{"per user": false, "whole": true} {
		t.Run(name, func(t *testing.T) {
			viewtest.Run(t, viewtest.Harness{
				New:      func(t *testing.T) viewtest.Store { return newStore(t, whole) },
				Troubles: []viewtest.Trouble{viewtest.Hang, viewtest.Refuse, viewtest.Vanish, viewtest.Garbage, viewtest.Cut, viewtest.Short},
			})
		})
	}
}

var ann = []memory.Memory{
	{ID: 1, User: "ann", Token: "tok1xyz", Text: "code tok1xyz"},
	{ID: 2, User: "ann", Token: "tok2xyz", Text: "code tok2xyz"},
}

// TestResponses: what each kind of response proves.
func TestResponses(t *testing.T) {
	const found, none = `{"items":[{"text":"code tok1xyz"}]}`, `{"items":[]}`
	type want struct {
		first, second memory.State
		rig           bool
		detail        string // of the second
	}
	for _, c := range []struct {
		name string
		cfg  viewhttp.Config
		// pages by their path; a number is a status
		pages map[string]string
		want  want
	}{
		{"a list", viewhttp.Config{}, map[string]string{"/": found}, want{"present", "absent", false, ""}},
		{"an empty list", viewhttp.Config{}, map[string]string{"/": none}, want{"absent", "absent", false, ""}},
		{"null for an empty list", viewhttp.Config{}, map[string]string{"/": `{"items":null}`}, want{"absent", "absent", false, ""}},
		{"each item", viewhttp.Config{Items: "$.items[*]"}, map[string]string{"/": found}, want{"present", "absent", false, ""}},
		{"no item", viewhttp.Config{Items: "$.items[*]"}, map[string]string{"/": none}, want{"absent", "absent", false, ""}},
		{"a filter", viewhttp.Config{Items: "$.items[?(@.role == 'user')]"}, map[string]string{"/": `{"items":[{"role":"user","text":"code tok1xyz"},{"role":"ai","text":"code tok2xyz"}]}`}, want{"present", "absent", false, ""}},
		{"a filter that lets nothing through", viewhttp.Config{Items: "$.items[?(@.role == 'user')]"}, map[string]string{"/": `{"items":[{"role":"ai","text":"code tok2xyz"}]}`}, want{"absent", "absent", false, ""}},
		{"a filter of no list", viewhttp.Config{Items: "$.items[?(@.role == 'user')]"}, map[string]string{"/": `{"error":"down"}`}, want{"unreadable", "unreadable", false, "nothing at $.items"}},
		{"bare strings", viewhttp.Config{Items: "$", Text: "-"}, map[string]string{"/": `["code tok1xyz"]`}, want{"present", "absent", false, ""}},
		{"a document in the text's place", viewhttp.Config{}, map[string]string{"/": `{"items":[{"text":{"a":["code tok1xyz"]}}]}`}, want{"altered", "absent", false, ""}},
		{"one item without a text", viewhttp.Config{}, map[string]string{"/": `{"items":[{"text":"code tok1xyz"},{"id":2}]}`}, want{"present", "absent", false, ""}},
		{"no item with a text", viewhttp.Config{}, map[string]string{"/": `{"items":[{"content":"code tok1xyz"}]}`}, want{"unreadable", "unreadable", false, "has anything at $.text"}},
		{"a success that is none", viewhttp.Config{}, map[string]string{"/": `{"error":"store down"}`}, want{"unreadable", "unreadable", false, `nothing at $.items: {"error":"store down"}`}},
		{"an error in a list's place", viewhttp.Config{Items: "$", Text: "-"}, map[string]string{"/": `{"error":"store down"}`}, want{"unreadable", "unreadable", false, `no list at $: {"error":"store down"}`}},
		{"no JSON", viewhttp.Config{}, map[string]string{"/": "<html>"}, want{"unreadable", "unreadable", false, "no JSON"}},
		{"two documents", viewhttp.Config{}, map[string]string{"/": none + found}, want{"unreadable", "unreadable", false, "no JSON"}},
		{"cut JSON", viewhttp.Config{}, map[string]string{"/": found[:30]}, want{"unreadable", "unreadable", false, "no JSON"}},
		{"nothing", viewhttp.Config{}, map[string]string{"/": ""}, want{"unreadable", "unreadable", false, "empty"}},
		{"too long", viewhttp.Config{MaxBody: 20}, map[string]string{"/": found}, want{"unreadable", "unreadable", false, "longer than 20 bytes"}},
		{"status 500", viewhttp.Config{}, map[string]string{"/": "500"}, want{"unreadable", "unreadable", false, "status 500"}},
		{"status 429", viewhttp.Config{}, map[string]string{"/": "429"}, want{"unreadable", "unreadable", true, "status 429"}},
		{"status 401", viewhttp.Config{}, map[string]string{"/": "401"}, want{"unreadable", "unreadable", true, "status 401"}},
		{"status 204", viewhttp.Config{}, map[string]string{"/": "204"}, want{"unreadable", "unreadable", false, "empty"}},
		{"pages", viewhttp.Config{}, map[string]string{"/": `{"items":[],"next":"/2"}`, "/2": `{"items":[{"text":"code tok2xyz"}],"next":"3"}`, "/3": found}, want{"present", "present", false, ""}},
		{"a circle", viewhttp.Config{}, map[string]string{"/": `{"items":[{"text":"code tok1xyz"}],"next":"/2"}`, "/2": `{"items":[],"next":"/2"}`}, want{"present", "unreadable", false, "in a circle"}},
		{"too many pages", viewhttp.Config{MaxPages: 2}, map[string]string{"/": `{"items":[{"text":"code tok1xyz"}],"next":"/2"}`, "/2": `{"items":[],"next":"/3"}`, "/3": none}, want{"present", "unreadable", false, "more than 2 pages"}},
		{"a page elsewhere", viewhttp.Config{}, map[string]string{"/": `{"items":[],"next":"http://example.invalid/"}`}, want{"unreadable", "unreadable", false, "another host"}},
		{"a failing later page", viewhttp.Config{}, map[string]string{"/": `{"items":[{"text":"code tok1xyz"}],"next":"/2"}`, "/2": "503"}, want{"present", "unreadable", false, "status 503"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				page, ok := c.pages[r.URL.Path]
				if status, err := strconv.Atoi(page); err == nil || !ok {
					w.WriteHeader(max(status, 200))
					return
				}
				fmt.Fprint(w, page)
			}))
			defer s.Close()
			cfg := c.cfg
			cfg.URL, cfg.Next, cfg.Clock = s.URL+"/?user={user}", "$.next", clock.System()
			if cfg.Items == "" {
				cfg.Items = "$.items"
			}
			switch cfg.Text {
			case "":
				cfg.Text = "$.text"
			case "-":
				cfg.Text = ""
			}
			v := open(t, cfg)
			defer v.Close()
			out, err := v.Find(t.Context(), ann)
			if err != nil {
				t.Fatal(err)
			}
			got := want{out[0].State, out[1].State, out[1].Rig, c.want.detail}
			if got != c.want || !strings.Contains(out[1].Detail, c.want.detail) {
				t.Errorf("got %+v (%s), want %+v", got, out[1].Detail, c.want)
			}
		})
	}
}

// TestOwners: without an owner path what a user is given is that user's; with one, the item says.
func TestOwners(t *testing.T) {
	s := newStore(t, true)
	s.Put(t, "bob", ann[0].Text)
	for _, c := range []struct {
		owner     string
		state     memory.State
		strangers []string
	}{{"", memory.Present, nil}, {"$.user", memory.Absent, []string{"bob"}}} {
		v := open(t, viewhttp.Config{URL: s.URL + "?user={{.User}}", Items: "$.items", Text: "$.text", Owner: c.owner, Clock: clock.System()})
		out, err := v.Find(t.Context(), ann[:1])
		if err != nil || out[0].State != c.state || !slices.Equal(out[0].Strangers, c.strangers) {
			t.Errorf("owner %q: %+v, %v, want %s and %q", c.owner, out, err, c.state, c.strangers)
		}
		v.Close()
	}
}

// TestSecrets: the headers go to the host they are for, and to no other.
func TestSecrets(t *testing.T) {
	got := make(chan string, 1)
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header.Get("X-Api-Key") }))
	defer other.Close()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Api-Key") != "secret" || r.Host != "memories.example" {
			t.Errorf("key %q, host %q", r.Header.Get("X-Api-Key"), r.Host)
		}
		http.Redirect(w, r, other.URL, http.StatusFound)
	}))
	defer s.Close()
	v := open(t, viewhttp.Config{URL: s.URL + "/{user}", Items: "$", Headers: http.Header{"X-API-Key": {"secret"}, "Host": {"memories.example"}}, Clock: clock.System()})
	defer v.Close()
	out, err := v.Find(t.Context(), ann)
	if err != nil || out[0].State != memory.Unreadable || !strings.Contains(out[0].Detail, "another host") || strings.Contains(out[0].Detail, "secret") {
		t.Errorf("%+v, %v", out, err)
	}
	select {
	case key := <-got:
		t.Errorf("the other host was asked, with the key %q", key)
	default:
	}
}

// TestTimeout: one request that hangs is our trouble, and does not cost the other users their reading.
func TestTimeout(t *testing.T) {
	done := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/ann" {
			select {
			case <-done:
			case <-r.Context().Done():
			}
		}
		fmt.Fprint(w, "[]")
	}))
	defer s.Close()
	defer close(done)
	v := open(t, viewhttp.Config{URL: s.URL + "/{user}", Items: "$", Timeout: 100 * time.Millisecond, Parallel: 1, Clock: clock.System()})
	defer v.Close()
	out, err := v.Find(context.Background(), []memory.Memory{ann[0], {ID: 3, User: "bob", Token: "tok3xyz"}})
	if err != nil || out[0].State != memory.Unreadable || !out[0].Rig || !strings.Contains(out[0].Detail, "within 100ms") || out[1].State != memory.Absent {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestRefused(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	v := open(t, viewhttp.Config{URL: s.URL + "/{user}", Items: "$", Clock: clock.System()})
	defer v.Close()
	out, err := v.Find(t.Context(), ann)
	if err != nil || out[0].State != memory.Unreadable || !out[0].Rig || !strings.Contains(out[0].Detail, "refused") {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestConfig(t *testing.T) {
	_, err := viewhttp.New(viewhttp.Config{URL: "127.0.0.1:80/x", Text: "$.[", Next: "$["})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"url: ", "text: ", "next: ", "items: missing"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not name %q: %v", want, err)
		}
	}
	for _, line := range strings.Split(err.Error(), "\n") {
		if !strings.Contains(line, " — fix: ") {
			t.Errorf("no fix in %q", line)
		}
	}
	if _, err := viewhttp.New(viewhttp.Config{URL: "http://127.0.0.1/all", Items: "$"}); err == nil {
		t.Error("one address for all users and no owner: no error")
	}
}
