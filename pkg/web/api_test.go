package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap/zaptest"
	"go.yaml.in/yaml/v2"

	"amnesia/chaos"
	"amnesia/pkg/fact"
)

const token = "a-token-for-tests-only"

// daemon is what the tests' servers show and move.
type daemon struct {
	held  []Held
	asked *Ask
	err   error // of whatever acts
	reads int
}

func (d *daemon) Status(context.Context) (Status, error) {
	d.reads++
	return Status{Version: "v1", Run: "r1", Target: "http://app", Armed: true, Held: d.held, Asked: d.asked,
		Cycle: &Cycle{N: 3, Phase: fact.PhaseTraffic, Since: time.Unix(1, 0).UTC()}, Next: time.Unix(2, 0).UTC()}, nil
}

func (d *daemon) Pause(_ context.Context, reason string) error {
	if d.err == nil {
		d.held = []Held{{Reason: chaos.ReasonPaused, Why: reason}}
	}
	return d.err
}

func (d *daemon) Resume(context.Context) error {
	if d.err == nil {
		d.held = nil
	}
	return d.err
}

func (d *daemon) Inject(_ context.Context, a Ask) error {
	if d.err == nil {
		d.asked = &a
	}
	return d.err
}

// moved reports whether anything was done to it.
func (d *daemon) moved() bool { return d.held != nil || d.asked != nil }

func api(t *testing.T, d *daemon) *Server {
	s := New(Config{Gatherer: prometheus.NewRegistry(), Logger: zaptest.NewLogger(t), Daemon: d, Token: token})
	s.openToRead = true
	return s
}

// ask asks as the command line does; headers change the request, Host among them, and an empty one is taken away.
func ask(s http.Handler, method, path, body string, header ...string) (int, map[string]any) {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = "127.0.0.1:9464"
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(TokenHeader, token)
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		} else {
			r.Header.Set(header[i], header[i+1])
		}
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	var v map[string]any
	_ = json.Unmarshal(w.Body.Bytes(), &v)
	return w.Code, v
}

func TestActing(t *testing.T) {
	d := &daemon{}
	s := api(t, d)
	if code, v := ask(s, "POST", "/api/v1/pause", `{"reason": "a release"}`); code != 200 || v["held"].([]any)[0].(map[string]any)["why"] != "a release" {
		t.Errorf("pause: %d %v", code, v)
	}
	if code, v := ask(s, "POST", "/api/v1/resume", ``); code != 200 || v["held"] != nil {
		t.Errorf("resume: %d %v", code, v)
	}
	if code, v := ask(s, "POST", "/api/v1/inject", `{"kind": "kill", "service": "app"}`); code != 202 || v["asked"].(map[string]any)["service"] != "app" {
		t.Errorf("inject: %d %v", code, v)
	}
	if code, _ := ask(s, "POST", "/api/v1/pause", "", "Content-Type", ""); code != 200 {
		t.Errorf("a pause without a body: %d", code)
	}
	d.err = &chaos.Refusal{Kind: "kill", Service: "db", Reason: chaos.ReasonService, Why: "no"}
	if code, v := ask(s, "POST", "/api/v1/inject", `{"kind": "kill", "service": "db"}`); code != 409 || v["reason"] != "service" || v["error"] != "kill of db refused (service): no" {
		t.Errorf("a refused fault: %d %v", code, v)
	}
	d.err = errors.New("the disk is full")
	if code, v := ask(s, "POST", "/api/v1/pause", ""); code != 500 || v["error"] != "the disk is full" {
		t.Errorf("a pause that is not recorded: %d %v", code, v)
	}
}

