package discover_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"amnesia/pkg/discover"
)

// says listens, and gives every connection the answer to what it says first.
func says(t *testing.T, answer func(asked string) string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				got := make([]byte, 1024)
				n, _ := conn.Read(got)
				_, _ = conn.Write([]byte(answer(string(got[:n]))))
			}()
		}
	}()
	return l.Addr().String()
}

func serves(t *testing.T, pages map[string]string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := pages[r.URL.Path]
		if !ok {
			body, ok = pages["*"]
		}
		switch {
		case !ok:
			http.NotFound(w, r)
		case strings.HasPrefix(body, "/"):
			http.Redirect(w, r, body, http.StatusSeeOther)
		case strings.HasPrefix(body, "{"):
			w.Header().Set("Content-Type", "application/json")
		default:
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
		}
		if ok && !strings.HasPrefix(body, "/") {
			_, _ = w.Write([]byte(body))
		}
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func TestProbe(t *testing.T) {
	redis := func(asked string) string {
		if strings.Contains(asked, "PING") {
			return "-NOAUTH Authentication required.\r\n"
		}
		return "-ERR unknown command\r\n"
	}
	postgres := func(asked string) string {
		if asked == "\x00\x00\x00\x08\x04\xd2\x16\x2f" {
			return "N"
		}
		return "E"
	}
	for name, c := range map[string]struct {
		address string
		want    discover.Answer // without the address in it
	}{
		"a page":        {serves(t, map[string]string{"/": "/chat", "/chat": "<h1>", "/health": "ok"}), discover.Answer{HTTP: true, HTML: true, Health: "http://@/health"}},
		"any page":      {serves(t, map[string]string{"*": "<h1>"}), discover.Answer{HTTP: true, HTML: true, Health: "http://@/"}},
		"an API":        {serves(t, map[string]string{"/": "{}", "/healthz": "{}"}), discover.Answer{HTTP: true, Health: "http://@/healthz"}},
		"Chroma":        {serves(t, map[string]string{"/api/v2/heartbeat": `{"nanosecond heartbeat": 1}`}), discover.Answer{HTTP: true, Kind: discover.Chroma, Health: "http://@/api/v2/heartbeat"}},
		"Redis":         {says(t, redis), discover.Answer{Kind: discover.Redis, Health: "tcp://@"}},
		"PostgreSQL":    {says(t, postgres), discover.Answer{Kind: discover.Postgres, Health: "tcp://@"}},
		"anything else": {says(t, func(string) string { return "hello\n" }), discover.Answer{Health: "tcp://@"}},
		"nobody":        {"127.0.0.1:1", discover.Answer{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.want.Health = strings.Replace(c.want.Health, "@", c.address, 1)
			if got := discover.Probe(context.Background(), c.address); got != c.want {
				t.Errorf("%+v, and not %+v", got, c.want)
			}
		})
	}
}

// Stores are known by image, port or answer, the front by its page; what cannot be asked is said to be unfit, and why.
func TestSurvey(t *testing.T) {
	page := serves(t, map[string]string{"/": "<h1>"})
	kv := says(t, func(string) string { return "+PONG\r\n" })
	at := func(port int, address string) []discover.Published {
		return []discover.Published{{Port: port, At: address}}
	}
	parts := discover.Survey(t.Context(), []discover.Container{
		{Service: "api", Image: "me/api", Running: true, Published: at(80, serves(t, map[string]string{"/": "{}"}))},
		{Service: "site", Image: "me/site", Running: true, Published: at(80, page)},
		{Service: "kv", Image: "me/kv", Running: true, Published: at(7000, kv)},
		{Service: "db", Image: "postgres:17", Running: true, Ports: []int{5432}},
		{Service: "grafana", Image: "grafana/grafana:12", Running: true, Published: at(3000, page)},
		{Service: "gone", Image: "me/x"}, {Service: "Loud", Image: "me/x", Running: true}, {Service: "worker", Image: "me/x", Running: true},
		{Service: "silent", Image: "me/x", Running: true, Published: at(80, "127.0.0.1:1")},
	})
	got := map[string]string{}
	for _, p := range parts {
		got[p.Service] = string(p.Kind) + "|" + p.Unfit
	}
	for service, want := range map[string]string{
		"api": "|", "site": "|", "kv": "redis|", "db": `postgres|this host has none of its ports, so that its health cannot be asked: publish one, as with  ports: ["127.0.0.1:5432:5432"]`,
		"grafana": "|it looks at the app, and is no part of it", "gone": "|it does not run", "Loud": "|its name has other signs than small letters, digits, - and _",
		"worker": "|it has no port, so that its health cannot be asked", "silent": "|nothing answers at 127.0.0.1:1",
	} {
		if got[service] != want {
			t.Errorf("%s is %q, and not %q", service, got[service], want)
		}
	}
	if front := discover.Front(parts, ""); front < 0 || parts[front].Service != "site" {
		t.Errorf("the front is %d", front)
	}
	if front := discover.Front(parts, parts[0].At); front < 0 || parts[front].Service != "api" {
		t.Errorf("the front at a given address is %d", front)
	}
	if front := discover.Front(parts, "127.0.0.1:2"); front >= 0 {
		t.Errorf("the front of nobody is %d", front)
	}
}
