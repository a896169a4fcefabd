package oracle

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

// drawn is a random ledger in the making. Time moves in tenths of seconds and never stands still. Its choices come from
// one seed and not each from rapid, which prefers small numbers and would hardly ever let a sweep succeed; a failure is
// made small by leaving out facts instead.
type drawn struct {
	r        *rand.Rand
	facts    []fact.Fact
	now      int64 // tenths
	boot     int
	views    []memory.Contract
	services []string
	who      map[string]int
	begun    []memory.ID
	flying   []memory.ID // not settled
	kept     []memory.ID // not retired
	forgets  []memory.ID // in flight
	open     int64       // injection
	kind     string
	hit      string
	next     memory.ID
	cycle    int
	injected int64
	sweeps   int64
	noise    int // 0: the rig and the target behave but for faults; 1: anything may go wrong at any time
}

func (d *drawn) chance(percent int) bool {
	return d.r.IntN(100) < percent
}

func (d *drawn) tick(least, most int) memory.Instant {
	d.now += int64(d.between(least, most))
	return d.instant()
}

func (d *drawn) instant() memory.Instant {
	ns := d.now * int64(100*time.Millisecond)
	return memory.Instant{Mono: ns, Wall: ns, Boot: fmt.Sprint("boot-", d.boot)}
}

func (d *drawn) add(f fact.Fact) { d.facts = append(d.facts, f) }

func (d *drawn) between(least, most int) int { return least + d.r.IntN(most-least+1) }

func draw[V any](d *drawn, from ...V) V { return from[d.r.IntN(len(from))] }

func (d *drawn) contracts() {
	names := draw(d, "db page", "db vec page", "db redis page answer", "redis page", "db", "db redis", "page", "redis", "db vec redis page", "answer", "page answer")
	d.services = []string{"app", "db", "vec", "redis"}
	var name string
	for rest := names; rest != ""; {
		n, _ := fmt.Sscanf(rest, "%s", &name)
		if n == 0 {
			break
		}
		rest = rest[min(len(rest), len(name)+1):]
		k := memory.Contract{View: name, Service: name, Durable: name != "redis", Settle: time.Duration(draw(d, 1, 2, 5)) * time.Second}
		if name == "page" || name == "answer" {
			k.Service, k.User = "app", true
		}
		if d.chance(25) {
			k.TTL = time.Duration(draw(d, 8, 15, 40)) * time.Second
			k.Slack = time.Duration(draw(d, 0, 1, 2)) * time.Second
			k.TTLFrom = draw(d, memory.TTLFromWrite, memory.TTLFromLastWrite)
		}
		if d.chance(15) {
			k.KeepLast = draw(d, 1, 2, 3)
			k.KeepUnit = draw(d, "memory", "message")
		}
		if d.chance(25) {
			k.MayLose = &memory.MayLose{Window: time.Duration(draw(d, 0, 1, 3)) * time.Second, On: []string{"kill"}}
		}
		k.Copies = draw(d, 0, 0, 2)
		d.views = append(d.views, k)
	}
	d.add(fact.Contracts{Version: 1, Contracts: d.views, Levels: []string{"shown", "settled"}, CountsFrom: "settled", At: d.instant()})
}

func (d *drawn) begin() {
	d.next++
	m := memory.Memory{ID: d.next, User: draw(d, "ann", "ann", "bob"), Cycle: d.cycle}
	if d.chance(15) {
		m.Views = []string{d.views[0].View}
	}
	d.add(fact.Begun{Memory: m, At: d.tick(1, 5)})
	d.begun, d.flying, d.kept = append(d.begun, m.ID), append(d.flying, m.ID), append(d.kept, m.ID)
	if d.chance(80) {
		d.settle()
	}
}

