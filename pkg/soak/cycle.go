package soak

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"amnesia/chaos"
	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
	"amnesia/pkg/oracle"
)

// cycle is one whole cycle.
func (l *Loop) cycle(ctx context.Context) error {
	n := l.Ledger.NextCycle()
	inj, control := l.Plan(n)
	control = control || l.cycles == 0 // each run calibrates
	c := fact.Cycle{Run: l.Run, N: n, Control: control}
	mark := func(p fact.Phase, at memory.Instant) fact.Fact {
		c.Phase, c.At = p, at
		return c
	}
	l.takeRecovered()
	if err := l.retire(ctx); err != nil {
		return err
	}
	// What has begun is closed: an append that the end of ctx cuts off may be durable all the same.
	if err := l.Ledger.Append(context.WithoutCancel(ctx), mark(fact.PhaseTraffic, l.Clock.Now())); err != nil {
		return err
	}
	err := l.body(ctx, n, inj, control, mark)
	if err != nil && ctx.Err() == nil {
		return err
	}
	if err := l.conclude(ctx, c, err, ""); err != nil {
		return err
	}
	return l.calibrated(control)
}

// concludeWithin is what the evidence may take, and as much again for the books.
const concludeWithin = 8 * time.Second

// conclude judges a cycle and closes it; the error is err or the ledger's. err is the end of ctx, which leaves a cycle that
// says so, and whose memories are judged on what is known. doubt is why the cycle proves nothing beyond what is proven,
// if that is in no fact.
func (l *Loop) conclude(ctx context.Context, c fact.Cycle, err error, doubt string) error {
	cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), concludeWithin)
	defer cancel()
	var facts []fact.Fact
	if err == nil {
		c.Phase, c.At = fact.PhaseJudge, l.Clock.Now()
		facts = append(facts, c)
	} else {
		doubt = cmp.Or(doubt, "the daemon was told to stop before the cycle was judged")
	}
	verdicts, r := l.judge(c.N)
	for _, v := range verdicts {
		facts = append(facts, v)
	}
	if l.Freezer != nil && len(verdicts) > 0 {
		for _, f := range l.Freezer.Freeze(cctx, c.N, verdicts, l.memory) {
			facts = append(facts, f)
		}
	}
	c.Phase, c.Outcome, c.Reason, c.At = fact.PhaseClosed, r.Outcome, r.Reason, l.Clock.Now()
	if doubt != "" && (c.Outcome == fact.CycleClean || c.Outcome == fact.CycleInconclusive) {
		c.Outcome, c.Reason = fact.CycleInconclusive, doubt
	}
	if aerr := l.Ledger.Append(cctx, append(facts, c)...); aerr != nil {
		return errors.Join(err, aerr)
	}
	l.Log.Info("cycle closed", zap.Int("cycle", c.N), zap.Bool("control", c.Control), zap.String("outcome", string(c.Outcome)), zap.String("reason", c.Reason))
	return err
}

// body is a cycle from the gate to the last sweep.
func (l *Loop) body(ctx context.Context, n int, inj chaos.Injection, control bool, mark func(fact.Phase, memory.Instant) fact.Fact) error {
	healthy, err := l.readGate(ctx, n)
	if err != nil {
		return err
	}
	var armed *chaos.Armed
	if !control && healthy {
		inj.ID, inj.Cycle = l.Ledger.NextInjection(), n
		armed, err = l.Injector.Arm(ctx, inj)
		if _, refused := errors.AsType[*chaos.Refusal](err); refused {
			l.Log.Warn("the fault was refused", zap.String("kind", inj.Kind), zap.String("service", inj.Service), zap.Error(err))
		} else if err != nil {
			return err
		}
	}
	fired := func() error { return nil }
	var recovering memory.Instant
	if healthy {
		if recovering, fired, err = l.trafficUnderFault(ctx, n, inj, armed); err != nil {
			return err
		}
	}
	// What the fault did and that the target settles goes on record while the first reads are made, and before them.
	at := l.Clock.Now()
	settling := sync.OnceValue(func() error {
		if err := fired(); err != nil {
			return err
		}
		var phases []fact.Fact
		if !recovering.IsZero() {
			phases = append(phases, mark(fact.PhaseRecovery, recovering))
		}
		return l.Ledger.Append(ctx, append(phases, mark(fact.PhaseSettle, at))...)
	})
	go settling()
	err = l.settle(ctx, n, settling)
	if serr := settling(); serr != nil {
		return serr
	}
	return err
}

