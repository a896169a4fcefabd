package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Partitioner cuts a service from the network and joins it again. Cut returns when the cut is proven; Join of a service
// that is not cut does nothing.
type Partitioner interface {
	Cut(ctx context.Context, service string) error
	Join(ctx context.Context, service string) error
}

// Unavailable says why an engine cannot do a fault.
type Unavailable struct {
	Engine, Kind, Service, Why string
}

func (u *Unavailable) Error() string {
	return fmt.Sprintf("%s of %s is not available with the engine %s: %s — fix: take the rule out, or use an engine that can",
		u.Kind, u.Service, u.Engine, u.Why)
}

// Hit lists the services that the injection hurts.
func Hit(inj Injection) []string {
	if inj.Kind == CrashAll {
		return inj.Services
	}
	return []string{inj.Service}
}

// Faults gives every kind of fault over the roles that the engine plays. Each is written once, here; an engine that
// lacks a role makes the kinds that need it unavailable.
func Faults(e Engine) map[string]Fault {
	faults := make(map[string]Fault)
	for kind, hurt := range map[string]func(context.Context, Engine, Injection) error{
		Kill: kill, Restart: restart, Pause: pause, Recreate: recreate, Wipe: wipe, Partition: partition, CrashAll: crashAll,
	} {
		faults[kind] = fault{kind: kind, engine: e, hurt: hurt}
	}
	return faults
}

type fault struct {
	kind   string
	engine Engine
	hurt   func(context.Context, Engine, Injection) error
}

func (f fault) Kind() string { return f.kind }

// Available asks for the roles, for the volume, and for one copy where the injection is of one.
func (f fault) Available(ctx context.Context, inj Injection) error {
	no := func(service, why string) error {
		return &Unavailable{Engine: f.engine.Name(), Kind: f.kind, Service: service, Why: why}
	}
	if len(Hit(inj)) == 0 {
		return no("no service", "the injection names none")
	}
	if missing := f.missing(inj); missing != "" {
		return no(Hit(inj)[0], "it cannot "+missing+" a service")
	}
	for _, service := range Hit(inj) {
		if inj.Instances != One {
			continue
		}
		copies, err := f.engine.Instances(ctx, service)
		if err != nil {
			return fmt.Errorf("counting the copies of %s: %w", service, err)
		}
		if len(copies) > 1 {
			return no(service, fmt.Sprintf("it has %d copies, and one alone cannot be chosen", len(copies)))
		}
	}
	if c, ok := f.engine.(Checker); ok {
		if err := c.Check(ctx, inj); err != nil {
			return err
		}
	}
	if f.kind == Wipe {
		return f.engine.(Wiper).Wipeable(ctx, inj.Service, inj.Volume)
	}
	return nil
}

// missing names the first role that the fault needs and the engine does not play.
func (f fault) missing(inj Injection) string {
	_, starter := f.engine.(Starter)
	_, killer := f.engine.(Killer)
	_, supervised := f.engine.(SupervisedKiller)
	_, stopper := f.engine.(Stopper)
	_, pauser := f.engine.(Pauser)
	_, wiper := f.engine.(Wiper)
	_, recreator := f.engine.(Recreator)
	_, partitioner := f.engine.(Partitioner)
	gently := f.kind == Restart || (inj.Grace > 0 && (f.kind == Wipe || f.kind == Recreate))
	hold := f.kind == Pause || f.kind == Partition
	switch {
	case inj.Supervised && f.kind != Kill:
		return "leave to its restart policy anything but the kill of"
	case inj.Supervised && !supervised:
		return "kill, and leave to a restart policy,"
	case f.kind == Pause && !pauser:
		return "pause"
	case f.kind == Partition && !partitioner:
		return "partition"
	case f.kind == Wipe && !wiper:
		return "wipe"
	case f.kind == Recreate && !recreator:
		return "recreate"
	case gently && !stopper:
		return "stop"
	case !hold && !gently && !killer:
		return "kill"
	case !hold && !starter:
		return "start"
	}
	return ""
}

func (f fault) Inject(ctx context.Context, inj Injection) error { return f.hurt(ctx, f.engine, inj) }

