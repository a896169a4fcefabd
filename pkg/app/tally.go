package app

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
	"amnesia/pkg/oracle"
	"amnesia/pkg/terminal"
)

// tally counts in how many replays something showed. It folds the facts of their ledger.
type tally struct {
	book    *oracle.Book
	end     memory.Instant
	replays []int         // cycles that are closed, without the controls
	played  map[int64]int // cycles, by injection
	told    map[memory.ID]int
	control map[int]bool
}

func newTally() *tally {
	return &tally{book: oracle.NewBook(), played: map[int64]int{}, told: map[memory.ID]int{}, control: map[int]bool{}}
}

func (t *tally) take(e fact.Entry) {
	t.book.Apply(e)
	t.end = memory.Later(t.end, fact.At(e.Fact))
	switch f := e.Fact.(type) {
	case fact.Cycle:
		t.control[f.N] = f.Control
		if f.Phase == fact.PhaseClosed && !f.Control {
			t.replays = append(t.replays, f.N)
		}
	case fact.Step:
		if f.Plan != nil {
			t.played[f.Injection] = f.Plan.Cycle
		}
	case fact.Begun:
		t.told[f.Memory.ID] = f.Memory.Cycle
	}
}

// thing is what can show: a verdict or a defect.
type thing struct{ fault, service, what, class string }

// cycles is a set of cycles.
type cycles map[int]bool

// count fills in how often each thing showed. What shows in a control is not the plan's, and only in the summary.
func (t *tally) count(r *Replayed) {
	things := map[thing]cycles{}
	memories := map[thing][]string{}
	lost, defects, unrecovered, inconclusive := cycles{}, cycles{}, cycles{}, cycles{}
	note := func(what thing, id memory.ID, n int) {
		if things[what] == nil {
			things[what] = cycles{}
		}
		things[what][n] = true
		memories[what] = append(memories[what], id.String())
	}
	for id, v := range t.book.All(t.end) {
		loss := t.loss(v)
		if loss != nil {
			if n := t.cycle(loss); !t.control[n] {
				note(thing{loss.Fault, loss.Service, string(loss.Kind), string(loss.Class)}, id, n)
				if loss.Alarming() && loss.Class != memory.Unsure {
					lost[n] = true
				}
			}
		}
		for _, d := range v.Defects {
			if n := t.cycle(&v); !t.control[n] {
				note(thing{what: string(d)}, id, n)
				defects[n] = true
			}
		}
	}
	for _, n := range t.replays {
		c := t.book.Cycle(n, t.end)
		r.Cycles = append(r.Cycles, ReplayCycle{n, c.Outcome, c.Reason})
		unrecovered[n] = c.Outcome == fact.CycleUnrecovered
		inconclusive[n] = c.Outcome == fact.CycleInconclusive
	}
	r.Played = len(r.Cycles)
	share := func(of cycles) Share { return t.share(of, inconclusive) }
	r.Lost, r.Defects, r.Unrecovered = share(lost), share(defects), share(unrecovered)
	for what, of := range things {
		r.Showed = append(r.Showed, Showed{Fault: what.fault, Service: what.service, What: what.what, Class: what.class, Share: share(of), Memories: memories[what]})
	}
	sortShowed(r.Showed)
}

// loss gives the loss of a memory, also of one that came back; nil when there was none.
func (t *tally) loss(v memory.Verdict) *memory.Verdict {
	if v.Kind.Loss() {
		return &v
	}
	if h, ok := t.book.History(v.Memory); ok {
		return h.Loss
	}
	return nil
}

// cycle is the replay in which a verdict came about: that of the only suspect, else the one in which the memory was told.
func (t *tally) cycle(v *memory.Verdict) int {
	if len(v.Suspects) == 1 {
		if n, ok := t.played[v.Suspects[0]]; ok {
			return n
		}
	}
	return t.told[v.Memory]
}

// share is in how many of the conclusive replays something showed. A replay is a trial as a memory is one, and has the
// same interval.
func (t *tally) share(of, inconclusive cycles) Share {
	var c oracle.Curve
	for _, n := range t.replays {
		if of[n] || !inconclusive[n] {
			c.Trials = append(c.Trials, oracle.Trial{Lost: of[n]})
		}
	}
	s := Share{Of: len(c.Trials), High: 1}
	for _, p := range c.Points() { // one: all have the same exposure
		s.Times, s.Share, s.Low, s.High = p.Lost, p.P, p.Low, p.High
	}
	return s
}

// words says it in one phrase.
func (s Share) words() string {
	if s.Of == 0 {
		return "0 of 0"
	}
	percent := func(f float64) float64 { return math.Round(100 * f) }
	return fmt.Sprintf("%d of %d (%.0f %%, 95 %%: %.0f to %.0f %%)", s.Times, s.Of, percent(s.Share), percent(s.Low), percent(s.High))
}

// moment says when a fault strikes.
func moment(p fact.Injection) string {
	delay := p.Delay.Round(time.Microsecond).String()
	if p.After == "" {
		return fmt.Sprintf(", %s into the cycle", delay)
	}
	return fmt.Sprintf(", %s after point %d of %q", delay, max(p.Nth, 1), p.After)
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Write prints the result for people.
func (r Replayed) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "cycle %d of %s again: %s\n", r.From.Cycle, r.From.Ledger, r.Plan.words)
	fmt.Fprintf(&b, "  lost in %s\n", r.Lost.words())
	if r.Defects.Times > 0 {
		fmt.Fprintf(&b, "  with a defect in %s\n", r.Defects.words())
	}
	if r.Unrecovered.Times > 0 {
		fmt.Fprintf(&b, "  not recovered in %s\n", r.Unrecovered.words())
	}
	if r.Played < r.Times {
		fmt.Fprintf(&b, "  cut short: played %d times of %d\n", r.Played, r.Times)
	}
	if len(r.Showed) > 0 {
		b.WriteByte('\n')
		t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "  verdict\tclass\tfault\tservice\tin replays\tmemories")
		for _, s := range r.Showed {
			row := []string{s.What, s.Class, s.Fault, s.Service, s.words(), short(s.Memories)}
			for i := range row {
				if row[i] == "" {
					row[i] = "-"
				}
			}
			fmt.Fprintf(t, "  %s\n", strings.Join(row, "\t"))
		}
		t.Flush()
	}
	for _, c := range r.Cycles {
		if c.Outcome == fact.CycleInconclusive {
			fmt.Fprintf(&b, "  cycle %d was not conclusive: %s\n", c.Cycle, terminal.Line(c.Reason))
		}
	}
	if c := r.Summary.Rates.Control; c.Lost > 0 {
		fmt.Fprintf(&b, "  of %d told in the control %d were lost without any fault: the fault is not the whole cause\n", c.Acknowledged, c.Lost)
	}
	fmt.Fprintf(&b, "\n  the replays are in %s, with seed %d", r.Summary.Ledger, r.Summary.Seed)
	if i := slices.IndexFunc(r.Showed, func(s Showed) bool { return len(s.Memories) > 0 }); i >= 0 {
		fmt.Fprintf(&b, "; one of the memories: amnesia why %s --ledger %s", r.Showed[i].Memories[0], r.Summary.Ledger)
	}
	b.WriteByte('\n')
	_, err := io.WriteString(w, b.String())
	return err
}

// short lists the first memories, and says how many more there are.
func short(ids []string) string {
	const most = 8
	if len(ids) <= most {
		return strings.Join(ids, " ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(ids[:most], " "), len(ids)-most)
}
