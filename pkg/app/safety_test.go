package app

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap/zaptest"

	"amnesia/chaos"
	"amnesia/pkg/clock"
	"amnesia/pkg/fact"
	"amnesia/pkg/ledger"
	"amnesia/pkg/memory"
	"amnesia/pkg/metrics"
)

// untouched is an engine that counts what is done to its one service.
type untouched struct {
	down    bool
	touched int
}

func (e *untouched) Name() string              { return "untouched" }
func (e *untouched) Services() []chaos.Service { return []chaos.Service{{Name: "app"}} }
func (e *untouched) Close() error              { return nil }
func (e *untouched) Instances(context.Context, string) ([]fact.Instance, error) {
	if e.down {
		return nil, nil
	}
	return []fact.Instance{{ID: "1"}}, nil
}
func (e *untouched) Kill(context.Context, string) error  { e.touched++; return nil }
func (e *untouched) Start(context.Context, string) error { e.touched++; return nil }

// TestEverySafetyRuleIsKeptAndCounted holds each rule by which a fault may be refused: nothing is done to the target, the
// ledger says why, the metric counts it, and a pause is shown.
func TestEverySafetyRuleIsKeptAndCounted(t *testing.T) {
	now := clock.System().Now()
	closed, err := chaos.ParseHours("Mon-Sun", time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	closed.Days = [7]bool{}
	kill := chaos.Injection{Kind: chaos.Kill, Service: "app"}
	cases := map[chaos.Reason]struct {
		limits chaos.Limits
		state  chaos.GuardState
		inj    chaos.Injection
		down   bool
		do     func(*chaos.Injector, *ledger.Ledger) error // nil: Do
	}{
		"":                      {inj: kill}, // not armed: announced only
		chaos.ReasonService:     {inj: chaos.Injection{Kind: chaos.Kill, Service: "a stranger"}},
		chaos.ReasonUnavailable: {inj: chaos.Injection{Kind: chaos.Wipe, Service: "app", Volume: "/not-declared"}},
		chaos.ReasonPaused:      {inj: kill, state: chaos.GuardState{Paused: true}},
		chaos.ReasonHalted:      {inj: kill, limits: chaos.Limits{HaltAfter: 1}, state: chaos.GuardState{FailedRecoveries: 1}},
		chaos.ReasonTooSoon:     {inj: kill, limits: chaos.Limits{Every: time.Hour}, state: chaos.GuardState{Fired: []memory.Instant{now}}},
		chaos.ReasonPerHour:     {inj: kill, limits: chaos.Limits{PerHour: 1}, state: chaos.GuardState{Fired: []memory.Instant{now}}},
		chaos.ReasonHours:       {inj: kill, limits: chaos.Limits{Hours: &closed}},
		chaos.ReasonUnhealthy:   {inj: kill, limits: chaos.Limits{Armed: true}, down: true},
		chaos.ReasonBusy: {inj: kill, limits: chaos.Limits{}, do: func(in *chaos.Injector, l *ledger.Ledger) error {
			one, err := in.Arm(t.Context(), chaos.Injection{ID: l.NextInjection(), Kind: chaos.Kill, Service: "app"})
			if err != nil {
				return err
			}
			ctx, cancel := context.WithCancel(t.Context())
			waiting, over := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(over)
				close(waiting)
				_, _ = one.Fire(ctx, now.Add(time.Hour)) // it waits for its moment, and has the only place
			}()
			<-waiting
			defer func() { cancel(); <-over }()
			for {
				two, err := in.Arm(t.Context(), chaos.Injection{ID: l.NextInjection(), Kind: chaos.Kill, Service: "app"})
				if err != nil {
					return err
				}
				if err := two.Disarm(t.Context(), "the other does not wait yet"); err != nil {
					return err
				}
			}
		}},
	}
	for _, r := range chaos.Reasons() {
		if _, tried := cases[r]; !tried && r != chaos.ReasonLedger { // that is tried with a journal that fails, in package chaos
			t.Errorf("no case is refused for the reason %s", r)
		}
	}
	for reason, c := range cases {
		t.Run(string(reason), func(t *testing.T) {
			reg := prometheus.NewRegistry()
			m, err := metrics.New(reg, metrics.Setup{Services: []string{"app"}, Faults: []metrics.Fault{{Kind: chaos.Kill, Service: "app"}}})
			if err != nil {
				t.Fatal(err)
			}
			l, err := ledger.Open(t.Context(), filepath.Join(t.TempDir(), "a.db"), ledger.Options{Tap: m.Tap})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			e := &untouched{down: c.down}
			c.limits.Armed = c.limits.Armed || reason != "" && c.do == nil
			guard := chaos.NewGuard(c.limits, e, clock.System(), c.state)
			in := chaos.NewInjector(chaos.InjectorConfig{Engine: e, Journal: journal{newPatient(l, clock.System(), zaptest.NewLogger(t))}, Guard: guard,
				Prober: chaos.NewProber(clock.System(), 0), Clock: clock.System(), Before: 10 * time.Millisecond})
			c.inj.ID = l.NextInjection()
			if c.do != nil {
				err = c.do(in, l)
			} else {
				_, err = in.Do(t.Context(), c.inj)
			}
			refusal, refused := errors.AsType[*chaos.Refusal](err)
			if refused != (reason != "") || refused && refusal.Reason != reason || !refused && err != nil {
				t.Fatalf("refused as %v", err)
			}
			if e.touched > 0 {
				t.Error("and the target was touched")
			}
			recorded := false
			for entry, err := range l.Facts(t.Context(), 0) {
				s, ok := entry.Fact.(fact.Step)
				recorded = recorded || err == nil && ok && s.Name == fact.StepRefused && refused && s.Detail == refusal.Error()
			}
			if recorded != refused {
				t.Errorf("on record: %v", recorded)
			}
			m.Paused(guard.Paused())
			got := counted(t, reg)
			for _, r := range chaos.Reasons() {
				if want := map[bool]float64{true: 1}[r == reason]; got["amnesia_fault_refusals_total "+string(r)] != want {
					t.Errorf("amnesia_fault_refusals_total{reason=%q} is %v, want %v", r, got["amnesia_fault_refusals_total "+string(r)], want)
				}
			}
			for _, r := range []chaos.Reason{chaos.ReasonPaused, chaos.ReasonHalted} {
				if want := map[bool]float64{true: 1}[r == reason]; got["amnesia_paused "+string(r)] != want {
					t.Errorf("amnesia_paused{reason=%q} is %v, want %v", r, got["amnesia_paused "+string(r)], want)
				}
			}
		})
	}
}

// counted gives the series that have one label, by name and its value.
func counted(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			if len(m.Label) == 1 {
				out[f.GetName()+" "+m.Label[0].GetValue()] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return out
}
