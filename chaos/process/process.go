//go:build unix

// Package process is the engine that starts the services of a target itself, from their command lines, each in a
// process group of its own. It needs nothing installed, and leaves nothing behind: a guardian ends every
// group within two seconds of the daemon's death, however it died.
//
// Linux is its home. Elsewhere it does its best: a pause is not verified, and what leaves its process group is not found.
// On Linux too, a descendant that leaves its group and also overwrites its environment cannot be found again; and only
// Close and the guardian look for such strays, a kill takes the group alone.
//
// It knows nothing of plans, journals or verdicts.
package process

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"amnesia/chaos"
	"amnesia/chaos/guardian"
	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

// Service says how one service is started.
type Service struct {
	Name    string
	Command []string // program and arguments; looked up in PATH, or relative to Dir when it holds a slash
	Env     []string // KEY=VALUE, beside the daemon's own environment
	Dir     string   // working directory; empty: the daemon's
	Health  string   // http(s):// or tcp:// address; empty: healthy when running
	// Scratch are the directories that a wipe or a recreate may empty, absolute or relative to Dir. They are created.
	// Everything in them is ephemeral by this declaration.
	Scratch []string
	Grace   time.Duration // between SIGTERM and SIGKILL when the engine closes; 0: 5 s
}

// Config is what an engine works with.
type Config struct {
	Services []Service
	Clock    memory.Clock
	// Protected are files and directories (the ledger above all) that no scratch directory may contain.
	Protected []string
	Observe   chaos.Observer
}

// Engine runs the services. It plays every role of package chaos but chaos.Partitioner, and is safe for concurrent use.
type Engine struct {
	id       string // in every service's environment, under markerKey
	clock    memory.Clock
	observe  chaos.Observer
	services []*service
	spawner  *spawner
	guardian *guardian.Guardian
	lines    feed[chaos.Line]
	events   feed[chaos.Event]
	closing  sync.Once
	closed   error
}

var (
	_ chaos.Engine      = (*Engine)(nil)
	_ chaos.Starter     = (*Engine)(nil)
	_ chaos.Killer      = (*Engine)(nil)
	_ chaos.Stopper     = (*Engine)(nil)
	_ chaos.Pauser      = (*Engine)(nil)
	_ chaos.Wiper       = (*Engine)(nil)
	_ chaos.Recreator   = (*Engine)(nil)
	_ chaos.LogReader   = (*Engine)(nil)
	_ chaos.EventSource = (*Engine)(nil)
	_ chaos.Tailer      = (*Engine)(nil)
	_ chaos.Describer   = (*Engine)(nil)
)

// New checks the services, every one, and starts the guardian. No service is started yet. The program must call
// GuardianMain, or guardian.Main with the duty Guard, first thing in main.
func New(cfg Config) (*Engine, error) {
	e := &Engine{clock: cfg.Clock, observe: cfg.Observe, id: engineID(cfg.Clock.Now())}
	if err := e.prepare(cfg); err != nil {
		return nil, err
	}
	e.guardian = guardian.New(GuardianDuty)
	if err := e.guarded(); err != nil {
		return nil, err
	}
	e.spawner = newSpawner()
	return e, nil
}

// prepare resolves what was declared; every mistake is reported at once.
func (e *Engine) prepare(cfg Config) error {
	var errs []error
	if len(cfg.Services) == 0 {
		errs = append(errs, errors.New("no services — fix: name at least one, with its command"))
	}
	for _, decl := range cfg.Services {
		if slices.ContainsFunc(e.services, func(s *service) bool { return s.Name == decl.Name }) {
			errs = append(errs, fmt.Errorf("%s: declared twice — fix: give each service a name of its own", decl.Name))
			continue
		}
		s, err := resolve(decl, cfg.Protected)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		e.services = append(e.services, s)
	}
	return errors.Join(errs...)
}

// Name is "process".
func (e *Engine) Name() string { return "process" }

// Services lists the services in the order of the configuration.
func (e *Engine) Services() []chaos.Service {
	var list []chaos.Service
	for _, s := range e.services {
		item := chaos.Service{Name: s.Name, Health: s.Health}
		for _, d := range s.scratch {
			item.Wipeable = append(item.Wipeable, d.path)
		}
		list = append(list, item)
	}
	return list
}

// StartAll starts every service that is down, in the order of the configuration, and does not wait for health.
func (e *Engine) StartAll(ctx context.Context) error {
	for _, s := range e.services {
		if err := e.Start(ctx, s.Name); err != nil {
			return err
		}
	}
	return nil
}

// Instances gives the one running process of the service, by process id and start time.
func (e *Engine) Instances(_ context.Context, name string) (_ []fact.Instance, err error) {
	defer e.observe.Time(e.clock, "instances")(&err)
	s, err := e.service(name)
	if err != nil {
		return nil, err
	}
	if p := s.current(); p != nil && p.alive() {
		return []fact.Instance{p.instance}, nil
	}
	return nil, nil
}

// Logs follows what the services print. A slow consumer loses lines, never holds a service up; Dropped counts them.
func (e *Engine) Logs(ctx context.Context) <-chan chaos.Line { return e.lines.follow(ctx) }

// Events follows starts and deaths. A death with Ours false was asked for by nobody here.
func (e *Engine) Events(ctx context.Context) <-chan chaos.Event { return e.events.follow(ctx) }

// Dropped counts the log lines and events that slow consumers have lost.
func (e *Engine) Dropped() int64 { return e.lines.dropped.Load() + e.events.dropped.Load() }

// Close ends every service (SIGTERM, its grace, SIGKILL), all at once, then whatever of theirs left its group, then the
// guardian.
func (e *Engine) Close() error {
	e.closing.Do(func() {
		errs := make([]error, len(e.services))
		var wg sync.WaitGroup
		for i, s := range e.services {
			s.close()
			wg.Go(func() { errs[i] = e.Stop(context.Background(), s.Name, s.Grace) })
		}
		wg.Wait()
		killMarked(e.id)
		e.closed = errors.Join(append(errs, e.guardian.Close())...)
		e.spawner.close()
		e.lines.close()
		e.events.close()
	})
	return e.closed
}

func (e *Engine) service(name string) (*service, error) {
	for _, s := range e.services {
		if s.Name == name {
			return s, nil
		}
	}
	return nil, fmt.Errorf("no service %q in this engine", name)
}
