package chaos_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"amnesia/chaos"
	"amnesia/pkg/clock"
	"amnesia/pkg/fact"
)

// addressed gives the fake's services health addresses.
type addressed struct {
	*target
	address map[string]string
	asked   atomic.Int64
	onAsk   func(n int64)
}

func (a *addressed) Services() []chaos.Service {
	list := a.target.Services()
	for i := range list {
		list[i].Health = a.address[list[i].Name]
	}
	return list
}

func (a *addressed) Instances(ctx context.Context, service string) ([]fact.Instance, error) {
	if a.onAsk != nil {
		a.onAsk(a.asked.Add(1))
	}
	return a.target.Instances(ctx, service)
}

func TestCheckReadsHealthAndIdentity(t *testing.T) {
	var conns sync.Map // by the client's port
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/ok":
			conns.Store(r.RemoteAddr, true)
			w.WriteHeader(http.StatusNoContent)
		case "/moved":
			http.Redirect(w, r, "/ok", http.StatusFound)
		case "/hangs":
			<-r.Context().Done()
		default:
			http.Error(w, "warming up", http.StatusServiceUnavailable)
		}
	}))
	defer srv.Close()
	tcp := "tcp://" + srv.Listener.Addr().String()
	p := chaos.NewProber(clock.System(), 0)
	hasty := chaos.NewProber(clock.System(), 50*time.Millisecond)
	e := &addressed{target: newTarget("app"), address: map[string]string{"app": srv.URL + "/hangs"}}
	if h := hasty.Check(t.Context(), e, nil); h[0].Healthy || !strings.Contains(h[0].Detail, "deadline exceeded") {
		t.Errorf("%+v", h)
	}
	for address, want := range map[string]string{
		srv.URL + "/ok": "", tcp: "", "": "", srv.URL + "/warm": "503 Service Unavailable", srv.URL + "/moved": "302 Found",
		"http://127.0.0.1:1/": "connection refused", "tcp://127.0.0.1:1": "connection refused",
		"redis://127.0.0.1": "neither http://, https:// nor tcp://", "://": "reading the health address",
	} {
		e := &addressed{target: newTarget("app"), address: map[string]string{"app": address}}
		h := p.Check(t.Context(), e, nil)
		if len(h) != 1 || h[0].Healthy != (want == "") || !strings.Contains(h[0].Detail, want) || len(h[0].Instances) != 1 || h[0].At.IsZero() {
			t.Errorf("%q: %+v, want %q", address, h, want)
		}
	}
	e.address["app"] = srv.URL + "/ok"
	conns.Clear()
	for range 3 {
		p.Check(t.Context(), e, nil)
	}
	n := 0
	conns.Range(func(any, any) bool { n++; return true })
	if n != 3 {
		t.Errorf("3 questions over %d connections", n)
	}
	e.onAsk = func(n int64) {
		if n%2 == 0 {
			e.state["app"].generation++ // it died and came back while it was asked
		}
	}
	if h := p.Check(t.Context(), e, nil); h[0].Healthy || !strings.Contains(h[0].Detail, "identity changed") {
		t.Errorf("%+v", h)
	}
	if h := p.Check(t.Context(), e, []string{"nobody"}); len(h) != 1 || h[0].Healthy || h[0].Service != "nobody" {
		t.Errorf("%+v", h)
	}
}

func TestAwaitKnowsSoon(t *testing.T) {
	var ready atomic.Int64 // when, in Unix nanoseconds
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if time.Now().UnixNano() < ready.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer srv.Close()
	e := &addressed{target: newTarget("app", "db"), address: map[string]string{"app": srv.URL}}
	p := chaos.NewProber(clock.System(), 0)
	best := time.Hour // of some: the machine may be busy with other things
	for range 10 {
		at := time.Now().Add(30 * time.Millisecond)
		ready.Store(at.UnixNano())
		h, err := p.Await(t.Context(), e, nil)
		if err != nil || len(h) != 2 {
			t.Fatalf("%+v, %v", h, err)
		}
		late := time.Since(at)
		if late < 0 {
			t.Fatal("healthy before it was")
		}
		best = min(best, late)
	}
	if best > 5*time.Millisecond {
		t.Errorf("known %s after it became healthy, at best", best)
	}
}

func TestAwaitSaysWhoAndWhy(t *testing.T) {
	e := &addressed{target: newTarget("app", "db"), address: map[string]string{"app": "tcp://127.0.0.1:1"}}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	h, err := chaos.NewProber(clock.System(), 0).Await(ctx, e, nil)
	var u *chaos.Unhealthy
	if !errors.As(err, &u) || !strings.Contains(err.Error(), "app never became healthy: dial tcp 127.0.0.1:1: connect: connection refused") || strings.Contains(err.Error(), "db") {
		t.Errorf("got %v", err)
	}
	if len(h) != 2 || h[0].Healthy || !h[1].Healthy {
		t.Errorf("readings %+v", h)
	}
}
