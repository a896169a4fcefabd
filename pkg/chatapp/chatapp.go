// Package chatapp is the sample target: a small web chat app that remembers what its users tell it, with bugs that can
// be planted (Bug). It is what the demo and the tests hurt.
//
// A message goes through a memory pipeline: summary, short-term memory (a cache in the process), the table chat_memory
// (SQLite, file chat.db in the data directory) and the vector memory (an index in a directory of its own). With no bug
// planted, every home of a memory has it on disk before the user sees the answer. A message that ends in a question
// mark is a question: it is answered from memory and stands in the history as an utterance of the user, but is no
// memory itself.
//
// # Real stores
//
// The table may be on a PostgreSQL server, the vector memory the collection memories of a Chroma server, short-term
// memory the lists chat:memory:{user_id} of a Redis server, which live for a while after their last write. With Redis
// the user sees the answer when Redis has the memory; the homes are written right after that, in order, and again until
// it is done, also after a kill (Async). Until then the history shows what is on its way. A Redis that cannot save, or
// cannot delete, is an error to the user. Config.Writes can ask for the homes to be written first.
//
// # Pages
//
// GET /login is a form (username, password; a new name makes an account), GET /chat the conversation: #message and #send
// in the form #composer, .message.user and .message.assistant with the exact words in .text, button.forget in each
// .message.user, #older where there is more, #forget-all, #logout. Errors are [role=alert], confirmations [role=status].
// Every form works without JavaScript.
//
// # For scripts
//
// POST /api/login, /api/chat (message), /api/forget (id, or all) take a form or JSON, and answer JSON to whoever accepts
// it; GET /api/history?before= gives {"items":[{"id","role","text"}],"next"}. Open to all: GET /healthz,
// /debug/vector-count?user= ({"count"}) and /debug/vectors?user= ({"items":[{"id","user","text"}],"next"}). An empty next
// ends a list.
//
// It can write a truth log (pkg/chatapp/truth) of what it really did, for tests. It knows nothing of Amnesia: neither
// tokens nor verdicts nor faults.
package chatapp

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sync/errgroup"

	"amnesia/pkg/chatapp/truth"
)

// grace is how long a graceful stop waits for requests under way.
const grace = 5 * time.Second

// App is one running chat app. New opens its stores and its port; Run serves until its context ends.
type App struct {
	log      *zap.Logger
	listener net.Listener
	server   *http.Server
	chat     *chat
	truth    *truth.Log
}

// Main reads the configuration from the environment, prints the address on stdout, logs JSON on stderr and serves until
// ctx ends, which is the graceful stop: whatever is still queued or buffered is written first. A *ConfigError says that
// the environment is wrong (exit code 2).
func Main(ctx context.Context, getenv func(string) string, stdout, stderr io.Writer) error {
	cfg, err := ConfigFromEnv(getenv)
	if err != nil {
		return err
	}
	encoder := zap.NewProductionEncoderConfig()
	encoder.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	cfg.Log = zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(encoder), zapcore.Lock(zapcore.AddSync(stderr)), zap.InfoLevel))
	app, err := New(ctx, cfg)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(stdout, "http://%s\n", app.Addr()); err != nil {
		return errors.Join(fmt.Errorf("printing the address: %w", err), app.close())
	}
	return app.Run(ctx)
}

// New opens the stores, mends what a crash left (see reconcile), and only then listens: who can connect finds the app
// ready. Run must follow, which also closes.
func New(ctx context.Context, cfg Config) (*App, error) {
	cfg = cfg.withDefaults()
	log, err := truth.Open(cfg.Truth, cfg.Now)
	if err != nil {
		return nil, err
	}
	app := &App{log: cfg.Log, truth: log}
	var pages *template.Template
	var g errgroup.Group
	g.Go(func() (err error) { pages, err = openPages(); return err })
	g.Go(func() (err error) { app.chat, err = openChat(ctx, cfg, log); return err })
	if err = g.Wait(); err != nil {
		return nil, errors.Join(err, app.close())
	}
	if app.listener, err = new(net.ListenConfig).Listen(ctx, "tcp", cfg.Addr); err != nil {
		return nil, errors.Join(fmt.Errorf("listening: %w — fix: set CHATAPP_ADDR to a free host:port", err), app.close())
	}
	handler, err := newHandler(ctx, cfg, app.chat, pages)
	if err != nil {
		return nil, errors.Join(err, app.close())
	}
	app.server = &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          zap.NewStdLog(cfg.Log),
	}
	new(silent).watch(app.server)
	return app, nil
}

// Addr is where the app listens, with the port that it got.
func (a *App) Addr() string { return a.listener.Addr().String() }

// Run serves until ctx ends, then finishes the requests under way, writes what is queued or buffered, and closes.
func (a *App) Run(ctx context.Context) error {
	a.log.Info("listening", zap.String("addr", a.Addr()))
	served := make(chan error, 1)
	go func() { served <- a.server.Serve(a.listener) }()
	var err error
	select {
	case err = <-served:
		err = fmt.Errorf("serving: %w", err)
	case <-ctx.Done():
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		if err = a.server.Shutdown(stop); err != nil {
			err = errors.Join(fmt.Errorf("finishing the requests under way: %w", err), a.server.Close())
		}
		<-served
	}
	err = errors.Join(err, a.close())
	a.log.Info("stopped", zap.Error(err))
	return err
}

// close is safe on an app that New could open only in part.
func (a *App) close() error {
	var errs []error
	if a.listener != nil {
		if err := a.listener.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	if a.chat != nil {
		errs = append(errs, a.chat.close())
	}
	return errors.Join(append(errs, a.truth.Close())...)
}
