package app

import (
	"slices"

	"go.uber.org/zap"

	"amnesia/pkg/fact"
)

// muting gives the fact of what the configuration says is known; none where the ledger has it already.
func (a *App) muting() []fact.Fact {
	now := a.clock.Now()
	known := []fact.Known{}
	for _, k := range a.cfg.Known {
		known = append(known, fact.Known{Fingerprint: k.Fingerprint, Until: k.Until.Time, Reason: a.cfg.Redact(k.Reason)})
		if !now.Time().Before(k.Until.Time) {
			a.log.Warn("what is known of an incident mutes it no longer: its date has passed — fix: give it a new date, or take it out of known",
				zap.String("incident", k.Fingerprint), zap.Time("until", k.Until.Time))
		}
	}
	same := func(a, b fact.Known) bool {
		return a.Fingerprint == b.Fingerprint && a.Reason == b.Reason && a.Until.Equal(b.Until)
	}
	if slices.EqualFunc(known, a.board.known(), same) {
		return nil
	}
	return []fact.Fact{fact.Muting{Known: known, At: now}}
}

// known gives what the ledger says is known.
func (b *board) known() []fact.Known {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.log.Known()
}
