package oracle

import (
	"math"
	"testing"

	"amnesia/pkg/memory"
)

// answered is a cycle and what came of its memories: the answer knows some, it alone misses others, and the page misses the
// rest too.
type answered struct {
	knows, misses, blank int
	fault                bool
}

// play tells a cycle's memories and reads the views, the answer in as many sweeps as it takes: in each of the first ones it
// is asked for no more than most of those that it misses. It gives the ids, in the order of answered's fields.
func (c answered) play(p *tape, n int, from memory.ID, most int) (all []memory.ID) {
	p.cycle = n
	start := float64(100 * n)
	for id := from; id < from+memory.ID(c.knows+c.misses+c.blank); id++ {
		all = append(all, id)
		p.tellIn(n, id, start+1)
	}
	if c.fault {
		p.fault(int64(n), "kill", "app", start+3, start+4)
	}
	// read has the view show the first ones, from among which some are looked for.
	read := func(view string, at float64, some []memory.ID, first int) {
		var rows []memory.Observation
		for _, id := range some {
			state := absent
			if id < from+memory.ID(first) {
				state = present
			}
			rows = append(rows, obs(id, state))
		}
		f := p.swept(view, at, rows...)
		f.Cycle = n
		p.add(f)
	}
	ids := all
	for _, at := range []float64{20, 40} {
		for _, view := range []string{"db", "vec", "redis"} {
			read(view, start+at, ids, len(ids))
		}
		read("page", start+at, ids, c.knows+c.misses)
	}
	for at, batch := start+50, c.knows+most; ; at, batch = at+0.4, most {
		some := ids[:min(batch, len(ids))]
		for _, twice := range []float64{0, 0.2} {
			read("answer", at+twice, some, c.knows)
		}
		if ids = ids[len(some):]; len(ids) == 0 {
			return all
		}
	}
}

// TestRecall: what the answer alone misses counts when bad answers do not explain how little the assistant knows since the
// fault. Judged is one that it alone misses, in the last cycle with such.
func TestRecall(t *testing.T) {
	for _, tt := range []struct {
		name   string
		cycles []answered
		want   memory.Class
		losses int // of that cycle
	}{
		{"far below", []answered{{10, 0, 0, false}, {0, 4, 0, true}}, memory.Silent, 4},
		{"some are known", []answered{{20, 0, 0, false}, {3, 5, 0, true}}, memory.Silent, 5},
		{"the assistant has always been so bad", []answered{{4, 6, 0, false}, {2, 8, 0, true}}, memory.Unsure, 0},
		{"too few to tell", []answered{{10, 0, 0, false}, {2, 1, 0, true}}, memory.Unsure, 0},
		{"no fault-free cycle to compare with", []answered{{0, 9, 0, true}}, memory.Unsure, 0},
		{"no fault", []answered{{10, 0, 0, false}, {0, 4, 0, false}}, memory.Unsure, 0},
		{"a cycle with a fault says nothing of those without", []answered{{20, 0, 0, true}, {0, 4, 0, true}}, memory.Unsure, 0},
		{"nor does a later one", []answered{{0, 4, 0, true}, {20, 0, 0, false}}, memory.Unsure, 0},
		{"two fault-free cycles together", []answered{{4, 0, 0, false}, {4, 0, 0, false}, {0, 3, 0, true}}, memory.Silent, 3},
		{"what the page misses too is no bad answer", []answered{{10, 0, 0, false}, {2, 1, 4, true}}, memory.Unsure, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newTape(append(stack(), look("answer"))...)
			next, judged, cycle := memory.ID(1), memory.ID(0), 0
			for n, c := range tt.cycles {
				ids := c.play(p, n+1, next, 100)
				next += memory.ID(len(ids))
				if c.misses > 0 {
					judged, cycle = ids[c.knows], n+1
				}
			}
			v, _ := p.book.Verdict(judged, p.at(p.end+1))
			if v.Kind != memory.Hidden || v.Class != tt.want {
				t.Errorf("%s, %s (%s); want hidden, %s", v.Kind, v.Class, v.Because, tt.want)
			}
			if got := p.book.Cycle(cycle, p.at(p.end+1)).Losses; got != tt.losses {
				t.Errorf("the cycle has %d losses, want %d", got, tt.losses)
			}
		})
	}
}

// What was taken for a bad answer counts once enough others are missed too.
func TestRecallGrowsWorse(t *testing.T) {
	p := newTape(append(stack(), look("answer"))...)
	answered{knows: 10}.play(p, 1, 1, 10)
	ids := answered{misses: 4, fault: true}.play(p, 2, 11, 2) // 0 of 2 may be chance, 0 of 4 is not
	for _, id := range ids {
		if h, _ := p.book.History(id); h.Loss == nil || h.Loss.Class != memory.Silent {
			t.Errorf("%s: %+v", id, h.Loss)
		}
	}
	if got := p.book.Cycle(2, p.at(p.end+1)).Losses; got != 4 {
		t.Errorf("the cycle has %d losses, want 4", got)
	}
}

// The known example of the test (Fisher's lady tasting tea, and a table of 2 by 2 from the same book).
func TestFisher(t *testing.T) {
	for _, tt := range []struct {
		x, a, y, b int
		want       float64
	}{
		{1, 4, 3, 4, 17.0 / 70}, // 1/70 + 16/70
		{2, 17, 10, 13, 0.000465},
		{0, 0, 5, 5, 1}, {3, 3, 5, 5, 1}, {0, 3, 0, 3, 1},
	} {
		if got := fisher(tt.x, tt.a, tt.y, tt.b); math.Abs(got-tt.want) > 1e-6 {
			t.Errorf("%d of %d, %d of %d: %g, want %g", tt.x, tt.a, tt.y, tt.b, got, tt.want)
		}
	}
}
