package oracle

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"amnesia/pkg/memory"
)

// Trial is one acknowledged memory that a fault of the cycle in which it was told followed: a draw from
// P(lost | fault t after the acknowledgement).
type Trial struct {
	Injection int64
	Exposure  time.Duration // acknowledgement → firing
	Lost      bool
}

// mostTrials bounds those that are kept of one fault; the oldest go first.
const mostTrials = 4096

// try takes a memory in as a trial of the fault that followed its acknowledgement; loss is nil when it survived. A memory
// that is lost in a later cycle is none: of those that survive that one, nobody keeps count.
func (t *tally) try(h *History, cy *cycle, loss *memory.Verdict) {
	if !h.acknowledged() || h.Ack.Level == memory.LevelObserved {
		return
	}
	for _, i := range cy.injections {
		if i.fired.IsZero() || !i.fired.SameBoot(h.Ack.Seen) || i.fired.Before(h.Ack.Seen) {
			continue
		}
		if loss != nil && (len(loss.Suspects) != 1 || loss.Suspects[0] != i.plan.ID) {
			continue // of something else
		}
		key := FaultKey{i.plan.Kind, i.name()}
		list := append(t.trials[key], Trial{i.plan.ID, i.fired.Sub(h.Ack.Seen), loss != nil})
		t.trials[key] = list[max(0, len(list)-mostTrials):]
		return
	}
}

// cloneTrials gives a copy that can be appended to. What is there is shared: nobody changes it.
func cloneTrials(trials map[FaultKey][]Trial) map[FaultKey][]Trial {
	out := make(map[FaultKey][]Trial, len(trials))
	for key, list := range trials {
		out[key] = slices.Clip(list)
	}
	return out
}

// Curve is P(lost | fault t after the acknowledgement) of one fault.
type Curve struct {
	FaultKey
	Trials []Trial // by exposure
}

// curves gives those of the faults that lost something.
func curves(trials map[FaultKey][]Trial) (out []Curve) {
	for key, of := range trials {
		if slices.ContainsFunc(of, func(t Trial) bool { return t.Lost }) {
			of = slices.Clone(of)
			slices.SortFunc(of, func(a, b Trial) int {
				return cmp.Or(cmp.Compare(a.Exposure, b.Exposure), cmp.Compare(a.Injection, b.Injection))
			})
			out = append(out, Curve{key, of})
		}
	}
	slices.SortFunc(out, func(a, b Curve) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Service, b.Service))
	})
	return out
}

// Curves gives the curves as of now; the same as in Totals.
func (b *Book) Curves(now memory.Instant) []Curve {
	t := tally{trials: cloneTrials(b.retired.tally.trials)}
	for _, h := range b.live {
		v := Judge(h, &b.ctx, now)
		loss := &v
		if !v.Kind.Loss() {
			loss = h.Loss
		}
		if loss == nil || counts(loss) {
			t.try(h, b.at(h.Memory.Cycle), loss)
		}
	}
	return curves(t.trials)
}

// Point is a stretch of a curve: of the memories with an exposure above half of Upto and not above Upto so many were lost
// and kept. P is their share, with its 95 % interval after Wilson (1927).
type Point struct {
	Upto         time.Duration
	Lost, Kept   int
	P, Low, High float64
}

// Points gives the curve in stretches that double, from 1 ms. Those without a memory are left out.
func (c Curve) Points() (out []Point) {
	upto := time.Millisecond
	for _, t := range c.Trials {
		for t.Exposure > upto {
			upto *= 2
		}
		if len(out) == 0 || out[len(out)-1].Upto != upto {
			out = append(out, Point{Upto: upto})
		}
		if p := &out[len(out)-1]; t.Lost {
			p.Lost++
		} else {
			p.Kept++
		}
	}
	for i := range out {
		p := &out[i]
		p.P = float64(p.Lost) / float64(p.Lost+p.Kept)
		p.Low, p.High = wilson(p.Lost, p.Lost+p.Kept)
	}
	return out
}

