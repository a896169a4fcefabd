package web

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"amnesia/pkg/fact"
	"amnesia/pkg/incident"
	"amnesia/pkg/memory"
	"amnesia/pkg/report"
)

// timeline is the story of one memory as a picture: a lane for its user, for each service that was hit, and for each view.
// The order is true; distances grow with the logarithm of the time, since milliseconds and minutes are both told of.
type timeline struct {
	Width, Height int
	Lanes         []lane
	Rules         []rule
	Foot          int // the y of the end of the rules
}

type lane struct {
	Name, Kind string // Kind: user, service or view
	Y          int
	Spans      []span
	Marks      []mark
}

// span is a stretch in which something held.
type span struct {
	X, W int
	Kind string
}

// mark is one moment, with what it was in words.
type mark struct {
	X           int
	Kind, Title string
}

// rule is a moment that everything else is seen against.
type rule struct {
	X, Y, At    int // Y: of its text; At: where that begins
	Kind, Label string
	Anchor      string
}

// The measures of a timeline.
const (
	gutter    = 132 // for the names of the lanes
	wide      = 960
	laneHigh  = 34
	labelHigh = 18

	laneLetters = 15 // of a name, as many as the gutter has room for
)

// draw gives the picture of a story; nil when there is nothing to draw.
func draw(s *incident.Story) *timeline {
	events := slices.DeleteFunc(slices.Clone(s.Events), func(e incident.Event) bool { return e.What == "log" || e.What == "engine" })
	if len(events) == 0 {
		return nil
	}
	x := place(events)
	t := &timeline{Width: wide}
	lanes := map[string]*lane{}
	var order []string
	in := func(name, kind string) *lane {
		key := kind + " " + name
		if lanes[key] == nil {
			lanes[key] = &lane{Name: name, Kind: kind}
			order = append(order, key)
		}
		return lanes[key]
	}
	user := in(s.Memory.User, "user")
	var acknowledged memory.Instant
	for _, e := range events {
		if e.What == "acknowledged" && acknowledged.IsZero() {
			acknowledged = e.At
		}
	}
	end := x[len(x)-1]
	open := map[*lane]int{} // the span under way
	begin := func(l *lane, at int, kind string) {
		if i, ok := open[l]; ok {
			l.Spans[i].W = at - l.Spans[i].X
			delete(open, l)
		}
		if kind != "" {
			open[l] = len(l.Spans)
			l.Spans = append(l.Spans, span{X: at, Kind: kind})
		}
	}
	for i, e := range events {
		at, title := x[i], fmt.Sprintf("%s %s: %s", since(e.At, acknowledged), e.What, e.Text)
		note := func(l *lane, kind string) { l.Marks = append(l.Marks, mark{at, kind, title}) }
		rule := func(kind, label string) {
			t.Rules = append(t.Rules, rule{X: at, Kind: kind, Label: strings.TrimSpace(label + " " + since(e.At, acknowledged))})
		}
		switch e.What {
		case "told":
			note(user, "told")
			begin(user, at, "typing")
		case "acknowledged":
			note(user, "acknowledged")
			if e.At == acknowledged {
				begin(user, at, "")
				rule("acknowledged", "acknowledged")
			}
		case "fault":
			l := in(e.Who, "service")
			if strings.HasPrefix(e.Text, "healthy again") || strings.HasPrefix(e.Text, "undone") {
				note(l, "back")
				begin(l, at, "")
				break
			}
			note(l, "fault")
			begin(l, at, "down")
			kind, _, _ := strings.Cut(e.Text, " ")
			rule("fault", strings.TrimSuffix(kind, ",")+" of "+e.Who)
		case "died":
			note(in(e.Who, "service"), "fault")
		case "seen", "absent", "unreadable":
			l := in(e.Who, "view")
			note(l, e.What)
			begin(l, at, e.What)
		case "verdict":
			if i == len(events)-1 || memory.Kind(e.Who) == s.Verdict.Kind && !slices.ContainsFunc(events[i+1:], func(l incident.Event) bool { return l.What == "verdict" }) {
				rule("verdict", e.Who)
			}
		default:
			note(user, "other")
			begin(user, at, "")
		}
	}
	for l := range open {
		begin(l, end, "")
	}
	// Views come last, whatever was read first.
	slices.SortStableFunc(order, func(a, b string) int { return rank(a) - rank(b) })
	t.label()
	for i, key := range order {
		l := lanes[key]
		if l.Kind != "user" { // a service and a view of it may have one name
			l.Name = l.Kind + " " + l.Name
		}
		l.Y = t.Foot + laneHigh*i + laneHigh/2
		t.Lanes = append(t.Lanes, *l)
	}
	t.Foot += laneHigh * len(order)
	t.Height = t.Foot + 8
	return t
}

func rank(key string) int {
	kind, _, _ := strings.Cut(key, " ")
	return slices.Index([]string{"user", "service", "view"}, kind)
}

// place gives each event its x.
func place(events []incident.Event) []int {
	at := make([]float64, len(events))
	for i := 1; i < len(events); i++ {
		gap := max(0, float64(events[i].At.Sub(events[i-1].At))/float64(time.Millisecond))
		at[i] = at[i-1]
		if gap > 0 {
			at[i] += 0.6 + math.Log10(1+gap)
		}
	}
	x := make([]int, len(events))
	const left, right = gutter + 16, wide - 24
	for i := range at {
		x[i] = left
		if whole := at[len(at)-1]; whole > 0 {
			x[i] += int(at[i] / whole * (right - left))
		}
	}
	return x
}

