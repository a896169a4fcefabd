package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"amnesia/pkg/fact"
	"amnesia/pkg/incident"
	"amnesia/pkg/memory"
	"amnesia/pkg/oracle"
)

// Full is all that a ledger has to say. Its field names are a contract, as those of Summary are.
type Full struct {
	Summary   Summary             `json:"summary"`
	Began     time.Time           `json:"began"`
	Ended     time.Time           `json:"ended"`
	Incidents []incident.Incident `json:"incidents"` // the worst first
	Losses    []LossRow           `json:"losses"`
	Curves    []FaultCurve        `json:"curves"`
	Cycles    []CycleRow          `json:"cycles"`
	Memories  []MemoryRow         `json:"memories"` // that were found wanting, oldest first
	Omitted   int                 `json:"omitted"`  // so many of them are not in Memories

	Stories []Story `json:"-"` // one memory of each incident
	curves  []oracle.Curve
}

// LossRow is what was lost to one fault of one service, by the views that miss it; one memory may be missing from several.
type LossRow struct {
	Fault    string         `json:"fault"`
	Service  string         `json:"service"`
	Injected int            `json:"injected"`
	Lost     int            `json:"lost"`
	Views    map[string]int `json:"views"`
}

// FaultCurve is how likely a memory is lost to a fault so long after its acknowledgement.
type FaultCurve struct {
	Kind    string  `json:"kind"`
	Service string  `json:"service"`
	Points  []Point `json:"points"`
}

// Point is a stretch of a curve: the memories with an exposure above half of UptoMS and not above it.
type Point struct {
	UptoMS float64 `json:"upto_ms"`
	Lost   int     `json:"lost"`
	Kept   int     `json:"kept"`
	P      float64 `json:"p"`
	Low    float64 `json:"low"` // of the 95 % interval
	High   float64 `json:"high"`
}

// CycleRow is one cycle.
type CycleRow struct {
	N       int               `json:"cycle"`
	Control bool              `json:"control"`
	Outcome fact.CycleOutcome `json:"outcome"`
	Reason  string            `json:"reason"`
	Fault   string            `json:"fault"` // that was injected; empty: none was
	Service string            `json:"service"`
	Losses  int               `json:"losses"`
	Defects int               `json:"defects"`
	Began   time.Time         `json:"began"`
	Ended   time.Time         `json:"ended"`
}

// MemoryRow is one memory that was found wanting.
type MemoryRow struct {
	Verdict memory.Verdict `json:"verdict"`
	User    string         `json:"user"`
	Cycle   int            `json:"cycle"` // in which it was told
	Text    string         `json:"text"`
}

// Story is the story of one memory of an incident.
type Story struct {
	Incident string
	*incident.Story
}

// Bounds of a report: what it holds does not grow with the ledger.
const (
	mostMemories = 500
	mostStories  = 20
	longestText  = 200 // runes
)

// Fold gathers what a report tells from the facts of a ledger, in one reading. Then, with the memories that it names, a
// second reading gives the stories.
type Fold struct {
	book   *oracle.Book
	log    *incident.Log
	spans  incident.Spans
	cycles map[int]*CycleRow
	plans  map[int64]fact.Injection
	run    fact.Run
	start  memory.Instant
	end    memory.Instant
}

// NewFold gives an empty fold, in which the known incidents are muted until their date, beside those that the ledger says
// are.
func NewFold(known []incident.Known) *Fold {
	return &Fold{book: oracle.NewBook(), log: incident.NewLog(known), spans: incident.Spans{}, cycles: map[int]*CycleRow{}, plans: map[int64]fact.Injection{}}
}

// Apply takes in the next fact.
func (f *Fold) Apply(e fact.Entry) {
	f.book.Apply(e)
	f.log.Apply(e)
	f.spans.Apply(e)
	f.end = memory.Later(f.end, fact.At(e.Fact))
	if f.start.IsZero() {
		f.start = f.end
	}
	switch x := e.Fact.(type) {
	case fact.Run:
		f.run = x
	case fact.Cycle:
		row := f.cycle(x.N)
		row.Control = row.Control || x.Control
		if row.Began.IsZero() {
			row.Began = x.At.Time().UTC()
		}
		row.Ended = x.At.Time().UTC()
	case fact.Step:
		f.step(x)
	}
}

