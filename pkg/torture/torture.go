//go:build linux

// Package torture kills the daemon itself, with SIGKILL and at random points, while it runs cycles with faults on the
// sample target, and holds after each kill what it promises: no fact is missing of which a witness outside of the daemon
// knows that it was durable; the target is as it should be, also if no daemon is started again; nothing of the daemon's is
// left running; counters go on; the next cycle is conclusive, and a healthy target is not accused.
//
// It runs the daemon's real binary, and knows of its insides only how to read a ledger.
package torture

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"time"

	"amnesia/pkg/fact"
)

// within is how long after the daemon's death all must be as it should be, beside the time that a service takes to start.
const within = 2 * time.Second

// Options are those of one run.
type Options struct {
	Amnesia string // the binary, statically linked
	Dir     string // for everything that the run leaves: ledger, logs, witness
	Seed    uint64
	Kills   int
	Tell    func(line string) // is told of every kill; may be nil
}

// Tally is what a run came to.
type Tally struct {
	Kills     int
	Lost      int // facts that a witness knows of, or memories that the app was told, and the ledger does not
	Broken    int // services dead, paused, cut off or half wiped after a kill
	Leftovers int // processes and helper containers
	// Trouble are all sentences of what was not as it should be, those that are counted too.
	Trouble []string
	Undone  int           // kills with an injection open
	Alone   int           // kills after which no daemon was started until all was looked at
	Slowest time.Duration // of those: until all had been seen to be as it should be
}

// Add adds another run's.
func (t *Tally) Add(o Tally) {
	t.Kills, t.Lost, t.Broken, t.Leftovers = t.Kills+o.Kills, t.Lost+o.Lost, t.Broken+o.Broken, t.Leftovers+o.Leftovers
	t.Undone, t.Alone = t.Undone+o.Undone, t.Alone+o.Alone
	t.Slowest = max(t.Slowest, o.Slowest)
	t.Trouble = append(t.Trouble, o.Trouble...)
}

// String is the line that all ends with.
func (t Tally) String() string {
	return fmt.Sprintf("torture: %d kills, %d facts lost, %d services left broken, %d leftovers", t.Kills, t.Lost, t.Broken, t.Leftovers)
}

// Target is what the daemon is run on.
type Target interface {
	// fill gives what the configuration needs to know of it.
	fill(s *settings)
	// broken says what is not as it should be; alone: no daemon lives.
	broken(ctx context.Context, alone bool) error
	// restore makes ready for the next life while no daemon lives.
	restore(ctx context.Context) error
	// left says what is left of a daemon's that has died, beside its processes.
	left(ctx context.Context) error
	// start is how long its services take to start.
	start() time.Duration
}

// settings fill in the configuration.
type settings struct {
	Seed                         uint64
	Dir, Amnesia, App, Side, Web string
	Project                      string // of containers; empty: processes
}

// bench is a run under way.
type bench struct {
	Options
	target   Target
	settings settings
	draw     *rand.Rand
	tally    Tally
	lives    int
	dead     []*life      // after which it was not yet looked
	open     map[int]bool // cycles, by whether they are
	seq      int64        // of the last fact that was looked at
	counters counters     // as they were last seen
}

// Run kills the daemon so many times. The error says that it could not be done; what was found is in the tally.
func Run(ctx context.Context, o Options, target Target) (Tally, error) {
	b := &bench{Options: o, target: target, draw: rand.New(rand.NewPCG(o.Seed, 0)), counters: counters{}, open: map[int]bool{},
		settings: settings{Seed: o.Seed, Dir: o.Dir, Amnesia: o.Amnesia}}
	err := b.run(ctx)
	return b.tally, err
}

func (b *bench) run(ctx context.Context) error {
	if err := b.configure(ctx); err != nil {
		return err
	}
	if err := b.target.restore(ctx); err != nil {
		return err
	}
	for b.tally.Kills < b.Kills {
		if err := b.turn(ctx); err != nil {
			return err
		}
	}
	return b.last(ctx)
}

// trouble counts what is not as it should be.
func (b *bench) trouble(count *int, format string, args ...any) {
	if count != nil {
		*count++
	}
	b.tally.Trouble = append(b.tally.Trouble, fmt.Sprintf("life %d (%s): ", b.lives, b.Dir)+fmt.Sprintf(format, args...))
}

// moment is when in its life a daemon is killed.
type moment int

