//go:build unix

package rig_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/template"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"amnesia/chaos/process"
	"amnesia/pkg/app"
	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
	"amnesia/pkg/oracle"
	"amnesia/pkg/view/viewtest"
)

// sample gives the program of the sample target.
var sample func() (string, error)

func TestMain(m *testing.M) {
	process.GuardianMain() // does not return in the guardian that the process engine starts
	flag.Parse()
	// Rigs wait far more than they compute.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	dir, err := os.MkdirTemp("", "amnesia-rig-")
	if err != nil {
		panic(err)
	}
	sample = sync.OnceValues(func() (string, error) {
		program := filepath.Join(dir, "rig-sample")
		out, err := exec.Command("go", "build", "-o", program, "amnesia/cmd/chatapp").CombinedOutput()
		if err != nil {
			err = fmt.Errorf("building the sample target: %w\n%s", err, out)
		}
		return program, err
	})
	if names, err = serveNames(); err != nil {
		panic(err)
	}
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		panic(err)
	}
	os.Exit(code)
}

// setup is what a test has otherwise than the rest. Its zero value is a daemon with the http driver.
type setup struct {
	Driver string // http or browser
	Ledger string // empty: in the test's folder
	Host   string // by which the daemon reaches the target; empty: 127.0.0.1
	Noisy  bool   // a second service writes 10,000 lines a second
	Faults bool   // the app is killed in each cycle
	// Recovery bounds the waiting for what is down, and for what cannot be read; 0: 2 s.
	Recovery time.Duration
	Clock    memory.Clock

	// The rest is filled in.
	Dir, Sample, Addr, Target, Store string
}

const configuration = `version: 1
armed: true
target:
  url: << text "http://" .Target >>
  engine: process
  services:
    app:
      command: [<< text .Sample >>]
      dir: << text .Dir >>
      health: << text "http://" .Addr "/healthz" >>
      env:
        CHATAPP_ADDR: << text .Addr >>
        CHATAPP_DATA: << text .Dir "/data" >>
        CHATAPP_SCRATCH: << text .Dir "/scratch" >>
<<- if .Noisy >>
    noise:
      command: [sh, << text .Dir "/noise.sh" >>]
      dir: << text .Dir >>
      health: << text "http://" .Addr "/healthz" >>
<<- end >>
sessions:
  driver: << .Driver >>
  users: 2
  memories: 3
  script:
    login:
      - goto: /login
      - fill: {selector: "input[name=username]", text: "{{.User}}"}
      - fill: {selector: "input[name=password]", text: "{{.Password}}"}
      - click: button[type=submit]
      - expect: {url: "**/chat"}
    tell:
      - fill: {selector: "#message", text: "{{.Memory}}"}
      - click: "#send"
      - acknowledged: {level: shown, selector: ".message.assistant", contains: "{{.Token}}"}
      - acknowledged: {level: settled, response: "**/api/chat"}
      - rejected: {selector: "[role=alert]:not(.unreachable)"}
    recall:
      - goto: /chat
      - read: {selector: ".message.user .text", more: {click: "#older"}}
    logout:
      - click: "#logout"
      - expect: {url: "**/login"}
views:
  page: {contract: {settle: 300ms}}
  database:
    kind: sqlite
    service: app
    path: << text .Dir "/data/chat.db" >>
    query: "SELECT content FROM chat_memory WHERE user_id = ?"
    contract: {settle: 300ms}
  vectors:
    kind: http
    service: app
    url: << text "http://" .Store "/debug/vectors?user={user}" >>
    items: $.items[*]
    text: $.text
    owner: $.user
    next: $.next
    contract: {settle: 300ms}
<<- if .Faults >>
faults:
  - {kind: kill, service: app, after: acknowledged, delay: 0ms..50ms}
<<- end >>
limits: {every: 0s, per_hour: 100000, recovery: << .Recovery >>, halt_after_failed_recoveries: 1}
ledger: {path: << text .Ledger >>}
evidence: {dir: << text .Dir "/evidence" >>}
web: {listen: "127.0.0.1:0"}
`

