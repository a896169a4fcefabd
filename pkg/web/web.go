// Package web is the daemon's HTTP: for people the pages, for programs /api/v1, for Prometheus /metrics, and health and the
// runbook for whoever comes. It shows what it is given and decides nothing but who may ask.
//
// The pages are HTML that is made here, and need no script; a small one of our own keeps the first page up to date by the
// API's server-sent events. Everything that they need is in the binary, and the browser is told to take nothing else
// (Content-Security-Policy). They show and never act.
//
// Figures, health and the runbook may be read by anyone who can reach them, as Prometheus expects; they hold no text of the
// target and nothing that acts. The API and the pages are there on loopback only, unless there is TLS. What acts needs the
// token everywhere, in a header that no page of another site can send; reading needs it off loopback, where
// exporter-toolkit's basic auth does not ask already, and takes it as the password of basic auth too, so that a browser
// can be used. A name that a name server decides about is answered under TLS only.
//
// What the target said is hostile: it is escaped wherever it is shown, files of evidence are sent so that nothing in them
// runs, and no character that changes how a terminal or a line of text reads gets through.
package web

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"amnesia/pkg/terminal"
)

// Config is what the server shows.
type Config struct {
	Gatherer prometheus.Gatherer
	// Healthy says what is wrong with the daemon itself; nil: nothing. A supervisor restarts what is not healthy.
	Healthy func() error
	// Ready says why the daemon is not yet, or not now, doing its work; nil: it is.
	Ready  func() error
	Logger *zap.Logger
	// Runbook gives what is to be done about an alert, or about all for no name, in Markdown; nil: there is none. The alerts
	// of the daemon link to it, so that it is there wherever the daemon is.
	Runbook func(alert string) (text string, ok bool)
	// Daemon is what the API shows and moves; nil: there is none, and any address may be listened on in plain.
	Daemon Daemon
	Books  Books  // what the pages and the rest of the API read; only with a Daemon. nil: there are none
	Token  string // asked of whoever acts; empty: nobody may
	File   string // exporter-toolkit's web configuration, with TLS and basic auth; empty: none
}

// How long a client may take. A scrape is small; whoever needs longer holds a connection for nothing.
const (
	headerTimeout   = 5 * time.Second
	readTimeout     = 10 * time.Second
	writeTimeout    = 30 * time.Second
	idleTimeout     = 2 * time.Minute
	shutdownTimeout = 5 * time.Second
	maxHeader       = 16 << 10
)

// Server serves one Config. Use New.
type Server struct {
	cfg           Config
	handler       http.Handler
	log           *zap.Logger
	headerTimeout time.Duration
	openToRead    bool // no token is asked of who only reads; set by Listen
	knowsUsers    bool // exporter-toolkit's basic auth asks everybody; set by Listen

	followers    atomic.Int64  // of the events
	ending       chan struct{} // closed when they are to leave
	end          sync.Once
	readTimeout  time.Duration
	writeTimeout time.Duration
	eventTimeout time.Duration
	heartbeat    time.Duration
}

// New makes a server; nothing listens yet.
func New(cfg Config) *Server {
	log := cfg.Logger
	if log == nil {
		log = zap.NewNop()
	}
	errorLog := zap.NewStdLog(log)
	s := &Server{cfg: cfg, log: log, headerTimeout: headerTimeout, readTimeout: readTimeout, writeTimeout: writeTimeout,
		eventTimeout: eventTimeout, heartbeat: heartbeat, ending: make(chan struct{})}
	mux := http.NewServeMux()
	// GET patterns answer HEAD too, and anything else with 405.
	mux.Handle("GET /metrics", promhttp.HandlerFor(cfg.Gatherer, promhttp.HandlerOpts{
		EnableOpenMetrics: true, // exemplars
		ErrorLog:          errorLog,
		ErrorHandling:     promhttp.HTTPErrorOnError,
	}))
	mux.Handle("GET /healthz", probe(cfg.Healthy))
	mux.Handle("GET /readyz", probe(cfg.Ready))
	mux.Handle("GET /static/{name}", static())
	if cfg.Books == nil {
		mux.HandleFunc("GET /{$}", index)
	} else {
		s.pages(mux)
	}
	if cfg.Runbook != nil {
		mux.HandleFunc("GET /runbook", s.runbook)
		mux.HandleFunc("GET /runbook/{alert}", s.runbook)
	}
	if cfg.Daemon != nil {
		for _, rt := range s.routes() {
			mux.Handle(rt.method+" "+rt.path, ours(s.known(rt)))
		}
	}
	s.handler = guard(s.found(mux))
	return s
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Serve answers on l until ctx ends, then lets the requests under way finish for up to 5 s. It closes l. An ended ctx is
// no error.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	srv := &http.Server{
		Handler: s, ReadHeaderTimeout: s.headerTimeout, ReadTimeout: s.readTimeout, WriteTimeout: s.writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader, ErrorLog: zap.NewStdLog(s.log),
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	srv.RegisterOnShutdown(func() { s.end.Do(func() { close(s.ending) }) })
	ended := make(chan error, 1)
	go func() { ended <- s.serve(srv, l) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serving on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	sctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := srv.Shutdown(sctx); err != nil {
		srv.Close() // those that would not end
		s.log.Warn("closed HTTP connections that were still busy", zap.Error(err))
	}
	<-ended
	return nil
}

// probe answers 200 ok, or 503 and what is wrong.
func probe(check func() error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		if check != nil {
			if err := check(); err != nil {
				w.WriteHeader(http.StatusServiceUnavailable)
				fmt.Fprintln(w, oneLine(err.Error()))
				return
			}
		}
		fmt.Fprintln(w, "ok")
	})
}

