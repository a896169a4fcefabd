package ledger_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"amnesia/pkg/fact"
	"amnesia/pkg/ledger"
	"amnesia/pkg/memory"
)

// anyText is mostly short, and now and then all that a target can put into a string: bytes that are no UTF-8 as well.
func anyText() *rapid.Generator[string] {
	return rapid.OneOf(rapid.SampledFrom([]string{"", "a", "a,b", `\`, "x\x00y", "'; --", "记住", "👩‍👩‍👧"}), rapid.String(),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 8), func(b []byte) string { return string(b) }))
}

func anyInstant() *rapid.Generator[memory.Instant] {
	return rapid.Custom(func(t *rapid.T) memory.Instant {
		return memory.Instant{Mono: rapid.Int64().Draw(t, "mono"), Wall: rapid.Int64().Draw(t, "wall"),
			Boot: rapid.SampledFrom([]string{"", "boot-1", "boot-2"}).Draw(t, "boot")}
	})
}

func anyList() *rapid.Generator[[]string] { return rapid.SliceOfN(anyText(), 0, 3) }

func anyHealth() *rapid.Generator[*fact.Health] {
	return rapid.Custom(func(t *rapid.T) *fact.Health {
		if rapid.Bool().Draw(t, "none") {
			return nil
		}
		return &fact.Health{Service: rapid.SampledFrom([]string{"app", "redis"}).Draw(t, "service"), Healthy: rapid.Bool().Draw(t, "healthy"),
			Instances: []fact.Instance{{ID: rapid.String().Draw(t, "id"), Restarts: rapid.IntRange(0, 3).Draw(t, "restarts")}},
			At:        anyInstant().Draw(t, "at")}
	})
}

// anyFact draws a fact about a few memories; next is a memory that was not begun yet.
func anyFact(next *memory.ID) *rapid.Generator[fact.Fact] {
	const known = 3
	id := rapid.Custom(func(t *rapid.T) memory.ID { return memory.ID(rapid.Int64Range(1, known).Draw(t, "memory")) })
	outcome := rapid.SampledFrom([]memory.Outcome{memory.Acknowledged, memory.Rejected, memory.Unknown})
	return rapid.Custom(func(t *rapid.T) fact.Fact {
		at := anyInstant().Draw(t, "at")
		switch rapid.IntRange(0, 15).Draw(t, "kind") {
		case 0:
			*next++
			return fact.Begun{Memory: memory.Memory{ID: *next, Run: anyText().Draw(t, "run"), Cycle: rapid.Int().Draw(t, "cycle"),
				User: anyText().Draw(t, "user"), Text: anyText().Draw(t, "text"), Token: anyText().Draw(t, "token"),
				Question: anyText().Draw(t, "question"), Payload: memory.Payload(anyText().Draw(t, "payload")),
				Views: anyList().Draw(t, "views")}, At: at}
		case 1:
			f := fact.Settled{Memory: id.Draw(t, "id"), Outcome: outcome.Draw(t, "outcome"), Cause: anyText().Draw(t, "cause"),
				Detail: anyText().Draw(t, "detail"), At: at}
			for range rapid.IntRange(0, 3).Draw(t, "levels") {
				f.Levels = append(f.Levels, memory.Level{Name: anyText().Draw(t, "level"), NotSeen: anyInstant().Draw(t, "not seen"),
					Seen: anyInstant().Draw(t, "seen")})
			}
			return f
		case 2:
			f := fact.Judged{Verdict: memory.Verdict{Memory: id.Draw(t, "id"), Kind: rapid.SampledFrom(memory.Kinds[:]).Draw(t, "verdict"),
				Class: memory.Class(anyText().Draw(t, "class")), Level: anyText().Draw(t, "level"), Fault: anyText().Draw(t, "fault"),
				Service: anyText().Draw(t, "service"), Suspects: rapid.SliceOfN(rapid.Int64(), 0, 3).Draw(t, "suspects"),
				During: rapid.Bool().Draw(t, "during"), Recovered: rapid.Bool().Draw(t, "recovered"), Open: rapid.Bool().Draw(t, "open"),
				Missing: anyList().Draw(t, "missing"), Found: anyList().Draw(t, "found"),
				Lateness: time.Duration(rapid.Int64().Draw(t, "lateness")), Because: anyText().Draw(t, "because")},
				Cycle: rapid.Int().Draw(t, "cycle"), At: at}
			if rapid.Bool().Draw(t, "exposed") {
				d := time.Duration(rapid.Int64().Draw(t, "exposure"))
				f.Verdict.Exposure = &d
			}
			f.Verdict.Defects = append(f.Verdict.Defects, rapid.SliceOfNDistinct(rapid.SampledFrom(memory.Defects[:]), 0, 3, rapid.ID).Draw(t, "defects")...)
			return f
		case 3:
			return fact.Retired{Memories: memory.SetOf(rapid.SliceOfN(id, 0, 3).Draw(t, "retired")...), At: at}
		case 4:
			return fact.Log{Service: "app", Line: anyText().Draw(t, "line"), Memory: id.Draw(t, "id"), At: at}
		case 5:
			return fact.Step{Injection: rapid.Int64().Draw(t, "injection"), Name: fact.StepFiring,
				Plan: &fact.Injection{Kind: "kill", Undo: json.RawMessage(`{"a": [1, "<>"]}`)}, At: at}
		default: // sweeps are what most can go wrong with
			s := fact.Sweep{ID: rapid.Int64().Draw(t, "sweep"), Cycle: rapid.Int().Draw(t, "cycle"),
				View: rapid.SampledFrom([]string{"page", "page", "page", "redis"}).Draw(t, "view"), Began: at, Ended: anyInstant().Draw(t, "ended"),
				Before: anyHealth().Draw(t, "before"), After: anyHealth().Draw(t, "after"), Complete: rapid.Bool().Draw(t, "complete"),
				Error: anyText().Draw(t, "error")}
			ids := rapid.SliceOfNDistinct(id, 0, known, rapid.ID).Draw(t, "read")
			s.Read = memory.SetOf(ids...)
			for _, id := range ids {
				o := rapid.SampledFrom(looks()).Draw(t, "look")
				o.Memory, o.View, o.Began = id, s.View, at
				o.Ended = memory.Instant{Wall: rapid.SampledFrom([]int64{0, 1, 5, 150}).Draw(t, "ended") * int64(time.Second)}
				s.Observations = append(s.Observations, o)
			}
			return s
		}
	})
}

// looks are few, so that a memory often looks as it did before, and differ from one another in one thing each.
func looks() []memory.Observation {
	present := memory.Observation{State: memory.Present, Copies: 1, Siblings: 2}
	list := []memory.Observation{present, present, present}
	for _, change := range []func(*memory.Observation){
		func(o *memory.Observation) { o.State = memory.Absent },
		func(o *memory.Observation) { o.State = memory.Absent },
		func(o *memory.Observation) { o.State = memory.Unreadable },
		func(o *memory.Observation) { o.State, o.Rig = memory.Unreadable, true },
		func(o *memory.Observation) { o.State = memory.Altered },
		func(o *memory.Observation) { o.Copies = 2 },
		func(o *memory.Observation) { o.Siblings = 1 },
		func(o *memory.Observation) { o.Strangers = []string{"bob"} },
		func(o *memory.Observation) { o.Strangers = []string{"bob,eve", ""} },
		func(o *memory.Observation) { o.Detail = "odd" },
		func(o *memory.Observation) { o.Records = 3 },
		func(o *memory.Observation) { o.TTL = -1 },
		func(o *memory.Observation) { o.TTL = 1_800_000 },
		func(o *memory.Observation) { o.TTL = 1_700_000 },
		func(o *memory.Observation) { o.TTL = 1000 },
	} {
		o := present
		change(&o)
		list = append(list, o)
	}
	return list
}

// reducer is the rule of the package comment, word for word and without a thought for memory.
type reducer map[string]kept

type kept struct {
	memory.Observation
	ends     int64
	repeated bool // the last two rows have the same state
}

func (r reducer) reduce(f fact.Fact) fact.Fact {
	key := func(view string, id memory.ID) string { return fmt.Sprint(view, id) }
	switch f := f.(type) {
	case fact.Retired:
		for id := memory.ID(1); id < 10; id++ {
			if f.Memories.Has(id) {
				delete(r, key("page", id))
				delete(r, key("redis", id))
			}
		}
	case fact.Sweep:
		var rows []memory.Observation
		for _, o := range f.Observations {
			last, seen := r[key(f.View, o.Memory)]
			ends := (o.Ended.Wall + o.TTL*1e6) / 1e9
			sign := func(n int64) int { return min(1, max(-1, int(n))) }
			same := seen && last.State == o.State && last.Copies == o.Copies && last.Siblings == o.Siblings && last.Records == o.Records && last.Rig == o.Rig &&
				last.Detail == o.Detail && slices.Equal(last.Strangers, o.Strangers) && sign(last.TTL) == sign(o.TTL)
			moved := o.TTL > 0 && max(ends-last.ends, last.ends-ends) > max(2, o.TTL/16_000)
			confirms := (o.State == memory.Absent || o.State == memory.Unreadable) && !last.repeated
			if !same || moved || confirms {
				rows = append(rows, o)
				r[key(f.View, o.Memory)] = kept{o, ends, seen && last.State == o.State}
			}
		}
		slices.SortFunc(rows, func(a, b memory.Observation) int { return int(a.Memory - b.Memory) })
		f.Observations = rows
		return f
	case fact.Log: // kept as JSON
		f.Line = string([]rune(f.Line))
		return f
	case fact.Step:
		plan := *f.Plan
		plan.Undo = json.RawMessage(`{"a":[1,"\u003c\u003e"]}`)
		f.Plan = &plan
		return f
	}
	return f
}

// blank gives a ledger without facts: to make its tables takes longer than what many a test does with it.
func blank(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "blank.db")
	if err := open(t, path, ledger.Options{}).Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestReadTapAndRuleAgree appends random facts in random groups, closing and opening in between, and holds that the tap,
// the reader and the rule give the same, and that nothing is lost by the reduction.
func TestReadTapAndRuleAgree(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	empty := blank(t)
	rapid.Check(t, func(t *rapid.T) {
		if err := os.WriteFile(path, empty, 0o644); err != nil {
			t.Fatal(err)
		}
		var tapped, want []fact.Entry
		options := ledger.Options{Tap: func(e []fact.Entry) { tapped = append(tapped, e...) }}
		l, err := ledger.Open(context.Background(), path, options)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		rule := reducer{}
		seen := map[string]memory.Observation{} // by sweep's seq and memory: as it was appended
		next := memory.ID(100)
		for range rapid.IntRange(1, 6).Draw(t, "appends") {
			facts := rapid.SliceOfN(anyFact(&next), 1, 8).Draw(t, "facts")
			if err := l.Append(context.Background(), facts...); err != nil {
				t.Fatal(err)
			}
			for _, f := range facts {
				want = append(want, fact.Entry{Seq: int64(len(want)) + 1, Fact: rule.reduce(f)})
				if s, ok := f.(fact.Sweep); ok {
					for _, o := range s.Observations {
						seen[fmt.Sprint(len(want), o.Memory)] = o
					}
				}
			}
			if rapid.IntRange(0, 5).Draw(t, "reopen") == 0 {
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				if l, err = ledger.Open(context.Background(), path, options); err != nil {
					t.Fatal(err)
				}
			}
		}
		if d := diff(want, tapped); d != "" {
			t.Fatalf("tapped (-rule +tap):\n%s", d)
		}
		got := readAll(t, l)
		if d := diff(want, got); d != "" {
			t.Fatalf("read (-rule +read):\n%s", d)
		}
		last := map[string]memory.Observation{}
		for _, e := range got {
			s, ok := e.Fact.(fact.Sweep)
			if !ok {
				continue
			}
			for _, o := range s.Observations {
				last[fmt.Sprint(s.View, o.Memory)] = o
			}
			for id := memory.ID(1); id < 10; id++ {
				a, b := seen[fmt.Sprint(e.Seq, id)], last[fmt.Sprint(s.View, id)]
				if s.Read.Has(id) && (a.State != b.State || a.Copies != b.Copies || a.Detail != b.Detail || a.Siblings != b.Siblings || a.Records != b.Records) {
					t.Fatalf("sweep %d read %s as %+v; the ledger says %+v", e.Seq, id, a, b)
				}
			}
		}
	})
}

func readAll(t interface{ Fatal(...any) }, l *ledger.Ledger) []fact.Entry {
	var list []fact.Entry
	for e, err := range l.Facts(context.Background(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}
