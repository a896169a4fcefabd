package oracle

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

// Totals are the counts of a whole ledger. Each memory is in one verdict; each loss and each defect is counted once, and
// stays counted when the memory comes back.
type Totals struct {
	Outcome  fact.CycleOutcome // the worst
	Cycles   map[CycleKey]int  // closed ones
	Read     int               // memories that were read, added up over those cycles
	Unread   int               // and that were not, since nothing had touched them
	Writes   map[memory.Outcome]int
	Verdicts map[memory.Kind]int
	Defects  map[memory.Defect]int
	Losses   map[memory.Class]int // of acknowledged memories
	// Observed are losses of memories that were never acknowledged but seen on a fresh page: never paged.
	Observed map[memory.Class]int
	// Faults are the injections by kind and service, and the losses (silent or reported) that each caused; with rows for
	// several, foreign and none where there are such losses. Sorted.
	Faults []FaultTotal
	// Exposures are the times from acknowledgement to fault of those losses, rising.
	Exposures []time.Duration
	// Curves say, of each fault that lost something, how likely a memory is lost to it so long after its acknowledgement.
	// Sorted.
	Curves []Curve
	// Control and Struck are the acknowledged memories and the losses among them, of memories told in cycles without
	// and with a fault: the control rate beside every attribution. What a later fault takes of a control's memories is in
	// neither.
	Control, Struck Rate
}

// CycleKey tells cycles apart.
type CycleKey struct {
	Outcome fact.CycleOutcome
	Control bool
}

// FaultKey names one kind of fault on one service.
type FaultKey struct{ Kind, Service string }

// FaultTotal counts the injections of one kind on one service, and the losses that they caused.
type FaultTotal struct {
	FaultKey
	Injected, Lost int
}

// Rate is a share of memories.
type Rate struct{ Acknowledged, Lost int }

// Median gives the median exposure (of an even number, the lower of the two in the middle); ok is false without any.
func (t *Totals) Median() (d time.Duration, ok bool) {
	if len(t.Exposures) == 0 {
		return 0, false
	}
	return t.Exposures[(len(t.Exposures)-1)/2], true
}

// tally adds up memories.
type tally struct {
	writes    map[memory.Outcome]int
	verdicts  map[memory.Kind]int
	defects   map[memory.Defect]int
	losses    map[memory.Class]int
	observed  map[memory.Class]int
	lost      map[FaultKey]int
	exposures []time.Duration
	trials    map[FaultKey][]Trial
	rates     [2]Rate // control, with a fault
}

func newTally() tally {
	return tally{
		writes: map[memory.Outcome]int{}, verdicts: map[memory.Kind]int{}, defects: map[memory.Defect]int{},
		losses: map[memory.Class]int{}, observed: map[memory.Class]int{}, lost: map[FaultKey]int{}, trials: map[FaultKey][]Trial{},
	}
}

func (t *tally) clone() tally {
	c := *t
	c.writes, c.verdicts, c.defects = maps.Clone(t.writes), maps.Clone(t.verdicts), maps.Clone(t.defects)
	c.losses, c.observed, c.lost = maps.Clone(t.losses), maps.Clone(t.observed), maps.Clone(t.lost)
	c.exposures, c.trials = slices.Clone(t.exposures), cloneTrials(t.trials)
	return c
}

// add counts one memory with the verdict v.
func (t *tally) add(h *History, v *memory.Verdict, cy *cycle) {
	outcome := h.Outcome
	if outcome == "" {
		outcome = memory.Unknown
	}
	t.writes[outcome]++
	t.verdicts[v.Kind]++
	for _, d := range v.Defects {
		t.defects[d]++
	}
	rate := &t.rates[1]
	if cy.control {
		rate = &t.rates[0]
	}
	if h.acknowledged() && h.Ack.Level != memory.LevelObserved {
		rate.Acknowledged++
	}
	loss := v
	if !v.Kind.Loss() {
		if loss = h.Loss; loss == nil {
			t.try(h, cy, nil)
			return
		}
	}
	if observedLoss(loss) {
		t.observed[loss.Class]++
		return
	}
	t.losses[loss.Class]++
	if counts(loss) {
		if !cy.control || loss.Fault == memory.FaultNone { // else a later cycle's fault took it
			rate.Lost++
		}
		t.lost[FaultKey{loss.Fault, loss.Service}]++
		if loss.Exposure != nil {
			t.exposures = append(t.exposures, *loss.Exposure)
		}
		t.try(h, cy, loss)
	}
}

// retired is what is left of memories that are no longer swept: their number, and whatever was wrong with one.
type retired struct {
	tally tally
	kinds map[memory.Kind]memory.Set
	wrong map[memory.ID]memory.Verdict // losses and defects
}