// Revert ends what is still under way, thaws and joins what may be held, then starts whatever is down. Every part of it does nothing to a service that
// is well.
func (f fault) Revert(ctx context.Context, inj Injection) error {
	return errors.Join(f.recall(inj), f.finish(ctx, inj), each(Hit(inj), func(service string) error {
		var errs []error
		if p, ok := f.engine.(Pauser); ok && f.kind == Pause {
			errs = append(errs, p.Thaw(ctx, service))
		}
		if p, ok := f.engine.(Partitioner); ok && f.kind == Partition {
			errs = append(errs, p.Join(ctx, service))
		}
		if s, ok := f.engine.(Starter); ok {
			errs = append(errs, s.Start(ctx, service))
		}
		return errors.Join(errs...)
	}))
}

func (f fault) finish(ctx context.Context, inj Injection) error {
	e, ok := f.engine.(Finisher)
	if !ok {
		return nil
	}
	return e.Finish(ctx, inj)
}

// recall gives an engine back what it read before the fault. A record that cannot be read keeps no service down: what
// needs it fails by itself.
func (f fault) recall(inj Injection) error {
	u, ok := f.engine.(Undoer)
	if !ok || len(inj.Undo) == 0 {
		return nil
	}
	var undo Undo
	if err := json.Unmarshal(inj.Undo, &undo); err != nil {
		return fmt.Errorf("reading the undo of injection %d: %w", inj.ID, err)
	}
	if len(undo.Engine) == 0 {
		return nil
	}
	return u.Recall(undo.Engine)
}

// The faults. Available has seen to it that the engine plays the roles asserted here.

func kill(ctx context.Context, e Engine, inj Injection) error {
	if inj.Supervised {
		return e.(SupervisedKiller).KillSupervised(ctx, inj.Service)
	}
	if err := e.(Killer).Kill(ctx, inj.Service); err != nil {
		return err
	}
	return e.(Starter).Start(ctx, inj.Service)
}

func restart(ctx context.Context, e Engine, inj Injection) error {
	if err := e.(Stopper).Stop(ctx, inj.Service, inj.Grace); err != nil {
		return err
	}
	return e.(Starter).Start(ctx, inj.Service)
}

func pause(ctx context.Context, e Engine, inj Injection) error {
	if err := e.(Pauser).Freeze(ctx, inj.Service); err != nil {
		return err
	}
	if err := sleep(ctx, inj.Hold); err != nil {
		return err
	}
	return e.(Pauser).Thaw(ctx, inj.Service)
}

func partition(ctx context.Context, e Engine, inj Injection) error {
	if err := e.(Partitioner).Cut(ctx, inj.Service); err != nil {
		return err
	}
	if err := sleep(ctx, inj.Hold); err != nil {
		return err
	}
	return e.(Partitioner).Join(ctx, inj.Service)
}

func recreate(ctx context.Context, e Engine, inj Injection) error {
	if err := down(ctx, e, inj); err != nil {
		return err
	}
	return e.(Recreator).Recreate(ctx, inj.Service)
}

func wipe(ctx context.Context, e Engine, inj Injection) error {
	if err := down(ctx, e, inj); err != nil {
		return err
	}
	if err := e.(Wiper).Empty(ctx, inj.Service, inj.Volume); err != nil {
		return err
	}
	return e.(Starter).Start(ctx, inj.Service)
}

// crashAll kills all before it starts any: no service may see another one come back while it still lives.
func crashAll(ctx context.Context, e Engine, inj Injection) error {
	err := each(inj.Services, func(service string) error { return e.(Killer).Kill(ctx, service) })
	if err != nil {
		return err
	}
	return each(inj.Services, func(service string) error { return e.(Starter).Start(ctx, service) })
}

// down ends the service: gently when the injection has a grace, else at once.
func down(ctx context.Context, e Engine, inj Injection) error {
	if inj.Grace > 0 {
		return e.(Stopper).Stop(ctx, inj.Service, inj.Grace)
	}
	return e.(Killer).Kill(ctx, inj.Service)
}

// each runs f for all services at once and gives every error, in their order.
func each(services []string, f func(service string) error) error {
	errs := make([]error, len(services))
	var wg sync.WaitGroup
	for i, service := range services {
		wg.Go(func() { errs[i] = f(service) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
