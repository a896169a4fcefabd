package ledger_test

import (
	"path/filepath"
	"testing"
	"time"

	"amnesia/pkg/fact"
	"amnesia/pkg/ledger"
	"amnesia/pkg/memory"
)

// TestReduction tells the rule of the package comment as a story of one memory, closing the ledger between the sweeps.
func TestReduction(t *testing.T) {
	present := memory.Observation{State: memory.Present, Copies: 1}
	absent := memory.Observation{State: memory.Absent}
	unreadable := memory.Observation{State: memory.Unreadable, Detail: "refused"}
	ttl := func(ms int64) memory.Observation { o := present; o.TTL = ms; return o }
	with := func(o memory.Observation, change func(*memory.Observation)) memory.Observation { change(&o); return o }
	const minute = 60_000
	steps := []struct {
		what string
		o    memory.Observation
		at   time.Duration
		kept bool
	}{
		{"first seen", present, 0, true},
		{"again", present, 1 * time.Minute, false},
		{"absent", absent, 2 * time.Minute, true},
		{"absent, confirmed", absent, 3 * time.Minute, true},
		{"absent, and no more", absent, 4 * time.Minute, false},
		{"absent, for another reason", with(absent, func(o *memory.Observation) { o.Detail = "end of list" }), 5 * time.Minute, true},
		{"absent for that reason, already confirmed", with(absent, func(o *memory.Observation) { o.Detail = "end of list" }), 6 * time.Minute, false},
		{"unreadable", unreadable, 7 * time.Minute, true},
		{"unreadable, confirmed", unreadable, 8 * time.Minute, true},
		{"unreadable, and no more", unreadable, 9 * time.Minute, false},
		{"back", present, 10 * time.Minute, true},
		{"leaked", with(present, func(o *memory.Observation) { o.Strangers = []string{"bob"} }), 11 * time.Minute, true},
		{"twice", with(present, func(o *memory.Observation) { o.Copies = 2 }), 12 * time.Minute, true},
		{"with a sibling", with(present, func(o *memory.Observation) { o.Siblings = 1 }), 13 * time.Minute, true},
		{"a TTL came", ttl(30 * minute), 14 * time.Minute, true},
		{"it runs down", ttl(25 * minute), 19 * time.Minute, false},
		{"it was renewed", ttl(30 * minute), 20 * time.Minute, true},
		{"it never ends", ttl(-1), 21 * time.Minute, true},
		{"it never ends still", ttl(-1), 22 * time.Minute, false},
	}
	path := filepath.Join(t.TempDir(), "a.db")
	for i, s := range steps {
		l := open(t, path, ledger.Options{})
		s.o.Memory, s.o.View, s.o.Began, s.o.Ended = 7, "redis", at(0).Add(s.at), at(0).Add(s.at)
		if err := l.Append(t.Context(), fact.Sweep{View: "redis", Read: memory.SetOf(7), Observations: []memory.Observation{s.o}}); err != nil {
			t.Fatal(err)
		}
		got := entries(t, l, int64(i))[0].Fact.(fact.Sweep).Observations
		if kept := len(got) == 1; kept != s.kept {
			t.Errorf("%s: kept is %v", s.what, kept)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRetiredAreForgotten holds that the cache lets go of what is no longer swept, also when its id is far away.
func TestRetiredAreForgotten(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "a.db"), ledger.Options{})
	sweep := fact.Sweep{View: "page", Read: memory.Set{{First: 1, Last: 1000}}}
	for id := memory.ID(1); id <= 1000; id++ {
		sweep.Observations = append(sweep.Observations, memory.Observation{Memory: id, View: "page", State: memory.Present})
	}
	for _, retired := range []memory.Set{
		{{First: 1, Last: 300}, {First: 1000, Last: 1000}}, {{First: 1, Last: 1 << 62}},
	} {
		if err := l.Append(t.Context(), sweep, sweep, fact.Retired{Memories: retired}); err != nil {
			t.Fatal(err)
		}
	}
	if n := l.Cached(); n != 0 {
		t.Errorf("%d pages or looks are still held", n)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = open(t, l.Path(), ledger.Options{})
	if n := l.Cached(); n != 0 {
		t.Errorf("%d pages or looks are held again", n)
	}
	var rows []int
	for _, e := range entries(t, l, 0) {
		if s, ok := e.Fact.(fact.Sweep); ok {
			rows = append(rows, len(s.Observations))
		}
	}
	if want := [4]int{1000, 0, 301, 0}; [4]int(rows) != want {
		t.Errorf("the sweeps keep %v rows, want %v", rows, want)
	}
	if n, err := l.Rows(t.Context(), "SELECT count(*) FROM observation"); err != nil || n[0] != "[3]" {
		t.Errorf("they take %v rows of the table (%v), want 3", n, err)
	}
}