func newRetired() retired {
	return retired{tally: newTally(), kinds: map[memory.Kind]memory.Set{}, wrong: map[memory.ID]memory.Verdict{}}
}

func (r *retired) verdict(id memory.ID) (memory.Verdict, bool) {
	if v, ok := r.wrong[id]; ok {
		return v, true
	}
	for kind, set := range r.kinds {
		if set.Has(id) {
			return memory.Verdict{Memory: id, Kind: kind, Because: "This was the verdict when the memory was retired."}, true
		}
	}
	return memory.Verdict{}, false
}

// retire gives the memories their last verdict and lets go of their histories, and of what only they needed.
func (b *Book) retire(f fact.Retired) {
	for id := range each(b.swept) { // in one order, so that equal facts make equal books
		if !f.Memories.Has(id) {
			continue
		}
		h := b.live[id]
		h.Retired = f.At
		v := Judge(h, &b.ctx, f.At)
		b.retired.tally.add(h, &v, b.at(h.Memory.Cycle))
		b.retired.kinds[v.Kind] = include(b.retired.kinds[v.Kind], id)
		if v.Kind.Loss() || len(v.Defects) > 0 {
			b.retired.wrong[id] = v
		}
		if h.acknowledged() && h.Forget == nil {
			b.stake--
		}
		delete(b.live, id)
	}
	b.swept = memory.SetOf(slices.Collect(maps.Keys(b.live))...)
	b.prune()
}

// prune drops what no live memory needs.
func (b *Book) prune() {
	oldest := map[string]*History{}
	var first memory.Instant
	cycle := math.MaxInt
	for _, h := range b.live {
		cycle = min(cycle, h.Memory.Cycle)
		if o := oldest[h.Memory.User]; o == nil || h.ord < o.ord {
			oldest[h.Memory.User] = h
		}
		if first.IsZero() || h.Begun.Before(first) {
			first = h.Begun
		}
	}
	for n, cy := range b.cycles {
		if cy.wrapped && n < cycle {
			cy.injections = nil
		}
	}
	for name, u := range b.ctx.users {
		h := oldest[name]
		if h == nil {
			delete(b.ctx.users, name)
			continue
		}
		u.writes = slices.Delete(u.writes, 0, h.ord-u.dropped)
		u.dropped = h.ord
		u.asked = slices.DeleteFunc(u.asked, func(a asked) bool { return a.at.Before(h.Begun) })
	}
	if !first.IsZero() {
		b.ctx.forgetBefore(first)
	}
}

// Totals adds up the whole ledger as of now.
func (b *Book) Totals(now memory.Instant) Totals {
	t := b.retired.tally.clone()
	for _, h := range b.live {
		v := Judge(h, &b.ctx, now)
		t.add(h, &v, b.at(h.Memory.Cycle))
	}
	slices.Sort(t.exposures)
	out := Totals{
		Outcome: fact.CycleInconclusive, Cycles: map[CycleKey]int{}, Writes: t.writes, Verdicts: t.verdicts, Defects: t.defects,
		Losses: t.losses, Observed: t.observed, Exposures: t.exposures, Control: t.rates[0], Struck: t.rates[1],
	}
	out.Curves = curves(t.trials)
	for n, cy := range b.cycles {
		if cy.closed {
			r := b.Cycle(n, now)
			out.Cycles[CycleKey{r.Outcome, r.Control}]++
			out.Read, out.Unread = out.Read+r.Read, out.Unread+r.Unread
		}
	}
	out.Outcome = out.worst()
	rows := map[FaultKey]*FaultTotal{}
	row := func(k FaultKey) *FaultTotal {
		if rows[k] == nil {
			rows[k] = &FaultTotal{FaultKey: k}
		}
		return rows[k]
	}
	for k, n := range b.struck {
		row(k).Injected = n
	}
	for k, n := range t.lost {
		row(k).Lost = n
	}
	for _, r := range rows {
		out.Faults = append(out.Faults, *r)
	}
	slices.SortFunc(out.Faults, func(a, b FaultTotal) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Service, b.Service))
	})
	return out
}

// worst is the worst of the closed cycles, losses and defects whether or not their cycle is closed; inconclusive when
// there is none.
func (t *Totals) worst() fact.CycleOutcome {
	if t.Losses[memory.Silent]+t.Losses[memory.Reported] > 0 {
		return fact.CycleLosses
	}
	if len(t.Defects) > 0 {
		return fact.CycleDefects
	}
	for _, o := range []fact.CycleOutcome{fact.CycleLosses, fact.CycleDefects, fact.CycleUnrecovered, fact.CycleInconclusive, fact.CycleClean} {
		if t.Cycles[CycleKey{o, true}]+t.Cycles[CycleKey{o, false}] > 0 {
			return o
		}
	}
	return fact.CycleInconclusive
}
