package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"amnesia/chaos"
	"amnesia/pkg/clock"
	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

// target is an engine in memory. It plays every role, and breaks where it is told to.
type target struct {
	mu        sync.Mutex
	names     []string
	state     map[string]*copyState
	calls     []string
	breaks    map[string]int // by call, such as "start app": how many times it fails; -1: always
	immortal  bool           // Kill does nothing
	stillborn bool           // Start gives a copy that dies at once
	away      bool           // the engine does not answer
	onCall    func(call string)
}

var errAway = &chaos.Unreachable{Err: errors.New("the engine does not answer")}

func (e *target) leave(away bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.away = away
}

type copyState struct {
	generation  int
	up, frozen  bool
	cut, filled bool
}

func newTarget(names ...string) *target {
	e := &target{names: names, state: map[string]*copyState{}, breaks: map[string]int{}}
	for _, name := range names {
		e.state[name] = &copyState{generation: 1, up: true, filled: true}
	}
	return e
}

func (e *target) do(ctx context.Context, verb, service string, change func(s *copyState)) error {
	call := verb + " " + service
	if e.onCall != nil {
		e.onCall(call)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if e.away {
		return errAway
	}
	e.calls = append(e.calls, call)
	if n := e.breaks[call]; n != 0 {
		e.breaks[call] = n - 1
		return fmt.Errorf("%s: broken on purpose", call)
	}
	change(e.state[service])
	return nil
}

func (e *target) Name() string { return "fake" }
func (e *target) Close() error { return nil }
func (e *target) Services() []chaos.Service {
	var list []chaos.Service
	for _, name := range e.names {
		list = append(list, chaos.Service{Name: name})
	}
	return list
}

func (e *target) Instances(_ context.Context, service string) ([]fact.Instance, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.state[service]
	if e.away {
		return nil, errAway
	}
	if !s.up {
		return nil, nil
	}
	if s.frozen || s.cut {
		return nil, errors.New("it does not answer")
	}
	return []fact.Instance{{ID: service, Started: strconv.Itoa(s.generation)}}, nil
}

func (e *target) Start(ctx context.Context, service string) error {
	return e.do(ctx, "start", service, func(s *copyState) {
		if !s.up && !e.stillborn {
			s.up, s.generation = true, s.generation+1
		}
	})
}

func (e *target) Kill(ctx context.Context, service string) error {
	return e.do(ctx, "kill", service, func(s *copyState) { s.up = s.up && e.immortal })
}

func (e *target) Stop(ctx context.Context, service string, _ time.Duration) error {
	return e.do(ctx, "stop", service, func(s *copyState) { s.up = false })
}

func (e *target) Freeze(ctx context.Context, service string) error {
	return e.do(ctx, "freeze", service, func(s *copyState) { s.frozen = true })
}

func (e *target) Thaw(ctx context.Context, service string) error {
	return e.do(ctx, "thaw", service, func(s *copyState) { s.frozen = false })
}

func (e *target) Cut(ctx context.Context, service string) error {
	return e.do(ctx, "cut", service, func(s *copyState) { s.cut = true })
}

func (e *target) Join(ctx context.Context, service string) error {
	return e.do(ctx, "join", service, func(s *copyState) { s.cut = false })
}

func (e *target) Wipeable(context.Context, string, string) error { return nil }

func (e *target) Empty(ctx context.Context, service, _ string) error {
	return e.do(ctx, "empty", service, func(s *copyState) { s.filled = false })
}

func (e *target) Recreate(ctx context.Context, service string) error {
	return e.do(ctx, "recreate", service, func(s *copyState) {
		s.up, s.filled, s.generation = true, false, s.generation+1
	})
}

// well reports whether everything runs and answers.
func (e *target) well() error {
	for _, name := range e.names {
		if who, err := e.Instances(context.Background(), name); err != nil || len(who) == 0 {
			return fmt.Errorf("%s was left as %+v", name, *e.state[name])
		}
	}
	return nil
}

// narrow hides the roles of an engine.
type narrow struct{ chaos.Engine }

// journal keeps the steps, and fails at one when told to.
type journal struct {
	mu     sync.Mutex
	steps  []fact.Step
	failAt fact.StepName
}

func (j *journal) Step(_ context.Context, steps ...fact.Step) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if slices.ContainsFunc(steps, func(s fact.Step) bool { return s.Name == j.failAt }) {
		return errors.New("the disk is full")
	}
	j.steps = append(j.steps, steps...)
	return nil
}

func (j *journal) names() []fact.StepName {
	j.mu.Lock()
	defer j.mu.Unlock()
	var names []fact.StepName
	for _, s := range j.steps {
		names = append(names, s.Name)
	}
	return names
}

func (j *journal) has(name fact.StepName) bool {
	for _, n := range j.names() {
		if n == name {
			return true
		}
	}
	return false
}

// dial is a clock that tests move.
type dial struct {
	mu  sync.Mutex
	now memory.Instant
}

func newDial(at time.Time) *dial { return &dial{now: memory.Instant{Mono: 1, Wall: at.UnixNano()}} }

func (d *dial) Now() memory.Instant {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

func (d *dial) move(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now = d.now.Add(by)
}

func injector(e chaos.Engine, j chaos.Journal, limits chaos.Limits) (*chaos.Injector, *chaos.Guard) {
	c := clock.System()
	g := chaos.NewGuard(limits, e, c, chaos.GuardState{})
	return chaos.NewInjector(chaos.InjectorConfig{Engine: e, Journal: j, Guard: g, Prober: chaos.NewProber(c, 0), Clock: c,
		Before: 20 * time.Millisecond, After: 100 * time.Millisecond, Revert: time.Second}), g
}

func mustWell(t *testing.T, e *target) {
	t.Helper()
	if err := e.well(); err != nil {
		t.Error(err)
	}
}
