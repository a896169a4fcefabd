package chatapp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"amnesia/pkg/chatapp"
)

// inProcess runs the app inside the test binary, for what needs no kill.
func inProcess(t *testing.T, bugs chatapp.Bugs) *target {
	t.Helper()
	dir := t.TempDir()
	app, err := chatapp.New(t.Context(), chatapp.Config{Addr: "127.0.0.1:0", Data: filepath.Join(dir, "data"),
		Scratch: filepath.Join(dir, "scratch"), Truth: filepath.Join(dir, "truth.jsonl"), Bugs: bugs})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- app.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return &target{t: t, dir: dir, url: "http://" + app.Addr(), clients: map[string]*http.Client{}}
}

// hostile are texts that real apps have mangled.
var hostile = []string{
	"a plain sentence",
	"two lines\n  and a third, indented\n\n\tand one after a gap",
	"\nbegins and ends with a line end\n",
	"  spaces   everywhere  ",
	"她最喜欢的茶是乌龙茶，住在杭州。",
	"family 👩‍👩‍👧‍👦, flag 🏴‍☠️, skin 👍🏽",
	`"quotes" & 'apostrophes' <b>bold</b> </p></li><script>alert(1)</script> &amp; {{.User}} '); DROP TABLE chat_memory; --`,
	strings.Repeat("a long story without an end ", 75),
}

// TestExactText tells every kind of text and wants it back letter for letter.
func TestExactText(t *testing.T) {
	t.Parallel()
	a := inProcess(t, nil)
	for _, text := range hostile {
		a.tell("ada", text)
	}
	want := slices.Sorted(slices.Values(hostile))
	for place, got := range map[string][]string{"page": a.page("ada"), "vectors": a.vectors("ada"), "database": a.database("ada")} {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", place, diff)
		}
	}
}

func TestLogin(t *testing.T) {
	t.Parallel()
	a := inProcess(t, nil)
	stranger := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for path, want := range map[string]int{"/chat": 303, "/api/history": 401, "/healthz": 200, "/login": 200} {
		resp, err := stranger.Get(a.url + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want || (want == 303 && resp.Header.Get("Location") != "/login") {
			t.Errorf("%s without a login: %d to %q, want %d", path, resp.StatusCode, resp.Header.Get("Location"), want)
		}
	}
	a.tell("ada", "hello")
	for _, form := range []url.Values{{"username": {"ada"}, "password": {"wrong"}}, {"username": {""}, "password": {"x"}}, {"username": {"x"}}} {
		resp, err := stranger.PostForm(a.url+"/login", form)
		if err != nil {
			t.Fatal(err)
		}
		if doc := a.document(resp); resp.StatusCode < 400 || doc.Find("[role=alert]").Length() != 1 || len(resp.Cookies()) > 0 {
			t.Errorf("login with %v: status %d, cookies %v", form, resp.StatusCode, resp.Cookies())
		}
	}
	resp, err := stranger.PostForm(a.url+"/login", url.Values{"username": {"ada"}, "password": {"pw of ada"}})
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusSeeOther || resp.Header.Get("Location") != "/chat" {
		t.Errorf("login: %d to %q", resp.StatusCode, resp.Header.Get("Location"))
	}
	// A token in which one letter of the name was changed is no token.
	cookie := resp.Cookies()[0]
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.url+"/api/history", nil)
	if err != nil {
		t.Fatal(err)
	}
	if cookie.Value[12] == 'Y' {
		t.Fatal("the test changes nothing")
	}
	cookie.Value = cookie.Value[:12] + "Y" + cookie.Value[13:]
	request.AddCookie(cookie)
	if resp, err = stranger.Do(request); err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("with a forged session: status %d", resp.StatusCode)
	}
	if doc := a.post("ada", "/logout", nil); doc.Find("input[name=password]").Length() != 1 {
		t.Error("log out does not lead to the login page")
	}
	if resp, err = a.user("ada").Get(a.url + "/chat"); err != nil {
		t.Fatal(err)
	}
	if doc := a.document(resp); doc.Find("input[name=password]").Length() != 1 {
		t.Error("still logged in after the log out")
	}
}

