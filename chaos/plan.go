package chaos

import (
	"math"
	"math/rand/v2"
	"time"
)

// Range bounds a drawn duration.
type Range struct{ Min, Max time.Duration }

// Rule is one kind of fault that may be drawn for a cycle.
type Rule struct {
	Kind    string
	Service string // not for crash_all
	Weight  int    // how often, beside the other rules; 0: 1
	// After is the point after which the fault strikes (told, acknowledged, logged_in, idle). Empty: at any time, Mean
	// being the mean time from the start of the cycle; without a Mean it is acknowledged.
	After string
	Mean  time.Duration
	// NthMax is the last such point of a cycle that may be drawn; 0: as many as PlanConfig.Points expects.
	NthMax    int
	Delay     Range // after the point; zero: 0 to 2 s
	Hold      Range // pause, partition: for how long; zero: 0.1 to 5 s
	Grace     time.Duration
	Volume    string // wipe
	Instances string // One or All; empty: All
	// Supervised leaves the restart after a kill to the engine's restart policy.
	Supervised bool
}

// PlanConfig is what a plan is drawn from.
type PlanConfig struct {
	Rules    []Rule
	Services []string       // all of the target, for crash_all
	Points   map[string]int // how many of each point a cycle is expected to pass
}

// Prior is what the search for crash points has learned. Plain data; the same prior gives the same plan.
type Prior struct {
	Edges []Edge `json:"edges,omitempty"` // one for each fault that lost something
}

// Edge is where the window of a fault ends: Lost is the longest time from acknowledgement to firing with which a memory
// was lost, Kept the shortest one above it that was survived (0: none was).
type Edge struct {
	Kind    string        `json:"kind"`
	Service string        `json:"service"` // not for crash_all
	Lost    time.Duration `json:"lost_ns"`
	Kept    time.Duration `json:"kept_ns,omitempty"`
}

const (
	block        = 10  // one cycle in each block is a control
	atZero       = 0.1 // the share of delays that are exactly 0
	nearEdge     = 0.5 // the share of delays drawn near the edge of a window, where one is known
	leastDelay   = time.Millisecond
	defaultDelay = 2 * time.Second
)

// The streams of random numbers that one seed gives.
const (
	streamPlan uint64 = iota << 60
	streamControl
	streamDeck
)

func draw(seed, stream uint64, n int) *rand.Rand {
	return rand.New(rand.NewPCG(seed, stream|uint64(n)))
}

// Plan draws the injection of a cycle (from 1); false means a control, a cycle without a fault. It is pure: the same
// arguments give the same plan, byte for byte. ID and Undo are the caller's to set.
//
// The first cycle is a control, and so is one drawn from each further ten. Of the others, the first ones take every
// rule once, in a drawn order; after that the rules come by weight, out of a deck that is shuffled anew when it is used
// up, so that no rule stays away for long. A delay after a point is 0 in one case of ten, and else log-uniform from 1 ms:
// a uniform one almost never hits a window of 100 ms. Once prior holds the edge of this fault's window, half of the delays
// fall about it, where the next memory says most.
func Plan(seed uint64, cfg PlanConfig, cycle int, prior Prior) (Injection, bool) {
	if len(cfg.Rules) == 0 || cycle < 1 || isControl(seed, cycle) {
		return Injection{}, false
	}
	r := cfg.Rules[deal(seed, cfg.Rules, faultsBefore(seed, cycle))]
	rng := draw(seed, streamPlan, cycle)
	inj := Injection{Cycle: cycle, Kind: r.Kind, Service: r.Service, Instances: r.Instances, Volume: r.Volume, Grace: r.Grace,
		Supervised: r.Supervised}
	if inj.Instances == "" {
		inj.Instances = All
	}
	if r.Kind == CrashAll {
		inj.Service, inj.Services = "", cfg.Services
	}
	if r.After == "" && r.Mean > 0 {
		inj.Delay = time.Duration(rng.ExpFloat64() * float64(r.Mean)).Round(time.Microsecond)
	} else {
		inj.After = r.After
		if inj.After == "" {
			inj.After = "acknowledged"
		}
		points := r.NthMax
		if points <= 0 {
			points = cfg.Points[inj.After]
		}
		inj.Nth = 1 + rng.IntN(max(points, 1))
		inj.Delay = delay(rng, r, prior)
	}
	if r.Kind == Pause || r.Kind == Partition {
		hold := r.Hold
		if hold == (Range{}) {
			hold = Range{100 * time.Millisecond, 5 * time.Second}
		}
		inj.Hold = logUniform(rng, hold)
	}
	return inj, true
}

func delay(rng *rand.Rand, r Rule, prior Prior) time.Duration {
	bounds := r.Delay
	if bounds == (Range{}) {
		bounds.Max = defaultDelay
	}
	if bounds.Min <= 0 && rng.Float64() < atZero {
		return 0
	}
	bounds.Min = max(bounds.Min, leastDelay)
	bounds.Max = max(bounds.Max, bounds.Min)
	for _, e := range prior.Edges {
		if e.Kind == r.Kind && (r.Kind == CrashAll || e.Service == r.Service) && rng.Float64() < nearEdge {
			return min(max(logUniform(rng, e.about()), bounds.Min), bounds.Max)
		}
	}
	return logUniform(rng, bounds)
}

// about is the stretch about an edge: wider above it as long as nothing was survived there.
func (e Edge) about() Range {
	if e.Kept == 0 {
		return Range{e.Lost * 3 / 4, e.Lost * 4}
	}
	return Range{e.Lost * 3 / 4, max(e.Kept, e.Lost*3/2)}
}

// logUniform draws so that every order of magnitude is as likely as any other, to the microsecond.
func logUniform(rng *rand.Rand, r Range) time.Duration {
	low := math.Log(float64(max(r.Min, time.Microsecond)))
	high := math.Log(float64(max(r.Max, r.Min, time.Microsecond)))
	d := time.Duration(math.Exp(low + rng.Float64()*(high-low))).Round(time.Microsecond)
	return min(max(d, r.Min), max(r.Max, r.Min))
}

// isControl: the first cycle of all, and a drawn one in each block after the first.
func isControl(seed uint64, cycle int) bool {
	b, i := (cycle-1)/block, (cycle-1)%block
	return i == control(seed, b)
}

func control(seed uint64, b int) int {
	if b == 0 {
		return 0
	}
	return draw(seed, streamControl, b).IntN(block)
}

// faultsBefore counts the cycles with a fault before this one.
func faultsBefore(seed uint64, cycle int) int {
	b, i := (cycle-1)/block, (cycle-1)%block
	n := b*(block-1) + i
	if control(seed, b) < i {
		n--
	}
	return n
}

// deal gives the rule of the k-th fault (from 0).
func deal(seed uint64, rules []Rule, k int) int {
	if k < len(rules) {
		return draw(seed, streamDeck, 0).Perm(len(rules))[k]
	}
	k -= len(rules)
	var deck []int
	for i, r := range rules {
		for range max(r.Weight, 1) {
			deck = append(deck, i)
		}
	}
	rng := draw(seed, streamDeck, 1+k/len(deck))
	rng.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
	return deck[k%len(deck)]
}