const (
	early    moment = iota // on its way up
	firing                 // from the moment when it lets a fault loose
	whenever               // at any time
)

// turn is one life, its end, and all that is held after it.
func (b *bench) turn(ctx context.Context) error {
	when, alone := whenever, b.draw.IntN(2) == 0
	switch p := b.draw.Float64(); {
	case p < 0.2:
		when = early
	case p < 0.75:
		when = firing
	}
	l, err := b.born(ctx)
	if err != nil {
		return err
	}
	wait := b.logUniform(100*time.Microsecond, time.Second)
	if when == early {
		wait = b.logUniform(time.Millisecond, time.Second)
		if err := l.lives(ctx, wait); err != nil {
			return l.explain(err)
		}
	} else if err := b.grow(ctx, l, when, wait); err != nil {
		return l.explain(err)
	}
	l.kill()
	b.tally.Kills++
	if err := b.died(l); err != nil {
		return err
	}
	if b.Tell != nil {
		b.Tell(fmt.Sprintf("kill %d of %d: %s, %s; open %v, alone %v, %d troubles", b.tally.Kills, b.Kills, []string{"early", "firing", "any"}[when],
			wait.Round(10*time.Microsecond), l.open(), alone, len(b.tally.Trouble)))
	}
	if !alone {
		return nil
	}
	b.tally.Alone++
	if err := b.healed(ctx, nil); err != nil {
		return err
	}
	return b.target.restore(ctx)
}

// logUniform draws as many tenths of milliseconds as tenths of seconds.
func (b *bench) logUniform(from, to time.Duration) time.Duration {
	return time.Duration(float64(from) * math.Pow(float64(to)/float64(from), b.draw.Float64()))
}

// grow takes a daemon through the start, whose outcome is held, to the point at which it is to be killed.
func (b *bench) grow(ctx context.Context, l *life, when moment, wait time.Duration) error {
	if err := b.started(ctx, l); err != nil {
		return err
	}
	if when == firing {
		if err := l.await(ctx, func(w line) bool { return w.step() == fact.StepFiring }); err != nil {
			return fmt.Errorf("waiting for a fault: %w", err)
		}
	}
	return l.lives(ctx, wait)
}

// started waits until a daemon has run its first own cycle, and holds what must be so by then.
func (b *bench) started(ctx context.Context, l *life) error {
	var run fact.Run
	if err := l.await(ctx, func(w line) bool { return w.as("run", &run) }); err != nil {
		return fmt.Errorf("waiting for the daemon to be ready: %w", err)
	}
	if err := b.healed(ctx, l); err != nil {
		return err
	}
	now, err := l.scrape(ctx)
	if err != nil {
		return fmt.Errorf("reading the metrics: %w", err)
	}
	for _, back := range now.behind(b.counters) {
		b.trouble(nil, "a counter went back: %s", back)
	}
	var cycle, closed fact.Cycle
	mine := func(w line) bool {
		return w.as("cycle", &cycle) && cycle.Run == run.ID && cycle.Phase == fact.PhaseTraffic
	}
	if err := l.await(ctx, mine); err != nil {
		return fmt.Errorf("waiting for a cycle: %w", err)
	}
	ended := func(w line) bool {
		return w.as("cycle", &closed) && closed.N == cycle.N && closed.Phase == fact.PhaseClosed
	}
	if err := l.await(ctx, ended); err != nil {
		return fmt.Errorf("waiting for the end of cycle %d: %w", cycle.N, err)
	}
	if closed.Outcome == fact.CycleInconclusive {
		b.trouble(nil, "the next cycle, %d, is not conclusive: %s", closed.N, closed.Reason)
	}
	for n, open := range cycles(b.open, l.facts) {
		if open {
			b.trouble(nil, "cycle %d was begun by an earlier daemon, and nobody has judged and closed it", n)
		}
	}
	l.watch(ctx)
	return nil
}

// cycles says which cycles are open, given those that were before these facts.
func cycles(before map[int]bool, facts []line) map[int]bool {
	open := maps.Clone(before)
	for _, w := range facts {
		if c := (fact.Cycle{}); w.as("cycle", &c) {
			open[c.N] = c.Phase != fact.PhaseClosed
		}
	}
	return open
}