// noise writes about 10,000 lines a second, one in ten with the token of a memory that was told.
const noise = `
while :; do
	token=$(cat data/chat.db* 2>/dev/null | tr -c 'a-z0-9\n' '\n' | grep -m1 '^amn....' || echo none)
	awk -v token="$token" 'BEGIN { for (i = 0; i < 1500; i++) print "ERROR line " i " of the noise " (i % 10 ? "" : token) }'
	sleep 0.1
done
`

// rig is a daemon at work on the sample target, with proxies in its ways.
type rig struct {
	t      *testing.T
	daemon *app.App
	page   *viewtest.Proxy // between the users, with what they look at, and the app
	store  *viewtest.Proxy // between the view vectors and the app
	logs   *observer.ObservedLogs
	ledger string
	dir    string
	stop   func()     // ends the daemon in order
	ended  chan error // of its Run

	mu    sync.Mutex
	facts []fact.Fact
}

// start starts a daemon that runs cycles until the test ends, and waits for the first, a control.
func start(t *testing.T, s setup) *rig {
	t.Helper()
	program, err := sample()
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, dir: t.TempDir(), ended: make(chan error, 1)}
	s.Dir, s.Sample, s.Addr = r.dir, program, free(t)
	if s.Driver == "" {
		s.Driver = "http"
	}
	if s.Ledger == "" {
		s.Ledger = filepath.Join(r.dir, "amnesia.db")
	}
	if s.Recovery == 0 {
		s.Recovery = 2 * time.Second
	}
	r.ledger = s.Ledger
	r.page, r.store = viewtest.NewProxy(t, s.Addr), viewtest.NewProxy(t, s.Addr)
	s.Target, s.Store = r.page.Addr().String(), r.store.Addr().String()
	if s.Host != "" {
		_, port, _ := net.SplitHostPort(s.Target)
		s.Target = net.JoinHostPort(s.Host, port)
	}
	if s.Noisy {
		if err := os.WriteFile(filepath.Join(r.dir, "noise.sh"), []byte(noise), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(r.dir, "amnesia.yaml")
	if err := os.WriteFile(path, s.yaml(t), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := app.LoadConfig([]string{path}, func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	step, look := time.Second, time.Second
	if s.Driver == "browser" {
		step, look = 10*time.Second, 10*time.Second
	}
	core, logs := observer.New(zapcore.InfoLevel)
	r.logs = logs
	r.daemon, err = app.New(t.Context(), cfg, app.Options{Seed: 1, BrowserDir: os.Getenv("AMNESIA_BROWSER_DIR"), Log: zap.New(core), Tap: r.tap,
		Clock: s.Clock, StepTimeout: step, LookTimeout: look})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r.stop = cancel
	go func() { r.ended <- r.daemon.Run(ctx) }()
	t.Cleanup(r.end)
	r.conclusive()
	return r
}

func (s setup) yaml(t *testing.T) []byte {
	t.Helper()
	tmpl := template.Must(template.New("").Delims("<<", ">>").Funcs(template.FuncMap{"text": func(parts ...string) (string, error) {
		q, err := json.Marshal(strings.Join(parts, ""))
		return string(q), err
	}}).Parse(configuration))
	var b bytes.Buffer
	if err := tmpl.Execute(&b, s); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// end ends the daemon in order and in time, and holds that nothing was held against the target.
func (r *rig) end() {
	r.stop()
	select {
	case err := <-r.ended:
		if err != nil {
			r.t.Errorf("the daemon ended with %v", err)
		}
	case <-time.After(20 * time.Second):
		r.t.Error("the daemon does not end")
	}
	if err := r.daemon.Close(); err != nil {
		r.t.Errorf("closing the daemon: %v", err)
	}
	r.innocent()
	if r.t.Failed() {
		for _, f := range r.seen() {
			if c, ok := f.(fact.Cycle); ok && c.Phase == fact.PhaseClosed {
				r.t.Logf("cycle %d: %s %s", c.N, c.Outcome, c.Reason)
			}
		}
		for _, l := range r.logs.FilterLevelExact(zapcore.ErrorLevel).All() {
			r.t.Logf("logged: %s %v", l.Message, l.ContextMap())
		}
	}
}

// innocent holds that nothing that was found is a finding about the target, which is healthy.
func (r *rig) innocent() {
	r.t.Helper()
	for _, f := range r.seen() {
		switch f := f.(type) {
		case fact.Judged:
			if f.Verdict.Kind.Loss() || f.Verdict.Kind == memory.Volatile || len(f.Verdict.Defects) > 0 {
				r.t.Errorf("in cycle %d %s is %s with %v: %s", f.Cycle, f.Verdict.Memory, f.Verdict.Kind, f.Verdict.Defects, f.Verdict.Because)
			}
		case fact.Cycle:
			if f.Phase == fact.PhaseClosed && f.Outcome != fact.CycleClean && f.Outcome != fact.CycleInconclusive {
				r.t.Errorf("cycle %d is %s: %s", f.N, f.Outcome, f.Reason)
			}
		}
	}
	now := fact.At(r.seen()[len(r.seen())-1])
	r.daemon.Docket.Read(func(b *oracle.Book) {
		for id, v := range b.All(now) {
			if v.Kind.Loss() || len(v.Defects) > 0 {
				r.t.Errorf("%s is %s with %v: %s", id, v.Kind, v.Defects, v.Because)
			}
		}
	})
}

func (r *rig) tap(entries []fact.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range entries {
		r.facts = append(r.facts, e.Fact)
	}
}

func (r *rig) seen() []fact.Fact {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.facts)
}

// until waits until the condition holds, which must be within a minute.
func (r *rig) until(what string, holds func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); {
		select {
		case err := <-r.ended:
			r.ended <- err
			r.t.Fatalf("the daemon ended with %v, waiting for: %s", err, what)
		case <-time.After(25 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("waited a minute in vain: %s", what)
		}
	}
}

// fact waits for a fact after the first so many.
func (r *rig) fact(what string, from int, is func(fact.Fact) bool) (found fact.Fact) {
	r.t.Helper()
	r.until(what, func() bool {
		facts := r.seen()[from:]
		i := slices.IndexFunc(facts, is)
		if i >= 0 {
			found = facts[i]
		}
		return i >= 0
	})
	return found
}

// closed waits for the end of a cycle that begins from now on.
func (r *rig) closed(what string, is func(fact.Cycle) bool) fact.Cycle {
	r.t.Helper()
	last := 0
	for _, f := range r.seen() {
		if c, ok := f.(fact.Cycle); ok {
			last = max(last, c.N)
		}
	}
	return r.fact(what, 0, func(f fact.Fact) bool {
		c, ok := f.(fact.Cycle)
		return ok && c.N > last && c.Phase == fact.PhaseClosed && is(c)
	}).(fact.Cycle)
}

// conclusive waits for a cycle that begins from now on and says something of the target.
func (r *rig) conclusive() {
	r.t.Helper()
	r.closed("a conclusive cycle", func(c fact.Cycle) bool { return c.Outcome == fact.CycleClean })
}

// inconclusive waits for the end of a cycle that says nothing of the target, after the first so many facts.
func (r *rig) inconclusive(from int) fact.Cycle {
	r.t.Helper()
	return r.fact("an inconclusive cycle", from, func(f fact.Fact) bool {
		c, ok := f.(fact.Cycle)
		return ok && c.Outcome == fact.CycleInconclusive
	}).(fact.Cycle)
}

// get asks the daemon itself.
func (r *rig) get(path string) (status int, body string) {
	r.t.Helper()
	resp, err := http.Get("http://" + r.daemon.Web + path)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// metric gives the value of a series, as it is written; empty: there is none.
func (r *rig) metric(series string) string {
	r.t.Helper()
	_, text := r.get("/metrics")
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// free gives a loopback address below the ports of outgoing connections.
func free(t *testing.T) string {
	t.Helper()
	for port := 10000 + os.Getpid()*31%10000; port < 32000; port++ {
		addr := fmt.Sprintf("127.0.0.1:%d", port)
		taken.Lock()
		mine := !taken.ports[port]
		taken.ports[port] = true
		taken.Unlock()
		if ln, err := net.Listen("tcp", addr); err == nil && mine {
			if err := ln.Close(); err != nil {
				t.Fatal(err)
			}
			return addr
		}
	}
	t.Fatal("no port is free on 127.0.0.1")
	return ""
}

var taken = struct {
	sync.Mutex
	ports map[int]bool
}{ports: map[int]bool{}}