// trafficUnderFault plays the users and fires the armed injection, if there is one, when its moment comes. It returns
// when the users are done and the target is healthy again: recovering is when they were done, zero without an injection;
// fired waits for the rest, which is the injection's journal.
func (l *Loop) trafficUnderFault(ctx context.Context, n int, inj chaos.Injection, armed *chaos.Armed) (recovering memory.Instant, fired func() error, err error) {
	if armed == nil {
		return recovering, func() error { return nil }, l.traffic(ctx, n)
	}
	t := newTrigger(inj)
	l.setTrigger(t)
	defer l.setTrigger(nil)
	done, recovered, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
	armed.Recovered = func(r chaos.Result) {
		l.mu.Lock()
		l.recovered = r.After
		l.mu.Unlock()
		close(recovered)
	}
	var ferr error
	go func() {
		defer close(over)
		ferr = l.fire(ctx, t, armed, done)
	}()
	fired = func() error {
		<-over
		return ferr
	}
	err = l.traffic(ctx, n)
	close(done)
	recovering = l.Clock.Now()
	select {
	case <-recovered:
	case <-over:
	}
	if err != nil {
		return recovering, nil, errors.Join(err, fired())
	}
	return recovering, fired, nil
}

// fire waits for the point and lets the fault loose at its delay after it. What becomes of the target is in the facts:
// the error is only the end of ctx.
func (l *Loop) fire(ctx context.Context, t *trigger, armed *chaos.Armed, trafficDone <-chan struct{}) error {
	due, err := t.wait(ctx, l.Clock, trafficDone)
	if err != nil {
		return errors.Join(err, armed.Disarm(ctx, "the daemon was told to stop"))
	}
	l.setFiring(true)
	defer l.setFiring(false)
	r, err := armed.Fire(ctx, due)
	l.mu.Lock()
	l.fired = memory.Later(l.fired, r.Fired)
	l.mu.Unlock()
	fields := []zap.Field{zap.Int64("injection", t.inj.ID), zap.String("kind", t.inj.Kind), zap.Strings("services", chaos.Hit(t.inj)),
		zap.String("outcome", string(r.Outcome)), zap.Duration("recovery", r.Recovery)}
	if ctx.Err() != nil {
		l.Log.Info("an injection was cut short and undone: the daemon was told to stop", fields...)
	} else if err != nil {
		l.Log.Error("an injection did not go as planned", append(fields, zap.Error(err))...)
	} else {
		l.Log.Info("injected", fields...)
	}
	return ctx.Err()
}

// readGate reads every service's health and identity, and waits for those that are down.
func (l *Loop) readGate(ctx context.Context, n int) (healthy bool, err error) {
	owed := l.Injector.Owed(ctx)
	if owed != nil {
		l.Log.Error("what was injected could not be undone yet: the cycle goes without users and faults", zap.Error(owed))
	}
	g := fact.Gate{Cycle: n, Services: make([]fact.Health, len(l.Services))}
	var wg sync.WaitGroup
	for i, s := range l.Services {
		wg.Go(func() { g.Services[i] = l.await(ctx, s) })
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return false, err
	}
	healthy = owed == nil
	for _, h := range g.Services {
		if !h.Healthy {
			healthy = false
			l.Log.Warn("a service is not healthy before the traffic", zap.String("service", h.Service), zap.String("detail", h.Detail))
		}
	}
	g.At = l.Clock.Now()
	l.mu.Lock()
	l.gate = g.At
	l.mu.Unlock()
	return healthy, l.Ledger.Append(ctx, g)
}

// judge gives every verdict that is new or has changed, and the cycle's outcome.
func (l *Loop) judge(n int) (verdicts []fact.Judged, r oracle.CycleResult) {
	all := l.alive()
	l.Docket.Read(func(b *oracle.Book) {
		l.mu.Lock()
		defer l.mu.Unlock()
		now := l.Clock.Now()
		for _, m := range all {
			v, ok := b.Verdict(m.ID, now)
			if !ok {
				continue
			}
			if old, was := l.last[m.ID]; was && same(old, v) {
				continue
			}
			l.last[m.ID] = v
			verdicts = append(verdicts, fact.Judged{Verdict: v, Cycle: n, At: now})
		}
		r = b.Cycle(n, now)
	})
	return verdicts, r
}

// same reports whether two verdicts say the same of a memory, wording apart.
func same(a, b memory.Verdict) bool {
	return a.Kind == b.Kind && a.Class == b.Class && a.Fault == b.Fault && a.Service == b.Service && a.Recovered == b.Recovered && slices.Equal(a.Defects, b.Defects)
}

// calibrated stops the run after its first cycle when a view saw nothing at all.
func (l *Loop) calibrated(control bool) error {
	if !control || l.cycles > 0 {
		return nil
	}
	var trouble []oracle.ViewTrouble
	l.Docket.Read(func(b *oracle.Book) { trouble = b.Misconfigured() })
	if len(trouble) > 0 {
		return &MisconfiguredError{Views: trouble}
	}
	return nil
}

// MisconfiguredError says that a view showed no memory at all in the run's first cycle, a control: it looks in the wrong place.
type MisconfiguredError struct{ Views []oracle.ViewTrouble }

func (e *MisconfiguredError) Error() string {
	var b strings.Builder
	for i, v := range e.Views {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "the view %s found none of the memories that were told without any fault (%s)", v.View, v.Instead)
	}
	b.WriteString(" — fix: check the view's query, key, path or selector; if that is right, this is the finding: the target keeps none of them there")
	return b.String()
}
