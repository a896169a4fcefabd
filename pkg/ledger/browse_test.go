package ledger_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"amnesia/pkg/fact"
	"amnesia/pkg/ledger"
	"amnesia/pkg/memory"
)

// library is a ledger of several cycles with ten memories each: every tenth was found lost, and had been unverified before;
// those of the first cycle are retired.
func library(t *testing.T, cycles int) *ledger.Ledger {
	t.Helper()
	l := open(t, filepath.Join(t.TempDir(), "a.db"), ledger.Options{})
	id := memory.ID(0)
	var retired memory.Set
	for n := 1; n <= cycles; n++ {
		facts := []fact.Fact{fact.Cycle{Run: "r", N: n, Phase: fact.PhaseTraffic, At: at(int64(n))},
			fact.Step{Injection: int64(n), Name: fact.StepPlanned, Plan: &fact.Injection{ID: int64(n), Cycle: n, Kind: "kill", Service: "redis"}, At: at(int64(n))}}
		var told memory.Set
		var seen []memory.Observation
		for range 10 {
			id++
			told = memory.SetOf(append(ids(told), id)...)
			seen = append(seen, memory.Observation{Memory: id, View: "redis", State: memory.Present, Copies: int(id % 3), Began: at(1), Ended: at(2)})
			facts = append(facts, fact.Begun{Memory: memory.Memory{ID: id, Run: "r", Cycle: n, User: fmt.Sprintf("user-%d", id%4),
				Token: fmt.Sprintf("tok%04dx", id), Text: "text", Payload: memory.PayloadShort}, At: at(int64(id))},
				fact.Settled{Memory: id, Outcome: memory.Acknowledged, Levels: []memory.Level{{Name: "shown", Seen: at(3)}}, At: at(3)},
				fact.Judged{Verdict: memory.Verdict{Memory: id, Kind: memory.Unverified}, Cycle: n, At: at(4)})
		}
		facts = append(facts, fact.Sweep{ID: int64(n), Cycle: n, View: "redis", Complete: true, Read: told, Observations: seen},
			fact.Log{Service: "redis", Level: "error", Line: "trouble", At: at(5)}, fact.Log{Service: "redis", Line: "small talk", At: at(5)})
		for _, m := range ids(told) {
			v := memory.Verdict{Memory: m, Kind: memory.Kept}
			if m%10 == 0 {
				v = memory.Verdict{Memory: m, Kind: memory.Lost, Class: memory.Silent, Fault: "kill", Service: "redis", Missing: []string{"redis"}}
			}
			facts = append(facts, fact.Judged{Verdict: v, Cycle: n, At: at(6)})
		}
		facts = append(facts, fact.Cycle{Run: "r", N: n, Phase: fact.PhaseClosed, Outcome: fact.CycleLosses, At: at(int64(n) + 1)})
		if n == 1 {
			retired = told
		}
		if n == 2 {
			facts = append(facts, fact.Retired{Memories: retired, At: at(7)})
		}
		if err := l.Append(t.Context(), facts...); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func ids(s memory.Set) (all []memory.ID) {
	for _, r := range s {
		for id := r.First; id <= r.Last; id++ {
			all = append(all, id)
		}
	}
	return all
}

func TestSearch(t *testing.T) {
	l := library(t, 8)
	for _, c := range []struct {
		search ledger.Search
		want   []memory.ID
	}{
		{ledger.Search{Limit: 3}, []memory.ID{80, 79, 78}},
		{ledger.Search{Before: 78, Limit: 2}, []memory.ID{77, 76}},
		{ledger.Search{User: "user-1", Limit: 2}, []memory.ID{77, 73}},
		{ledger.Search{User: "user-1", Before: 73, Limit: 2}, []memory.ID{69, 65}},
		{ledger.Search{User: "user-", Limit: 9}, nil},
		{ledger.Search{Token: "tok0042x", Limit: 9}, []memory.ID{42}},
		{ledger.Search{Token: "tok004", Limit: 3}, []memory.ID{49, 48, 47}},
		{ledger.Search{Token: "tok004", User: "user-1", Limit: 9}, []memory.ID{49, 45, 41}},
		{ledger.Search{Token: "ok004", Limit: 9}, nil},
		{ledger.Search{Verdict: memory.Lost, Limit: 2}, []memory.ID{80, 70}},
		{ledger.Search{Verdict: memory.Lost, Before: 70, Limit: 2}, []memory.ID{60, 50}},
		{ledger.Search{Verdict: memory.Unverified, Limit: 9}, nil}, // each has a later verdict
		{ledger.Search{Verdict: memory.Torn, Limit: 9}, nil},
		{ledger.Search{Verdict: memory.Lost, User: "user-2", Limit: 9}, []memory.ID{70, 50, 30, 10}},
		{ledger.Search{Verdict: memory.Kept, Token: "tok005", User: "user-2", Limit: 9}, []memory.ID{58, 54}},
	} {
		rows, err := l.Memories(t.Context(), c.search)
		if err != nil {
			t.Fatal(err)
		}
		var got []memory.ID
		for _, r := range rows {
			got = append(got, r.ID)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.search, got, c.want)
		}
	}
	rows, err := l.Memories(t.Context(), ledger.Search{Token: "tok0010x", Limit: 1})
	if err != nil || len(rows) != 1 {
		t.Fatal(rows, err)
	}
	want := ledger.Row{ID: 10, Cycle: 1, User: "user-2", Token: "tok0010x", Text: "text", Payload: memory.PayloadShort, Begun: at(10).Wall,
		Outcome: memory.Acknowledged, Verdict: memory.Lost, Class: memory.Silent, Missing: []string{"redis"}, Fault: "kill", Service: "redis"}
	if got := fmt.Sprintf("%+v", rows[0]); got != fmt.Sprintf("%+v", want) {
		t.Errorf("a row is %s", got)
	}
}

// TestSearchScansNothing: of a million memories a page is found as fast as of ten.
func TestSearchScansNothing(t *testing.T) {
	l := library(t, 120)
	for _, c := range []struct {
		search ledger.Search
		by     string // the index that leads
	}{
		{ledger.Search{}, "memory_id"}, {ledger.Search{Before: 9}, "memory_id"}, {ledger.Search{User: "user-1"}, "memory_user"},
		{ledger.Search{Token: "tok010"}, "memory_token"}, {ledger.Search{Token: "tok"}, "memory_id"}, // that all begin with
		{ledger.Search{Verdict: memory.Lost}, "judged_verdict"}, {ledger.Search{User: "user-1", Verdict: memory.Lost}, "judged_verdict"},
		{ledger.Search{User: "user-1", Verdict: memory.Kept}, "memory_user"}, {ledger.Search{Token: "tok010", Verdict: memory.Lost}, "memory_token"},
		{ledger.Search{Token: "tok", Verdict: memory.Lost, Before: 600}, "judged_verdict"}, {ledger.Search{Token: "tok", User: "user-1"}, "memory_user"},
		{ledger.Search{User: "user-1", Token: "tok0012x", Verdict: memory.Lost, Before: 4}, "memory_token"},
	} {
		c.search.Limit = 50
		plan, err := l.Plan(t.Context(), c.search)
		if err != nil || len(plan) == 0 {
			t.Fatal(plan, err)
		}
		for _, step := range plan {
			if strings.HasPrefix(step, "SCAN ") || strings.Contains(step, "TEMP B-TREE") && c.by != "memory_token" {
				t.Errorf("%+v: %q of %q", c.search, step, plan)
			}
		}
		if !strings.Contains(plan[0], " "+c.by+" ") {
			t.Errorf("%+v: it begins with %q, want %s", c.search, plan[0], c.by)
		}
	}
}

// TestSearchesAreTheSame: whatever leads, the memories are those that going through all of them gives.
func TestSearchesAreTheSame(t *testing.T) {
	l := library(t, 120)
	all, err := l.Memories(t.Context(), ledger.Search{Limit: 2000})
	if err != nil || len(all) != 1200 {
		t.Fatal(len(all), err)
	}
	for _, user := range []string{"", "user-0", "user-1", "nobody"} {
		for _, token := range []string{"", "tok", "tok0", "tok01", "tok0120x", "x", "%", "tok_"} {
			for _, verdict := range []memory.Kind{"", memory.Lost, memory.Kept, memory.Unverified} {
				for _, before := range []memory.ID{0, 1, 121, 700} {
					s := ledger.Search{User: user, Token: token, Verdict: verdict, Before: before, Limit: 30}
					var want []memory.ID
					for _, m := range all {
						if (user == "" || m.User == user) && strings.HasPrefix(m.Token, token) && (verdict == "" || m.Verdict == verdict) && (before == 0 || m.ID < before) && len(want) < s.Limit {
							want = append(want, m.ID)
						}
					}
					rows, err := l.Memories(t.Context(), s)
					var got []memory.ID
					for _, r := range rows {
						got = append(got, r.ID)
					}
					if err != nil || !slices.Equal(got, want) {
						t.Errorf("%+v gives %v (%v), want %v", s, got, err, want)
					}
				}
			}
		}
	}
}

// TestAbout: the facts of one memory are those of the whole ledger that concern it, and end with its retirement.
func TestAbout(t *testing.T) {
	l := library(t, 4)
	count := func(id memory.ID) map[string]int {
		n := map[string]int{}
		var last int64
		for e, err := range l.About(t.Context(), id) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Seq <= last {
				t.Errorf("%s: fact %d after %d", id, e.Seq, last)
			}
			last = e.Seq
			n[strings.TrimPrefix(fmt.Sprintf("%T", e.Fact), "fact.")]++
			switch f := e.Fact.(type) {
			case fact.Begun:
				if f.Memory.ID != id {
					t.Errorf("%s: %+v", id, f)
				}
			case fact.Sweep:
				for _, o := range f.Observations {
					if o.Memory != id {
						t.Errorf("%s: an observation of %s", id, o.Memory)
					}
				}
				if len(f.Observations) != 1 && f.Read.Has(id) {
					t.Errorf("%s: sweep %d shows %v", id, f.ID, f.Observations)
				}
			}
		}
		return n
	}
	if got, want := fmt.Sprint(count(25)), "map[Begun:1 Judged:2 Log:2 Settled:1 Step:2 Sweep:2]"; got != want {
		t.Errorf("m25 has %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(count(3)), "map[Begun:1 Judged:2 Log:2 Settled:1 Step:2 Sweep:2]"; got != want {
		t.Errorf("m3, that is retired, has %s, want %s", got, want)
	}
	if got := count(999); len(got) != 0 {
		t.Errorf("a memory that never was has %v", got)
	}
}

func TestCycleFacts(t *testing.T) {
	l := library(t, 5)
	for _, c := range []struct {
		before, limit int
		want          []int
	}{{0, 2, []int{4, 5}}, {4, 2, []int{2, 3}}, {2, 2, []int{1}}, {1, 2, nil}, {0, 99, []int{1, 2, 3, 4, 5}}} {
		var cycles []int
		n := map[string]int{}
		for e, err := range l.CycleFacts(t.Context(), c.before, c.limit) {
			if err != nil {
				t.Fatal(err)
			}
			n[strings.TrimPrefix(fmt.Sprintf("%T", e.Fact), "fact.")]++
			if f, ok := e.Fact.(fact.Cycle); ok && f.Phase == fact.PhaseTraffic {
				cycles = append(cycles, f.N)
			}
		}
		if !slices.Equal(cycles, c.want) {
			t.Errorf("%d before %d: %v", c.limit, c.before, cycles)
		}
		if k := len(c.want); n["Begun"] != 10*k || n["Settled"] != 10*k || n["Judged"] != k || n["Step"] != k || n["Cycle"] != 2*k || n["Log"]+n["Sweep"] > 0 {
			t.Errorf("%d before %d: %v", c.limit, c.before, n)
		}
	}
}