func (f *Fold) cycle(n int) *CycleRow {
	if f.cycles[n] == nil {
		f.cycles[n] = &CycleRow{N: n}
	}
	return f.cycles[n]
}

// step notes what was done to the target in a cycle. The plan is needed until then.
func (f *Fold) step(s fact.Step) {
	if s.Plan != nil {
		f.plans[s.Injection] = *s.Plan
	}
	plan := f.plans[s.Injection]
	switch s.Name {
	case fact.StepInjected:
		if plan.Cycle > 0 {
			row := f.cycle(plan.Cycle)
			row.Fault, row.Service = plan.Kind, incident.Hit(plan)
		}
	case fact.StepClosed, fact.StepRefused:
		delete(f.plans, s.Injection)
	}
}

// Full gives the report as of the last fact, without the stories. ledger is the path of the file, for the commands.
func (f *Fold) Full(ledger string) *Full {
	full := &Full{Summary: Summarize(f.book, f.end), Began: f.start.Time().UTC(), Ended: f.end.Time().UTC(), Cycles: []CycleRow{}, Memories: []MemoryRow{}, Curves: []FaultCurve{}}
	s := &full.Summary
	s.Target, s.Seed, s.Ledger, s.DurationSeconds = f.run.Target, f.run.Seed, ledger, f.end.Sub(f.start).Seconds()
	s.Mute(f.log.Known(), f.end)
	full.losses()
	full.curves = f.book.Curves(f.end)
	for _, c := range full.curves {
		out := FaultCurve{Kind: c.Kind, Service: c.Service}
		for _, p := range c.Points() {
			out.Points = append(out.Points, Point{float64(p.Upto) / float64(time.Millisecond), p.Lost, p.Kept, p.P, p.Low, p.High})
		}
		full.Curves = append(full.Curves, out)
	}
	for _, n := range slices.Sorted(maps.Keys(f.cycles)) {
		row := *f.cycles[n]
		r := f.book.Cycle(n, f.end)
		row.Outcome, row.Reason, row.Losses, row.Defects = r.Outcome, r.Reason, r.Losses, r.Defects
		full.Cycles = append(full.Cycles, row)
	}
	for _, v := range s.Found[:min(len(s.Found), mostMemories)] {
		row := MemoryRow{Verdict: v}
		if h, ok := f.book.History(v.Memory); ok {
			row.User, row.Cycle, row.Text = h.Memory.User, h.Memory.Cycle, h.Memory.Text
		}
		full.Memories = append(full.Memories, row)
	}
	full.Omitted = len(s.Found) - len(full.Memories)
	full.Incidents = f.Incidents()
	slices.SortStableFunc(full.Incidents, incident.Worse)
	return full
}

// Incidents gives the incidents, the one that was found last first. What the facts prove and no daemon lived to say is
// among them.
func (f *Fold) Incidents() []incident.Incident {
	for id, v := range f.book.All(f.end) {
		if h, ok := f.book.History(id); ok && len(incident.Fingerprints(v)) > 0 {
			f.log.Apply(fact.Entry{Fact: fact.Judged{Verdict: v, Cycle: max(h.LossCycle, h.Memory.Cycle), At: f.end}})
		}
	}
	return f.log.All(f.end)
}

// losses counts by fault, service and view: as the summary counts, so that the two agree.
func (full *Full) losses() {
	views := map[[2]string]map[string]int{}
	for _, v := range append(slices.Clone(full.Summary.Found), full.Summary.Returned...) {
		if !Counts(v) {
			continue
		}
		key := [2]string{v.Fault, v.Service}
		if views[key] == nil {
			views[key] = map[string]int{}
		}
		for _, name := range v.Missing {
			views[key][name]++
		}
	}
	full.Losses = []LossRow{}
	for _, t := range full.Summary.Faults {
		row := LossRow{Fault: t.Kind, Service: t.Service, Injected: t.Injected, Lost: t.Lost, Views: views[[2]string{t.Kind, t.Service}]}
		if row.Views == nil {
			row.Views = map[string]int{}
		}
		full.Losses = append(full.Losses, row)
	}
	slices.SortStableFunc(full.Losses, func(a, b LossRow) int { return cmp.Compare(b.Lost, a.Lost) })
}

