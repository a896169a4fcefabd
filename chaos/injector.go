package chaos

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

// Outcome is what came of an injection.
type Outcome string

const (
	Injected    Outcome = "injected"    // fired, proven, and the target is healthy again
	DryRun      Outcome = "dry_run"     // announced only
	Refused     Outcome = "refused"     // nothing was done
	Failed      Outcome = "failed"      // not done as planned, or not proven; undone since
	Unrecovered Outcome = "unrecovered" // the target was not healthy by the deadline: a finding about the target
)

// Outcomes lists them all, so that each series can exist from the start.
func Outcomes() []Outcome { return []Outcome{Injected, DryRun, Refused, Failed, Unrecovered} }

// Result is the life of one injection in short. Instants that were not reached are zero.
type Result struct {
	Injection Injection
	Outcome   Outcome
	Fired     memory.Instant // let loose
	Injected  memory.Instant // the engine had done it, with the start or thaw that belongs to it
	Recovered memory.Instant // every service healthy
	Before    []fact.Health
	After     []fact.Health
	// Recovery is how long the target was hurt: from firing to healthy, less the time that a pause or partition was
	// held on purpose. 0 unless recovered.
	Recovery time.Duration
	Reverted bool // an undo was needed, and went well
}

// InjectorConfig is what an injector works with. All but the durations must be given.
type InjectorConfig struct {
	Engine  Engine
	Journal Journal
	Guard   *Guard
	Prober  *Prober
	Clock   memory.Clock
	// Before bounds the wait for a healthy target before the fault (0: 5 s), After the wait after it (0: 60 s), Revert
	// an undo (0: 30 s).
	Before, After, Revert time.Duration
}

// Injector takes injections through their life: planned, gated, firing, injected, proven, recovered, closed; and after
// any failure only failed, reverted, closed.
type Injector struct {
	InjectorConfig
	faults map[string]Fault

	mu   sync.Mutex
	owed []Injection // fired, and not undone
}

// NewInjector gives an injector over the faults that the engine can do.
func NewInjector(cfg InjectorConfig) *Injector {
	cfg.Before = cmp.Or(cfg.Before, 5*time.Second)
	cfg.After = cmp.Or(cfg.After, time.Minute)
	cfg.Revert = cmp.Or(cfg.Revert, 30*time.Second)
	return &Injector{InjectorConfig: cfg, faults: Faults(cfg.Engine)}
}

// Armed is an injection that has been planned, allowed and gated, and only waits for its moment.
type Armed struct {
	// Recovered, if set before Fire, is called when the fault is proven and the target healthy again, before Fire
	// journals that and returns.
	Recovered func(Result)

	in     *Injector
	inj    Injection
	fault  Fault
	before []fact.Health
}

// Arm takes the injection up to the moment before firing, so that little is left to do when the moment comes: it is
// journaled as planned, admitted by the guard, available, and the whole target is healthy. A *Refusal is journaled too, if
// the journal works; any other error means that it failed. Nothing has been done to the target, and no undo is owed.
func (in *Injector) Arm(ctx context.Context, inj Injection) (*Armed, error) {
	inj.DryRun = inj.DryRun || !in.Guard.Armed()
	if err := in.step(ctx, inj, fact.Step{Name: fact.StepPlanned, Plan: &inj}); err != nil {
		return nil, err
	}
	if err := in.Guard.Admit(inj); err != nil {
		return nil, in.refused(ctx, inj, err)
	}
	a := &Armed{in: in, inj: inj, fault: in.faults[inj.Kind]}
	if a.fault == nil {
		return nil, in.refused(ctx, inj, refuse(inj, ReasonUnavailable, "there is no such fault"))
	}
	if err := a.fault.Available(ctx, inj); err != nil {
		r := refuse(inj, ReasonUnavailable, "%v", err)
		r.Err = err
		return nil, in.refused(ctx, inj, r)
	}
	if inj.DryRun {
		return a, nil
	}
	gate, cancel := context.WithTimeout(ctx, in.Before)
	defer cancel()
	var err error
	if a.before, err = in.Prober.Await(gate, in.Engine, nil); err != nil {
		r := refuse(inj, ReasonUnhealthy, "the target is not healthy before the fault: %v", err)
		r.Err = err
		return nil, in.refused(ctx, inj, r)
	}
	if err := in.step(ctx, inj, fact.Step{Name: fact.StepGated, Before: a.before}); err != nil {
		return nil, in.unwritten(ctx, inj, err)
	}
	return a, nil
}