func (d *drawn) settle() {
	if len(d.flying) == 0 {
		return
	}
	f := fact.Settled{Memory: d.flying[0]}
	d.flying = d.flying[1:]
	f.Outcome = draw(d, memory.Acknowledged, memory.Acknowledged, memory.Acknowledged, memory.Rejected, memory.Unknown)
	shown := memory.Level{Name: "shown", NotSeen: d.tick(1, 5), Seen: d.tick(1, 3)}
	settled := memory.Level{Name: "settled", NotSeen: d.tick(1, 3), Seen: d.tick(1, 3)}
	switch n := d.between(0, 2); {
	case f.Outcome == memory.Acknowledged && n > 0:
		f.Levels = []memory.Level{shown, settled}
	case f.Outcome != memory.Acknowledged && n == 1:
		f.Levels = []memory.Level{shown}
	case f.Outcome != memory.Acknowledged && n == 2 && d.chance(30):
		f.Levels = []memory.Level{shown, settled}
	}
	f.At = d.tick(0, 3)
	d.add(f)
}

func (d *drawn) forget() {
	if len(d.forgets) > 0 {
		d.add(fact.ForgetSettled{Memory: d.forgets[0], At: d.tick(1, 5), Outcome: draw(d, memory.Acknowledged, memory.Rejected, memory.Unknown)})
		d.forgets = d.forgets[:0]
		return
	}
	for _, f := range d.facts {
		if f, ok := f.(fact.ForgetBegun); ok && f.Memory == d.kept[0] {
			return
		}
	}
	d.add(fact.ForgetBegun{Memory: d.kept[0], At: d.tick(1, 5)})
	d.forgets = append(d.forgets, d.kept[0])
}

func (d *drawn) health(service string, at memory.Instant, healthy bool) *fact.Health {
	return &fact.Health{Service: service, Healthy: healthy, At: at, Instances: []fact.Instance{{ID: fmt.Sprint(service, d.who[service])}}}
}

// sweep reads one view. The mood is the state that most of its rows have.
func (d *drawn) sweep(k memory.Contract, mood memory.State) {
	d.sweeps++
	f := fact.Sweep{ID: d.sweeps, Cycle: d.cycle, View: k.View, Complete: !d.chance(4 * d.noise), Began: d.tick(1, 10)}
	if d.chance(3 * d.noise) {
		f.Error = "cut off"
	}
	if d.chance(60) {
		f.Before = d.health(k.Service, f.Began, !d.chance(4*d.noise))
		if d.chance(3 * d.noise) {
			d.who[k.Service]++
		}
	}
	f.Ended = d.tick(1, 4)
	if f.Before != nil {
		f.After = d.health(k.Service, f.Ended, !d.chance(4*d.noise))
	}
	var ids []memory.ID
	for _, id := range d.kept {
		if d.chance(10) {
			continue
		}
		ids = append(ids, id)
		if d.chance(20) {
			continue
		}
		o := memory.Observation{Memory: id, View: k.View, State: mood, Began: f.Began, Ended: f.Ended}
		if d.chance(3 + 12*d.noise) {
			o.State = draw(d, memory.Present, memory.Absent, memory.Absent, memory.Altered, memory.Unreadable)
		}
		if o.State.Here() {
			o.Copies = 1
			if d.chance(5) {
				o.Copies = d.between(2, 3)
			}
			if k.TTL > 0 && d.chance(50) {
				o.TTL = draw[int64](d, -1, 1000, 5000, 7900, 14000, 39000, 60000)
			}
		} else if d.chance(20) {
			o.Siblings = 2
		}
		if d.chance(2) {
			o.Strangers = []string{"eve"}
		}
		f.Observations = append(f.Observations, o)
	}
	f.Read = memory.SetOf(ids...)
	d.add(f)
}

