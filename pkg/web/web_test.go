package web

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap/zaptest"
)

// get asks a server in memory.
func get(t *testing.T, s http.Handler, method, path string, header ...string) (*http.Response, string) {
	t.Helper()
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result(), w.Body.String()
}

func TestMetricsWithExemplars(t *testing.T) {
	reg := prometheus.NewRegistry()
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "lost_total", Help: "Lost."})
	reg.MustRegister(c)
	c.(prometheus.ExemplarAdder).AddWithExemplar(1, prometheus.Labels{"memory": "m42"})
	s := New(Config{Gatherer: reg, Logger: zaptest.NewLogger(t)})

	r, body := get(t, s, "GET", "/metrics", "Accept", "application/openmetrics-text; version=1.0.0")
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/openmetrics-text") || !strings.Contains(body, `lost_total 1.0 # {memory="m42"} 1.0`) {
		t.Errorf("OpenMetrics: %s\n%s", r.Header.Get("Content-Type"), body)
	}
	if r, body = get(t, s, "GET", "/metrics"); r.StatusCode != 200 || !strings.Contains(body, "lost_total 1\n") {
		t.Errorf("plain text: %d\n%s", r.StatusCode, body)
	}
}

func TestGatherErrorIsNotHalfAScrape(t *testing.T) {
	reg := prometheus.NewRegistry()
	reg.MustRegister(failing{})
	if r, _ := get(t, New(Config{Gatherer: reg, Logger: zaptest.NewLogger(t)}), "GET", "/metrics"); r.StatusCode != http.StatusInternalServerError {
		t.Errorf("status %d", r.StatusCode)
	}
}

// failing is a collector that has nothing to give but an error.
type failing struct{}

func (failing) Describe(chan<- *prometheus.Desc) {}
func (failing) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.NewInvalidMetric(prometheus.NewDesc("broken", "", nil, nil), errors.New("broken"))
}

func TestProbes(t *testing.T) {
	var unwell error
	s := New(Config{Gatherer: prometheus.NewRegistry(), Healthy: func() error { return unwell }})
	for _, c := range []struct {
		err    error
		path   string
		status int
		body   string
	}{
		{nil, "/healthz", 200, "ok\n"},
		{errors.New("the ledger cannot be written:\n\tdisk full"), "/healthz", 503, "the ledger cannot be written: disk full\n"},
		{errors.New("whatever"), "/readyz", 200, "ok\n"}, // no check of its own
	} {
		unwell = c.err
		r, body := get(t, s, "GET", c.path)
		if r.StatusCode != c.status || body != c.body || r.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s with %v: %d %q", c.path, c.err, r.StatusCode, body)
		}
	}
}

func TestPages(t *testing.T) {
	s := New(Config{Gatherer: prometheus.NewRegistry()})
	for _, c := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/", 200}, {"HEAD", "/", 200}, {"GET", "/nothing", 404}, {"POST", "/", 405}, {"POST", "/metrics", 405}, {"DELETE", "/healthz", 405},
	} {
		if r, _ := get(t, s, c.method, c.path); r.StatusCode != c.status {
			t.Errorf("%s %s: %d, want %d", c.method, c.path, r.StatusCode, c.status)
		} else if r.Header.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(r.Header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s %s: headers %v", c.method, c.path, r.Header)
		}
	}
	_, body := get(t, s, "GET", "/")
	for _, path := range []string{"/metrics", "/healthz", "/readyz", "/runbook"} {
		if !strings.Contains(body, `href="`+path+`"`) {
			t.Errorf("the first page does not lead to %s", path)
		}
	}
}

// TestRunbook: it is to be read as it is, by whoever an alert sent here.
func TestRunbook(t *testing.T) {
	s := New(Config{Gatherer: prometheus.NewRegistry(), Runbook: func(alert string) (string, bool) {
		return "## <" + alert + ">\n", alert != "Unknown"
	}})
	for _, c := range []struct {
		path   string
		status int
		body   string
	}{{"/runbook", 200, "## <>\n"}, {"/runbook/Lost", 200, "## <Lost>\n"}, {"/runbook/Unknown", 404, "the runbook has no such alert — see /runbook\n"}, {"/runbook/a/b", 404, "404 page not found\n"}} {
		r, body := get(t, s, "GET", c.path)
		if r.StatusCode != c.status || body != c.body || r.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("%s: %d, %s %q", c.path, r.StatusCode, r.Header.Get("Content-Type"), body)
		}
	}
	if r, _ := get(t, New(Config{Gatherer: prometheus.NewRegistry()}), "GET", "/runbook"); r.StatusCode != 404 {
		t.Errorf("a runbook that is none: %d", r.StatusCode)
	}
}

func TestListen(t *testing.T) {
	l, err := New(Config{}).Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for address, want := range map[string]string{
		l.Addr().String():  "another program has the port",
		"192.0.2.1:0":      "this machine has no such address", // TEST-NET-1, RFC 5737
		"127.0.0.1:999999": "fix: set web.listen to an address of this machine",
	} {
		_, err := New(Config{}).Listen(t.Context(), address)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), address) || !strings.Contains(err.Error(), " — fix: ") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestServeEndsWithItsRequests(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	s := New(Config{Gatherer: prometheus.NewRegistry(), Logger: zaptest.NewLogger(t), Ready: func() error {
		close(asked)
		<-answer
		return nil
	}})
	l, err := New(Config{}).Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l) }()

	got := make(chan string, 1)
	go func() {
		r, err := http.Get("http://" + l.Addr().String() + "/readyz")
		if err != nil {
			got <- err.Error()
			return
		}
		defer r.Body.Close()
		body, _ := io.ReadAll(r.Body)
		got <- string(body)
	}()
	<-asked
	cancel()
	// The listener is closed first: nobody new is let in while the one under way is waited for.
	for {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			break
		}
		c.Close()
	}
	select {
	case err := <-served:
		t.Fatalf("it ended before its request: %v", err)
	default:
	}
	close(answer)
	if body := <-got; body != "ok\n" {
		t.Errorf("the request under way got %q", body)
	}
	if err := <-served; err != nil {
		t.Errorf("it ended with %v", err)
	}
}

func TestServeSaysWhyItEnded(t *testing.T) {
	l, err := New(Config{}).Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := New(Config{Gatherer: prometheus.NewRegistry()}).Serve(t.Context(), l); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a closed listener: %v", err)
	}
}

// TestSlowHeaders holds the server to its word that nobody keeps a connection by saying nothing.
func TestSlowHeaders(t *testing.T) {
	l, err := New(Config{}).Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	s := New(Config{Gatherer: prometheus.NewRegistry()})
	if s.headerTimeout <= 0 {
		t.Fatal("it waits for ever")
	}
	s.headerTimeout = 50 * time.Millisecond
	go func() { served <- s.Serve(ctx, l) }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "GET / HTTP/1.1\r\n")
	c.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := bufio.NewReader(c).ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("the server kept the connection: %v", err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
