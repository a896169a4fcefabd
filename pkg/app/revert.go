package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"go.uber.org/zap"

	"amnesia/chaos"
	"amnesia/chaos/docker"
	"amnesia/pkg/clock"
	"amnesia/pkg/fact"
	"amnesia/pkg/ledger"
)

// revertWithin bounds the undo of one injection.
const revertWithin = 2 * time.Minute

// RevertOptions are the arguments of `amnesia revert`.
type RevertOptions struct {
	Ledger string
	Config []string // files, later ones laid over the first
	Getenv func(string) string
}

// Revert undoes by hand what a daemon left open in a ledger, prints a line for each injection, and records it. It refuses
// a ledger that a daemon holds. The error is of what could not be undone, which stays open.
func Revert(ctx context.Context, c Console, o RevertOptions) (err error) {
	a := &App{clock: clock.System(), log: zap.NewNop()}
	if a.cfg, err = LoadConfig(o.Config, o.Getenv); err != nil {
		return err
	}
	if _, err := os.Stat(o.Ledger); errors.Is(err, fs.ErrNotExist) {
		return noLedger(o.Ledger)
	}
	l, err := ledger.Open(ctx, o.Ledger, ledger.Options{Clock: a.clock})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	open, err := l.OpenInjections(ctx)
	if err != nil {
		return err
	}
	if len(open) == 0 {
		_, err := fmt.Fprintf(c.Out, "nothing is open in %s\n", o.Ledger)
		return err
	}
	// Processes have ended with their daemon: all that is left is to say so.
	undo, done := func(context.Context, chaos.Injection) error { return nil }, "nothing to undo, its services ended with their daemon"
	if a.cfg.Target.Engine == "docker" {
		e, err := docker.New(ctx, a.dockerConfig())
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, e.Close()) }()
		faults := chaos.Faults(e)
		undo, done = func(ctx context.Context, inj chaos.Injection) error {
			f := faults[inj.Kind]
			if f == nil {
				return fmt.Errorf("the kind %q is unknown — fix: use the version that made it", inj.Kind)
			}
			return f.Revert(ctx, inj)
		}, "undone"
	}
	failed := 0
	for _, inj := range open {
		said := done
		if err := a.revert(ctx, l, inj, undo); err != nil {
			said = "not undone: " + err.Error()
			failed++
		}
		what := fmt.Sprintf("injection %d: %s of %s in cycle %d: %s", inj.ID, inj.Kind, strings.Join(chaos.Hit(inj), ", "), inj.Cycle, said)
		if _, err := fmt.Fprintln(c.Out, what); err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d injections are still open — fix: see to the services, then amnesia revert again", failed, len(open))
	}
	return nil
}

// revert undoes one injection and closes it.
func (a *App) revert(ctx context.Context, l *ledger.Ledger, inj chaos.Injection, undo func(context.Context, chaos.Injection) error) error {
	ctx, cancel := context.WithTimeout(ctx, revertWithin)
	defer cancel()
	if err := undo(ctx, inj); err != nil {
		return err
	}
	now := a.clock.Now()
	return l.Append(ctx, fact.Step{Injection: inj.ID, Name: fact.StepReverted, At: now},
		fact.Step{Injection: inj.ID, Name: fact.StepClosed, Detail: "undone by hand", At: now})
}
