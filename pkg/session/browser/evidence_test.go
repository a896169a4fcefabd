package browser_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"amnesia/pkg/session"
)

// TestSavedDocumentIsStill: a page that runs scripts and fetches things does so while a user looks at it, and not when
// somebody opens what was saved of it.
func TestSavedDocumentIsStill(t *testing.T) {
	t.Parallel()
	var ran, fetched atomic.Int32
	count := func(n *atomic.Int32) http.HandlerFunc {
		return func(http.ResponseWriter, *http.Request) { n.Add(1) }
	}
	var saved []byte
	srv := site(t, map[string]string{"/": `<script>fetch("/ran")</script><img src="/img" onerror="fetch('/ran')"><iframe src="/frame"></iframe><p>Look at me</p>`},
		map[string]http.HandlerFunc{"/ran": count(&ran), "/img": count(&fetched), "/frame": count(&fetched),
			"/saved": func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html; charset=utf-8")
				_, _ = w.Write(saved)
			}})
	s := open(t, start(t, srv.URL), "ann")
	must(t, s.Goto(t.Context(), "/"))
	for deadline := time.Now().Add(10 * time.Second); ran.Load() < 2 || fetched.Load() < 2; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the page itself did not run: %d, %d", ran.Load(), fetched.Load())
		}
	}
	for _, f := range s.Evidence(t.Context(), "page") {
		if data, err := os.ReadFile(f); err == nil && f[len(f)-5:] == ".html" {
			saved = data
		}
	}
	if len(saved) == 0 {
		t.Fatal("nothing was saved")
	}
	before := ran.Load() + fetched.Load()
	must(t, s.Goto(t.Context(), "/saved")) // returns when the document has loaded, and what it fetches with it
	if after := ran.Load() + fetched.Load(); after != before {
		t.Errorf("what was saved ran, or fetched, %d things:\n%s", after-before, saved)
	}
}

// TestDrawnIsWhatWasSeen: whatever signs its address has, the document is drawn, and what is there now is not asked for.
func TestDrawnIsWhatWasSeen(t *testing.T) {
	t.Parallel()
	var asked, looks atomic.Int32
	srv := site(t, nil, map[string]http.HandlerFunc{
		"/chat": func(http.ResponseWriter, *http.Request) { asked.Add(1) },
		"/look": func(http.ResponseWriter, *http.Request) { looks.Add(1) }})
	d := start(t, srv.URL)
	for n, query := range []string{"?a={", "?a=}&b=*", "?a=[(", "?a=1#/room"} {
		file := filepath.Join(t.TempDir(), "drawn.png")
		must(t, d.Draw(t.Context(), session.Glance{URL: srv.URL + "/chat" + query, Document: `<img src="/look">As it was`}, file))
		if data, err := os.ReadFile(file); err != nil || !bytes.HasPrefix(data, []byte("\x89PNG")) {
			t.Errorf("%s is no picture: %v", query, err)
		}
		if asked.Load() != 0 || int(looks.Load()) != n+1 {
			t.Errorf("%s: asked for %d times, and for its picture %d times", query, asked.Load(), looks.Load())
		}
	}
}
