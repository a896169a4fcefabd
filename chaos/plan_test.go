package chaos_test

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"

	"amnesia/chaos"
)

func planConfig(t *rapid.T) chaos.PlanConfig {
	cfg := chaos.PlanConfig{Services: []string{"app", "db"}, Points: map[string]int{"acknowledged": rapid.IntRange(0, 40).Draw(t, "points")}}
	cfg.Rules = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) chaos.Rule {
		least := time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "min"))
		return chaos.Rule{
			Kind:    rapid.SampledFrom([]string{chaos.Kill, chaos.Pause, chaos.Wipe, chaos.CrashAll}).Draw(t, "kind"),
			Service: rapid.SampledFrom(cfg.Services).Draw(t, "service"),
			Weight:  rapid.IntRange(0, 5).Draw(t, "weight"),
			After:   rapid.SampledFrom([]string{"", "told", "acknowledged"}).Draw(t, "after"),
			Delay:   chaos.Range{Min: least, Max: least + time.Duration(rapid.Int64Range(0, int64(3*time.Second)).Draw(t, "spread"))},
		}
	}), 1, 5).Draw(t, "rules")
	return cfg
}

func TestPlanIsPureAndWithinItsRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg, seed := planConfig(t), rapid.Uint64().Draw(t, "seed")
		cycle := rapid.IntRange(1, 100_000).Draw(t, "cycle")
		prior := chaos.Prior{Edges: []chaos.Edge{{Kind: chaos.Kill, Service: "app", Lost: 30 * time.Millisecond}}}
		inj, ok := chaos.Plan(seed, cfg, cycle, prior)
		again, okAgain := chaos.Plan(seed, cfg, cycle, prior)
		a, _ := json.Marshal(inj)
		b, _ := json.Marshal(again)
		if ok != okAgain || string(a) != string(b) {
			t.Fatalf("%s and %s", a, b)
		}
		if !ok {
			return
		}
		var rule *chaos.Rule
		for _, r := range cfg.Rules {
			low, high := max(r.Delay.Min, time.Millisecond), max(r.Delay.Max, time.Millisecond)
			if r.Delay == (chaos.Range{}) {
				high = 2 * time.Second
			}
			fits := inj.Delay >= low && inj.Delay <= high || inj.Delay == 0 && r.Delay.Min == 0
			if r.Kind == inj.Kind && (r.Kind == chaos.CrashAll || r.Service == inj.Service) && fits {
				rule = &r
			}
		}
		if rule == nil {
			t.Fatalf("no rule of %+v gives %s", cfg.Rules, a)
		}
		if inj.Cycle != cycle || inj.Nth < 1 || inj.Instances != chaos.All || (inj.Hold > 0) != (inj.Kind == chaos.Pause) {
			t.Fatalf("plan %s", a)
		}
		if inj.After == "acknowledged" && inj.Nth > max(cfg.Points["acknowledged"], 1) {
			t.Fatalf("point %d of %d", inj.Nth, cfg.Points["acknowledged"])
		}
	})
}

func TestOneCycleInEachTenIsAControl(t *testing.T) {
	cfg := chaos.PlanConfig{Rules: []chaos.Rule{{Kind: chaos.Kill, Service: "app"}}}
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		if _, fault := chaos.Plan(seed, cfg, 1, chaos.Prior{}); fault {
			t.Fatal("the first cycle has a fault")
		}
		places := map[int]bool{}
		for b := range 30 {
			controls := 0
			for i := range 10 {
				if _, fault := chaos.Plan(seed, cfg, 10*b+i+1, chaos.Prior{}); !fault {
					controls++
					places[i] = true
				}
			}
			if controls != 1 {
				t.Fatalf("%d controls in block %d", controls, b)
			}
		}
		if len(places) < 3 {
			t.Fatalf("the controls stand only at %v", places)
		}
	})
}

func TestEveryRuleGetsItsTurnAndItsWeight(t *testing.T) {
	cfg := chaos.PlanConfig{Rules: []chaos.Rule{
		{Kind: chaos.Kill, Service: "app", Weight: 7}, {Kind: chaos.Wipe, Service: "cache"}, {Kind: chaos.Restart, Service: "db", Weight: 2},
	}}
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		count := func(faults int) map[string]int {
			n := map[string]int{}
			for c := 1; faults > 0; c++ {
				if inj, ok := chaos.Plan(seed, cfg, c, chaos.Prior{}); ok {
					n[inj.Kind]++
					faults--
				}
			}
			return n
		}
		// One of each, then whole decks of ten.
		if first := count(3); len(first) != 3 {
			t.Fatalf("the first three faults: %v", first)
		}
		if n := count(3 + 10*10); n[chaos.Kill] != 71 || n[chaos.Wipe] != 11 || n[chaos.Restart] != 21 {
			t.Fatalf("by weight: %v", n)
		}
	})
}

