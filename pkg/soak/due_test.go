package soak

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"amnesia/chaos"
	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
	"amnesia/pkg/oracle"
)

// library is a loop over a database and a page, with memories 1 to 40 of twenty accounts that were told in cycle 1 and read
// in both views, and memory 41 of cycle 2, which nobody has read.
type library struct {
	*Loop
	*record
	clock  *ticking
	lost   map[string]bool // "view id": what a view does not show any more
	faults int64

	mu   sync.Mutex // the views are read at the same time
	read map[string][]memory.ID
}

func newLibrary(t *testing.T) *library {
	t.Helper()
	c := &ticking{now: noon.now}
	e := &two{engine{id: "a"}}
	l := &library{record: &record{docket: NewDocket()}, clock: c, lost: map[string]bool{}, read: map[string][]memory.ID{}}
	l.Loop = &Loop{Rotation: 10, SettleWithin: time.Minute, Ledger: l.record, Docket: l.record.docket, Engine: e,
		Prober: chaos.NewProber(c, 0), Clock: c, Log: zap.NewNop(),
		live: map[memory.ID]memory.Memory{}, tokens: map[string]memory.ID{}, last: map[memory.ID]memory.Verdict{}, begun: map[memory.ID]memory.Instant{}}
	var ks []memory.Contract
	for _, k := range []memory.Contract{{View: "db", Service: "db", Durable: true}, {View: "page", Service: "app", User: true, Durable: true}} {
		ks = append(ks, k)
		l.Looks = append(l.Looks, Look{Contract: k, Timeout: time.Minute, View: &sees{clock: c, state: func(m memory.Memory) memory.State {
			l.mu.Lock()
			l.read[k.View] = append(l.read[k.View], m.ID)
			l.mu.Unlock()
			if l.lost[k.View+" "+m.ID.String()] {
				return memory.Absent
			}
			return memory.Present
		}}})
	}
	l.note(t, fact.Contracts{Version: 1, Contracts: ks, At: c.Now()}, fact.Cycle{N: 1, Phase: fact.PhaseTraffic, At: c.Now()})
	for id := memory.ID(1); id <= 40; id++ {
		l.told(t, id, 1, fmt.Sprint("u", id%20))
	}
	must(t, l.settle(t.Context(), 1, ready))
	l.cycles = 1
	if vs, _ := l.judge(1); len(vs) != 40 || vs[39].Verdict.Kind != memory.Kept {
		t.Fatalf("the first sweep left %d verdicts", len(vs))
	}
	l.note(t, fact.Cycle{N: 2, Phase: fact.PhaseTraffic, At: c.Now()})
	l.told(t, 41, 2, "new")
	clear(l.read)
	return l
}

// two has two services.
type two struct{ engine }

func (*two) Services() []chaos.Service { return []chaos.Service{{Name: "app"}, {Name: "db"}} }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (l *library) note(t *testing.T, facts ...fact.Fact) {
	t.Helper()
	must(t, l.record.Append(t.Context(), facts...))
}

func (l *library) told(t *testing.T, id memory.ID, n int, user string) {
	m := memory.Memory{ID: id, Cycle: n, User: user, Token: id.String(), Views: []string{"db", "page"}}
	l.note(t, fact.Begun{Memory: m, At: l.clock.Now()}, fact.Settled{Memory: id, Outcome: memory.Acknowledged, At: l.clock.Now()})
	l.adopt(m)
}

// strikes has a fault on a service begin and end.
func (l *library) strikes(t *testing.T, service string) {
	l.faults++
	inj := fact.Injection{ID: l.faults, Cycle: int(l.faults) + 1, Kind: chaos.Kill, Service: service}
	for _, s := range []fact.StepName{fact.StepPlanned, fact.StepFiring, fact.StepInjected, fact.StepProven, fact.StepRecovered, fact.StepClosed} {
		l.note(t, fact.Step{Injection: inj.ID, Name: s, Plan: &inj, Fired: l.clock.Now(), At: l.clock.Now()})
	}
}

// was gives how many different memories a view was read for.
func (l *library) was(view string) int {
	ids := slices.Clone(l.read[view])
	slices.Sort(ids)
	return len(slices.Compact(ids))
}