// TestNobodyActsUnasked: whoever has no token, or is a page of another site, changes nothing and learns nothing.
func TestNobodyActsUnasked(t *testing.T) {
	const evil = "https://evil.example"
	for _, path := range []string{"/api/v1/pause", "/api/v1/resume", "/api/v1/inject"} {
		for name, c := range map[string]struct {
			header []string
			code   int
		}{
			"without a token":                {[]string{TokenHeader, ""}, 401},
			"with a wrong one":               {[]string{TokenHeader, token[:len(token)-1] + "x"}, 401},
			"with the beginning of one":      {[]string{TokenHeader, token[:3]}, 401},
			"with more than one":             {[]string{TokenHeader, token + "x"}, 401},
			"a token where it is not read":   {[]string{TokenHeader, "", "Authorization", "Bearer " + token, "Cookie", "token=" + token}, 401},
			"by a name of another":           {[]string{"Host", "evil.example:9464"}, 421},
			"by a name that looks like ours": {[]string{"Host", "127.0.0.1.evil.example"}, 421},
			"from another origin":            {[]string{"Origin", evil}, 403},
			"from no origin":                 {[]string{"Origin", "null"}, 403},
			"from another site":              {[]string{"Sec-Fetch-Site", "cross-site"}, 403},
			"from another port":              {[]string{"Origin", "http://127.0.0.1:8080"}, 403},
		} {
			d := &daemon{}
			code, v := ask(api(t, d), "POST", path, `{}`, c.header...)
			if code != c.code || d.moved() || d.reads > 0 || v["error"] == nil {
				t.Errorf("%s %s: %d %v, %+v", path, name, code, v, d)
			}
		}
	}
	d := &daemon{}
	s := api(t, d)
	s.cfg.Token = ""
	if code, _ := ask(s, "POST", "/api/v1/pause", "", TokenHeader, ""); code != 401 || d.moved() {
		t.Errorf("a daemon without a token lets everybody act: %d", code)
	}
}

func TestReading(t *testing.T) {
	s := api(t, &daemon{})
	for host, want := range map[string]int{"127.0.0.1:9464": 200, "[::1]:9464": 200, "localhost": 200, "10.0.0.7": 200, "rebound.example": 421} {
		if code, v := ask(s, "GET", "/api/v1/status", "", TokenHeader, "", "Host", host); code != want {
			t.Errorf("reading by %s: %d %v", host, code, v)
		}
		// Prometheus comes by whatever name it was told.
		if code, _ := ask(s, "GET", "/metrics", "", TokenHeader, "", "Host", host); code != 200 {
			t.Errorf("figures by %s: %d", host, code)
		}
	}
	s.openToRead = false
	if code, _ := ask(s, "GET", "/api/v1/status", "", TokenHeader, ""); code != 401 {
		t.Errorf("reading without a token off loopback: %d", code)
	}
	if code, _ := ask(s, "GET", "/api/v1/status", ""); code != 200 {
		t.Errorf("reading with it: %d", code)
	}
}

func TestBodies(t *testing.T) {
	for body, header := range map[string][]string{
		`{"reason": 1}`:                   nil,
		`{"reasons": "typo"}`:             nil,
		`{"reason": "a"} {"reason": "b"}`: nil,
		`reason=a`:                        nil,
		`{"reason": "a"}`:                 {"Content-Type", "text/plain"}, // what a form of another site can send
		`{"reason": "` + strings.Repeat("a", maxBody) + `"}`: nil,
	} {
		d := &daemon{}
		if code, v := ask(api(t, d), "POST", "/api/v1/pause", body, header...); code != 400 || d.moved() || !strings.HasPrefix(fmt.Sprint(v["error"]), "reading the request: ") {
			t.Errorf("%.60s: %d %v", body, code, v)
		}
	}
}

