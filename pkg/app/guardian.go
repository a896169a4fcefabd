package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"amnesia/chaos"
	"amnesia/chaos/docker"
	"amnesia/chaos/guardian"
	"amnesia/chaos/process"
	"amnesia/pkg/clock"
	"amnesia/pkg/fact"
	"amnesia/pkg/ledger"
)

const (
	// undoDuty is what the guardian of a target in containers does: see ward.
	undoDuty = "undo"
	// lockWait is how long the guardian waits for the ledger's lock until it looks whether it is still needed.
	lockWait = 50 * time.Millisecond
	// secondLook is when an undo is made once more: what the dead daemon asked the engine for in its last moment may have
	// been done after the first.
	secondLook = 300 * time.Millisecond
	// An undo that failed is tried again every undoPause, for undoFor: the engine may be down, and come back.
	undoPause = time.Second
	undoFor   = 10 * time.Minute
	undoMost  = time.Minute // for one try
)

// GuardianMain must be called first in main, and in TestMain, of every program that runs a target. It returns at once
// unless the process was started as a guardian; then it never returns.
func GuardianMain() {
	guardian.Main(map[string]func() guardian.Duty{
		process.GuardianDuty: process.Guard,
		undoDuty:             func() guardian.Duty { return &ward{open: make(map[int64]fact.Injection)} },
	})
}

// order is a line that the guardian is told: the target first, then each injection before it fires and once it is undone.
// Names and ids, and nothing secret.
type order struct {
	Target *guardedTarget  `json:"target,omitempty"`
	Fires  *fact.Injection `json:"fires,omitempty"`
	Undone int64           `json:"undone,omitempty"`
}

// guardedTarget is what an undo needs of the configuration.
type guardedTarget struct {
	Ledger   string   `json:"ledger"` // absolute
	Project  string   `json:"project,omitempty"`
	Services []string `json:"services"`
}

func (o order) line() (string, error) {
	b, err := json.Marshal(o)
	return string(b), err
}

// guardTarget starts the guardian of a target that outlives the daemon. It needs no ledger: what it must undo it is told.
func (a *App) guardTarget(ctx context.Context) error {
	t := guardedTarget{Project: a.cfg.Target.Project}
	for _, s := range a.cfg.Target.Services {
		t.Services = append(t.Services, s.Name)
	}
	var err error
	if t.Ledger, err = filepath.Abs(a.cfg.Ledger.Path); err != nil {
		return err
	}
	first, err := order{Target: &t}.line()
	if err != nil {
		return err
	}
	g := &guarded{guardian: guardian.New(undoDuty), first: first}
	if err := g.guardian.Ensure(first); err != nil {
		return err
	}
	a.guarded = g
	a.onClose(g.guardian.Close)
	// What an earlier daemon left open is this one's to undo, and its guardian's if it does not live to.
	for _, inj := range a.past.OpenInjections() {
		err = errors.Join(err, g.tell(order{Fires: &inj}))
	}
	return err
}

// guarded is a journal that has a guardian know of what is open.
type guarded struct {
	chaos.Journal
	guardian *guardian.Guardian
	first    string
}

// guarding gives the journal through which the guardian of this target learns of injections; where the services end with
// the daemon, nothing is left to undo.
func (a *App) guarding(j chaos.Journal) chaos.Journal {
	if a.guarded == nil {
		return j
	}
	a.guarded.Journal = j
	return a.guarded
}

// Step tells the guardian first: without one nothing is injected. What is undone is so even if it cannot be recorded.
func (g *guarded) Step(ctx context.Context, steps ...fact.Step) error {
	for _, s := range steps {
		var o order
		switch s.Name {
		case fact.StepFiring:
			o.Fires = s.Plan
		case fact.StepReverted, fact.StepClosed:
			o.Undone = s.Injection
		default:
			continue
		}
		if err := g.tell(o); err != nil && o.Fires != nil {
			return fmt.Errorf("nothing is injected without a guardian: %w", err)
		}
	}
	return g.Journal.Step(ctx, steps...)
}

// tell tells the guardian, or another one if it has died: there are never two injections at once, so it need not know of
// an earlier one.
func (g *guarded) tell(o order) error {
	line, err := o.line()
	if err != nil {
		return err
	}
	if err := g.guardian.Ensure(g.first); err != nil {
		return err
	}
	if err := g.guardian.Tell(line); err == nil {
		return nil
	}
	if err := g.guardian.Ensure(g.first); err != nil {
		return err
	}
	return g.guardian.Tell(line)
}

// ward is the guardian's duty: when the daemon has gone, to undo what it left open. Whoever holds the ledger's lock does
// that: while another daemon has taken over, the guardian stays until that one has closed what was open, or has died too.
// What the guardian undoes it does not record: the next daemon undoes it once more, which does nothing, and closes it.
type ward struct {
	target guardedTarget
	open   map[int64]fact.Injection
}

func (w *ward) Hear(line []byte) {
	var o order
	if json.Unmarshal(line, &o) != nil {
		return // of another version; there is nobody to tell
	}
	if o.Target != nil {
		w.target = *o.Target
	}
	if o.Fires != nil {
		w.open[o.Fires.ID] = *o.Fires
	}
	delete(w.open, o.Undone)
}

func (w *ward) End() {
	if len(w.open) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), undoFor)
	defer cancel()
	taken := false // by another daemon, at some time
	for ctx.Err() == nil {
		lock, held, err := ledger.Claim(w.target.Ledger, lockWait)
		if held {
			if taken = true; w.closed(ctx) {
				return
			}
			continue
		}
		if err != nil {
			lock = io.NopCloser(nil) // a target that is left hurt is worse than two that undo it
		}
		done := taken && w.closed(ctx) || w.undo(ctx) == nil
		lock.Close()
		if done {
			return
		}
		time.Sleep(undoPause)
	}
}

// closed reports whether the ledger says that all has been undone by another daemon.
func (w *ward) closed(ctx context.Context) bool {
	l, err := ledger.OpenReadOnly(ctx, w.target.Ledger)
	if err != nil {
		return false
	}
	defer l.Close()
	open, err := l.OpenInjections(ctx)
	return err == nil && !slices.ContainsFunc(open, func(inj fact.Injection) bool { _, mine := w.open[inj.ID]; return mine })
}

// undo undoes all that is open, twice.
func (w *ward) undo(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, undoMost)
	defer cancel()
	cfg := docker.Config{Project: w.target.Project, Clock: clock.System()}
	for _, name := range w.target.Services {
		cfg.Services = append(cfg.Services, docker.Service{Name: name})
	}
	e, err := docker.New(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	faults := chaos.Faults(e)
	all := func() (err error) {
		for _, id := range slices.Sorted(maps.Keys(w.open)) {
			inj := w.open[id]
			if f := faults[inj.Kind]; f != nil {
				err = errors.Join(err, f.Revert(ctx, inj))
			}
		}
		return err
	}
	first := all()
	time.Sleep(secondLook)
	if second := all(); second != nil {
		return errors.Join(first, second)
	}
	return nil
}