// A cycle reads what was told since, and beside it a tenth of the rest, or everything after a fault.
func TestOnlyWhatIsDueIsRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, struck  string
		rotation      int
		db, page      int // memories that must be read
		first, missed bool
		of            int // cycles that the run has; this is its second
	}{
		{name: "nothing happened", rotation: 1000, db: 1, page: 1},
		{name: "a store was struck", struck: "db", rotation: 1000, db: 41, page: 41},
		{name: "the application was struck", struck: "app", rotation: 1000, db: 41, page: 41},
		{name: "everything is wanted", rotation: 1, db: 41, page: 41},
		{name: "the first cycle of a run", rotation: 1000, first: true, db: 41, page: 41},
		{name: "the last cycle of a run", rotation: 1000, of: 2, db: 41, page: 41},
		{name: "the last but one", rotation: 1000, of: 3, db: 1, page: 1},
		{name: "something is found lost", rotation: 1000, missed: true, db: 41, page: 41},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLibrary(t)
			l.Rotation, l.Cycles = c.rotation, c.of
			if c.struck != "" {
				l.strikes(t, c.struck)
			}
			if c.first {
				l.cycles = 0
			}
			if c.missed {
				l.lost["page m41"] = true
			}
			must(t, l.settle(t.Context(), 2, ready))
			if db, page := l.was("db"), l.was("page"); db != c.db || page != c.page {
				t.Errorf("%d memories were read in the database and %d on the page, want %d and %d", db, page, c.db, c.page)
			}
			l.Docket.Read(func(b *oracle.Book) {
				r := b.Cycle(2, l.clock.Now())
				if want := max(c.db, c.page); r.Read != want || r.Unread != 41-want {
					t.Errorf("the cycle counts %d read and %d unread", r.Read, r.Unread)
				}
				if !c.missed && r.Unverified > 0 {
					t.Errorf("%d memories are unverified", r.Unverified)
				}
			})
		})
	}
}

// Each account has its turn within so many cycles, whole and in every view.
func TestEachAccountHasItsTurn(t *testing.T) {
	t.Parallel()
	l := newLibrary(t)
	read := map[memory.ID]int{}
	for n := 2; n < 2+l.Rotation; n++ {
		clear(l.read)
		must(t, l.settle(t.Context(), n, ready))
		if db, page := l.read["db"], l.read["page"]; !slices.Equal(slices.Sorted(slices.Values(db)), slices.Sorted(slices.Values(page))) {
			t.Errorf("cycle %d read %v in the database and %v on the page", n, db, page)
		}
		for _, id := range l.read["db"] {
			read[id]++
		}
	}
	for id := memory.ID(1); id <= 40; id++ {
		if read[id] != 1 {
			t.Errorf("%s was read %d times in %d cycles", id, read[id], l.Rotation)
		}
	}
}

// A loss is laid to the fault that made it, and not to one before it on the same store: the page was seen in between.
func TestALossHasOneSuspect(t *testing.T) {
	t.Parallel()
	l := newLibrary(t)
	l.strikes(t, "db")
	must(t, l.settle(t.Context(), 2, ready))
	l.note(t, fact.Cycle{N: 3, Phase: fact.PhaseTraffic, At: l.clock.Now()})
	l.strikes(t, "db")
	l.lost["db m3"], l.lost["page m3"] = true, true
	must(t, l.settle(t.Context(), 3, ready))
	l.Docket.Read(func(b *oracle.Book) {
		if v, _ := b.Verdict(3, l.clock.Now()); v.Kind != memory.Lost || v.Fault != chaos.Kill || !slices.Equal(v.Suspects, []int64{2}) {
			t.Errorf("%s: %s, by %v", v.Kind, v.Fault, v.Suspects)
		}
	})
}

// What one store has lost is looked for everywhere before it is judged, and so are the others: each loss is found in the
// cycle whose fault made it.
func TestALossIsNotJudgedFromWhatWasNotRead(t *testing.T) {
	t.Parallel()
	l := newLibrary(t)
	l.strikes(t, "db")
	for id := memory.ID(1); id <= 7; id++ {
		l.lost["db "+id.String()] = true
	}
	l.lost["page m3"] = true
	must(t, l.settle(t.Context(), 2, ready))
	vs, _ := l.judge(2)
	kinds := map[memory.Kind]int{}
	for _, v := range vs {
		kinds[v.Verdict.Kind]++
		if v.Verdict.Kind == memory.Lost && v.Verdict.Memory != 3 {
			t.Errorf("%s is lost", v.Verdict.Memory)
		}
	}
	if kinds[memory.Volatile] != 6 || kinds[memory.Lost] != 1 || kinds[memory.Kept] != 1 {
		t.Errorf("got %v, want six volatile, m3 lost and m41 kept", kinds)
	}
}