// Disarm closes an injection whose moment never came.
func (a *Armed) Disarm(ctx context.Context, why string) error {
	return a.in.step(context.WithoutCancel(ctx), a.inj, fact.Step{Name: fact.StepClosed, Detail: "not fired: " + why})
}

// Do arms the injection and fires at once: the delay is the caller's to wait. The error is nil for Injected and DryRun,
// and a *Refusal for Refused.
func (in *Injector) Do(ctx context.Context, inj Injection) (Result, error) {
	a, err := in.Arm(ctx, inj)
	if err != nil {
		res := Result{Injection: inj, Outcome: Failed}
		if _, ok := errors.AsType[*Refusal](err); ok {
			res.Outcome = Refused
		}
		return res, err
	}
	return a.Fire(ctx, memory.Instant{})
}

// Fire lets the fault loose at the instant due (zero or past: at once) and brings the target back. The guard is asked
// again and the identities are read again first, then the journal holds the firing with its undo; between that and the
// target's recovery nothing is written, so that the target is down for no longer than it takes. It returns when the
// target is healthy or the deadline has passed; an undo that is owed is done even if ctx has ended.
func (a *Armed) Fire(ctx context.Context, due memory.Instant) (Result, error) {
	in, inj := a.in, a.inj
	res := Result{Injection: inj, Before: a.before}
	if err := in.Guard.begin(inj); err != nil {
		res.Outcome = Refused
		return res, in.refused(ctx, inj, err)
	}
	defer in.Guard.end()
	if inj.DryRun {
		if err := sleep(ctx, due.Sub(in.Clock.Now())); err != nil {
			res.Outcome = Failed
			return res, errors.Join(err, a.Disarm(ctx, err.Error()))
		}
		res.Outcome, res.Fired = DryRun, in.Clock.Now()
		in.Guard.fired(res.Fired)
		return res, in.step(ctx, inj, fact.Step{Name: fact.StepClosed, Detail: "dry run: nothing was done"})
	}
	if err := a.identify(ctx); err != nil {
		res.Outcome = Refused
		return res, in.refused(ctx, inj, err)
	}
	inj = a.inj
	res.Injection = inj
	at := memory.Later(in.Clock.Now(), due)
	if err := in.append(ctx, inj, fact.Step{Name: fact.StepFiring, Plan: &inj, Before: a.before, At: at}); err != nil {
		// It may be durable all the same. Nothing was done, so an undo by a later daemon will find nothing to undo.
		res.Outcome = Refused
		return res, in.unwritten(ctx, inj, err)
	}

	err := sleep(ctx, due.Sub(in.Clock.Now()))
	if err == nil {
		res.Fired = in.Clock.Now()
		in.Guard.fired(res.Fired)
		err = a.fault.Inject(ctx, inj)
	}
	if err != nil {
		return in.fail(ctx, a.fault, res, nil, fmt.Errorf("injecting %s of %q: %w", inj.Kind, Hit(inj), err))
	}
	res.Injected = in.Clock.Now()
	steps := []fact.Step{{Name: fact.StepInjected, Fired: res.Fired, At: res.Injected}}
	if res.After, err = in.recover(ctx, a.fault, inj); err != nil {
		return in.fail(ctx, a.fault, res, steps, err)
	}
	res.Recovered = in.Clock.Now()
	res.Recovery = res.Recovered.Sub(res.Fired) - inj.Hold
	if err := prove(inj, res.Before, res.After); err != nil {
		return in.fail(ctx, a.fault, res, steps, err)
	}
	in.Guard.recovered(true)
	res.Outcome = Injected
	if a.Recovered != nil {
		a.Recovered(res)
	}
	return res, in.appendAll(ctx, inj, append(steps,
		fact.Step{Name: fact.StepProven, Detail: proof(inj), At: res.Recovered},
		fact.Step{Name: fact.StepRecovered, After: res.After, At: res.Recovered},
		fact.Step{Name: fact.StepClosed, At: in.Clock.Now()}))
}

