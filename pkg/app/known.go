package app

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"amnesia/pkg/config"
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
				zap.String("incident", k.Fingerprint), zap.String("until", k.Until.Format(time.RFC3339))) // a console's own form of a time has no day
		}
	}
	for _, s := range strangers(a.cfg) {
		a.log.Warn(s.what+" — fix: "+s.fix, zap.String("incident", s.fingerprint))
	}
	same := func(a, b fact.Known) bool {
		return a.Fingerprint == b.Fingerprint && a.Reason == b.Reason && a.Until.Equal(b.Until)
	}
	if slices.EqualFunc(known, a.board.known(), same) {
		return nil
	}
	return []fact.Fact{fact.Muting{Known: known, At: now}}
}

// stranger is what is known of an incident that there cannot be.
type stranger struct{ fingerprint, what, fix string }

// strangers gives those whose names hold a service or a view that the configuration does not have. They harm nothing: what
// they name may have been there before.
func strangers(cfg *config.Config) (out []stranger) {
	services, views := map[string]bool{"-": true}, map[string]bool{"-": true}
	for _, s := range cfg.Target.Services {
		services[s.Name] = true
	}
	for _, v := range cfg.Views {
		services[cmp.Or(v.Service, v.Name)], views[v.Name] = true, true
	}
	for _, k := range cfg.Known {
		parts := strings.Split(k.Fingerprint, "/")
		if len(parts) != 4 {
			continue // the loader refuses it
		}
		for _, of := range []struct {
			kind, names string
			have        map[string]bool
		}{{"service", parts[2], services}, {"view", parts[3], views}} {
			for name := range strings.SplitSeq(of.names, "+") {
				if !of.have[name] {
					out = append(out, stranger{k.Fingerprint, fmt.Sprintf("known: %s mutes nothing: there is no %s %s", k.Fingerprint, of.kind, name),
						"correct the name, or take it out of known"})
				}
			}
		}
	}
	return out
}

// known gives what the ledger says is known.
func (b *board) known() []fact.Known {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.log.Known()
}