func delays(seed uint64, prior chaos.Prior) []time.Duration {
	cfg := chaos.PlanConfig{Rules: []chaos.Rule{{Kind: chaos.Kill, Service: "app"}}}
	var list []time.Duration
	for c := 1; c <= 4000; c++ {
		if inj, ok := chaos.Plan(seed, cfg, c, prior); ok {
			list = append(list, inj.Delay)
		}
	}
	return list
}

func share(list []time.Duration, is func(time.Duration) bool) float64 {
	n := 0
	for _, d := range list {
		if is(d) {
			n++
		}
	}
	return float64(n) / float64(len(list))
}

func TestDelaysReachShortWindows(t *testing.T) {
	const seed = 42
	list := delays(seed, chaos.Prior{})
	between := func(low, high time.Duration) float64 {
		return share(list, func(d time.Duration) bool { return d >= low && d < high })
	}
	// Log-uniform over 1 ms to 2 s: a decade has 0.9 × ln 10 / ln 2000 = 27 %.
	for what, got := range map[string]float64{
		"1 to 10 ms": between(time.Millisecond, 10*time.Millisecond), "10 to 100 ms": between(10*time.Millisecond, 100*time.Millisecond),
		"100 ms to 1 s": between(100*time.Millisecond, time.Second),
	} {
		if got < 0.23 || got > 0.31 {
			t.Errorf("seed %d: %.0f %% of the delays are %s, want 27 %%", seed, 100*got, what)
		}
	}
	if zero := share(list, func(d time.Duration) bool { return d == 0 }); zero < 0.08 || zero > 0.12 {
		t.Errorf("seed %d: %.0f %% of the delays are 0, want 10 %%", seed, 100*zero)
	}
}

// Half of the delays fall about the edge of the fault's own window, as far as what was survived says that it reaches.
func TestAKnownEdgeDrawsTheDelays(t *testing.T) {
	const seed, ms = 42, time.Millisecond
	for _, c := range []struct {
		name        string
		edge        chaos.Edge
		low, high   time.Duration
		least, most float64
	}{
		{name: "survived soon after", edge: chaos.Edge{Kind: chaos.Kill, Service: "app", Lost: 100 * ms, Kept: 120 * ms}, low: 75 * ms, high: 150 * ms, least: 0.45, most: 0.6},
		{name: "survived much later", edge: chaos.Edge{Kind: chaos.Kill, Service: "app", Lost: 100 * ms, Kept: 900 * ms}, low: 75 * ms, high: 900 * ms, least: 0.45, most: 0.75},
		{name: "never survived", edge: chaos.Edge{Kind: chaos.Kill, Service: "app", Lost: 100 * ms}, low: 75 * ms, high: 400 * ms, least: 0.45, most: 0.7},
		{name: "of another fault", edge: chaos.Edge{Kind: chaos.Wipe, Service: "app", Lost: 100 * ms, Kept: 120 * ms}, low: 75 * ms, high: 150 * ms, most: 0.15},
		{name: "of another service", edge: chaos.Edge{Kind: chaos.Kill, Service: "db", Lost: 100 * ms, Kept: 120 * ms}, low: 75 * ms, high: 150 * ms, most: 0.15},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := share(delays(seed, chaos.Prior{Edges: []chaos.Edge{c.edge}}), func(d time.Duration) bool { return d >= c.low && d <= c.high })
			if got < c.least || got > c.most {
				t.Errorf("seed %d: %.0f %% are about the edge", seed, 100*got)
			}
		})
	}
}

func TestAFaultInTimeIsExponential(t *testing.T) {
	cfg := chaos.PlanConfig{Rules: []chaos.Rule{{Kind: chaos.Kill, Service: "app", Mean: 10 * time.Second}}}
	var sum time.Duration
	n := 0
	for c := 1; c <= 4000; c++ {
		if inj, ok := chaos.Plan(7, cfg, c, chaos.Prior{}); ok {
			if inj.After != "" || inj.Nth != 0 {
				t.Fatalf("cycle %d waits for a point: %+v", c, inj)
			}
			sum, n = sum+inj.Delay, n+1
		}
	}
	if mean := sum / time.Duration(n); mean < 9*time.Second || mean > 11*time.Second {
		t.Errorf("the mean is %s", mean)
	}
}
