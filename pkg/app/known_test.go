//go:build unix

package app

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"amnesia/pkg/config"
	"amnesia/pkg/fact"
	"amnesia/pkg/ledger"
	"amnesia/pkg/memory"
	"amnesia/pkg/report"
)

// What is known of a service or a view that is not there is most likely mistyped: that is said, and of nothing else.
func TestStrangers(t *testing.T) {
	t.Parallel()
	cfg := &config.Config{Target: config.Target{Services: []config.Service{{Name: "app"}, {Name: "redis"}}},
		Views: []config.View{{Name: "page", Service: "app"}, {Name: "cache", Service: "redis"}}}
	for name, want := range map[string]string{
		"silent/kill/redis/cache+page": "", "silent/several/app+redis/page": "", "leaked/-/-/-": "", "silent/none/app/page": "",
		"silent/kill/redsi/cache": "there is no service redsi", "silent/several/app+redsi/page": "there is no service redsi",
		"silent/kill/redis/cache+pages": "there is no view pages", "silent/kill/app/redis": "there is no view redis",
	} {
		cfg.Known = []config.Known{{Fingerprint: name}}
		got := strangers(cfg)
		if len(got) > 1 || len(got) == 1 != (want != "") || len(got) == 1 && !strings.Contains(got[0].what, want) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// everyLoss are the names of all losses that there can be in the sample target, by its views.
func everyLoss(views []memory.Contract, until time.Time) (all []config.Known) {
	for _, class := range []string{"silent", "reported", "unsure"} {
		for _, fault := range []string{"kill", "daemon_restart", "several", "none", "foreign"} {
			for some := 1; some < 1<<len(views); some++ {
				var missing []string
				for i, k := range views {
					if some>>i&1 == 1 {
						missing = append(missing, k.View)
					}
				}
				slices.Sort(missing)
				all = append(all, config.Known{Fingerprint: class + "/" + fault + "/app/" + strings.Join(missing, "+"), Until: config.Until{Time: until}, Reason: "ticket 7"})
			}
		}
	}
	return all
}

// TestKnown: a daemon on a target that loses memories is told again and again what is known. The ledger says what was known
// when, each change once; the losses are counted apart while they are known, and no counter goes back when a configuration
// is reloaded; and of what is known the run does not fail, nor whoever judges its ledger.
func TestKnown(t *testing.T) {
	t.Parallel()
	l := newLives(t, "ack-early")
	l.losing(t)
	base, err := LoadConfig([]string{l.config}, os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	all := everyLoss(base.Contracts(), time.Now().AddDate(1, 0, 0))
	over := config.Known{Fingerprint: "leaked/-/-/-", Until: config.Until{Time: time.Now().Add(-time.Hour)}, Reason: "its date has passed"}
	phases := [][]config.Known{nil, append(slices.Clone(all), over), append(slices.Clone(all), over), nil, all}
	load := func(phase int) *config.Config {
		cfg := *base
		cfg.Known = phases[phase]
		return &cfg
	}
	cycles := []int{2, 2, 1, 1, 1} // the first of each run is a control
	phase, closed := 0, 0
	reload := make(chan struct{}, 1)
	ctx, end := context.WithTimeout(t.Context(), 2*time.Minute)
	defer end()
	core, said := observer.New(zap.WarnLevel)
	d := &daemon{
		load:    func() (*config.Config, error) { return load(phase), nil },
		Manager: Manager{Reload: reload},
		opts: Options{Version: "test", Seed: 7, Log: zap.New(core), Tap: func(entries []fact.Entry) {
			for _, e := range entries {
				switch f := e.Fact.(type) {
				case fact.Run:
					closed = 0
				case fact.Cycle:
					if f.Phase != fact.PhaseClosed {
						continue
					}
					switch closed++; {
					case closed < cycles[phase]:
					case phase == len(phases)-1:
						end()
					default:
						phase, closed = phase+1, -1000 // until the next run begins
						reload <- struct{}{}
					}
				}
			}
		}},
	}
	done := make(chan struct{})
	var scraping sync.WaitGroup
	scraping.Go(func() { l.scrape(t, done) })
	s, err := d.run(ctx, load(0))
	close(done)
	scraping.Wait()
	if err != nil || phase < len(phases)-1 {
		t.Fatalf("in phase %d: %v", phase, err)
	}

	var mutings []int // how many are known from there on
	led, err := ledger.OpenReadOnly(t.Context(), l.ledger)
	if err != nil {
		t.Fatal(err)
	}
	defer led.Close()
	if err := apply(t.Context(), led, func(e fact.Entry) {
		if m, ok := e.Fact.(fact.Muting); ok {
			mutings = append(mutings, len(m.Known))
		}
	}); err != nil {
		t.Fatal(err)
	}
	if want := []int{len(all) + 1, 0, len(all)}; !slices.Equal(mutings, want) {
		t.Errorf("what is known is on record as %d, want %d", mutings, want)
	}
	passed := said.FilterMessageSnippet("its date has passed").All()
	if len(passed) != 2 {
		t.Errorf("that a date has passed is said %d times", len(passed))
	}
	for _, e := range passed {
		if e.ContextMap()["until"] != over.Until.Format(time.RFC3339) {
			t.Errorf("it says no day: %v", e.ContextMap())
		}
	}
	sum := func(family string) (n float64) {
		for name, v := range l.last {
			if strings.HasPrefix(name, family+"{") {
				n += v
			}
		}
		return n
	}
	if known, lost := sum("amnesia_memory_known_total"), sum("amnesia_memory_losses_total"); known == 0 || lost == 0 {
		t.Errorf("%g are counted as known, %g as lost", known, lost)
	}
	judged, _, err := judge(t.Context(), l.ledger)
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]report.Summary{"the run": s, "judge": judged} {
		if len(s.Known) == 0 || s.Outcome != fact.CycleLosses || s.ExitCode(0) != 0 {
			t.Errorf("%s: outcome %s, exit code %d, losses %v, defects %v, cycles %+v, known %+v", name, s.Outcome, s.ExitCode(0), s.Losses, s.Defects, s.Cycles, s.Known)
		}
	}
}
