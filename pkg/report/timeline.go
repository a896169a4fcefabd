package report

import (
	"fmt"
	"html"
	"io"
	"slices"
	"strings"

	"amnesia/pkg/fact"
	"amnesia/pkg/incident"
	"amnesia/pkg/terminal"
)

// Measures of the timeline, in pixels.
const (
	timelineWide  = 960
	timelineLeft  = 110 // of the names
	timelineBars  = 70  // height of the highest bar
	timelineLane  = 18
	mostColumns   = 400 // beyond it, cycles share columns
	longestLane   = 15  // runes of a name
	mostLanes     = 12
	widestColumn  = 24
	timelineTicks = 10
)

// column is what the timeline shows at one place: one cycle, or several in a row.
type column struct {
	first, last     int
	losses, defects int
	outcome         fact.CycleOutcome // the worst
	control         bool              // every one is
	faults          []string          // by lane
	one             string            // what came of it, where it is one
}

// outcomes from the worst to the best.
var outcomes = []fact.CycleOutcome{fact.CycleLosses, fact.CycleDefects, fact.CycleUnrecovered, fact.CycleInconclusive, fact.CycleClean}

// DrawTimeline draws cycles as a picture to be put into a page (an svg element): the memories lost as bars, the faults by the
// service hit, and the outcome of each. Colours are the page's: it draws with currentColor and with the classes losses,
// defects, unrecovered, inconclusive, clean, control and fault.
func DrawTimeline(w io.Writer, cycles []CycleRow) error {
	lanes := timelineLanes(cycles)
	columns := timelineColumns(cycles, lanes)
	if len(columns) == 0 {
		return nil
	}
	most := 1
	for _, c := range columns {
		most = max(most, c.losses+c.defects)
	}
	step := min(float64(timelineWide-timelineLeft)/float64(len(columns)), widestColumn)
	top, strip := 12, 12+timelineBars+8+len(lanes)*timelineLane
	high := strip + 40
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="timeline" viewBox="0 0 %d %d" role="img" aria-labelledby="timeline-title timeline-desc" fill="currentColor" font-size="11">`+"\n", timelineWide, high)
	fmt.Fprintf(&b, "<title id=\"timeline-title\">Timeline of the cycles</title>\n<desc id=\"timeline-desc\">%s</desc>\n", escaped(timelineWords(cycles)))
	fmt.Fprintf(&b, `<text x="0" y="%d">lost or wrong</text><text x="%d" y="%d" text-anchor="end">%d</text>`+"\n", top+timelineBars/2, timelineLeft-6, top+8, most)
	fmt.Fprintf(&b, `<path d="M%d %d.5H%d" stroke="currentColor" stroke-opacity=".4"/>`+"\n", timelineLeft, top+timelineBars, timelineWide)
	for i, name := range lanes {
		y := top + timelineBars + 8 + i*timelineLane + timelineLane/2
		fmt.Fprintf(&b, `<text x="0" y="%d">%s</text><path d="M%d %d.5H%d" stroke="currentColor" stroke-opacity=".15"/>`+"\n", y+4, escaped(abridged(name, longestLane)), timelineLeft, y, timelineWide)
	}
	fmt.Fprintf(&b, `<text x="0" y="%d">outcome</text>`+"\n", strip+11)
	for i, c := range columns {
		x := float64(timelineLeft) + float64(i)*step
		wide := max(step-min(step/5, 2), .6)
		fmt.Fprintf(&b, "<g><title>%s</title>", escaped(c.words()))
		if n := c.losses + c.defects; n > 0 {
			h := max(float64(timelineBars)*float64(n)/float64(most), 2)
			fmt.Fprintf(&b, `<rect class="losses" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, x, float64(top+timelineBars)-h, wide, h)
		}
		for lane, kind := range c.faults {
			if kind == "" {
				continue
			}
			y := top + timelineBars + 8 + lane*timelineLane + timelineLane/2
			if step >= 9 {
				fmt.Fprintf(&b, `<text class="fault" x="%.1f" y="%d" text-anchor="middle">%s</text>`, x+wide/2, y+4, escaped(letter(kind)))
			} else {
				fmt.Fprintf(&b, `<rect class="fault" x="%.1f" y="%d" width="%.1f" height="8"/>`, x, y-4, wide)
			}
		}
		class := string(c.outcome)
		if c.control {
			class += " control"
		}
		fmt.Fprintf(&b, `<rect class="%s" x="%.1f" y="%d" width="%.1f" height="14"/></g>`+"\n", class, x, strip, wide)
	}
	every := max(len(columns)/timelineTicks, 1)
	for i := 0; i < len(columns); i += every {
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%d</text>`, float64(timelineLeft)+(float64(i)+.5)*step, strip+30, columns[i].first)
	}
	b.WriteString("\n</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// timelineLanes names the services that were hit, those that were hit most often first.
func timelineLanes(cycles []CycleRow) (lanes []string) {
	hits := map[string]int{}
	for _, c := range cycles {
		if c.Fault == "" {
			continue
		}
		if hits[c.Service] == 0 {
			lanes = append(lanes, c.Service)
		}
		hits[c.Service]++
	}
	slices.Sort(lanes)
	slices.SortStableFunc(lanes, func(a, b string) int { return hits[b] - hits[a] })
	return lanes[:min(len(lanes), mostLanes)]
}

func timelineColumns(cycles []CycleRow, lanes []string) (columns []column) {
	share := (len(cycles) + mostColumns - 1) / mostColumns
	for i, row := range cycles {
		if i%max(share, 1) == 0 {
			columns = append(columns, column{first: row.N, outcome: fact.CycleClean, control: true, faults: make([]string, len(lanes))})
		}
		c := &columns[len(columns)-1]
		c.last = row.N
		c.losses, c.defects, c.control = c.losses+row.Losses, c.defects+row.Defects, c.control && row.Control
		if slices.Index(outcomes, row.Outcome) < slices.Index(outcomes, c.outcome) {
			c.outcome = row.Outcome
		}
		if lane := slices.Index(lanes, row.Service); lane >= 0 && row.Fault != "" {
			c.faults[lane] = row.Fault
		}
		c.one = cycleWords(row)
	}
	return columns
}

// words says what came of the cycles of a column.
func (c column) words() string {
	if c.first == c.last {
		return c.one
	}
	return fmt.Sprintf("cycles %d to %d: %s", c.first, c.last, c.outcome) + foundWords(c.losses, c.defects)
}

// cycleWords says what came of a cycle.
func cycleWords(c CycleRow) string {
	what := "no fault"
	switch {
	case c.Fault != "":
		what = incident.Hurt(c.Fault, c.Service)
	case c.Control:
		what = "control, without a fault"
	}
	return fmt.Sprintf("cycle %d: %s, %s", c.N, what, c.Outcome) + foundWords(c.Losses, c.Defects)
}

func foundWords(losses, defects int) (s string) {
	if losses > 0 {
		s += fmt.Sprintf(", %d lost", losses)
	}
	if defects > 0 {
		s += fmt.Sprintf(", %d with defects", defects)
	}
	return s
}

// timelineWords says the picture for those who cannot see it.
func timelineWords(cycles []CycleRow) string {
	by := map[fact.CycleOutcome]int{}
	for _, c := range cycles {
		by[c.Outcome]++
	}
	var all []count
	for _, o := range outcomes {
		all = append(all, count{by[o], string(o)})
	}
	return fmt.Sprintf("%d cycles: %s.", len(cycles), counts(all))
}

// letter stands for a fault where there is no room for its name; the legend says which.
func letter(kind string) string {
	for _, l := range letters {
		if l[1] == kind {
			return l[0]
		}
	}
	return "•"
}

var letters = [...][2]string{{"K", "kill"}, {"S", "restart"}, {"P", "pause"}, {"N", "recreate"}, {"W", "wipe"}, {"C", "partition"}, {"A", "crash_all"}}

// escaped makes a text of a target fit for XML, which has no control characters either.
func escaped(s string) string { return html.EscapeString(terminal.Text(s)) }

func abridged(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
