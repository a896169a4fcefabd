package report

import (
	"time"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
	"amnesia/pkg/oracle"
)

// Summarize sums a book up as of now. Target, Seed, DurationSeconds and Ledger are the caller's to fill in.
func Summarize(b *oracle.Book, now memory.Instant) Summary {
	t := b.Totals(now)
	s := Summary{
		Outcome:  t.Outcome,
		Writes:   Writes{t.Writes[memory.Acknowledged], t.Writes[memory.Rejected], t.Writes[memory.Unknown]},
		Sweeps:   Sweeps{t.Read, t.Unread},
		Verdicts: map[memory.Kind]int{}, Defects: map[memory.Defect]int{}, Losses: map[memory.Class]int{},
		Faults: []Fault{}, Windows: []Window{}, Known: []Known{}, Told: map[memory.ID]string{},
	}
	for key, n := range t.Cycles {
		if key.Control {
			s.Cycles.Control += n
		}
		switch key.Outcome {
		case fact.CycleClean:
			s.Cycles.Clean += n
		case fact.CycleLosses:
			s.Cycles.Losses += n
		case fact.CycleDefects:
			s.Cycles.Defects += n
		case fact.CycleUnrecovered:
			s.Cycles.Unrecovered += n
		case fact.CycleInconclusive:
			s.Cycles.Inconclusive += n
		}
	}
	// Every key is there, also at 0: programs read them without asking.
	for _, k := range memory.Kinds {
		s.Verdicts[k] = t.Verdicts[k]
	}
	for _, d := range memory.Defects {
		s.Defects[d] = t.Defects[d]
	}
	for _, c := range memory.Classes {
		s.Losses[c] = t.Losses[c]
	}
	for _, f := range t.Faults {
		s.Faults = append(s.Faults, Fault{f.Kind, f.Service, f.Injected, f.Lost})
	}
	s.Rates = Rates{Rate(t.Control), Rate(t.Struck)}
	if p50, ok := t.Median(); ok {
		s.Exposure = Exposure{P50: inMS(p50), Max: inMS(t.Exposures[len(t.Exposures)-1])}
	}
	for _, c := range t.Curves {
		w := c.Window()
		out := Window{Kind: c.Kind, Service: c.Service, MS: *inMS(w.At), Low: *inMS(w.Low)}
		if w.High > 0 {
			out.High = inMS(w.High)
		}
		s.Windows = append(s.Windows, out)
	}
	for id, v := range b.All(now) {
		if h, ok := b.History(id); ok && h.Loss != nil && !v.Kind.Loss() {
			back := *h.Loss
			back.Defects = nil // they are v's
			s.Returned = append(s.Returned, back)
		}
		if !v.Kind.Loss() && len(v.Defects) == 0 {
			continue
		}
		s.Found = append(s.Found, v)
		if h, ok := b.History(id); ok {
			s.Told[id] = h.Memory.Text
		}
	}
	return s
}

func inMS(d time.Duration) *float64 {
	f := float64(d.Round(time.Microsecond)) / float64(time.Millisecond)
	return &f
}
