package oracle

import (
	"cmp"
	"math"
	"slices"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

// recall is how well the assistant of one cycle's users remembered: of the memories told in that cycle that are known to
// exist, how many were asked for and how many came in an answer.
type recall struct {
	asked, found int
	struck       bool // a fault fired in the cycle
}

func (c *Context) recall(n int) *recall {
	r := c.recalls[n]
	if r == nil {
		r = &recall{}
		c.recalls[n] = r
	}
	return r
}

// forgetful reports whether the assistant remembers so few of a cycle's memories since its fault that bad answers do not
// explain it: recall is significantly below that of the fault-free cycles before it. The test is Fisher's exact one,
// one-sided (R. A. Fisher, Statistical Methods for Research Workers, 5th ed. 1934, §21.02), at the level c.Doubt.
func (c *Context) forgetful(n int) bool {
	since := c.recalls[n]
	if since == nil || !since.struck {
		return false
	}
	var free recall
	for k, r := range c.recalls {
		if k < n && !r.struck {
			free.asked += r.asked
			free.found += r.found
		}
	}
	return fisher(since.found, since.asked, free.found, free.asked) < c.Doubt
}

// fisher gives the probability that of a things, drawn from a+b of which found are marked, at most x are, where found = x+y
// and y is the number of marked ones among the b others: small when x is too small to be chance.
func fisher(x, a, y, b int) float64 {
	all, found := a+b, x+y
	p := 0.0
	for k := max(0, found-b); k <= x; k++ {
		p += math.Exp(choose(a, k) + choose(b, found-k) - choose(all, found))
	}
	return p
}

// choose gives the logarithm of n over k.
func choose(n, k int) float64 {
	log := func(n int) float64 {
		l, _ := math.Lgamma(float64(n) + 1)
		return l
	}
	return log(n) - log(k) - log(n-k)
}

// recalled counts anew what the assistant knows, after a sweep in which it was asked: in every cycle of which it was asked
// for a memory. A loss that until then was only a bad answer may now count.
func (b *Book) recalled(f fact.Sweep, asked []*History) {
	cycles := map[int]bool{}
	for _, h := range asked {
		cycles[h.Memory.Cycle] = true
	}
	for n := range cycles {
		r := b.ctx.recall(n)
		r.asked, r.found = 0, 0
		for _, h := range b.live {
			if h.Memory.Cycle != n {
				continue
			}
			switch s := survey(h, &b.ctx, f.Ended); {
			case s.answer == here:
				r.asked++
				r.found++
			case s.forgotten():
				r.asked++
			}
		}
	}
	var unsure []*History
	for _, h := range b.live {
		if cycles[h.Memory.Cycle] && h.Loss != nil && h.Loss.Class == memory.Unsure {
			unsure = append(unsure, h)
		}
	}
	slices.SortFunc(unsure, func(a, b *History) int { return cmp.Compare(a.Memory.ID, b.Memory.ID) })
	for _, h := range unsure {
		b.review(h, f.Cycle, f.Ended)
	}
}

// forgotten reports whether the answer alone misses a memory that is known to exist.
func (s *surveyed) forgotten() bool {
	return s.answer == missing && s.page != missing && s.kind() == memory.Hidden
}