// TestPaging tells more than one page of every list holds.
func TestPaging(t *testing.T) {
	t.Parallel()
	a := inProcess(t, chatapp.Bugs{chatapp.Unsynced: true})
	var want []string
	for i := range 201 {
		want = append(want, fmt.Sprintf("memory number %03d", i))
		a.tell("ada", want[i])
		if i%4 == 0 {
			a.ask("ada", "What did I say about number?")
		}
	}
	var mine []string
	for _, text := range a.page("ada") {
		if !strings.HasSuffix(text, "?") {
			mine = append(mine, text)
		}
	}
	if diff := cmp.Diff(want, mine); diff != "" {
		t.Errorf("page (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, a.vectors("ada")); diff != "" {
		t.Errorf("vectors (-want +got):\n%s", diff)
	}
	var count struct{ Count int }
	for path, want := range map[string]int{"/debug/vector-count": 201, "/debug/vector-count?user=ada": 201, "/debug/vector-count?user=bob": 0} {
		if a.get(path, &count); count.Count != want {
			t.Errorf("%s: %d, want %d", path, count.Count, want)
		}
	}
	var roles []string
	for path := "/api/history"; path != ""; {
		var page struct {
			Items []struct{ ID, Role, Text string }
			Next  string
		}
		resp, err := a.user("ada").Get(a.url + path)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.NewDecoder(resp.Body).Decode(&page); err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if len(page.Items) > 100 {
			t.Errorf("%s has %d messages, want at most 100", path, len(page.Items))
		}
		for _, item := range page.Items {
			roles = append(roles, item.Role)
		}
		path = page.Next
	}
	if want := slices.Repeat([]string{"user", "assistant"}, 201+51); !slices.Equal(roles, want) {
		t.Errorf("the API gave %d messages, want %d in turn", len(roles), len(want))
	}
}

// TestUIField checks that only the reload is blank: the confirmation is rendered from the response, and the API is right.
func TestUIField(t *testing.T) {
	t.Parallel()
	a := inProcess(t, chatapp.Bugs{chatapp.UIField: true})
	a.tell("ada", "first")
	doc := a.post("ada", "/api/chat", url.Values{"message": {"second"}})
	if got := doc.Find(".message.user .text").Last().Text(); got != "second" {
		t.Errorf("the answering page shows %q", got)
	}
	if got := a.page("ada"); !slices.Equal(got, []string{"", ""}) {
		t.Errorf("a fresh page shows %q", got)
	}
	var page struct{ Items []struct{ Text string } }
	resp, err := a.user("ada").Get(a.url + "/api/history")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&page); err != nil || page.Items[0].Text != "first" {
		t.Errorf("the API gives %+v, %v", page, err)
	}
}

// TestJSON speaks to the app as its JavaScript and as scripts do.
func TestJSON(t *testing.T) {
	t.Parallel()
	a := inProcess(t, nil)
	send := func(path, kind, accept, body string) (*http.Response, map[string]any) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", kind)
		request.Header.Set("Accept", accept)
		resp, err := a.user("ada").Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var out map[string]any
		if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		return resp, out
	}
	const form, object = "application/x-www-form-urlencoded", "application/json"

	if resp, out := send("/api/login", object, "", `{"username":"ada","password":"pw of ada"}`); resp.StatusCode != 200 || out["user"] != "ada" {
		t.Errorf("login: %d %v", resp.StatusCode, out)
	}
	if resp, out := send("/api/login", object, "", `{"username":"ada","password":"no"}`); resp.StatusCode != 401 || out["error"] == nil {
		t.Errorf("wrong password: %d %v", resp.StatusCode, out)
	}
	_, out := send("/api/chat", object, object, `{"message":"told in JSON"}`)
	if out["answer"] != "Saved: told in JSON" || out["text"] != "told in JSON" || out["id"] == "" {
		t.Errorf("chat: %v", out)
	}
	if _, out := send("/api/chat", form, object, "message=told+in+a+form"); out["answer"] != "Saved: told in a form" {
		t.Errorf("chat: %v", out)
	}
	if resp, out := send("/api/chat", form, object, "message=+"); resp.StatusCode != 400 || out["error"] == nil {
		t.Errorf("empty message: %d %v", resp.StatusCode, out)
	}
	if resp, out := send("/api/chat", form, object, "message="+strings.Repeat("x", 300<<10)); resp.StatusCode != 413 || out["error"] == nil {
		t.Errorf("huge message: %d %v", resp.StatusCode, out)
	}
	if resp, gone := send("/api/forget", form, object, url.Values{"id": {out["id"].(string)}}.Encode()); resp.StatusCode != 200 || !cmp.Equal(gone["forgotten"], []any{out["id"]}) {
		t.Errorf("forget: %d %v", resp.StatusCode, gone)
	}
	if resp, out := send("/api/forget", form, object, "id=0"); resp.StatusCode != 404 || out["error"] == nil {
		t.Errorf("forget what is not there: %d %v", resp.StatusCode, out)
	}
	if got := a.page("ada"); !slices.Equal(got, []string{"told in a form"}) {
		t.Errorf("the page shows %q", got)
	}
}

