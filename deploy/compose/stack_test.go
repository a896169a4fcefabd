// Package compose_test holds the stack to what it is for: it brings it up as `make soak` does, with and without planted
// bugs, and looks at what Amnesia says of it. The stack of the tests is one of its own, at ports of its own.
package compose_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"amnesia/chaos"
	"amnesia/pkg/app"
	"amnesia/pkg/chatapp/truth"
	"amnesia/pkg/fact"
	"amnesia/pkg/ledger"
	"amnesia/pkg/memory"
	"amnesia/pkg/report"
)

const project = "amnesia-stack-test"

// stack is the stack of the tests; it is up once for all of them, since each brings up only what it changes.
type stack struct {
	env []string
	// Addresses.
	appURL, chromaURL, metrics, prometheus string

	soaks string
}

func newStack(t *testing.T, project string) *stack {
	t.Helper()
	if out, err := exec.Command("../engine/up").CombinedOutput(); err != nil {
		why := fmt.Sprintf("no Docker engine: %v: %s", err, out)
		if os.Getenv("CI") == "true" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	s := &stack{soaks: t.TempDir()}
	// The sample writes late (where a bug has it so) long enough after its word for a fault to come in between.
	s.env = append(os.Environ(), "AMNESIA_PROJECT="+project, "SOAK_DIR="+s.soaks, "CHATAPP_DRAIN=800ms")
	for _, name := range []string{"APP", "CHROMA", "REDIS", "POSTGRES", "PROMETHEUS", "AMNESIA"} {
		port := freePort(t)
		s.env = append(s.env, fmt.Sprintf("%s_PORT=%d", name, port))
		switch name {
		case "AMNESIA":
			s.metrics = fmt.Sprintf("http://127.0.0.1:%d/metrics", port)
		case "PROMETHEUS":
			s.prometheus = fmt.Sprintf("http://127.0.0.1:%d", port)
		case "APP":
			s.appURL = fmt.Sprintf("http://127.0.0.1:%d", port)
		case "CHROMA":
			s.chromaURL = fmt.Sprintf("http://127.0.0.1:%d", port)
		}
	}
	if out, err := exec.Command("make", "-C", "../..", "build").CombinedOutput(); err != nil {
		t.Fatalf("make build: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		down := exec.Command("./down")
		down.Env = s.env
		if out, err := down.CombinedOutput(); err != nil {
			t.Errorf("down: %v\n%s", err, out)
		}
	})
	return s
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// soak is one `make soak`.
type soak struct {
	bugs, homes string
	over        string // laid over the configuration
	cycles      int
	// meanwhile is what somebody else does to the stack once a user was told that something is saved.
	meanwhile func(t *testing.T)
}

// run gives what Amnesia said, and its exit code.
func (s *stack) run(t *testing.T, k soak) (sum report.Summary, code int) {
	t.Helper()
	over := filepath.Join(t.TempDir(), "over.yaml")
	if err := os.WriteFile(over, []byte(k.over), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "./soak")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	cmd.Env = append(slices.Clone(s.env), "BUGS="+k.bugs, "HOMES="+k.homes, fmt.Sprint("CYCLES=", k.cycles), "AMNESIA_FLAGS=-o json -c "+over)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if k.meanwhile != nil {
		s.awaitAcknowledged(ctx, t)
		k.meanwhile(t)
	}
	err := cmd.Wait()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatalf("%v\n%s", err, stderr.Bytes())
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s\n%s", stdout.Bytes(), tail(stderr.String(), 60))
		}
	})
	if err := json.Unmarshal(stdout.Bytes(), &sum); err != nil {
		t.Fatalf("exit code %d, no summary: %v\n%s\n%s", code, err, stdout.Bytes(), tail(stderr.String(), 60))
	}
	return sum, code
}

func tail(s string, lines int) string {
	all := strings.SplitAfter(s, "\n")
	return strings.Join(all[max(0, len(all)-lines):], "")
}

var acknowledged = regexp.MustCompile(`(?m)^amnesia_memory_writes_total\{outcome="acknowledged"\} [1-9]`)

