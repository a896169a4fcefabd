package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
)

// site is an application with a login that notes every request it has, as whom it was sent.
type site struct {
	mu  sync.Mutex
	had []string
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	user := ""
	if c, err := r.Cookie("session"); err == nil {
		user = strings.TrimPrefix(c.Value, "of ")
	}
	s.mu.Lock()
	s.had = append(s.had, fmt.Sprintf("%s %s %s %s %s", user, r.Method, r.URL.RequestURI(), r.Header.Get("X-Kind"), body))
	s.mu.Unlock()
	switch {
	case r.Method == http.MethodPost && r.URL.Path == cookiePath:
		form, _ := url.ParseQuery(string(body))
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "of " + form.Get("username"), Path: "/", Quoted: true})
		http.Redirect(w, r, "/chat", http.StatusSeeOther)
	case user == "" && r.URL.Path != cookiePath:
		http.Error(w, "sign in", http.StatusUnauthorized)
	}
}

// TestReplay: what users sent is sent again, by the same users, each one's in the same order, and nothing else.
func TestReplay(t *testing.T) {
	app, rec := &site{}, &recorder{}
	server := httptest.NewServer(rec.record(app))
	defer server.Close()
	var users sync.WaitGroup
	for n := range 5 {
		users.Go(func() {
			jar, err := cookiejar.New(nil)
			if err != nil {
				t.Error(err)
				return
			}
			client := http.Client{Jar: jar}
			do := func(method, path, body string) {
				req, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				req.Header.Set("X-Kind", fmt.Sprint("kind ", len(body)))
				resp, err := client.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				resp.Body.Close()
			}
			do(http.MethodGet, cookiePath, "")
			do(http.MethodPost, cookiePath, fmt.Sprintf("username=user%d", n))
			for k := range 3 {
				do(http.MethodPost, fmt.Sprintf("/say?n=%d", k), fmt.Sprintf("a message %d of %d", k, n))
			}
		})
	}
	users.Wait()
	recorded := slices.Clone(app.had)
	app.had = nil

	again := httptest.NewServer(app)
	defer again.Close()
	var tape bytes.Buffer
	if err := json.NewEncoder(&tape).Encode(rec.tape()); err != nil {
		t.Fatal(err)
	}
	if _, err := replayed(t.Context(), &tape, again.URL); err != nil {
		t.Fatal(err)
	}
	of := func(had []string, user string) []string {
		return slices.DeleteFunc(slices.Clone(had), func(s string) bool { return !strings.HasPrefix(s, user+" ") })
	}
	for n := range 5 {
		user := fmt.Sprint("user", n)
		if first, second := of(recorded, user), of(app.had, user); len(first) != 4 || !slices.Equal(first, second) {
			t.Errorf("%s sent\n%q, and again\n%q", user, first, second)
		}
	}
	if len(recorded) != len(app.had) || len(recorded) != 5*6 {
		t.Errorf("%d requests, and %d again", len(recorded), len(app.had))
	}

	// A site that refuses is an error of the measurement.
	refusing := httptest.NewServer(http.NotFoundHandler())
	defer refusing.Close()
	if err := json.NewEncoder(&tape).Encode(rec.tape()); err != nil {
		t.Fatal(err)
	}
	if _, err := replayed(t.Context(), &tape, refusing.URL); err == nil {
		t.Error("requests that were refused are replayed without an error")
	}
}
