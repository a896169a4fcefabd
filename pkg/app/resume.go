package app

import (
	"context"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"amnesia/chaos"
	"amnesia/chaos/process"
	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
	"amnesia/pkg/soak"
)

// revertOpen undoes what an earlier daemon fired and did not live to undo. It comes before any wait for the target, which
// may be down, paused or cut off by just that.
func (a *App) revertOpen(ctx context.Context) error {
	open := a.past.OpenInjections()
	if len(open) == 0 {
		return nil
	}
	a.log.Warn("undoing injections that an earlier daemon left open", zap.Int("injections", len(open)))
	return a.loop.Injector.RevertOpen(ctx, open)
}

// noteRestart journals that the services ended with an earlier daemon and were started again (chaos.DaemonRestart).
func (a *App) noteRestart(ctx context.Context, engine chaos.Engine, started memory.Instant, health []fact.Health) error {
	if _, ended := engine.(*process.Engine); !ended || len(a.past.Runs) == 0 {
		return nil
	}
	var services []string
	for _, s := range engine.Services() {
		services = append(services, s.Name)
	}
	var facts []fact.Fact
	for _, s := range chaos.Restarted(a.Ledger.NextInjection(), services, a.past.End, started, health) {
		facts = append(facts, s)
	}
	return a.Ledger.Append(ctx, facts...)
}

// resume takes over what an earlier daemon left undone in the books: its unsettled writes are unknown, whatever became of
// them, and its users can be played again, to look for what they told.
func (a *App) resume(ctx context.Context, accounts *accounts) error {
	var facts []fact.Fact
	for _, id := range a.past.Unsettled() {
		facts = append(facts, fact.Settled{Memory: id, Outcome: memory.Unknown, Cause: "interrupted", Detail: "the daemon died", At: a.clock.Now()})
	}
	if len(facts) > 0 {
		if err := a.Ledger.Append(ctx, facts...); err != nil {
			return err
		}
	}
	users := map[string]map[string]bool{} // by run
	for _, m := range a.past.Memories() {
		if users[m.Run] == nil {
			users[m.Run] = map[string]bool{}
		}
		users[m.Run][m.User] = true
	}
	for id, names := range users {
		if err := accounts.recall(a.past.Runs[id], names); err != nil {
			return err
		}
	}
	runs := a.past.Runs
	visited := slices.ContainsFunc(a.cfg.Contracts(), func(k memory.Contract) bool { return k.User })
	a.loop.Past, a.past = a.past, soak.Past{}
	a.loop.Reach = func(m memory.Memory) error {
		if was := runs[m.Run].Target; was != a.cfg.Target.URL {
			return fmt.Errorf("it was told to %s, and the target is %s now", was, a.cfg.Target.URL)
		}
		if _, err := accounts.named(m.User); visited && err != nil {
			return err
		}
		return nil
	}
	return nil
}