// label lays the texts of the rules into as few rows as keep them apart.
func (t *timeline) label() {
	const letter = 7 // the width of one, about
	var ends []int
	for i := range t.Rules {
		r := &t.Rules[i]
		w := letter * len([]rune(r.Label))
		from, to := r.X, r.X+w
		r.Anchor, r.At = "start", r.X
		if to > wide {
			r.Anchor, from, to = "end", r.X-w, r.X
		}
		row := slices.IndexFunc(ends, func(end int) bool { return end+12 < from })
		if row < 0 {
			row = len(ends)
			ends = append(ends, 0)
		}
		ends[row] = to
		r.Y = row
	}
	for i := range t.Rules {
		t.Rules[i].Y = labelHigh*t.Rules[i].Y + labelHigh - 4
	}
	t.Foot = labelHigh*len(ends) + 8
}

// since says how long before or after the acknowledgement something was.
func since(at, acknowledged memory.Instant) string {
	if acknowledged.IsZero() || at == acknowledged {
		return ""
	}
	d := at.Sub(acknowledged)
	if d < 0 {
		return "−" + short(-d)
	}
	return "+" + short(d)
}

// short rounds a duration to what a person reads.
func short(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// bars are the last cycles as a picture: of each how much was acknowledged, and how much of that was found lost.
type bars struct {
	Width, Height, Base int
	Most                int
	Bars                []bar
}

type bar struct {
	X, W, Y, H, LostY, LostH, Top int
	Kind, Title                   string // Kind: the outcome, or running
	Mark                          bool   // something was found
}

// drawBars draws cycles, which come the newest first, from the oldest on.
func drawBars(cycles []incident.Cycle) bars {
	const step, high, top = 16, 88, 14
	b := bars{Width: step*recentBars + 2, Height: top + high + 4, Base: top + high}
	for _, c := range cycles {
		b.Most = max(b.Most, c.Acknowledged, c.Lost)
	}
	cycles = cycles[:min(recentBars, len(cycles))]
	for i, c := range slices.Backward(cycles) {
		one := bar{X: b.Width - step*(i+1), W: step - 4, Kind: "running", Mark: c.Lost+c.Defects > 0 || c.Outcome == fact.CycleUnrecovered}
		if b.Most > 0 {
			one.H, one.LostH = high*c.Acknowledged/b.Most, high*c.Lost/b.Most
			if c.Lost > 0 {
				one.LostH = max(one.LostH, 3)
			}
		}
		one.Y, one.LostY = b.Base-one.H, b.Base-one.LostH // of earlier cycles too: it may be more than was acknowledged
		one.Top = min(one.Y, one.LostY)
		if c.Outcome != "" {
			one.Kind = string(c.Outcome)
		}
		one.Title = fmt.Sprintf("cycle %d: %d acknowledged, %d lost, %s", c.N, c.Acknowledged, c.Lost, one.Kind)
		b.Bars = append(b.Bars, one)
	}
	return b
}

// recentBars is how many cycles drawBars draws.
const recentBars = 60

// curve is P(lost | t) of one fault as a picture.
type curve struct {
	Width, Height, Left, Right, Top, Base int
	Band, Line                            string // SVG points
	Dots                                  []dot
	Rows, Columns                         []tick
}

type dot struct {
	X, Y  float64
	Title string
}

type tick struct {
	At    float64
	Label string
}

// drawCurve draws the stretches of a curve over the logarithm of the time.
func drawCurve(points []report.Point) *curve {
	if len(points) == 0 {
		return nil
	}
	c := &curve{Width: 640, Height: 240, Left: 48, Right: 624, Top: 12, Base: 200}
	low, high := math.Log10(points[0].UptoMS/2), math.Log10(points[len(points)-1].UptoMS)
	x := func(ms float64) float64 {
		return float64(c.Left) + (math.Log10(ms)-low)/max(high-low, 0.1)*float64(c.Right-c.Left)
	}
	y := func(p float64) float64 { return float64(c.Base) - p*float64(c.Base-c.Top) }
	var upper, lower, line []string
	for _, p := range points {
		upper = append(upper, fmt.Sprintf("%.1f,%.1f", x(p.UptoMS), y(p.High)))
		lower = append(lower, fmt.Sprintf("%.1f,%.1f", x(p.UptoMS), y(p.Low)))
		line = append(line, fmt.Sprintf("%.1f,%.1f", x(p.UptoMS), y(p.P)))
		c.Dots = append(c.Dots, dot{x(p.UptoMS), y(p.P), fmt.Sprintf("up to %s: %d of %d lost", short(ofMS(p.UptoMS)), p.Lost, p.Lost+p.Kept)})
	}
	slices.Reverse(lower)
	c.Band, c.Line = strings.Join(append(upper, lower...), " "), strings.Join(line, " ")
	for _, p := range []float64{0, 0.5, 1} {
		c.Rows = append(c.Rows, tick{y(p), fmt.Sprintf("%.0f %%", 100*p)})
	}
	for ms := math.Pow(10, math.Ceil(low)); ms <= math.Pow(10, high)*1.001; ms *= 10 {
		c.Columns = append(c.Columns, tick{x(ms), short(ofMS(ms))})
	}
	return c
}

func ofMS(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
