package oracle

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// trials plays faults on a target that keeps what was acknowledged at least u before, where u is drawn for each fault; of
// every fault a few memories lie log-uniform between 1 ms and 2 s before it.
func trials(r *rand.Rand, faults int, u func() time.Duration) (out []Trial) {
	for n := range faults {
		at := u()
		for range 1 + r.IntN(5) {
			t := time.Duration(float64(time.Millisecond) * math.Exp(r.Float64()*math.Log(2000)))
			out = append(out, Trial{int64(n), t, t < at})
		}
	}
	return out
}

// A window is found for a queue that is drained at fixed times, for a fixed delay, and for what lies between: the interval
// holds the true one in 95 of 100 runs, or more.
func TestWindow(t *testing.T) {
	const seed, runs, faults = 7, 100, 60
	t.Logf("seed %d", seed)
	for name, spread := range map[string]float64{"drained at fixed times": 1, "between": 0.5, "a fixed delay": 0} {
		t.Run(name, func(t *testing.T) {
			const window = 250 * time.Millisecond
			r := rand.New(rand.NewPCG(seed, uint64(100*spread)))
			held, off := 0, 0.0
			for range runs {
				all := trials(r, faults, func() time.Duration {
					return time.Duration(float64(window) * (1 - spread*r.Float64()))
				})
				got := curves(map[FaultKey][]Trial{{"kill", "app"}: all})
				if len(got) != 1 {
					t.Fatalf("%d curves", len(got))
				}
				w := got[0].Window()
				if w.Low > w.At || w.At > w.High || w.Low < got[0].Edge().Lost {
					t.Fatalf("%+v, edge %+v", w, got[0].Edge())
				}
				if w.Low <= window && window <= w.High {
					held++
				}
				off += math.Abs(float64(w.At-window)) / float64(window) / runs
			}
			t.Logf("the interval held the window in %d of %d runs, the estimate was off by %.1f %% on average", held, runs, 100*off)
			if held < runs*92/100 || off > 0.15 {
				t.Errorf("the interval held the window in %d of %d runs, the estimate was off by %.1f %% on average", held, runs, 100*off)
			}
		})
	}
}

func TestCurve(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	c := curves(map[FaultKey][]Trial{
		{"kill", "app"}:    {{2, ms(300), false}, {1, ms(100), true}, {1, ms(70), true}, {2, ms(90), false}},
		{"restart", "app"}: {{3, ms(5), false}},
		{"kill", "redis"}:  {{4, ms(1), true}},
	})
	if len(c) != 2 || c[0].FaultKey != (FaultKey{"kill", "app"}) || c[1].FaultKey != (FaultKey{"kill", "redis"}) {
		t.Fatalf("%+v", c)
	}
	low, high := wilson(2, 3)
	one, all := wilson(0, 1)
	if diff := cmp.Diff([]Point{{ms(128), 2, 1, 2.0 / 3, low, high}, {ms(512), 0, 1, 0, one, all}}, c[0].Points()); diff != "" {
		t.Errorf("points (-want +got):\n%s", diff)
	}
	if e := c[0].Edge(); e != (Edge{ms(100), ms(300)}) {
		t.Errorf("edge %+v", e)
	}
	if w := c[1].Window(); w.High != 0 || w.Low != ms(1) {
		t.Errorf("with nothing that was survived: %+v", w)
	}
}

// Of Wilson's interval for 0 and for 10 of 10 (Brown, Cai and DasGupta 2001, table of limits).
func TestWilson(t *testing.T) {
	for _, c := range []struct {
		k, n      int
		low, high float64
	}{{0, 10, 0, 0.2775}, {10, 10, 0.7225, 1}, {5, 10, 0.2366, 0.7634}} {
		if low, high := wilson(c.k, c.n); math.Abs(low-c.low) > 5e-4 || math.Abs(high-c.high) > 5e-4 {
			t.Errorf("%d of %d: %.4f to %.4f", c.k, c.n, low, high)
		}
	}
}

// What a copy of the tally adds is in the copy alone, and what is added to the tally later is not in the copy.
func TestTrialsOfACopyAreItsOwn(t *testing.T) {
	key := FaultKey{"kill", "app"}
	whole := newTally()
	whole.trials[key] = append(make([]Trial, 0, 8), Trial{Injection: 1})
	part := whole.clone()
	part.trials[key] = append(part.trials[key], Trial{Injection: 2})
	whole.trials[key] = append(whole.trials[key], Trial{Injection: 3})
	if got := part.trials[key][1].Injection; got != 2 {
		t.Errorf("the copy has injection %d, not its own", got)
	}
	if got := whole.trials[key][1].Injection; got != 3 {
		t.Errorf("the tally has injection %d, not its own", got)
	}
}