// RevertOpen undoes injections that were fired and never closed, such as by an earlier daemon. It goes on after a failure and joins the
// errors; an injection whose undo failed stays open.
func (in *Injector) RevertOpen(ctx context.Context, open []Injection) error {
	var errs []error
	for _, inj := range open {
		f := in.faults[inj.Kind]
		if f == nil {
			errs = append(errs, fmt.Errorf("injection %d is of the unknown kind %q — fix: use the version that made it", inj.ID, inj.Kind))
			continue
		}
		if err := in.undo(ctx, f, inj); err != nil {
			errs = append(errs, err)
			continue
		}
		now := in.Clock.Now()
		errs = append(errs, in.appendAll(ctx, inj, []fact.Step{
			{Name: fact.StepReverted, At: now}, {Name: fact.StepClosed, Detail: "undone later", At: now}}))
	}
	return errors.Join(errs...)
}

// Owed tries once more to undo what could not be undone when it was due, because the engine did not answer or would not.
// While it gives an error the target is not as it was found.
func (in *Injector) Owed(ctx context.Context) error {
	in.mu.Lock()
	owed := in.owed
	in.owed = nil
	in.mu.Unlock()
	var errs []error
	for _, inj := range owed {
		if err := in.RevertOpen(ctx, []Injection{inj}); err != nil {
			errs = append(errs, err)
			in.owe(inj)
		}
	}
	return errors.Join(errs...)
}

func (in *Injector) owe(inj Injection) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.owed = append(in.owed, inj)
}

// undo reverts an injection even if ctx has ended; until then an engine that does not answer is asked again.
func (in *Injector) undo(ctx context.Context, f Fault, inj Injection) error {
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), in.Revert)
	defer cancel()
	err := f.Revert(within, inj)
	for unreachable(err) && sleep(ctx, 100*time.Millisecond) == nil && within.Err() == nil {
		err = f.Revert(within, inj)
	}
	if err != nil {
		return fmt.Errorf("undoing %s of %q: %w — fix: see to the service, then amnesia revert", inj.Kind, Hit(inj), err)
	}
	return nil
}

// fail undoes, looks once more whether the target is healthy, and journals what happened after steps. The undo comes
// before the journal, which may be what failed; it is owed since firing. An injection that could not be undone stays
// open. The outcome is a finding about the target if it did not come back, and else a failure of ours.
func (in *Injector) fail(ctx context.Context, f Fault, res Result, steps []fact.Step, cause error) (Result, error) {
	steps = append(steps, fact.Step{Name: fact.StepFailed, Fired: res.Fired, After: res.After, Detail: cause.Error(), At: in.Clock.Now()})
	errs := []error{cause}
	unhealthy := sick(cause)
	if err := in.undo(ctx, f, res.Injection); err != nil {
		errs, unhealthy = append(errs, err), unhealthy || !unreachable(err)
		in.owe(res.Injection)
	} else {
		res.Reverted = true
		steps = append(steps, fact.Step{Name: fact.StepReverted, At: in.Clock.Now()})
		closed := fact.Step{Name: fact.StepClosed}
		// A daemon that is ending waits for its undo, not for the target.
		if !unhealthy && res.Recovered.IsZero() && ctx.Err() == nil {
			if res.After, err = in.recover(ctx, f, res.Injection); err != nil {
				unhealthy = sick(err)
				errs, closed.After = append(errs, err), res.After
			} else {
				res.Recovered = in.Clock.Now()
				steps = append(steps, fact.Step{Name: fact.StepRecovered, After: res.After, At: res.Recovered})
			}
		}
		closed.At = in.Clock.Now()
		steps = append(steps, closed)
	}
	res.Outcome = Failed
	if unhealthy {
		res.Outcome = Unrecovered
		in.Guard.recovered(false)
	}
	return res, errors.Join(append(errs, in.appendAll(ctx, res.Injection, steps))...)
}

