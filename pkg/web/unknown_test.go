package web

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"amnesia/pkg/fact"
	"amnesia/pkg/incident"
	"amnesia/pkg/memory"
)

// TestUnknownPages: who goes astray is told so on a page with a way on, and a program in JSON.
func TestUnknownPages(t *testing.T) {
	s := New(Config{Gatherer: prometheus.NewRegistry(), Daemon: &daemon{}, Books: newShelf(), Token: token})
	get := func(method, path string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, nil)
		r.Host = "127.0.0.1:9464"
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w
	}
	if w := get("GET", "/nope"); w.Code != 401 {
		t.Errorf("without a token, where reading needs it: %d", w.Code)
	}
	s.openToRead = true
	for _, path := range []string{"/nope", "/faults/999", "/memories/", "/%3Cscript%3E"} {
		w := get("GET", path)
		if body := w.Body.String(); w.Code != 404 || !strings.Contains(body, "there is no page") || !strings.Contains(body, `<a href="/incidents"`) || strings.Contains(body, "<script>") {
			t.Errorf("%s: %d %s", path, w.Code, body)
		}
	}
	for _, c := range []struct {
		method, path string
		code         int
		want         string
	}{
		{"GET", "/api/v1/nope", 404, `{"error":"there is no /api/v1/nope — fix: see /api/v1/openapi.yaml"}`},
		{"GET", "/api/", 404, `{"error":"there is no /api/ — fix: see /api/v1/openapi.yaml"}`},
		{"GET", "/api/v1/pause", 405, `{"error":"/api/v1/pause is not for GET — fix: POST"}`},
		{"DELETE", "/api/v1/status", 405, `{"error":"/api/v1/status is not for DELETE — fix: GET, HEAD"}`},
	} {
		w := get(c.method, c.path)
		if got := strings.TrimSpace(w.Body.String()); w.Code != c.code || got != c.want || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: %d %s", c.method, c.path, w.Code, got)
		}
		if allow := w.Header().Get("Allow"); (c.code == http.StatusMethodNotAllowed) != (allow != "") {
			t.Errorf("%s %s allows %q", c.method, c.path, allow)
		}
	}
	if w := get("GET", "/api//v1/status"); w.Code/100 != 3 {
		t.Errorf("a path that is not clean: %d", w.Code)
	}
	if w := get("GET", "/incidents?class=nope"); w.Code != 400 || !strings.Contains(w.Body.String(), "one of silent, leaked, ") {
		t.Errorf("a class that is none: %d %s", w.Code, w.Body)
	}
}

// TestWrongBodies: what is wrong with a body is said without a word of Go, and with one that would do.
func TestWrongBodies(t *testing.T) {
	for _, c := range [][3]string{
		{"pause", `[1]`, `it is a JSON array and no object — fix: send {"reason": "a release"}`},
		{"inject", `{"kind": 7}`, `"kind" is a JSON number and no string — fix: send {"kind": "kill", "service": "app"}`},
		{"inject", `{"fault": "kill"}`, `"fault" is not asked for here — fix: send {"kind": "kill", "service": "app"}`},
		{"resume", `{"a": 1}`, `"a" is not asked for here — fix: send {}, or nothing`},
		{"pause", `{`, `it is no JSON — fix: send {"reason": "a release"}`},
		{"pause", `{"reason": "` + strings.Repeat("x", maxBody) + `"}`, `it is longer than 4096 bytes — fix: send {"reason": "a release"}`},
	} {
		if code, v := ask(api(t, &daemon{}), "POST", "/api/v1/"+c[0], c[1]); code != 400 || v["error"] != "reading the request: "+c[2] {
			t.Errorf("%s %.20s: %d %v", c[0], c[1], code, v)
		}
	}
}

func TestLaneNamesKeepTheirEnds(t *testing.T) {
	cut := words["cut"].(func(string) string)
	if got := cut("amnesia-m2qqbw64-17"); got != "amnesia…bw64-17" {
		t.Errorf("got %q", got)
	}
	if got := cut("service redis"); got != "service redis" {
		t.Errorf("got %q", got)
	}
}

// crowded has an incident of more memories than are kept of one.
type crowded struct{ *shelf }

func (crowded) Incident(context.Context, string) (incident.Incident, bool, error) {
	l := incident.NewLog(nil)
	for id := memory.ID(1); id <= 282; id++ {
		v := lost(id)
		exposure := time.Duration((id+140)%282+1) * time.Millisecond
		v.Exposure = &exposure
		l.Apply(fact.Entry{Fact: fact.Judged{Cycle: int(id), Verdict: v, At: moment(int64(id))}})
	}
	i, ok := l.Get("silent/kill/redis/page+redis", moment(300))
	return i, ok, nil
}

// TestCrowdedIncident: what is not listed is said to be missing, and counts all the same.
func TestCrowdedIncident(t *testing.T) {
	s := New(Config{Gatherer: prometheus.NewRegistry(), Daemon: &daemon{}, Books: crowded{newShelf()}, Token: token})
	s.openToRead = true
	r := httptest.NewRequest("GET", "/incidents/silent/kill/redis/page+redis", nil)
	r.Host = "127.0.0.1:9464"
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	for _, want := range []string{"200 of 282: the first and the newest", "<dd>1ms to 282ms</dd>", "(of the newest 20 memories)", `<a href="/memories?verdict=lost">`} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if _, v := ask(s, "GET", "/api/v1/incidents/silent/kill/redis/page+redis", ""); v["truncated"] != true || v["exposure_min_ns"] != 1e6 || v["exposure_max_ns"] != 282e6 {
		t.Errorf("the API says %v, %v, %v", v["truncated"], v["exposure_min_ns"], v["exposure_max_ns"])
	}
}