// TestHostileText: whatever the target or a person has said, the answer is data to a browser and to a terminal.
func TestHostileText(t *testing.T) {
	const said = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\x1b]0;owned\x07\u009b31m\x9b\u202e\r\n\r\nHTTP/1.1 200 OK"
	d := &daemon{held: []Held{{Reason: "paused", Why: said}}, asked: &Ask{Kind: said}, err: errors.New(said)}
	s := api(t, d)
	s.cfg.Healthy = func() error { return errors.New(said) }
	s = New(s.cfg)
	s.openToRead = true
	for _, c := range []struct{ method, path, body, kind string }{
		{"GET", "/api/v1/status", "", "application/json"}, {"POST", "/api/v1/pause", "", "application/json"},
		{"POST", "/api/v1/pause", said, "application/json"}, {"POST", "/api/v1/inject", `{"kind": "` + strings.Repeat("<b>", 9) + `"}`, "application/json"},
		{"GET", "/healthz", "", "text/plain; charset=utf-8"}, {"GET", "/%3Cscript%3E" + "alert(1)", "", "text/plain; charset=utf-8"},
	} {
		r := httptest.NewRequest(c.method, c.path, strings.NewReader(c.body))
		r.Host = "localhost"
		r.Header.Set(TokenHeader, token)
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if h := w.Header(); h.Get("Content-Type") != c.kind || h.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s %s: %d %v", c.method, c.path, w.Code, h)
		}
		body := strings.TrimSuffix(w.Body.String(), "\n")
		if strings.ContainsFunc(body, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e }) || !utf8.ValidString(body) {
			t.Errorf("%s %s: a terminal would act on %q", c.method, c.path, body)
		}
		if c.kind == "application/json" && strings.ContainsAny(body, "<>") {
			t.Errorf("%s %s: %q", c.method, c.path, body)
		}
	}
}

// TestOpenAPI holds the description against the handlers: the same paths, methods and protection, and of every answer the
// same fields.
func TestOpenAPI(t *testing.T) {
	var doc map[any]any
	if err := yaml.Unmarshal(openAPI, &doc); err != nil {
		t.Fatal(err)
	}
	d := &daemon{held: []Held{{Reason: chaos.ReasonHalted, Why: "why"}}}
	s := api(t, d)
	s.cfg.Books = newShelf()
	s = New(s.cfg)
	s.openToRead = true
	close(s.ending) // so that the events end
	examples := strings.NewReplacer("{n}", "40", "{id}", "m42", "{fingerprint...}", "silent/kill/redis/page+redis")
	served := map[string]bool{}
	for _, rt := range s.routes() {
		at := strings.ToLower(rt.method)
		path := strings.ReplaceAll(rt.path, "...}", "}") // OpenAPI has no name for the rest of a path
		op, ok := dig(doc, "paths", path, at).(map[any]any)
		if !ok {
			t.Errorf("%s %s is not described", rt.method, rt.path)
			continue
		}
		served[at+" "+path] = true
		if (op["security"] != nil) != rt.acts {
			t.Errorf("%s %s: needs the token: %v, described as %v", rt.method, rt.path, rt.acts, op["security"])
		}
		body := ""
		if rt.path == "/api/v1/inject" {
			body = `{"kind": "kill", "service": "app"}`
		}
		example := examples.Replace(rt.path)
		code, v := ask(s, rt.method, example, body)
		described := resolve(doc, dig(op, "responses", fmt.Sprint(code)))
		if described == nil {
			t.Errorf("%s %s: the answer %d is not described", rt.method, rt.path, code)
		} else if schema := dig(described, "content", "application/json", "schema"); schema != nil {
			fits(t, doc, schema, v, rt.path)
		} else if schema := dig(described, "content", "text/event-stream", "schema"); schema != nil {
			fits(t, doc, schema, event(t, s, example), rt.path)
		}
		_, v = ask(s, rt.method, example, body, "Host", "rebound.example")
		fits(t, doc, dig(resolve(doc, dig(op, "responses", "default")), "content", "application/json", "schema"), v, rt.path+" refused")
	}
	for path, ops := range doc["paths"].(map[any]any) {
		for method := range ops.(map[any]any) {
			if !served[fmt.Sprintf("%s %s", method, path)] {
				t.Errorf("%s %s is described and not served", method, path)
			}
		}
	}
	if got := dig(doc, "components", "securitySchemes", "token", "name"); got != TokenHeader {
		t.Errorf("the token's header is described as %v", got)
	}
	// What a request may say is what the handlers read.
	d.err = nil
	for path, op := range map[string]any{"/api/v1/pause": dig(doc, "paths", "/api/v1/pause"), "/api/v1/inject": dig(doc, "paths", "/api/v1/inject")} {
		schema := resolve(doc, dig(op, "post", "requestBody", "content", "application/json", "schema"))
		body := map[string]string{}
		for key := range dig(schema, "properties").(map[any]any) {
			body[fmt.Sprint(key)] = "x"
		}
		text, _ := json.Marshal(body)
		if code, v := ask(s, "POST", path, string(text)); code >= 300 {
			t.Errorf("%s does not take %s: %v", path, text, v)
		}
	}
}