// TestStream reads an answer in pieces.
func TestStream(t *testing.T) {
	t.Parallel()
	a := inProcess(t, nil)
	for _, text := range hostile {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.url+"/api/chat", strings.NewReader(url.Values{"message": {text}}.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header.Set("Accept", "application/x-ndjson")
		resp, err := a.user("ada").Do(request)
		if err != nil {
			t.Fatal(err)
		}
		var answer, id string
		pieces := 0
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); pieces++ {
			var line struct {
				Answer, ID string
				Done       bool
			}
			if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
				t.Fatal(err)
			}
			if answer += line.Answer; line.Done {
				id = line.ID
			}
		}
		resp.Body.Close()
		if answer != "Saved: "+text || id == "" || (len(text) > 1000 && pieces < 10) {
			t.Errorf("%d pieces make %q with id %q, want %q", pieces, answer, id, "Saved: "+text)
		}
	}
}

// TestForgetAll clears one user and leaves the other alone.
func TestForgetAll(t *testing.T) {
	t.Parallel()
	a := inProcess(t, nil)
	a.tell("ada", "one")
	a.tell("ada", "two")
	a.tell("bob", "three")
	a.ask("ada", "What is four?")
	doc := a.post("ada", "/api/forget", url.Values{"all": {"yes"}})
	if doc.Find(".message").Length() != 0 || doc.Find("[role=status]").Length() != 1 {
		t.Error("the page still has messages, or says nothing")
	}
	if ada, bob := a.vectors("ada"), a.vectors("bob"); len(ada) != 0 || len(bob) != 1 {
		t.Errorf("the vector memory has %q and %q", ada, bob)
	}
}

// TestForeignSite refuses what another site's page sends with the user's cookies.
func TestForeignSite(t *testing.T) {
	t.Parallel()
	a := inProcess(t, nil)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.url+"/api/forget", strings.NewReader("all=yes"))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Origin", "https://elsewhere.example")
	resp, err := a.user("ada").Do(request)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("status %d", resp.StatusCode)
	}
}

// TestCannotOpen breaks what the app needs at its start; it must say what is wrong, with a fix.
func TestCannotOpen(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(dir string, cfg *chatapp.Config) error{
		"data is a file": func(dir string, _ *chatapp.Config) error { return os.WriteFile(filepath.Join(dir, "data"), nil, 0o644) },
		"chat.db is a directory": func(dir string, _ *chatapp.Config) error {
			return os.MkdirAll(filepath.Join(dir, "data", "chat.db"), 0o755)
		},
		"vectors is a file": func(dir string, _ *chatapp.Config) error {
			return errors.Join(os.Mkdir(filepath.Join(dir, "data"), 0o755), os.WriteFile(filepath.Join(dir, "data", "vectors"), nil, 0o644))
		},
		"the truth log is a folder": func(dir string, cfg *chatapp.Config) error { cfg.Truth = dir; return nil },
		"no such address":           func(_ string, cfg *chatapp.Config) error { cfg.Addr = "192.0.2.1:1"; return nil }, // RFC 5737
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			cfg := chatapp.Config{Addr: "127.0.0.1:0", Data: filepath.Join(dir, "data"), Scratch: filepath.Join(dir, "scratch")}
			if err := spoil(dir, &cfg); err != nil {
				t.Fatal(err)
			}
			if _, err := chatapp.New(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), " — fix: ") {
				t.Errorf("New gives %v, want an error with a fix", err)
			}
		})
	}
}