// Counts reports whether a verdict is a loss that fails a run: silent or reported, of a memory that its user saw
// acknowledged.
func Counts(v memory.Verdict) bool {
	return v.Alarming() && v.Class != memory.Unsure
}

// Tellers gives the teller of one memory of each incident, the newest of which there is evidence; of very many incidents
// those of the worst. The facts of the ledger are to be applied to them once more, and then Tell.
func (f *Fold) Tellers(full *Full) Tellers {
	t := Tellers{full: full, end: f.end, wanted: map[memory.ID]*MemoryRow{}}
	for n, v := range full.Summary.Found {
		if _, told := full.Summary.Told[v.Memory]; told {
			continue
		}
		t.wanted[v.Memory] = nil
		if n < len(full.Memories) {
			t.wanted[v.Memory] = &full.Memories[n]
		}
	}
	for _, i := range full.Incidents[:min(len(full.Incidents), mostStories)] {
		v := telling(i)
		m := memory.Memory{ID: v.Memory}
		if h, ok := f.book.History(v.Memory); ok {
			m = h.Memory
		}
		t.fingerprints = append(t.fingerprints, i.Fingerprint)
		t.tellers = append(t.tellers, incident.NewTeller(m, v, f.spans))
	}
	return t
}

// telling gives the member of an incident whose story says the most: one with a picture, or at least with evidence.
func telling(i incident.Incident) memory.Verdict {
	told := i.Members[len(i.Members)-1].Verdict
	known := 0
	for _, f := range i.Evidence {
		for _, m := range i.Members {
			id := m.Verdict.Memory
			n := 0
			if f.Memories.Has(id) {
				n = 1
				if slices.ContainsFunc(f.Pictures, func(p fact.Picture) bool { return p.Memory == id }) {
					n = 2
				}
			}
			if n > 0 && n >= known { // the newest of those
				told, known = m.Verdict, n
			}
		}
	}
	return told
}

// Tellers gather stories, and the texts of memories that are retired.
type Tellers struct {
	full         *Full
	end          memory.Instant
	fingerprints []string
	tellers      []*incident.Teller
	wanted       map[memory.ID]*MemoryRow // nil: of its row there is no need
}

// Apply takes in the next fact.
func (t Tellers) Apply(e fact.Entry) {
	for _, teller := range t.tellers {
		teller.Apply(e)
	}
	if b, ok := e.Fact.(fact.Begun); ok {
		row, wanted := t.wanted[b.Memory.ID]
		if wanted {
			t.full.Summary.Told[b.Memory.ID] = b.Memory.Text
		}
		if row != nil {
			row.User, row.Cycle, row.Text = b.Memory.User, b.Memory.Cycle, b.Memory.Text
		}
	}
}

// Tell puts the stories into the report.
func (t Tellers) Tell() {
	for i, teller := range t.tellers {
		t.full.Stories = append(t.full.Stories, Story{t.fingerprints[i], teller.Story(t.end)})
	}
}

// WriteText prints the report for a terminal: the summary with every memory that was found wanting, the incidents, and the
// curves.
func (full *Full) WriteText(w io.Writer) error {
	if err := full.Summary.WriteAll(w); err != nil {
		return err
	}
	if len(full.Incidents) > 0 {
		fmt.Fprintln(w)
		if err := incident.WriteTable(w, full.Incidents); err != nil {
			return err
		}
	}
	return WriteCurves(w, full.curves)
}

// DrawCurves draws the curves as an SVG picture.
func (full *Full) DrawCurves(w io.Writer) error {
	return DrawCurves(w, full.Summary.Target, full.curves)
}