// healed holds that within the time given nothing is left of the daemons that have died, and the target is whole. Where the
// next daemon lives, it may strike the target itself while that is looked at: such a look proves only what it finds whole,
// and is followed by another.
func (b *bench) healed(ctx context.Context, next *life) error {
	alone := next == nil
	if len(b.dead) == 0 {
		return nil
	}
	l := b.dead[len(b.dead)-1]
	deadline := l.ended.Add(within + b.target.start())
	if soon := time.Now().Add(within / 4); !alone && soon.After(deadline) {
		deadline = soon // the next daemon took longer to be ready, and only now has it said so
	}
	left := func() error {
		errs := []error{b.target.left(ctx)}
		for _, l := range b.dead {
			errs = append(errs, l.left())
		}
		return errors.Join(errs...)
	}
	if err := until(ctx, deadline, left); err != nil {
		b.trouble(&b.tally.Leftovers, "%s after the kill (open: %s; alone: %v): %v", time.Since(l.ended).Round(time.Millisecond), l.open(), alone, err)
	}
	// Last, when nobody is left who would change it.
	whole := func() error { return b.target.broken(ctx, alone) }
	if !alone {
		whole = func() error {
			for end := time.Now().Add(patience); ; {
				before, open, err := next.strikes()
				if err != nil {
					return err
				}
				broken := b.target.broken(ctx, alone)
				after, _, err := next.strikes()
				if err != nil || broken == nil || before == after && !open || ctx.Err() != nil {
					return errors.Join(broken, err)
				}
				if time.Now().After(end) {
					return fmt.Errorf("no look came between two faults for %s; the last: %w", patience, broken)
				}
			}
		}
	}
	if err := until(ctx, deadline, whole); err != nil {
		b.trouble(&b.tally.Broken, "%s after the kill (open: %s; alone: %v): %v", time.Since(l.ended).Round(time.Millisecond), l.open(), alone, err)
	}
	if alone {
		b.tally.Slowest = max(b.tally.Slowest, time.Since(l.ended))
	}
	b.dead = nil
	return ctx.Err()
}

// until asks again until all is well or the time is up; it asks at least twice.
func until(ctx context.Context, deadline time.Time, ask func() error) error {
	for {
		late := time.Now().After(deadline)
		err := ask()
		if err == nil || late || ctx.Err() != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// died holds what a daemon leaves in the books.
func (b *bench) died(l *life) error {
	b.dead = append(b.dead, l)
	if l.open() != "" {
		b.tally.Undone++
	}
	if l.seen != nil {
		b.counters = l.seen
	}
	if err := l.close(); err != nil {
		return err
	}
	if len(l.facts) == 0 && b.seq == 0 {
		return nil // it died before there was a ledger
	}
	// The ledger may hold more than the witness was told: the daemon died in between.
	held, err := booked(b.ledger(), b.seq)
	if err != nil {
		return fmt.Errorf("reading the ledger after a kill: %w", err)
	}
	for _, m := range missing(l.facts, held) {
		b.trouble(&b.tally.Lost, "%s", m)
	}
	for _, w := range held {
		b.seq = w.Seq
		var c fact.Cycle
		if w.as("cycle", &c) && c.Phase == fact.PhaseClosed && c.Outcome != fact.CycleClean && c.Outcome != fact.CycleInconclusive {
			b.trouble(nil, "cycle %d of a healthy target ended with %s: %s", c.N, c.Outcome, c.Reason)
		}
	}
	b.open = cycles(b.open, held)
	return nil
}

// last ends a daemon in order, and holds that all of all lives is there.
func (b *bench) last(ctx context.Context) error {
	l, err := b.born(ctx)
	if err != nil {
		return err
	}
	if err := b.started(ctx, l); err != nil {
		return l.explain(err)
	}
	if err := l.terminate(); err != nil {
		b.trouble(nil, "ended in order: %v", l.explain(err))
	}
	if err := b.died(l); err != nil {
		return err
	}
	if err := b.healed(ctx, nil); err != nil {
		return err
	}
	told, err := b.untold()
	if err != nil {
		return err
	}
	for _, m := range told {
		b.trouble(&b.tally.Lost, "%s", m)
	}
	return nil
}

func (b *bench) ledger() string { return filepath.Join(b.Dir, "amnesia.db") }

// say runs a program and gives what it says on stdout.
func say(ctx context.Context, program string, args ...string) ([]byte, error) {
	out, err := exec.CommandContext(ctx, program, args...).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w", filepath.Base(program), args, err)
	}
	return out, nil
}
