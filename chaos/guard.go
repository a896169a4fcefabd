package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"amnesia/pkg/memory"
)

// Reason is why a fault was refused: a bounded set, fit for a metric's label.
type Reason string

const (
	ReasonService     Reason = "service"     // not one that the engine lists
	ReasonUnavailable Reason = "unavailable" // the engine cannot do it, or not to this volume
	ReasonPaused      Reason = "paused"      // by a person
	ReasonHalted      Reason = "halted"      // by failed recoveries
	ReasonBusy        Reason = "busy"        // another injection is under way
	ReasonTooSoon     Reason = "too_soon"
	ReasonPerHour     Reason = "per_hour"
	ReasonHours       Reason = "hours"
	ReasonUnhealthy   Reason = "unhealthy" // the gate before was not green
	ReasonLedger      Reason = "ledger"    // it cannot be journaled
)

// Reasons lists them all, so that each series can exist from the start.
func Reasons() []Reason {
	return []Reason{ReasonService, ReasonUnavailable, ReasonPaused, ReasonHalted, ReasonBusy, ReasonTooSoon,
		ReasonPerHour, ReasonHours, ReasonUnhealthy, ReasonLedger}
}

// Refusal is the error of a fault that was not allowed. Nothing was done.
type Refusal struct {
	Kind, Service string
	Reason        Reason
	Why           string // one sentence, with its fix where there is one
	Err           error  // the cause, where it is an error
}

func (r *Refusal) Error() string {
	what := cmp.Or(r.Kind, "a fault")
	if r.Service != "" {
		what += " of " + r.Service
	}
	return fmt.Sprintf("%s refused (%s): %s", what, r.Reason, r.Why)
}

func (r *Refusal) Unwrap() error { return r.Err }

func refuse(inj Injection, reason Reason, format string, args ...any) *Refusal {
	service := inj.Service
	if inj.Kind == CrashAll {
		service = "all services"
	}
	return &Refusal{Kind: inj.Kind, Service: service, Reason: reason, Why: fmt.Sprintf(format, args...)}
}

// ReasonOf finds the reason in the text of a Refusal, which is all that the fact of it holds; empty when there is none.
func ReasonOf(detail string) Reason {
	for _, r := range Reasons() {
		if strings.Contains(detail, " refused ("+string(r)+"): ") {
			return r
		}
	}
	return ""
}

// Limits keep the blast radius small. The zero value is a dry run without limits.
type Limits struct {
	Armed     bool          // false: faults are only announced
	Every     time.Duration // least time from one firing to the next; 0: none
	PerHour   int           // most firings within any 60 minutes; 0: no limit
	Hours     *Hours        // nil: always
	HaltAfter int           // failed recoveries in a row until everything stops; 0: never
}

// GuardState is what outlives the daemon: a new guard is seeded with it from the ledger (see Apply).
type GuardState struct {
	Fired            []memory.Instant // in order; those of the last hour suffice
	FailedRecoveries int              // in a row
	Paused           bool

	last life
}

// Guard decides whether a fault may fire. It is safe for concurrent use.
type Guard struct {
	limits   Limits
	services []string
	clock    memory.Clock

	mu    sync.Mutex
	state GuardState
	busy  bool
}

// NewGuard gives the guard of an engine's services.
func NewGuard(limits Limits, e Engine, clock memory.Clock, state GuardState) *Guard {
	g := &Guard{limits: limits, clock: clock, state: state}
	g.state.Fired = slices.Clone(state.Fired)
	for _, s := range e.Services() {
		g.services = append(g.services, s.Name)
	}
	return g
}

// Armed reports whether faults are more than announced.
func (g *Guard) Armed() bool { return g.limits.Armed }

// Admit says whether the injection may fire now; the error is a *Refusal.
func (g *Guard) Admit(inj Injection) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.admit(inj)
}

func (g *Guard) admit(inj Injection) error {
	now := g.clock.Now()
	for _, service := range Hit(inj) {
		if !slices.Contains(g.services, service) {
			return refuse(inj, ReasonService, "%q is not among the services that may be touched %q — fix: name one of them, or allow it under target.services",
				service, g.services)
		}
	}
	switch g.paused() {
	case ReasonPaused:
		return refuse(inj, ReasonPaused, "faults are paused — fix: amnesia resume")
	case ReasonHalted:
		return refuse(inj, ReasonHalted, "the target did not recover %d times in a row — fix: see to the target, then amnesia resume",
			g.state.FailedRecoveries)
	}
	if g.busy {
		return refuse(inj, ReasonBusy, "another injection is under way, and never are there two at once")
	}
	if last, ok := g.last(); ok && now.Sub(last) < g.limits.Every {
		return refuse(inj, ReasonTooSoon, "the last fault was %s ago, and limits.every is %s",
			now.Sub(last).Round(time.Millisecond), g.limits.Every)
	}
	if n := g.limits.PerHour; n > 0 && g.within(now, time.Hour) >= n {
		return refuse(inj, ReasonPerHour, "%d faults fired within the last hour, and limits.per_hour is %d", g.within(now, time.Hour), n)
	}
	if h := g.limits.Hours; h != nil && !h.Contain(now.Time()) {
		return refuse(inj, ReasonHours, "it is %s, and limits.hours is %s", now.Time().In(h.Zone).Format("15:04 Mon MST"), h)
	}
	return nil
}

// Next gives the earliest time at which the pace and the hours allow a fault; now, when they do already.
func (g *Guard) Next() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.clock.Now()
	wait := time.Duration(0)
	if last, ok := g.last(); ok {
		wait = max(wait, g.limits.Every-now.Sub(last))
	}
	if n, fired := g.limits.PerHour, g.state.Fired; n > 0 && len(fired) >= n {
		wait = max(wait, time.Hour-now.Sub(fired[len(fired)-n]))
	}
	next := now.Time().Add(wait)
	if h := g.limits.Hours; h != nil {
		next = h.Next(next)
	}
	return next
}

// Pause refuses every fault until Resume.
func (g *Guard) Pause() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.state.Paused = true
}

// Resume ends a pause and a halt: the failed recoveries are forgiven.
func (g *Guard) Resume() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.state.Paused, g.state.FailedRecoveries = false, 0
}

// Paused gives ReasonPaused, ReasonHalted, or nothing.
func (g *Guard) Paused() Reason {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.paused()
}

func (g *Guard) paused() Reason {
	switch {
	case g.limits.HaltAfter > 0 && g.state.FailedRecoveries >= g.limits.HaltAfter:
		return ReasonHalted
	case g.state.Paused:
		return ReasonPaused
	}
	return ""
}

// begin admits the injection and takes the only place. end gives it back.
func (g *Guard) begin(inj Injection) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.admit(inj); err != nil {
		return err
	}
	g.busy = true
	return nil
}

func (g *Guard) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.busy = false
}

func (g *Guard) fired(at memory.Instant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.state.fire(at)
}

func (g *Guard) recovered(ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if ok {
		g.state.FailedRecoveries = 0
	} else {
		g.state.FailedRecoveries++
	}
}

func (g *Guard) last() (memory.Instant, bool) {
	if len(g.state.Fired) == 0 {
		return memory.Instant{}, false
	}
	return g.state.Fired[len(g.state.Fired)-1], true
}

func (g *Guard) within(now memory.Instant, d time.Duration) int {
	n := 0
	for _, t := range g.state.Fired {
		if now.Sub(t) < d {
			n++
		}
	}
	return n
}