// awaitAcknowledged waits until a user has seen a memory acknowledged.
func (s *stack) awaitAcknowledged(ctx context.Context, t *testing.T) {
	t.Helper()
	for ctx.Err() == nil {
		resp, err := http.Get(s.metrics)
		if err == nil {
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err == nil && acknowledged.Match(body) {
				return
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("no memory was acknowledged")
}

// said is what a soak must have said.
type said struct {
	kinds []memory.Kind // of its losses: no other kind, and of each at least one
	by    []string      // "kind of service" that the losses are laid to: no other, and to each at least one
	maybe []string      // to which some may be laid too
	kept  []string      // faults that must have been injected, and lost nothing
}

func (w said) check(t *testing.T, s report.Summary, code int) {
	t.Helper()
	if code != 3 || s.Outcome != fact.CycleLosses {
		t.Errorf("exit code %d, outcome %s", code, s.Outcome)
	}
	for _, kind := range []memory.Kind{memory.Lost, memory.Torn, memory.Hidden, memory.Volatile, memory.Unverified} {
		if n := s.Verdicts[kind]; (n > 0) != slices.Contains(w.kinds, kind) {
			t.Errorf("%d memories are %s", n, kind)
		}
	}
	for defect, n := range s.Defects {
		if n > 0 {
			t.Errorf("%d memories are %s", n, defect)
		}
	}
	lost, injected := map[string]int{}, map[string]int{}
	for _, f := range s.Faults {
		name := f.Kind + " of " + f.Service
		lost[name], injected[name] = f.Lost, f.Injected
		if f.Lost > 0 && !slices.Contains(w.by, name) && !slices.Contains(w.maybe, name) {
			t.Errorf("%d losses are laid to %s", f.Lost, name)
		}
	}
	for _, name := range w.by {
		if lost[name] == 0 {
			t.Errorf("no loss is laid to %s", name)
		}
	}
	for _, name := range w.kept {
		if injected[name] == 0 || lost[name] > 0 {
			t.Errorf("%d times %s lost %d", injected[name], name, lost[name])
		}
	}
}

// quick has the users played without a browser, slow so that there is time to do something meanwhile.
const (
	quick = "sessions: {driver: http, users: 3}\n"
	slow  = "sessions: {driver: http, users: 3, pace: 500ms}\n"
)

func TestStack(t *testing.T) {
	s := newStack(t, project)
	t.Run("healthy", func(t *testing.T) {
		sum, code := s.run(t, soak{cycles: 15, over: "sessions: {users: 4}\n"})
		if code != 0 || sum.Outcome != fact.CycleClean || sum.Cycles.Inconclusive > 0 || len(losses(sum)) > 0 {
			t.Errorf("exit code %d, outcome %s, %d inconclusive, losses %v", code, sum.Outcome, sum.Cycles.Inconclusive, losses(sum))
		}
		hit := map[string]bool{}
		for _, f := range sum.Faults {
			hit[f.Service] = hit[f.Service] || f.Injected > 0
		}
		for _, service := range []string{"app", "chroma", "redis", "postgres"} {
			if !hit[service] {
				t.Errorf("%s was not hurt", service)
			}
		}
		if sum.Writes.Acknowledged < 200 || sum.Writes.Unknown == 0 {
			t.Errorf("%+v", sum.Writes)
		}
		s.areHealthy(t)
		s.compare(t, sum.Ledger, soak{})
	})
	t.Run("init", s.initIsWhole)
	for _, c := range []struct {
		name string
		soak
		said
	}{
		{"a Redis that snapshots, as the only home", soak{bugs: "redis-rdb", homes: "redis", cycles: 8},
			said{kinds: []memory.Kind{memory.Lost}, by: []string{"kill of redis"}, kept: []string{"restart of redis", "kill of app"}}},
		{"a volume at the wrong place", soak{bugs: "wrong-mount", homes: "vectors", cycles: 8},
			said{kinds: []memory.Kind{memory.Lost}, by: []string{"recreate of chroma"}, kept: []string{"kill of chroma", "restart of chroma"}}},
		{"vectors in memory", soak{bugs: "ephemeral-volume", cycles: 5, over: faults("kill of chroma", "recreate of chroma", "kill of app")},
			said{kinds: []memory.Kind{memory.Torn}, by: []string{"kill of chroma", "recreate of chroma"}, kept: []string{"kill of app"}}},
		{"vectors in the process", soak{bugs: "ephemeral-client", cycles: 4, over: faults("restart of app", "kill of chroma")},
			said{kinds: []memory.Kind{memory.Torn}, by: []string{"restart of app"}, kept: []string{"kill of chroma"}}},
		{"ids that are counted", soak{bugs: "counter-id", cycles: 4, over: faults("restart of app")},
			said{kinds: []memory.Kind{memory.Torn}, by: []string{"restart of app"},
				// What is told in the next control finds its number taken too.
				maybe: []string{"none of chroma"}}},
		{"an answer before the write", soak{bugs: "ack-early", cycles: 7, over: faults("kill of app", "restart of app")},
			said{kinds: []memory.Kind{memory.Lost}, by: []string{"kill of app"}, kept: []string{"restart of app"}}},
		{"a page that reads the wrong field", soak{bugs: "ui-field", cycles: 2, over: faults("restart of app")},
			said{kinds: []memory.Kind{memory.Hidden}, by: []string{"none of app"}, maybe: []string{"restart of app"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.over += quick
			sum, code := s.run(t, c.soak)
			c.check(t, sum, code)
			s.areHealthy(t)
			s.compare(t, sum.Ledger, c.soak)
		})
	}
	t.Run("a container killed by somebody else", func(t *testing.T) {
		sum, code := s.run(t, soak{bugs: "redis-rdb", homes: "redis", cycles: 2, over: faults("kill of app") + slow, meanwhile: func(t *testing.T) {
			for _, verb := range []string{"kill", "start"} {
				if out, err := exec.Command("docker", verb, project+"-redis-1").CombinedOutput(); err != nil {
					t.Errorf("docker %s: %v\n%s", verb, err, out)
				}
			}
		}})
		said{kinds: []memory.Kind{memory.Lost}, by: []string{"foreign of redis"}, kept: []string{"kill of app"}}.check(t, sum, code)
		s.compare(t, sum.Ledger, soak{homes: "redis"})
	})
}

// faults writes the list of faults that replaces the stack's.
func faults(names ...string) string {
	var b strings.Builder
	b.WriteString("faults:\n")
	for _, name := range names {
		kind, service, _ := strings.Cut(name, " of ")
		fmt.Fprintf(&b, "  - {kind: %s, service: %s, after: acknowledged, delay: 0ms..200ms%s}\n", kind, service,
			map[bool]string{true: ", grace: 1s"}[service == "chroma" && kind != chaos.Kill])
	}
	return b.String()
}

func losses(s report.Summary) (kinds []memory.Kind) {
	for kind, n := range s.Verdicts {
		if n > 0 && kind.Loss() {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// areHealthy waits until the containers are healthy by Docker's own checks, which look only now and then.
func (s *stack) areHealthy(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		cmd := exec.CommandContext(ctx, "./compose", "-f", "compose.yaml", "ps", "--all", "--format", "{{.Service}} {{.State}} {{.Health}}")
		cmd.Env = s.env
		out, err := cmd.Output()
		well := 0
		for _, service := range []string{"app", "chroma", "redis", "postgres"} {
			if strings.Contains(string(out), service+" running healthy\n") {
				well++
			}
		}
		if err == nil && well == 4 {
			return
		}
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("not all are well: %v\n%s", err, out)
		}
	}
}

// compare holds what was said of each memory to the truth: its outcome to what the app's own log says that it answered, and
// the verdict of an acknowledged one to what the servers hold when all is over, as their own clients read it. (What the page
// shows beside that, the verdicts hidden and volatile, is no concern of the servers.)
func (s *stack) compare(t *testing.T, path string, k soak) {
	t.Helper()
	l, err := ledger.OpenReadOnly(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	told, verdicts, outcomes := map[memory.ID]memory.Memory{}, map[memory.ID]memory.Kind{}, map[memory.ID]memory.Outcome{}
	for e, err := range l.Facts(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		switch f := e.Fact.(type) {
		case fact.Begun:
			told[f.Memory.ID] = f.Memory
		case fact.Settled:
			outcomes[f.Memory] = f.Outcome
		case fact.Judged:
			verdicts[f.Verdict.Memory] = f.Verdict.Kind
		}
	}
	var stores []string // what they hold
	switch {
	case k.homes == "redis":
		stores = []string{s.redis(t)}
	case k.homes == "vectors":
		stores = []string{s.chroma(t)}
	case k.bugs == "ephemeral-client": // what is in the process, only the app can say
		stores = []string{s.postgres(t), s.vectors(t)}
	default:
		stores = []string{s.postgres(t), s.chroma(t)}
	}
	app, err := truth.Parse(strings.NewReader(s.exec(t, "app", "cat", "/truth/truth.jsonl")))
	if err != nil {
		t.Fatal(err)
	}
	for id, m := range told {
		// A user who gave up may have been answered; one who saw the confirmation was sent it.
		confirmed := slices.ContainsFunc(app.Of(m.Token), func(m truth.Memory) bool { return m.Acknowledged })
		if outcome := outcomes[id]; outcome != memory.Unknown && (outcome == memory.Acknowledged) != confirmed {
			t.Errorf("%s (%s) is %s, and that the app confirmed it is %t", id, m.Token, outcome, confirmed)
		}
		if outcomes[id] != memory.Acknowledged {
			continue
		}
		have := 0
		for _, texts := range stores {
			if strings.Contains(texts, m.Token) {
				have++
			}
		}
		said, right := verdicts[id], []memory.Kind{memory.Kept, memory.Late, memory.Hidden}
		switch {
		case have == 0:
			right = []memory.Kind{memory.Lost}
		case have < len(stores):
			right = []memory.Kind{memory.Torn}
		}
		if !slices.Contains(right, said) {
			t.Errorf("%s (%s) is in %d of %d stores, and was said to be %s", id, m.Token, have, len(stores), said)
		}
	}
}

func (s *stack) redis(t *testing.T) string {
	const all = `local out = {} for _, k in ipairs(redis.call('KEYS', 'chat:memory:*')) do
		for _, v in ipairs(redis.call('LRANGE', k, 0, -1)) do out[#out + 1] = v end end return out`
	return s.exec(t, "redis", "redis-cli", "--raw", "EVAL", all, "0")
}

func (s *stack) postgres(t *testing.T) string {
	return s.exec(t, "postgres", "psql", "-U", "chat", "-d", "chat", "-h", "127.0.0.1", "-At", "-c", "SELECT content FROM chat_memory")
}

func (s *stack) exec(t *testing.T, service string, command ...string) string {
	t.Helper()
	args := append([]string{"exec", "--env", "PGPASSWORD=memory", project + "-" + service + "-1"}, command...)
	out, err := exec.CommandContext(t.Context(), "docker", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("docker %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// chroma gives the documents of every collection.
func (s *stack) chroma(t *testing.T) string {
	t.Helper()
	base := s.chromaURL + "/api/v2/tenants/default_tenant/databases/default_database/collections"
	var collections []struct{ ID string }
	ask(t, http.MethodGet, base, "", &collections)
	var texts strings.Builder
	for _, c := range collections {
		var got struct{ Documents []string }
		ask(t, http.MethodPost, base+"/"+c.ID+"/get", `{"include": ["documents"]}`, &got)
		texts.WriteString(strings.Join(got.Documents, "\n"))
	}
	return texts.String()
}

// vectors gives what the app has of vectors.
func (s *stack) vectors(t *testing.T) string {
	t.Helper()
	var texts strings.Builder
	for at := s.appURL + "/debug/vectors"; at != ""; {
		var page struct {
			Items []struct{ Text string }
			Next  string
		}
		ask(t, http.MethodGet, at, "", &page)
		for _, item := range page.Items {
			texts.WriteString(item.Text + "\n")
		}
		if at = page.Next; strings.HasPrefix(at, "/") {
			at = s.appURL + at
		}
	}
	return texts.String()
}

func ask(t *testing.T, method, url, body string, answer any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s, %v\n%s", method, url, resp.Status, err, text)
	}
	if err := json.Unmarshal(text, answer); err != nil {
		t.Fatal(err)
	}
}

// The faults of the stack's amnesia.yaml reach every service, and five kinds three times, in 30 cycles, whatever the seed.
func TestThirtyCyclesHurtEverything(t *testing.T) {
	plan := planOf(t, "amnesia.yaml")
	for seed := range uint64(500) {
		kinds, services, all := map[string]int{}, map[string]bool{}, 0
		for cycle := 1; cycle <= 30; cycle++ {
			if inj, ok := chaos.Plan(seed, plan, cycle, chaos.Prior{}); ok {
				kinds[inj.Kind]++
				services[inj.Service] = true
				all++
			}
		}
		often := 0
		for _, n := range kinds {
			if n >= 3 {
				often++
			}
		}
		if all < 20 || often < 5 || !services["app"] || !services["chroma"] || !services["redis"] || !services["postgres"] {
			t.Fatalf("seed %d: %d injections, %v, %v", seed, all, kinds, services)
		}
	}
}

// planOf is what a configuration draws its faults from.
func planOf(t *testing.T, file string) (plan chaos.PlanConfig) {
	t.Helper()
	cfg, err := app.LoadConfig([]string{file}, func(string) string { return "postgres://chat:memory@127.0.0.1/chat" })
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range cfg.Target.Services {
		plan.Services = append(plan.Services, s.Name)
	}
	for _, f := range cfg.Faults {
		plan.Rules = append(plan.Rules, chaos.Rule{Kind: f.Kind, Service: f.Service, Weight: f.Weight})
	}
	return plan
}
