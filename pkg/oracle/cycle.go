package oracle

import (
	"fmt"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

// CycleResult is what came of one cycle (oracle.md §7).
type CycleResult struct {
	N       int
	Control bool
	Closed  bool
	Outcome fact.CycleOutcome
	Reason  string // one sentence; empty for a clean cycle
	// Stake is how many acknowledged memories were at stake before the fault, of this cycle and of earlier ones; in a
	// control, at its end.
	Stake int
	// Losses are those that page: silent or reported, of acknowledged memories. Like Defects, each is counted in the
	// cycle whose sweep first proved it.
	Losses, Defects int
	Unverified      int // memories without evidence at the end
	Read, Unread    int // memories that its sweeps read in some view, and the others that are not retired
}

// cycle is what is kept of one cycle.
type cycle struct {
	n          int
	run        string // that began it
	control    bool
	settling   bool // traffic and recovery are over
	closed     bool
	recorded   fact.CycleOutcome
	why        string // beside recorded
	injections []*injection
	stake      int
	before     *fact.Gate // the last reading before a fault
	after      *fact.Gate // the last one since
	losses     int
	defects    int
	firstLoss, firstDefect,
	firstGap string // memory and reason, of the first
	unverified   int    // at the end
	read, unread int    // memories at the end
	down         string // at the end: which service did not come back
	wrapped      bool   // its gates are gone, and doubt holds what followed from them
	doubt        string
}

// at gives a cycle, new if need be.
func (b *Book) at(n int) *cycle {
	cy := b.cycles[n]
	if cy == nil {
		cy = &cycle{n: n}
		b.cycles[n] = cy
	}
	return cy
}

func (cy *cycle) note(where *string, v *memory.Verdict) {
	if *where == "" {
		*where = v.Memory.String() + ": " + v.Because
	}
}

func (cy *cycle) fired() bool {
	for _, i := range cy.injections {
		if !i.fired.IsZero() {
			return true
		}
	}
	return false
}

func (cy *cycle) gate(f fact.Gate) {
	if cy.fired() {
		cy.after = &f
	} else {
		cy.before = &f
	}
}

// cycle takes a phase in.
func (b *Book) cycle(f fact.Cycle) {
	cy := b.at(f.N)
	cy.control = cy.control || f.Control
	switch f.Phase {
	case fact.PhaseTraffic:
		b.wrapUp(f.N)
		cy.run = f.Run
		b.ctx.giveUp(f.N, f.At)
		b.learn(f)
	case fact.PhaseSettle, fact.PhaseJudge:
		cy.settling = true
		b.learn(f) // which a later run may see through
	case fact.PhaseClosed:
		if cy.closed {
			return
		}
		cy.closed, cy.recorded, cy.why = true, f.Outcome, f.Reason
		cy.unverified, cy.down = b.unverified(cy, f.At), b.unrecovered(cy)
		cy.read, cy.unread = b.readings(cy)
		if cy.control {
			cy.stake = b.stake
			if f.Run != cy.run { // it saw a fault after all: the death of its daemon
				b.ctx.learning = 0
			} else if !b.ctx.learned {
				b.calibrate(f.N)
			}
		}
	}
}

// wrapUp lets go of the gates of closed cycles before n: a soak has very many, and nothing of theirs is to come but
// verdicts. Their injections go when no memory of theirs is left (prune).
func (b *Book) wrapUp(n int) {
	for k := n - 1; k > 0; k-- {
		cy := b.cycles[k]
		if cy == nil || !cy.closed {
			continue
		}
		if cy.wrapped {
			return // and so are all before it, but those that never closed
		}
		r := CycleResult{Stake: cy.stake, Unverified: cy.unverified}
		cy.doubt, cy.wrapped = b.doubt(cy, &r), true
		cy.before, cy.after = nil, nil
	}
}

// readings counts the memories that are not retired by whether the cycle has read them.
func (b *Book) readings(cy *cycle) (read, unread int) {
	for _, h := range b.live {
		if h.read == cy.n {
			read++
		}
	}
	return read, len(b.live) - read
}

// learn lets a control cycle teach how many copies a write makes, until one has.
func (b *Book) learn(f fact.Cycle) {
	if f.Control && !b.ctx.learned {
		b.ctx.learning = f.N
	}
}

// unverified counts the memories without evidence, of those that the cycle told or read, and notes the first.
func (b *Book) unverified(cy *cycle, now memory.Instant) int {
	n := 0
	cy.firstGap = ""
	for id := range each(b.swept) {
		if h := b.live[id]; h != nil && (h.Memory.Cycle == cy.n || h.read == cy.n) {
			if v := Judge(h, &b.ctx, now); v.Kind == memory.Unverified {
				n++
				cy.note(&cy.firstGap, &v)
			}
		}
	}
	return n
}

// Cycle gives the result of a cycle, as of now while it runs and as of its end when it is closed; only losses and
// defects that were proven by its sweeps are added later.
func (b *Book) Cycle(n int, now memory.Instant) CycleResult {
	cy := b.cycles[n]
	if cy == nil {
		return CycleResult{N: n, Outcome: fact.CycleInconclusive, Reason: "There is no such cycle."}
	}
	r := CycleResult{N: n, Control: cy.control, Closed: cy.closed, Stake: cy.stake, Losses: cy.losses, Defects: cy.defects, Unverified: cy.unverified,
		Read: cy.read, Unread: cy.unread}
	if !cy.closed {
		r.Unverified = b.unverified(cy, now)
		r.Read, r.Unread = b.readings(cy)
		if cy.control {
			r.Stake = b.stake
		}
	}
	r.Outcome, r.Reason = b.outcome(cy, &r)
	return r
}

// outcome finds the worst that can be said of a cycle, and why.
func (b *Book) outcome(cy *cycle, r *CycleResult) (fact.CycleOutcome, string) {
	if r.Losses > 0 {
		return fact.CycleLosses, several(r.Losses, "memory was lost", "memories were lost", cy.firstLoss)
	}
	if r.Defects > 0 {
		return fact.CycleDefects, several(r.Defects, "defect was found", "defects were found", cy.firstDefect)
	}
	down := cy.down
	if !cy.closed {
		down = b.unrecovered(cy)
	}
	if down != "" {
		return fact.CycleUnrecovered, down
	}
	why := cy.doubt
	if !cy.wrapped {
		why = b.doubt(cy, r)
	}
	if why != "" {
		return fact.CycleInconclusive, why
	}
	// Whoever ran the cycle may know a reason for doubt that is in no other fact. Losses are judged from facts alone.
	if cy.recorded == fact.CycleUnrecovered || cy.recorded == fact.CycleInconclusive {
		return cy.recorded, cy.why
	}
	return fact.CycleClean, ""
}

func several(n int, one, many, first string) string {
	if n == 1 {
		return "One " + one + ". " + first
	}
	return fmt.Sprintf("%d %s. The first is %s", n, many, first)
}

// unrecovered says which service did not come back; empty when all did, or when nobody waited for it.
func (b *Book) unrecovered(cy *cycle) string {
	if !cy.settling {
		return ""
	}
	for _, i := range cy.injections {
		if i.fired.IsZero() || !i.healthy.IsZero() {
			continue
		}
		for _, name := range i.services {
			if s := b.ctx.services[name]; s != nil && s.sick.After(i.fired) && s.sick.After(s.healthy) {
				return fmt.Sprintf("%s was not healthy again after %s of %s.", name, i.plan.Kind, i.name())
			}
		}
	}
	if cy.after != nil {
		for _, h := range cy.after.Services {
			if h.Sick() {
				return fmt.Sprintf("%s was not healthy again after the fault: %s", h.Service, h.Detail)
			}
		}
	}
	return ""
}

// doubt says why a cycle proves nothing; empty when it does.
func (b *Book) doubt(cy *cycle, r *CycleResult) string {
	if cy.before != nil {
		for _, h := range cy.before.Services {
			if !h.Healthy {
				return fmt.Sprintf("%s was not healthy before the fault: %s", h.Service, h.Detail)
			}
		}
	}
	if !cy.settling {
		return "The cycle ended before its sweeps."
	}
	if !cy.control {
		if why := cy.unproven(); why != "" {
			return why
		}
	}
	if r.Stake < b.ctx.Enough {
		return fmt.Sprintf("Only %d acknowledged memories were at stake before the fault, fewer than %d.", r.Stake, b.ctx.Enough)
	}
	if r.Unverified > 0 {
		return several(r.Unverified, "memory could not be verified", "memories could not be verified", cy.firstGap)
	}
	return ""
}

// unproven says why the cycle's fault is not proven; empty when one is, healthy before it.
func (cy *cycle) unproven() string {
	why := "No fault was planned."
	for _, i := range cy.injections {
		switch {
		case i.plan.DryRun:
			why = "The fault was only announced (dry run)."
		case i.fired.IsZero() && i.refused != "":
			why = "The fault was refused: " + i.refused
		case i.fired.IsZero():
			why = "The fault did not fire."
		case !i.proven && i.failure != "":
			why = "The fault is not proven: " + i.failure
		case !i.proven:
			why = "The fault is not proven."
		case i.gated == gateRed, i.gated == gateUnread && cy.before == nil:
			why = "The target was not seen healthy before the fault."
		default:
			return ""
		}
	}
	return why
}
