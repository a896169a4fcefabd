package app

import (
	"context"
	"slices"
	"sync"

	"go.uber.org/zap"

	"amnesia/chaos"
	"amnesia/pkg/fact"
	"amnesia/pkg/ledger"
	"amnesia/pkg/metrics"
	"amnesia/pkg/soak"
)

// keptFold is what the facts say to the daemon that will be started next.
type keptFold struct {
	past   soak.Past
	limits chaos.GuardState
}

// folds are all that is made of the facts, those of earlier daemons first: at the start from the ledger, then by its tap.
func (a *App) folds(m *metrics.Metrics) []ledger.Fold {
	each := func(tap func([]fact.Entry)) func(fact.Entry) {
		return func(e fact.Entry) { tap([]fact.Entry{e}) }
	}
	return []ledger.Fold{
		{Name: "book", Apply: each(a.Docket.Tap), Lend: a.Docket.Lend},
		{Name: "desk", Apply: each(a.desk.tap), Lend: a.desk.lend},
		{Name: "board", Apply: each(a.board.tap), Lend: a.board.lend},
		{Name: "evidence", Apply: each(a.keeper.Tap), Lend: a.keeper.Lend},
		{Name: "freezer", Apply: each(a.freezer.Tap), Lend: a.freezer.Lend},
		{Name: "metrics", Apply: each(m.Tap), Lend: m.Lend},
		{Name: "kept", Apply: a.kept.apply, Lend: func(fn func(any) error) error { return fn(&a.kept) }},
	}
}

func (k *keptFold) apply(e fact.Entry) {
	k.past.Apply(e.Fact)
	k.limits.Apply(e.Fact)
}

// openLedger opens the ledger, and brings all that follows from its facts up to them: what earlier runs left in it is
// judged, and counted, together with what comes.
func (a *App) openLedger(ctx context.Context, m *metrics.Metrics) error {
	var keeping sync.WaitGroup
	l, err := ledger.Open(ctx, a.cfg.Ledger.Path, ledger.Options{
		Clock: a.clock, Logger: a.log, ObserveAppend: m.LedgerAppend, Redact: a.cfg.Redact,
		Tap: func(entries []fact.Entry) {
			a.Docket.Tap(entries)
			a.desk.tap(entries)
			a.board.tap(entries)
			a.keeper.Tap(entries)
			a.freezer.Tap(entries)
			m.Tap(entries)
			for _, e := range entries {
				a.kept.apply(e)
			}
			if cycleEnds(entries) && a.Ledger.ImagesDue() { // between two cycles nobody waits for the ledger
				keeping.Go(func() { a.keepImages(false) })
			}
			if a.opts.Tap != nil {
				a.opts.Tap(entries)
			}
		},
	})
	if err != nil {
		return err
	}
	a.Ledger = l
	a.books = newPatient(l, a.clock, a.log)
	a.onClose(l.Close)
	if err := l.Restore(ctx, a.folds(m)...); err != nil {
		return err
	}
	a.past, a.limited = a.kept.past.Clone(), a.kept.limits
	a.limited.Fired = slices.Concat(a.opts.Fired, a.kept.limits.Fired)
	a.onClose(func() error {
		keeping.Wait()
		a.keepImages(true)
		return nil
	})
	return nil
}

func cycleEnds(entries []fact.Entry) bool {
	return slices.ContainsFunc(entries, func(e fact.Entry) bool {
		c, ok := e.Fact.(fact.Cycle)
		return ok && c.Phase == fact.PhaseClosed
	})
}

// keepImages makes the next start a fast one. That it cannot be is no trouble: every fact is in the ledger.
func (a *App) keepImages(ending bool) {
	if err := a.Ledger.KeepImages(context.Background(), ending); err != nil {
		a.log.Info("no images are kept: the next start folds more facts", zap.Error(err))
	}
}
