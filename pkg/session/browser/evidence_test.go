package browser_test

import (
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"time"
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