func (d *drawn) fault() {
	if d.open == 0 {
		d.injected++
		d.open, d.kind, d.hit = d.injected, draw(d, "kill", "kill", "restart", "pause"), draw(d, d.services...)
		inj := fact.Injection{ID: d.open, Cycle: d.cycle, Kind: d.kind, Service: d.hit, DryRun: d.chance(10)}
		d.add(fact.Step{Injection: d.open, Name: fact.StepPlanned, Plan: &inj, At: d.tick(1, 5)})
		if inj.DryRun {
			d.add(fact.Step{Injection: d.open, Name: fact.StepClosed, At: d.tick(1, 5)})
			d.open = 0
			return
		}
		d.add(fact.Step{Injection: d.open, Name: fact.StepFiring, Plan: &inj, At: d.tick(1, 5)})
		return
	}
	d.add(fact.Step{Injection: d.open, Name: fact.StepInjected, Fired: d.tick(0, 2), At: d.tick(1, 5)})
	if d.kind != "pause" {
		d.who[d.hit]++
	}
	if d.chance(15) {
		d.add(fact.Step{Injection: d.open, Name: fact.StepFailed, At: d.tick(1, 5)})
		d.add(fact.Step{Injection: d.open, Name: fact.StepReverted, At: d.tick(1, 5)})
	} else {
		d.add(fact.Step{Injection: d.open, Name: fact.StepProven, At: d.tick(1, 5)})
		d.add(fact.Step{Injection: d.open, Name: fact.StepRecovered, At: d.tick(1, 5)})
	}
	d.add(fact.Step{Injection: d.open, Name: fact.StepClosed, At: d.tick(1, 5)})
	d.open = 0
}

func (d *drawn) death() {
	service := draw(d, d.services...)
	if d.chance(50) {
		d.who[service]++
		return
	}
	f := fact.Death{Service: service, Instance: fact.Instance{ID: fmt.Sprint(service, d.who[service])}, Cause: "oom", NotBefore: d.tick(1, 5), At: d.tick(1, 5)}
	d.who[service]++
	if d.chance(70) {
		f.Healthy = d.tick(1, 5)
	}
	d.add(f)
}

// rounds read all views, as the loop does.
func (d *drawn) rounds(n int, moods map[string]memory.State) {
	for range n {
		for _, k := range d.views {
			d.sweep(k, moods[k.View])
		}
		d.tick(1, 60)
	}
}

// whole is a cycle in which every place keeps all, and only the assistant may not.
func (d *drawn) whole() {
	d.cycle++
	for range d.between(1, 3) {
		d.begin()
	}
	if d.chance(50) {
		d.fault()
		if d.open != 0 {
			d.fault()
		}
	}
	moods := map[string]memory.State{"answer": draw(d, memory.Present, memory.Absent)}
	for _, k := range d.views {
		if k.View != "answer" {
			moods[k.View] = memory.Present
		}
	}
	d.rounds(3, moods)
}

func newDrawn(t *rapid.T) *drawn {
	return &drawn{r: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))}
}

// ledger draws a whole ledger.
func (d *drawn) ledger() []fact.Fact {
	d.now, d.who, d.noise, d.cycle = 10, map[string]int{}, d.between(0, 1), 1
	d.contracts()
	d.begin()
	if d.chance(20) { // or else there would hardly ever be one without a fault and one with it
		d.whole()
		d.whole()
	}
	for range d.between(3, 25) {
		switch n := d.between(0, 99); {
		case n < 12 && d.next < 6:
			if d.open == 0 && d.chance(25) {
				d.cycle++
			}
			d.begin()
		case n < 16:
			d.settle()
		case n < 30:
			d.fault()
		case n < 34:
			d.death()
		case n < 38 && len(d.kept) > 0:
			d.forget()
		case n < 42:
			f := fact.Told{Memory: d.begun[0], By: "page", At: d.tick(1, 5)}
			d.add(f)
		case n < 44:
			d.add(fact.Log{Memory: draw(d, d.begun...), Level: draw(d, "error", "warn"), At: d.tick(1, 5)})
		case n < 45:
			d.add(fact.Gap{Of: draw(d, "clock", "logs"), From: d.tick(1, 5), To: d.tick(1, 5)})
		case n < 46:
			d.boot++
		case n < 48 && len(d.kept) > 1:
			d.add(fact.Retired{Memories: memory.SetOf(d.kept[0]), At: d.tick(1, 5)})
			d.kept = d.kept[1:]
		case n < 52 && d.open == 0 && d.next < 6:
			d.whole()
		case n < 85:
			moods := map[string]memory.State{}
			for _, k := range d.views {
				moods[k.View] = draw(d, memory.Present, memory.Present, memory.Absent)
			}
			d.rounds(d.between(1, 3), moods)
		default:
			d.sweep(draw(d, d.views...), draw(d, memory.Present, memory.Absent, memory.Absent, memory.Unreadable))
		}
		if d.chance(30) {
			d.tick(5, 80)
		}
	}
	return d.facts
}