// wilson gives the 95 % score interval of a share.
func wilson(k, n int) (low, high float64) {
	const z = 1.96
	p, m := float64(k)/float64(n), float64(n)
	mid, half := p+z*z/(2*m), z*math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	return max(0, (mid-half)/(1+z*z/m)), min(1, (mid+half)/(1+z*z/m))
}

// Edge is what is known of where a window ends.
type Edge struct {
	Lost time.Duration // the longest exposure of a loss
	Kept time.Duration // the shortest one above it that was survived; 0: none was
}

// Edge gives the edge of the window.
func (c Curve) Edge() (e Edge) {
	for _, t := range c.Trials { // by exposure
		switch {
		case t.Lost:
			e = Edge{Lost: t.Exposure}
		case e.Kept == 0 && e.Lost > 0 && t.Exposure > e.Lost:
			e.Kept = t.Exposure
		}
	}
	return e
}

// Window is the largest exposure at which memories are still lost, with a 95 % interval. High is 0 when none was survived
// that says where it ends.
type Window struct{ At, Low, High time.Duration }

// Window estimates it.
//
// A fault finds the target at some point of whatever it does between its word and the write: what was acknowledged less
// than a time U before is lost, what was before that is kept. U differs from fault to fault; of each, the memories say
// between which bounds it lay. Here U is taken as uniform between W-R and W, which fits a queue that is drained at fixed
// times (R = W), a fixed delay (R = 0), and a mixture. W is the window: the most likely value, and as its interval all
// that are not less likely than that by a factor of 20, which for the end of a uniform distribution is 95 %.
func (c Curve) Window() Window {
	bounds := c.bounds()
	low := c.Edge().Lost
	most := math.Inf(-1)
	at := make([]float64, steps) // the likelihood of each W
	for i := range at {
		at[i] = likelihood(bounds, grid(low, i))
		most = max(most, at[i])
	}
	var w Window
	for i, l := range at {
		if l < most-math.Log(20) {
			continue
		}
		if w.Low == 0 {
			w.Low = low
			if i > 0 {
				w.Low = grid(low, i-1)
			}
		}
		if l == most && w.At == 0 {
			w.At = grid(low, i)
		}
		w.High = grid(low, min(i+1, steps-1))
	}
	if at[steps-1] >= most-math.Log(20) {
		w.High = 0
	}
	return w
}

// The windows that are tried: from the longest exposure of a loss to eight times that.
const steps = 160

func grid(low time.Duration, i int) time.Duration {
	return time.Duration(float64(low) * math.Pow(8, (float64(i)+0.5)/steps))
}

// bound is between which exposures one injection divided the lost from the kept.
type bound struct{ lost, kept float64 }

func (c Curve) bounds() []bound {
	by := map[int64]*bound{}
	for _, t := range c.Trials { // by exposure
		b := by[t.Injection]
		if b == nil {
			b = &bound{0, math.Inf(1)}
			by[t.Injection] = b
		}
		switch at := float64(t.Exposure); {
		case t.Lost: // what was kept with a shorter exposure was written by another way
			b.lost, b.kept = at, math.Inf(1)
		case math.IsInf(b.kept, 1):
			b.kept = at
		}
	}
	out := make([]bound, 0, len(by))
	for _, id := range slices.Sorted(maps.Keys(by)) {
		out = append(out, *by[id])
	}
	return out
}

// likelihood gives the logarithm of the largest one that a window has for any R.
func likelihood(bounds []bound, window time.Duration) float64 {
	const shapes, ratio = 24, 0.75 // down to a thousandth of the window
	w, best := float64(window), math.Inf(-1)
	for i, r := 0, w; i < shapes; i, r = i+1, r*ratio {
		sum := 0.0
		for _, b := range bounds {
			if sum += math.Log(max(0, min(b.kept, w)-max(b.lost, w-r)) / r); sum <= best {
				break // each can only take away
			}
		}
		best = max(best, sum)
	}
	return best
}