// dig goes down a document by its keys.
func dig(v any, keys ...string) any {
	for _, k := range keys {
		m, _ := v.(map[any]any)
		v = m[k]
	}
	return v
}

func resolve(doc map[any]any, v any) any {
	if ref, ok := dig(v, "$ref").(string); ok {
		return dig(doc, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
	}
	return v
}

// fits holds a JSON value against as much of a schema as the description uses.
func fits(t *testing.T, doc map[any]any, schema, v any, where string) {
	t.Helper()
	schema = resolve(doc, schema)
	var is []string // a whole number is a number too
	switch v := v.(type) {
	case nil:
		is = []string{"null"}
	case map[string]any:
		is = []string{"object"}
	case string:
		is = []string{"string"}
	case bool:
		is = []string{"boolean"}
	case float64:
		is = []string{"number"}
		if v == math.Trunc(v) {
			is = append(is, "integer")
		}
	case []any:
		is = []string{"array"}
	}
	wants, several := dig(schema, "type").([]any)
	if !several {
		wants = []any{dig(schema, "type")}
	}
	if !slices.ContainsFunc(wants, func(want any) bool { return slices.Contains(is, fmt.Sprint(want)) }) {
		t.Errorf("%s is %v (%s), described as %v", where, v, is, wants)
		return
	}
	if one, ok := dig(schema, "enum").([]any); ok && !slices.Contains(one, v) {
		t.Errorf("%s is %v, described as one of %v", where, v, one)
	}
	if text, ok := v.(string); ok && dig(schema, "format") == "date-time" {
		if _, err := time.Parse(time.RFC3339, text); err != nil {
			t.Errorf("%s: %v", where, err)
		}
	}
	items, _ := v.([]any)
	for _, item := range items {
		fits(t, doc, dig(schema, "items"), item, where+"[]")
	}
	object, _ := v.(map[string]any)
	required, _ := dig(schema, "required").([]any)
	for _, key := range required {
		if _, ok := object[key.(string)]; !ok {
			t.Errorf("%s has no %s", where, key)
		}
	}
	if values, ok := dig(schema, "additionalProperties").(map[any]any); ok {
		for key, value := range object {
			fits(t, doc, values, value, where+"."+key)
		}
	}
	if dig(schema, "additionalProperties") != false {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if sub := dig(schema, "properties", key); sub == nil {
			t.Errorf("%s.%s is not described", where, key)
		} else {
			fits(t, doc, sub, object[key], where+"."+key)
		}
	}
}

// event gives the data of the first event.
func event(t *testing.T, s http.Handler, path string) (v map[string]any) {
	t.Helper()
	r := httptest.NewRequest("GET", path, nil)
	r.Host = "localhost"
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	text, ok := strings.CutPrefix(w.Body.String(), "event: live\ndata: ")
	if kind := w.Header().Get("Content-Type"); !ok || kind != "text/event-stream" {
		t.Fatalf("%s begins with %.80q, a %s", path, w.Body.String(), kind)
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}
