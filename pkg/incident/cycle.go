package incident

import (
	"slices"
	"strings"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

// Cycle is one cycle as far as it went: what was told, what was done to the target, and what came of it.
type Cycle struct {
	N            int               `json:"n"`
	Run          string            `json:"run"`
	Control      bool              `json:"control"` // without a fault
	Phase        fact.Phase        `json:"phase"`
	Outcome      fact.CycleOutcome `json:"outcome,omitempty"` // of a closed one
	Reason       string            `json:"reason,omitempty"`
	Began        memory.Instant    `json:"began"`
	At           memory.Instant    `json:"at"` // of the phase
	Told         int               `json:"told"`
	Acknowledged int               `json:"acknowledged"`
	Lost         int               `json:"lost"`    // found lost, torn or hidden, beyond what a contract permits
	Defects      int               `json:"defects"` // memories with one
	Injections   []Injection       `json:"injections"`
	Found        []memory.Verdict  `json:"found"` // with a loss or a defect; of many the first
}

// Brief is the cycle as a list shows it: without what was found one by one, and the steps of its injections.
func (c Cycle) Brief() Cycle {
	c.Injections, c.Found = slices.Clone(c.Injections), []memory.Verdict{}
	for i := range c.Injections {
		c.Injections[i].Steps = nil
	}
	return c
}

// Injection is the life of one injection so far.
type Injection struct {
	ID    int64          `json:"id"`
	Plan  fact.Injection `json:"-"`
	Kind  string         `json:"kind"`
	On    string         `json:"service"`           // that it is done to; several joined by +
	State string         `json:"state"`             // planned, fired, injected, recovered, unrecovered, refused, failed, announced or called off
	Fired memory.Instant `json:"fired,omitzero"`    // when it was let loose; zero: it was not
	Steps []Station      `json:"steps,omitempty"`   // in order
	Dry   bool           `json:"dry_run,omitempty"` // only announced

	failed, recovered, unwell bool
}

// Station is a step in the life of an injection.
type Station struct {
	Name   fact.StepName  `json:"step"`
	Detail string         `json:"detail,omitempty"`
	At     memory.Instant `json:"at"`
}

// Cycles folds facts into the cycles that they belong to. The zero value is ready; it keeps the newest of them.
type Cycles struct {
	Keep int // so many; 0: all

	all     []*Cycle // by rising number
	told    map[memory.ID]int
	of      map[int64]int // the cycle of an injection
	counted map[once]bool
}

// once is a memory that was counted in a cycle.
type once struct {
	cycle  int
	memory memory.ID
	what   string
}

// Apply takes in the next fact. What belongs to a cycle that is not kept is left out.
func (c *Cycles) Apply(e fact.Entry) {
	if c.told == nil {
		c.told, c.of, c.counted = map[memory.ID]int{}, map[int64]int{}, map[once]bool{}
	}
	switch f := e.Fact.(type) {
	case fact.Cycle:
		c.cycle(f)
	case fact.Begun:
		if at := c.find(f.Memory.Cycle); at != nil {
			at.Told++
			c.told[f.Memory.ID] = f.Memory.Cycle
		}
	case fact.Settled:
		if at := c.find(c.told[f.Memory]); at != nil && f.Outcome == memory.Acknowledged {
			at.Acknowledged++
		}
		delete(c.told, f.Memory)
	case fact.Judged:
		if at := c.find(f.Cycle); at != nil {
			c.judged(at, f)
		}
	case fact.Step:
		if f.Plan != nil {
			c.of[f.Injection] = f.Plan.Cycle
		}
		if at := c.find(c.of[f.Injection]); at != nil {
			at.step(f)
		}
	}
}

func (c *Cycles) find(n int) *Cycle {
	i, ok := slices.BinarySearchFunc(c.all, n, func(at *Cycle, n int) int { return at.N - n })
	if !ok {
		return nil
	}
	return c.all[i]
}

func (c *Cycles) cycle(f fact.Cycle) {
	at := c.find(f.N)
	if at == nil {
		if n := len(c.all); n > 0 && f.N < c.all[n-1].N {
			return
		}
		at = &Cycle{N: f.N, Began: f.At}
		c.all = append(c.all, at)
		if c.Keep > 0 && len(c.all) > c.Keep {
			c.drop()
		}
	}
	at.Run, at.Control, at.Phase, at.Outcome, at.Reason, at.At = f.Run, f.Control, f.Phase, f.Outcome, f.Reason, f.At
}

// drop forgets the oldest.
func (c *Cycles) drop() {
	old := c.all[0].N
	c.all = slices.Delete(c.all, 0, 1)
	for id, n := range c.told {
		if n <= old {
			delete(c.told, id)
		}
	}
	for id, n := range c.of {
		if n <= old {
			delete(c.of, id)
		}
	}
	for o := range c.counted {
		if o.cycle <= old {
			delete(c.counted, o)
		}
	}
}

func (c *Cycles) judged(at *Cycle, f fact.Judged) {
	v := f.Verdict
	first := func(what string) bool {
		key := once{f.Cycle, v.Memory, what}
		was := c.counted[key]
		c.counted[key] = true
		return !was
	}
	loss, defect := v.Alarming(), len(v.Defects) > 0
	if loss && first("lost") {
		at.Lost++
	}
	if defect && first("defect") {
		at.Defects++
	}
	if !loss && !defect {
		return
	}
	i := slices.IndexFunc(at.Found, func(old memory.Verdict) bool { return old.Memory == v.Memory })
	switch {
	case i >= 0:
		at.Found[i] = v
	case len(at.Found) < mostMembers:
		at.Found = append(at.Found, v)
	}
}

func (at *Cycle) step(f fact.Step) {
	i := slices.IndexFunc(at.Injections, func(in Injection) bool { return in.ID == f.Injection })
	if i < 0 {
		i = len(at.Injections)
		at.Injections = append(at.Injections, Injection{ID: f.Injection})
	}
	in := &at.Injections[i]
	if f.Plan != nil {
		in.Plan, in.Kind, in.On, in.Dry = *f.Plan, f.Plan.Kind, Hit(*f.Plan), f.Plan.DryRun
	}
	in.Steps = append(in.Steps, Station{f.Name, f.Detail, f.At})
	in.failed = in.failed || f.Name == fact.StepFailed
	in.recovered = in.recovered || f.Name == fact.StepRecovered
	in.unwell = in.unwell || slices.ContainsFunc(f.After, func(h fact.Health) bool { return h.Sick() })
	switch f.Name {
	case fact.StepPlanned, fact.StepInjected, fact.StepRecovered, fact.StepRefused, fact.StepFailed:
		in.State = string(f.Name)
	case fact.StepFiring:
		in.State, in.Fired = "fired", f.At
	case fact.StepClosed:
		in.State = in.closed()
	}
	if !f.Fired.IsZero() {
		in.Fired = f.Fired
	}
}

// closed says what became of an injection in the end.
func (in *Injection) closed() string {
	switch {
	case in.Dry:
		return "announced"
	case in.Fired.IsZero():
		return "called off"
	case in.recovered && !in.failed:
		return "recovered"
	case !in.recovered && in.unwell:
		return "unrecovered"
	}
	return "failed"
}

// All gives copies of the cycles that are kept, the newest first.
func (c *Cycles) All() []Cycle {
	out := make([]Cycle, 0, len(c.all))
	for _, at := range slices.Backward(c.all) {
		one := *at
		one.Injections, one.Found = append([]Injection{}, at.Injections...), append([]memory.Verdict{}, at.Found...)
		for i := range one.Injections {
			one.Injections[i].Steps = slices.Clone(one.Injections[i].Steps)
		}
		out = append(out, one)
	}
	return out
}

// Fault names what was done to the target in words; empty when nothing was planned.
func (at Cycle) Fault() string {
	var all []string
	for _, in := range at.Injections {
		all = append(all, in.Kind+" of "+in.On)
	}
	return strings.Join(all, ", ")
}
