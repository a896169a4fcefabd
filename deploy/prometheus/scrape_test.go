package prometheus_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	client "github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap/zaptest"

	"amnesia/chaos"
	"amnesia/deploy/prometheus"
	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
	"amnesia/pkg/metrics"
	"amnesia/pkg/web"
)

// TestScrape has a real Prometheus scrape what a daemon serves, while a fault loses a memory: the alert fires and leads to
// the runbook, the exemplars lead to memory and cycle, and the dashboard's queries are answered.
func TestScrape(t *testing.T) {
	program := tool(t, "prometheus")
	m, address := daemon(t)
	p := start(t, program, address)

	const losses = `amnesia_memory_losses_total{class="silent",verdict="lost",fault="kill",service="redis"}`
	p.until(t, "the first scrape", func() bool { return len(p.query(t, losses+" == 0")) > 0 })
	m.Tap(loss())

	var fired []alert
	p.until(t, "the alert", func() bool {
		fired = p.firing(t)
		return len(fired) > 0
	})
	if a := fired[0]; len(fired) > 1 || a.Labels["alertname"] != "AmnesiaMemoriesLost" || a.Labels["instance"] != address ||
		a.Annotations["summary"] != "Memories were lost silently: kill of redis" {
		t.Errorf("what fires is %v", fired)
	}
	if text := get(t, fired[0].Annotations["runbook_url"]); !strings.HasPrefix(text, "## AmnesiaMemoriesLost\n") {
		t.Errorf("the runbook says\n%s", text)
	}

	var exemplars []struct {
		Exemplars []struct{ Labels map[string]string }
	}
	around := url.Values{"query": {losses}, "start": {stamp(-time.Hour)}, "end": {stamp(time.Hour)}}
	p.until(t, "the exemplar", func() bool {
		p.ask(t, "query_exemplars", around, &exemplars)
		return len(exemplars) > 0
	})
	if got := exemplars[0].Exemplars[0].Labels; got["memory"] != "m42" || got["cycle"] != "3" {
		t.Errorf("the exemplar is %v", got)
	}

	variables := strings.NewReplacer("$instance", ".*", "$__rate_interval", "1m", "$__range", "1h")
	for _, q := range queries(t) {
		if q.expr != "" {
			p.query(t, variables.Replace(q.expr))
		}
	}
}

// daemon serves what a daemon does that has just begun.
func daemon(t *testing.T) (m *metrics.Metrics, address string) {
	t.Helper()
	reg := client.NewRegistry()
	m, err := metrics.New(reg, setup)
	if err != nil {
		t.Fatal(err)
	}
	srv := web.New(web.Config{Gatherer: reg, Logger: zaptest.NewLogger(t), Runbook: prometheus.Runbook})
	l, err := srv.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return m, l.Addr().String()
}

// loss is what the ledger of a daemon tells of one memory that a kill of Redis lost.
func loss() []fact.Entry {
	exposure := 40 * time.Millisecond
	at := memory.Instant{Mono: 1, Wall: time.Now().UnixNano(), Boot: "b"}
	facts := []fact.Fact{
		fact.Cycle{Run: "r", N: 3, Phase: fact.PhaseTraffic, At: at},
		fact.Settled{Memory: 42, Outcome: memory.Acknowledged, At: at},
		fact.Judged{Cycle: 3, At: at, Verdict: memory.Verdict{Memory: 42, Kind: memory.Lost, Class: memory.Silent, Level: "shown",
			Fault: chaos.Kill, Service: "redis", Exposure: &exposure}},
		fact.Cycle{Run: "r", N: 3, Phase: fact.PhaseClosed, Outcome: fact.CycleLosses, At: at},
	}
	entries := make([]fact.Entry, len(facts))
	for i, f := range facts {
		entries[i] = fact.Entry{Seq: int64(i + 1), Fact: f}
	}
	return entries
}

// server is a Prometheus.
type server struct {
	url  string
	log  string        // its file
	died chan struct{} // closed when it has ended
}

const config = `
global: {scrape_interval: 200ms, evaluation_interval: 200ms}
rule_files: [%q]
scrape_configs:
  - job_name: amnesia
    static_configs: [{targets: [%q]}]
`

// start starts a Prometheus that scrapes target, with the rules, and ends it with the test.
func start(t *testing.T, program, target string) *server {
	t.Helper()
	dir := t.TempDir()
	rules, err := filepath.Abs("rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, fmt.Appendf(nil, config, rules, target), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	address := freeAddress(t)
	cmd := exec.Command(program, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address, "--enable-feature=exemplar-storage")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &server{url: "http://" + address, log: log.Name(), died: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // it is told to end, and by then nobody wants to know how
		close(p.died)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // or it has ended already
		<-p.died
	})
	p.until(t, "Prometheus", func() bool {
		r, err := http.Get(p.url + "/-/ready")
		if err != nil {
			return false
		}
		r.Body.Close()
		return r.StatusCode == http.StatusOK
	})
	return p
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// until waits for something that Prometheus does.
func (p *server) until(t *testing.T, what string, there func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !there() {
		select {
		case <-time.After(50 * time.Millisecond):
			if time.Now().Before(deadline) {
				continue
			}
		case <-p.died:
		}
		text, _ := os.ReadFile(p.log)
		t.Fatalf("no sign of %s:\n%s", what, text)
	}
}

// alert is one of those that Prometheus has active.
type alert struct {
	State               string
	Labels, Annotations map[string]string
}

func (p *server) firing(t *testing.T) (firing []alert) {
	t.Helper()
	var active struct{ Alerts []alert }
	p.ask(t, "alerts", nil, &active)
	for _, a := range active.Alerts {
		if a.State == "firing" {
			firing = append(firing, a)
		}
	}
	return firing
}

// query gives the samples of an expression now.
func (p *server) query(t *testing.T, expr string) []json.RawMessage {
	t.Helper()
	var got struct{ Result []json.RawMessage }
	p.ask(t, "query", url.Values{"query": {expr}}, &got)
	return got.Result
}

func (p *server) ask(t *testing.T, what string, values url.Values, into any) {
	t.Helper()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: into}
	text := get(t, p.url+"/api/v1/"+what+"?"+values.Encode())
	if err := json.Unmarshal([]byte(text), &answer); err != nil || answer.Status != "success" {
		t.Fatalf("%s of %v: %v\n%s", what, values, err, text)
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func stamp(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339) }