// recover waits until the whole target is healthy, and starts again, once a second, what died on its way up: a
// supervisor would, and what the service needs may not have been there the first time.
func (in *Injector) recover(ctx context.Context, f Fault, inj Injection) ([]fact.Health, error) {
	all, cancel := context.WithTimeout(ctx, in.After)
	defer cancel()
	for {
		turn, done := context.WithTimeout(all, time.Second)
		health, err := in.Prober.Await(turn, in.Engine, nil)
		done()
		if err == nil {
			return health, nil
		}
		if ctx.Err() != nil {
			return health, fmt.Errorf("waiting for the target: %w", ctx.Err())
		}
		if all.Err() != nil {
			return health, fmt.Errorf("after the fault, within %s, %w", in.After, err)
		}
		if inj.Supervised {
			continue // its supervisor must do it, or be found out
		}
		if err := f.Revert(all, inj); err != nil && all.Err() == nil && !unreachable(err) {
			return health, fmt.Errorf("starting what died again: %w", err)
		}
	}
}

// identify reads who is about to be hurt, now and not when the gate was read, and puts it into the undo.
func (a *Armed) identify(ctx context.Context) error {
	var undo Undo
	a.before = slices.Clone(a.before)
	for _, service := range Hit(a.inj) {
		who, err := a.in.Engine.Instances(ctx, service)
		if err != nil {
			r := refuse(a.inj, ReasonUnhealthy, "reading who runs as %s: %v", service, err)
			r.Err = err
			return r
		}
		if len(who) == 0 {
			return refuse(a.inj, ReasonUnhealthy, "%s is not running at the moment of firing", service)
		}
		undo.Targets = append(undo.Targets, UndoTarget{service, who})
		for i := range a.before {
			if a.before[i].Service == service {
				a.before[i].Instances = who
			}
		}
	}
	if u, ok := a.in.Engine.(Undoer); ok {
		var err error
		if undo.Engine, err = u.Undo(ctx, a.inj); err != nil {
			r := refuse(a.inj, ReasonUnavailable, "reading what its undo would need: %v", err)
			r.Err = err
			return r
		}
	}
	raw, err := json.Marshal(undo)
	if err != nil {
		return fmt.Errorf("writing the undo: %w", err)
	}
	a.inj.Undo = raw
	return nil
}

// prove compares the identities. Pause, partition and the emptiness of a volume are proven by the engine's roles, which
// do not return before.
func prove(inj Injection, before, after []fact.Health) error {
	if inj.Kind == Pause || inj.Kind == Partition {
		return nil
	}
	instances := func(health []fact.Health, service string) []fact.Instance {
		i := slices.IndexFunc(health, func(h fact.Health) bool { return h.Service == service })
		if i < 0 {
			return nil
		}
		return health[i].Instances
	}
	for _, service := range Hit(inj) {
		was, is := instances(before, service), instances(after, service)
		for _, w := range was {
			if slices.Contains(is, w) {
				return fmt.Errorf("%s of %s is not proven: instance %s (started %s) is still the same", inj.Kind, service, w.ID, w.Started)
			}
		}
	}
	return nil
}

func proof(inj Injection) string {
	switch inj.Kind {
	case Pause:
		return "every process was seen stopped"
	case Partition:
		return "the engine saw the cut"
	case Wipe:
		return "the volume was seen empty, and the identity changed"
	}
	return "the identity changed"
}

// refused journals the refusal and gives it back.
func (in *Injector) refused(ctx context.Context, inj Injection, why error) error {
	return errors.Join(why, in.step(context.WithoutCancel(ctx), inj, fact.Step{Name: fact.StepRefused, Detail: why.Error()}))
}

// unwritten refuses what cannot be journaled.
func (in *Injector) unwritten(ctx context.Context, inj Injection, err error) error {
	r := refuse(inj, ReasonLedger, "nothing was injected: %v", err)
	r.Err = err
	return in.refused(ctx, inj, r)
}

// step appends a step that happens now.
func (in *Injector) step(ctx context.Context, inj Injection, s fact.Step) error {
	s.At = in.Clock.Now()
	return in.append(ctx, inj, s)
}

// appendAll appends what has happened, even if ctx has ended.
func (in *Injector) appendAll(ctx context.Context, inj Injection, steps []fact.Step) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), in.Revert)
	defer cancel()
	return in.append(ctx, inj, steps...)
}

func (in *Injector) append(ctx context.Context, inj Injection, steps ...fact.Step) error {
	for i := range steps {
		steps[i].Injection = inj.ID
	}
	if err := in.Journal.Step(ctx, steps...); err != nil {
		return fmt.Errorf("journaling that injection %d is %s: %w", inj.ID, steps[len(steps)-1].Name, err)
	}
	return nil
}