func apply(facts []fact.Fact) *Book {
	b := NewBook()
	b.Context().Doubt = modelDoubt
	for i, f := range facts {
		b.Apply(fact.Entry{Seq: int64(i + 1), Fact: f})
	}
	return b
}

func opinionOf(v memory.Verdict) opinion {
	return opinion{Kind: v.Kind, Defects: v.Defects, Class: v.Class, Fault: v.Fault, Service: v.Service, Missing: v.Missing}
}

// differ compares the book and the model on every memory; empty when they agree.
func differ(facts []fact.Fact, now memory.Instant, seen map[string]int) string {
	b, m := apply(facts), newModel(facts)
	last := len(facts) - 1
	for _, x := range m.worlds[last].told {
		at, i := now, last
		if x.gone { // judged once, at its retirement
			at = x.retired
			i = slices.IndexFunc(facts, func(f fact.Fact) bool {
				r, ok := f.(fact.Retired)
				return ok && r.Memories.Has(x.m.ID)
			})
		}
		want := *m.judge(i, x.m.ID, at)
		v, ok := b.Verdict(x.m.ID, now)
		if !ok {
			return x.m.ID.String() + " is not in the book"
		}
		got := opinionOf(v)
		if x.gone { // of these the book keeps less
			want.Missing, got.Missing = nil, nil
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return x.m.ID.String() + " (-model +book):\n" + diff
		}
		if seen != nil {
			seen[string(want.Kind)]++
			seen[string(want.Class)]++
			seen[want.Fault]++
			if want.Class == memory.Silent && slices.Equal(want.Missing, []string{"answer"}) {
				seen["forgetful"]++
			}
			for _, d := range want.Defects {
				seen[string(d)]++
			}
		}
	}
	return ""
}

// smaller leaves out of a ledger whatever is not needed for the two to differ. The first fact is its contracts.
func smaller(facts []fact.Fact, now memory.Instant) []fact.Fact {
	for again := true; again; {
		again = false
		for i := len(facts) - 1; i > 0; i-- {
			if less := slices.Delete(slices.Clone(facts), i, i+1); differ(less, now, nil) != "" {
				facts, again = less, true
			}
		}
	}
	return facts
}

// The book and the model agree on every memory, whatever happened.
func TestModel(t *testing.T) {
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		d := newDrawn(t)
		facts := d.ledger()
		now := d.tick(1, 100)
		if differ(facts, now, seen) != "" {
			facts = smaller(facts, now)
			for i, f := range facts {
				j, _ := json.Marshal(f)
				t.Logf("%d %T %s", i, f, j)
			}
			t.Fatalf("at %v: %s", now, differ(facts, now, nil))
		}
	})
	all := 0
	for _, k := range memory.Kinds {
		all += seen[string(k)]
	}
	for _, k := range memory.Kinds {
		if all > 5000 && seen[string(k)] == 0 {
			t.Errorf("of %d verdicts none was %s: the test says nothing of it", all, k)
		}
	}
	if all > 5000 && seen["forgetful"] == 0 {
		t.Error("no loss was laid to the answers alone")
	}
	t.Log(seen)
}
