package discover

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"
	"time"
)

// Answer is what came of asking an address what it is.
type Answer struct {
	Kind   Kind // of a store; empty: none that is known
	HTTP   bool // it speaks HTTP
	HTML   bool // and shows pages
	Health string
}

// probeWithin bounds each question to an address.
const probeWithin = 3 * time.Second

// Probe asks an address what it is: by a PING, a question of PostgreSQL's protocol, and HTTP. It changes nothing there.
func Probe(ctx context.Context, address string) Answer {
	if a := probeHTTP(ctx, address); a.HTTP {
		return a
	}
	tcp := Answer{Health: "tcp://" + address}
	switch {
	case strings.HasPrefix(exchange(ctx, address, []byte("*1\r\n$4\r\nPING\r\n")), "+PONG"),
		strings.HasPrefix(exchange(ctx, address, []byte("*1\r\n$4\r\nPING\r\n")), "-NOAUTH"):
		tcp.Kind = Redis
	case answersSSL(ctx, address):
		tcp.Kind = Postgres
	default:
		conn, err := (&net.Dialer{Timeout: probeWithin}).DialContext(ctx, "tcp", address)
		if err != nil {
			return Answer{}
		}
		_ = conn.Close() // it was only to see that somebody accepts
	}
	return tcp
}

// exchange sends and gives the beginning of what comes back; empty where nothing does.
func exchange(ctx context.Context, address string, send []byte) string {
	conn, err := (&net.Dialer{Timeout: probeWithin}).DialContext(ctx, "tcp", address)
	if err != nil {
		return ""
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if conn.SetDeadline(time.Now().Add(probeWithin)) != nil {
		return ""
	}
	if _, err := conn.Write(send); err != nil {
		return ""
	}
	got := make([]byte, 64)
	n, _ := bufio.NewReader(conn).Read(got)
	return string(got[:n])
}

// answersSSL sends PostgreSQL's SSLRequest, which it answers with a single S or N
// (https://www.postgresql.org/docs/current/protocol-message-formats.html).
func answersSSL(ctx context.Context, address string) bool {
	const code = 80877103
	request := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 8), code)
	got := exchange(ctx, address, request)
	return got == "S" || got == "N"
}

// healthPaths are where servers say that they are well, the usual ones first.
func healthPaths() []string {
	return []string{"/healthz", "/health", "/api/health", "/api/healthz", "/readyz", "/livez", "/ready", "/ping"}
}

// heartbeats are Chroma's, by the version of its API.
func heartbeats() []string { return []string{"/api/v2/heartbeat", "/api/v1/heartbeat"} }

func probeHTTP(ctx context.Context, address string) (a Answer) {
	client := &http.Client{Timeout: probeWithin, Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if len(via) > 5 || r.URL.Host != via[0].URL.Host {
				return http.ErrUseLastResponse
			}
			return nil
		}}
	base := "http://" + address
	get := func(path string) (status int, kind, body string, end string) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, nil)
		if err != nil {
			return 0, "", "", ""
		}
		r.Header.Set("Accept", "text/html, */*;q=0.8")
		resp, err := client.Do(r)
		if err != nil {
			return 0, "", "", ""
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096)) // what came of it is enough
		kind, _, _ = mime.ParseMediaType(resp.Header.Get("Content-Type"))
		return resp.StatusCode, kind, string(text), resp.Request.URL.Path
	}
	status, kind, _, _ := get("/")
	if status == 0 {
		return a
	}
	a.HTTP, a.HTML, a.Health = true, kind == "text/html" && status < 400, base+"/"
	for _, path := range heartbeats() {
		if status, _, body, _ := get(path); status == http.StatusOK && strings.Contains(body, "nanosecond heartbeat") {
			a.Kind, a.HTML, a.Health = Chroma, false, base+path
			return a
		}
	}
	// Where any address at all is answered with a page, an answer says nothing of health.
	if status, _, _, _ := get("/amnesia-is-this-anything"); status > 0 && status < 400 {
		return a
	}
	for _, path := range healthPaths() {
		if status, _, _, end := get(path); status >= 200 && status < 300 && end == path {
			a.Health = base + path
			break
		}
	}
	return a
}