func TestConfigFromEnv(t *testing.T) {
	t.Parallel()
	good := map[string]string{"CHATAPP_DATA": "data", "CHATAPP_SCRATCH": "scratch"}
	for _, c := range []struct {
		name string
		env  map[string]string
		want []string // one piece of each problem
	}{
		{"good", nil, nil},
		{"all bugs", map[string]string{"CHATAPP_BUGS": "ack-early, leak,ui-field", "CHATAPP_HOMES": "vectors,database", "CHATAPP_DRAIN": "1s"}, nil},
		{"nothing set", map[string]string{"CHATAPP_DATA": "", "CHATAPP_SCRATCH": ""}, []string{"CHATAPP_DATA: not set", "CHATAPP_SCRATCH: not set"}},
		{"everything wrong", map[string]string{"CHATAPP_ADDR": "here", "CHATAPP_SCRATCH": "data", "CHATAPP_BUGS": "leaks", "CHATAPP_HOMES": "short_term", "CHATAPP_DRAIN": "soon", "CHATAPP_INDEX_DELAY": "-1s",
			"CHATAPP_WRITES": "later", "CHATAPP_REBUILD": "always"},
			[]string{"CHATAPP_ADDR", "CHATAPP_SCRATCH: the same", `CHATAPP_BUGS: there is no bug "leaks" — fix: choose from ack-early, `, "CHATAPP_HOMES", "CHATAPP_WRITES", "CHATAPP_REBUILD", "CHATAPP_DRAIN", "CHATAPP_INDEX_DELAY"}},
		{"a gap needs two", map[string]string{"CHATAPP_BUGS": "dual-write-gap", "CHATAPP_HOMES": "database"}, []string{"needs two homes"}},
		{"async", map[string]string{"CHATAPP_WRITES": "async", "CHATAPP_REDIS_URL": "redis://127.0.0.1:6379/0", "CHATAPP_REBUILD": "never"}, nil},
		{"async needs Redis", map[string]string{"CHATAPP_WRITES": "async"}, []string{"CHATAPP_WRITES: async needs a Redis"}},
		{"async needs Redis as a cache", map[string]string{"CHATAPP_WRITES": "async", "CHATAPP_REDIS_URL": "redis://127.0.0.1:6379/0", "CHATAPP_HOMES": "database,redis"}, []string{"CHATAPP_WRITES"}},
		{"a bug has its own order", map[string]string{"CHATAPP_WRITES": "async", "CHATAPP_REDIS_URL": "redis://127.0.0.1:6379/0", "CHATAPP_BUGS": "ack-early"}, []string{"CHATAPP_WRITES"}},
		{"a vector bug needs vectors", map[string]string{"CHATAPP_BUGS": "ephemeral-volume", "CHATAPP_HOMES": "database"}, []string{"add vectors"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := chatapp.ConfigFromEnv(func(name string) string {
				if value, ok := c.env[name]; ok {
					return value
				}
				return good[name]
			})
			if (err == nil) != (c.want == nil) {
				t.Fatal(err)
			}
			if err == nil {
				return
			}
			problems := strings.Split(err.Error(), "\n")
			if len(problems) != len(c.want) {
				t.Errorf("%d problems, want %d:\n%v", len(problems), len(c.want), err)
			}
			for i, want := range c.want {
				if !strings.Contains(problems[i], want) || !strings.Contains(problems[i], " — fix: ") {
					t.Errorf("problem %d is %q, want one with %q and a fix", i, problems[i], want)
				}
			}
		})
	}
}
