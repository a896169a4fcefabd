// Package chaos is how a target is hurt, and made whole again: the plan (what, when), the guard (may it), the faults
// (how, over the small roles that an engine plays) and the injector (the life of one injection, journaled).
//
// It never imports the ledger, a view or the oracle: what hurts cannot touch the evidence. The journal is a role that
// the injector asks for.
package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"amnesia/pkg/fact"
)

// Injection is one planned, journaled application of a fault.
type Injection = fact.Injection

// The kinds of faults (faults.md).
const (
	Kill      = "kill"
	Restart   = "restart"
	Pause     = "pause"
	Recreate  = "recreate"
	Wipe      = "wipe"
	Partition = "partition"
	CrashAll  = "crash_all"
)

// How many copies of a service an injection hurts.
const (
	One = "one"
	All = "all"
)

// Service is a part of the target that can be hurt.
type Service struct {
	Name string
	// Health is an http(s):// or tcp:// address, asked per service.
	Health string
	// Wipeable names the volumes or directories that a wipe may empty.
	Wipeable []string
}

// Engine is where the services of a target run. What it can do to them are the role interfaces below; an engine that
// lacks a role makes the faults that need it unavailable, with the reason.
type Engine interface {
	Name() string
	// Services are those that may be touched, in a fixed order.
	Services() []Service
	// Instances gives the identities of the running copies; none when the service is down.
	Instances(ctx context.Context, service string) ([]fact.Instance, error)
	Close() error
}

// Unreachable is in the error of an engine that could not be asked, or did not answer: it says nothing of the services.
type Unreachable struct{ Err error }

func (u *Unreachable) Error() string { return u.Err.Error() }

// Unwrap gives the cause.
func (u *Unreachable) Unwrap() error { return u.Err }

func unreachable(err error) bool {
	_, ok := errors.AsType[*Unreachable](err)
	return ok
}

// Starter starts a service that is down; it does nothing to one that runs.
type Starter interface {
	Start(ctx context.Context, service string) error
}

// Killer sends SIGKILL to a service and returns when it is dead.
type Killer interface {
	Kill(ctx context.Context, service string) error
}

// SupervisedKiller ends the main process of a service past the engine, which then takes it for a crash: its restart
// policy must bring the service back. It returns when the engine has seen the death.
type SupervisedKiller interface {
	KillSupervised(ctx context.Context, service string) error
}

// Stopper sends SIGTERM, waits up to grace, then SIGKILL; it returns when the service is dead.
type Stopper interface {
	Stop(ctx context.Context, service string, grace time.Duration) error
}

// Pauser freezes and thaws. Freeze returns when the service is proven frozen. Thaw of a service that is not frozen does
// nothing.
type Pauser interface {
	Freeze(ctx context.Context, service string) error
	Thaw(ctx context.Context, service string) error
}

// Wiper empties an ephemeral volume of a service that is down, and proves it empty.
type Wiper interface {
	// Wipeable says whether the volume may be emptied; the error says who, what and why not.
	Wipeable(ctx context.Context, service, volume string) error
	Empty(ctx context.Context, service, volume string) error
}

// Recreator replaces a service that is down by a new one from the same configuration, without its writable layer and
// anonymous volumes, and starts it.
type Recreator interface {
	Recreate(ctx context.Context, service string) error
}

// Checker is an engine that plays a role for some services and not for others: such as the partition of one that uses the
// network of its host. The error says who, what and why not.
type Checker interface {
	Check(ctx context.Context, inj Injection) error
}

// Undoer is an engine that must have seen a service before the fault in order to take it back: such as the networks that
// it was in.
type Undoer interface {
	// Undo reads it, as plain data without secrets, just before the fault.
	Undo(ctx context.Context, inj Injection) (json.RawMessage, error)
	// Recall is given it before a revert, by this daemon or a later one.
	Recall(undo json.RawMessage) error
}

// Finisher is an engine in which something goes on although whoever began it has died: such as a stop that waits for its
// grace to pass, or half of a volume that is emptied.
type Finisher interface {
	// Finish brings it to its end, before a revert starts what is down. It does nothing where nothing is under way.
	Finish(ctx context.Context, inj Injection) error
}

// Undo is what an injection's record holds for its revert.
type Undo struct {
	Targets []UndoTarget    `json:"targets"`
	Engine  json.RawMessage `json:"engine,omitempty"` // an Undoer's
}

// UndoTarget is who was about to be hurt.
type UndoTarget struct {
	Service   string          `json:"service"`
	Instances []fact.Instance `json:"instances"`
}

// Line is one line that a service logged.
type Line struct {
	Service string
	At      time.Time
	Text    string
}

// LogReader follows the services' logs. Lines may be dropped under pressure, never block the service; the channel is
// closed when ctx ends.
type LogReader interface {
	Logs(ctx context.Context) <-chan Line
}

// Event is something that happened to a service. An oom is told before the death by it; it may also be that of a child, and
// no death follows.
type Event struct {
	Service  string
	Instance fact.Instance
	Kind     string // die, oom, start, healthy, unhealthy
	Exit     int
	At       time.Time
	Ours     bool // asked for by us
}

// EventSource follows the engine's events; the channel is closed when ctx ends.
type EventSource interface {
	Events(ctx context.Context) <-chan Event
}

// Describer tells what is known of the copies of services, those that are down too, for whoever looks for the cause of a
// loss. It only looks. What it could read comes with an error about the rest.
type Describer interface {
	Describe(ctx context.Context, services ...string) ([]fact.ServiceState, error)
}

// Journal makes steps durable, all or none of them and in their order, before it returns. When it fails, nothing may be
// injected.
type Journal interface {
	Step(ctx context.Context, steps ...fact.Step) error
}

// Fault is a way to hurt a service. Revert is idempotent, harmless when Inject never ran, and needs only the
// injection's record, so that a restarted daemon can undo.
type Fault interface {
	Kind() string
	Available(ctx context.Context, inj Injection) error
	Inject(ctx context.Context, inj Injection) error
	Revert(ctx context.Context, inj Injection) error
}