// runbook answers in plain text: Markdown is made to be read as that, also by curl.
func (s *Server) runbook(w http.ResponseWriter, r *http.Request) {
	text, ok := s.cfg.Runbook(r.PathValue("alert"))
	if !ok {
		http.Error(w, "the runbook has no such alert — see /runbook", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprint(w, text)
}

// oneLine keeps a reason from looking like more than one, and fit for whoever asks in a terminal.
func oneLine(s string) string { return terminal.Line(strings.Join(strings.Fields(s), " ")) }

// policy lets a browser take what is ours and nothing else, run nothing that stands in a page, and send a form nowhere else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// guard sets what every answer carries: nothing of another's is ever run, framed or guessed at by a browser.
func guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		next.ServeHTTP(w, r)
	})
}

// found lets the mux answer what it knows. Of what it does not know the API says so in JSON, and the pages as a page.
func (s *Server) found(mux *http.ServeMux) http.Handler {
	var page http.Handler
	if s.cfg.Books != nil {
		page = ours(s.reader(s.show(nil, func(r *http.Request) (view, error) {
			return view{}, missing(fmt.Sprintf("there is no page %q — fix: go on from one of those above", r.URL.Path))
		})))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		is := verdictOf{header: http.Header{}}
		h.ServeHTTP(&is, r)
		inAPI := s.cfg.Daemon != nil && strings.HasPrefix(r.URL.Path, "/api/")
		switch {
		case inAPI && is.code == http.StatusMethodNotAllowed:
			allow := is.header.Get("Allow")
			w.Header().Set("Allow", allow)
			s.fail(w, is.code, fmt.Errorf("%s is not for %s — fix: %s", r.URL.Path, r.Method, allow))
		case inAPI && is.code == http.StatusNotFound:
			s.fail(w, is.code, fmt.Errorf("there is no %s — fix: see /api/v1/openapi.yaml", r.URL.Path))
		case page != nil && is.code == http.StatusNotFound:
			page.ServeHTTP(w, r)
		default:
			h.ServeHTTP(w, r)
		}
	})
}

// verdictOf takes down what the mux would answer, without a body.
type verdictOf struct {
	header http.Header
	code   int
}

func (v *verdictOf) Header() http.Header         { return v.header }
func (v *verdictOf) WriteHeader(code int)        { v.code = code }
func (v *verdictOf) Write(b []byte) (int, error) { return len(b), nil }

// index is the first page where there are no others.
func index(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprint(w, `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Amnesia</title>
<link rel="stylesheet" href="/static/style.css">
<main>
<h1>Amnesia</h1>
<p>This daemon finds out whether an application forgets what its users told it.</p>
<ul>
<li><a href="/metrics">/metrics</a>: figures for Prometheus, with exemplars in OpenMetrics
<li><a href="/healthz">/healthz</a>: whether the daemon itself is well
<li><a href="/readyz">/readyz</a>: whether it is doing its work
<li><a href="/runbook">/runbook</a>: what to do about each alert
</ul>
</main>
</html>
`)
}
