package docker_test

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"

	"amnesia/chaos"
	"amnesia/chaos/docker"
	"amnesia/pkg/clock"
)

// endpoint is a line of deploy/docker-endpoints.txt.
type endpoint struct {
	method string
	path   *regexp.Regexp
	line   string
}

// proxy is a socket proxy that lets through what is listed, and notes what was asked.
type proxy struct {
	list []endpoint

	mu      sync.Mutex
	used    map[string]bool // lines
	refused map[string]bool
}

func newProxy(t *testing.T) (p *proxy, socket string) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/docker-endpoints.txt")
	must(t, err)
	p = &proxy{used: map[string]bool{}, refused: map[string]bool{}}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "#" {
			continue
		}
		if len(f) < 3 {
			t.Fatalf("a line without a method, a path and what it is for: %q", line)
		}
		path := strings.NewReplacer(`\{id\}`, `[^/]+`, `\{name\}`, `.+`).Replace(regexp.QuoteMeta(f[1])) // the name of an image may have a slash
		p.list = append(p.list, endpoint{f[0], regexp.MustCompile(`^(/v[0-9.]+)?` + path + `$`), strings.TrimSpace(line)})
	}
	socket = filepath.Join(t.TempDir(), "proxy.sock")
	l, err := net.Listen("unix", socket)
	must(t, err)
	to := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", "docker" },
		FlushInterval: -1, // logs and events
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(cli.DaemonHost(), "unix://"))
		}},
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !p.admit(r) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w, `{"message": "%s %s is not let through"}`, r.Method, r.URL.Path)
			return
		}
		to.ServeHTTP(w, r)
	})}
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { srv.Close() })
	return p, socket
}

func (p *proxy) admit(r *http.Request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.list {
		if e.method == r.Method && e.path.MatchString(r.URL.Path) {
			p.used[e.line] = true
			return true
		}
	}
	p.refused[r.Method+" "+r.URL.Path] = true
	return false
}

// TestEndpoints does everything that there is to do through a proxy that lets the documented endpoints through and no
// others: the list suffices, and nothing on it is idle.
func TestEndpoints(t *testing.T) {
	s := newStack(t)
	_, app := s.web("app", func(cfg *container.Config, host *container.HostConfig) {
		cfg.Volumes = map[string]struct{}{"/anon": {}}
		host.RestartPolicy.Name = "always"
	})
	id, db := s.web("db", func(_ *container.Config, host *container.HostConfig) {
		host.Binds = []string{s.volume("data", map[string]string{docker.EphemeralLabel: "true"}, nil) + ":/data"}
	})
	back := s.network("back")
	must(t, cli.NetworkConnect(testContext(t), back, id, &network.EndpointSettings{}))
	p, socket := newProxy(t)
	e := newEngine(t, docker.Config{Host: "unix://" + socket, Project: s.project,
		Services: []docker.Service{{Name: "app", Health: app + "/healthz", Volumes: []string{"/anon"}}, {Name: "db", Health: db + "/healthz", Volumes: []string{"/data"}}}})
	must(t, e.Verify(testContext(t)))
	ctx := testContext(t)
	events, lines := e.Events(ctx), e.Logs(ctx)
	for i, inj := range []chaos.Injection{
		{Kind: chaos.Kill, Service: "app"},
		{Kind: chaos.Kill, Service: "app", Supervised: true},
		{Kind: chaos.Restart, Service: "app", Grace: 5 * time.Second},
		{Kind: chaos.Pause, Service: "app", Hold: 50 * time.Millisecond},
		{Kind: chaos.Partition, Service: "db", Hold: 50 * time.Millisecond},
		{Kind: chaos.Wipe, Service: "app", Volume: "/anon"},
		{Kind: chaos.Wipe, Service: "db", Volume: "/data"},
		{Kind: chaos.Recreate, Service: "db"},
		{Kind: chaos.CrashAll, Services: []string{"app", "db"}},
	} {
		inj.ID, inj.Instances = int64(i+1), chaos.One
		var j steps
		if res, err := injector(e, &j).Do(testContext(t), inj); err != nil || res.Outcome != chaos.Injected {
			t.Errorf("%s of %s: %s, %v", inj.Kind, inj.Service, res.Outcome, err)
		}
	}
	take(t, events, "a death", func(ev chaos.Event) bool { return ev.Kind == "die" && ev.Ours })
	eventually(t, "a line", func() bool { get(app + "/say?text=hello"); return len(lines) > 0 })
	// A kill past the engine where the engine's processes are not in sight, and what a later daemon does with an undo.
	was := inspect(t, s.up("far", func(_ *container.Config, host *container.HostConfig) { host.RestartPolicy.Name = "always" }))
	must(t, e.KillByHelper(testContext(t), was.State.Pid, was.ID))
	if h := chaos.NewProber(clock.System(), 0).Check(testContext(t), e, nil); !h[0].Healthy || !h[1].Healthy {
		t.Errorf("in the end: %+v", h)
	}
	if all, err := e.Containers(testContext(t)); err != nil || len(all) != 2 {
		t.Errorf("what there is: %+v, %v", all, err)
	} else if _, err := e.Written(testContext(t), all[0].ID); err != nil {
		t.Error(err)
	}
	must(t, e.Close()) // what is removed then is asked for too

	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range slices.Sorted(maps.Keys(p.refused)) {
		t.Errorf("asked for, and not on the list: %s", r)
	}
	for _, e := range p.list {
		if !p.used[e.line] {
			t.Errorf("on the list, and never asked for: %s", e.line)
		}
	}
}
