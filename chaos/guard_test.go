package chaos_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"amnesia/chaos"
	"amnesia/pkg/memory"
)

func TestTheGuardKeepsThePaceAcrossRestarts(t *testing.T) {
	c := newDial(time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC))
	start := c.Now()
	limits := chaos.Limits{Armed: true, Every: time.Minute, PerHour: 3}
	inj := chaos.Injection{Kind: chaos.Kill, Service: "app"}
	for _, tc := range []struct {
		name  string
		fired []time.Duration // before now
		want  chaos.Reason
		next  time.Duration
	}{
		{"nothing fired", nil, "", 0},
		{"one just now", []time.Duration{59 * time.Second}, chaos.ReasonTooSoon, time.Second},
		{"one long enough ago", []time.Duration{time.Minute}, "", 0},
		{"three within the hour", []time.Duration{59 * time.Minute, 40 * time.Minute, 20 * time.Minute}, chaos.ReasonPerHour, time.Minute},
		{"the first has aged out", []time.Duration{time.Hour, 40 * time.Minute, 20 * time.Minute}, "", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var state chaos.GuardState
			for _, ago := range tc.fired {
				state.Fired = append(state.Fired, start.Add(-ago))
			}
			g := chaos.NewGuard(limits, newTarget("app"), c, state)
			err := g.Admit(inj)
			r, _ := errors.AsType[*chaos.Refusal](err)
			if (err == nil) != (tc.want == "") || (r != nil && r.Reason != tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
			if got := g.Next().Sub(start.Time()); got != tc.next {
				t.Errorf("next in %s, want %s", got, tc.next)
			}
			c2 := newDial(start.Time())
			c2.now = start
			later := chaos.NewGuard(limits, newTarget("app"), c2, state)
			c2.move(tc.next)
			if err := later.Admit(inj); err != nil {
				t.Errorf("refused at the time that Next gave: %v", err)
			}
		})
	}
}

func TestTheGuardCountsWhatItLetsFire(t *testing.T) {
	e := newTarget("app")
	in, _ := injector(e, &journal{}, chaos.Limits{Armed: true, Every: time.Hour})
	inj := chaos.Injection{Kind: chaos.Kill, Service: "app"}
	if _, err := in.Do(t.Context(), inj); err != nil {
		t.Fatal(err)
	}
	_, err := in.Do(t.Context(), inj)
	if r, ok := errors.AsType[*chaos.Refusal](err); !ok || r.Reason != chaos.ReasonTooSoon || !strings.HasPrefix(err.Error(), "kill of app refused (too_soon): the last fault was ") {
		t.Errorf("got %v", err)
	}
}

func TestTheGuardKeepsHours(t *testing.T) {
	hours, err := chaos.ParseHours("09:00-18:00 Mon-Fri", time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	c := newDial(time.Date(2026, 3, 6, 18, 0, 0, 0, time.UTC)) // a Friday
	g := chaos.NewGuard(chaos.Limits{Armed: true, Hours: &hours}, newTarget("app"), c, chaos.GuardState{})
	err = g.Admit(chaos.Injection{Kind: chaos.Kill, Service: "app"})
	if r, ok := errors.AsType[*chaos.Refusal](err); !ok || r.Reason != chaos.ReasonHours ||
		!strings.Contains(err.Error(), "it is 18:00 Fri UTC, and limits.hours is 09:00-18:00 Mon-Fri UTC") {
		t.Errorf("got %v", err)
	}
	if want := time.Date(2026, 3, 9, 9, 0, 0, 0, time.UTC); !g.Next().Equal(want) {
		t.Errorf("next %s, want %s", g.Next(), want)
	}
}

func TestHours(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	at := func(s string) time.Time {
		v, err := time.Parse("Mon 2006-01-02 15:04:05 MST", s+" UTC")
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, tc := range []struct {
		text string
		zone *time.Location
		in   []string
		out  []string
	}{
		{"09:00-18:00 Mon-Fri", time.UTC, []string{"Mon 2026-03-02 09:00:00", "Fri 2026-03-06 17:59:59"}, []string{"Mon 2026-03-02 08:59:59", "Fri 2026-03-06 18:00:00", "Sat 2026-03-07 10:00:00"}},
		{"22:00-06:00 Fri", time.UTC, []string{"Fri 2026-03-06 23:00:00", "Sat 2026-03-07 05:59:59"}, []string{"Fri 2026-03-06 05:00:00", "Sat 2026-03-07 22:00:00"}},
		{"Sat-Mon,wed", time.UTC, []string{"Sun 2026-03-08 00:00:00", "Mon 2026-03-02 23:59:59", "Wed 2026-03-04 12:00:00"}, []string{"Tue 2026-03-03 12:00:00"}},
		{"18:00-24:00", time.UTC, []string{"Tue 2026-03-03 23:59:59"}, []string{"Tue 2026-03-03 00:00:00"}},
		{"09:00-18:00", berlin, []string{"Mon 2026-03-02 08:00:00", "Mon 2026-07-06 07:00:00"}, []string{"Mon 2026-03-02 07:00:00", "Mon 2026-07-06 16:00:00"}},
	} {
		h, err := chaos.ParseHours(tc.text, tc.zone)
		if err != nil {
			t.Errorf("%s: %v", tc.text, err)
			continue
		}
		for _, s := range tc.in {
			if !h.Contain(at(s)) {
				t.Errorf("%s does not contain %s", h, s)
			}
			if !h.Next(at(s)).Equal(at(s)) {
				t.Errorf("%s: next from %s is %s", h, s, h.Next(at(s)))
			}
		}
		for _, s := range tc.out {
			if h.Contain(at(s)) {
				t.Errorf("%s contains %s", h, s)
			}
			if next := h.Next(at(s)); !h.Contain(next) || h.Contain(next.Add(-time.Second)) {
				t.Errorf("%s: next from %s is %s", h, s, next)
			}
		}
	}
	for text, want := range map[string]string{
		"": "it is empty", "9-18": "neither a clock range nor weekdays", "09:00": "is not a range", "09:00-25:00": "is not a time of day",
		"09:00-09:00": "is empty", "Mon-Fry": "neither", "08:00-09:00 10:00-11:00": "two clock ranges",
	} {
		if _, err := chaos.ParseHours(text, time.UTC); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), " — fix: ") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

var _ memory.Clock = (*dial)(nil)
