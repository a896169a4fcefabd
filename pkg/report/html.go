package report

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"amnesia/pkg/fact"
	"amnesia/pkg/incident"
	"amnesia/pkg/memory"
	"amnesia/pkg/terminal"
)

//go:embed report.html.tmpl
var reportHTML string

// Bounds of the file beside those of the report, so that it can be attached to a ticket and opens at once.
const (
	mostPictures   = 4       // of one incident
	pictureBudget  = 2 << 20 // bytes of all pictures, before they are encoded
	mostLines      = 60      // log lines of one incident
	mostCycleRows  = 1000
	mostNamed      = 12 // memories of one incident
	whyPlaceholder = "MEMORY"
)

// WriteHTML writes the report as one file that fetches and runs nothing. What a target says is escaped, and a policy in
// the file forbids the rest. picture gives a screenshot (PNG) by the path that is in the evidence; the error says why there
// is none.
func (full *Full) WriteHTML(w io.Writer, picture func(file string) ([]byte, error)) error {
	funcs := template.FuncMap{
		"t": terminal.Text, "cut": abridged, "ms": ms, "state": incident.StateWords, "mount": incident.MountWords,
		"when":  func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") },
		"known": knownWords,
		"after": func(e incident.Event, start memory.Instant) string {
			return fmt.Sprintf("%+.3fs", e.At.Sub(start).Seconds())
		},
		"hurt": func(c CycleRow) string {
			if c.Fault == "" {
				return "none"
			}
			return incident.Hurt(c.Fault, c.Service)
		},
	}
	t, err := template.New("report.html.tmpl").Funcs(funcs).Parse(reportHTML)
	if err != nil {
		return err
	}
	return t.Execute(w, page{full, picture})
}

// page is the report with what its page needs beside it.
type page struct {
	*Full
	picture func(file string) ([]byte, error)
}

// Headline is the result in a few words.
func (full *Full) Headline() string { return headline(full.Summary) }

// Lead is the worst incident in a sentence, where one is not muted; else empty.
func (full *Full) Lead() string {
	if len(full.Incidents) == 0 || full.Incidents[0].Known != nil {
		return ""
	}
	return full.Incidents[0].Sentence()
}

// Views names the views that miss something.
func (full *Full) Views() (names []string) {
	for _, row := range full.Losses {
		for name := range row.Views {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// WhyCommand is the command that tells the story of a memory; of 0, of any.
func (full *Full) WhyCommand(id memory.ID) string {
	if id == 0 {
		return strings.Replace(incident.Why(full.Summary.Ledger, 0), memory.ID(0).String(), whyPlaceholder, 1)
	}
	return incident.Why(full.Summary.Ledger, id)
}

func (page) Outcomes() []fact.CycleOutcome { return outcomes }

func (page) Legend() string {
	var all []string
	for _, l := range letters {
		all = append(all, l[0]+" "+l[1])
	}
	return "Faults by the service hit: " + strings.Join(all, ", ") + "."
}

func (p page) Timeline() (template.HTML, error) {
	var b bytes.Buffer
	err := DrawTimeline(&b, p.Cycles)
	return template.HTML(b.String()), err
}

func (p page) Curve() (template.HTML, error) {
	var b bytes.Buffer
	err := DrawCurvesInline(&b, p.curves)
	return template.HTML(b.String()), err
}

// CycleRows are the newest ones; of a soak of weeks there are too many.
func (p page) CycleRows() []CycleRow { return p.Cycles[p.MoreCycles():] }

func (p page) MoreCycles() int { return max(len(p.Cycles)-mostCycleRows, 0) }

// named counts are a row of the table of all memories.
type named struct{ Name, Words string }

func (p page) Counts() []named {
	s := p.Summary
	var verdicts, losses, wrong []count
	for _, k := range slices.Backward(memory.Kinds[:]) {
		verdicts = append(verdicts, count{s.Verdicts[k], string(k)})
	}
	for _, c := range memory.Classes {
		losses = append(losses, count{s.Losses[c], string(c)})
	}
	for _, d := range memory.Defects {
		wrong = append(wrong, count{s.Defects[d], string(d)})
	}
	return []named{{"verdicts", counts(verdicts)}, {"losses", counts(losses)}, {"defects", counts(wrong)}}
}

// htmlIncident is an incident as the page shows it.
type htmlIncident struct {
	incident.Incident
	Names    string // of the newest memories
	Replay   string
	Story    *htmlStory
	Logs     []fact.Log
	Pictures []htmlPicture
}

type htmlStory struct{ *incident.Story }

// Start is when the memory was told.
func (s htmlStory) Start() memory.Instant { return s.Told() }

type htmlPicture struct {
	fact.Picture
	Data template.URL // empty: it cannot be shown
	Why  string
}

func (p page) HTMLIncidents() (all []htmlIncident) {
	budget := pictureBudget
	for _, i := range p.Incidents {
		out := htmlIncident{Incident: i, Names: newest(i)}
		var story *incident.Story
		for _, s := range p.Stories {
			if s.Incident == i.Fingerprint {
				story = s.Story
			}
		}
		if story == nil {
			all = append(all, out)
			continue
		}
		out.Story = &htmlStory{story}
		out.Replay = story.Replay(p.Summary.Ledger)
		for _, f := range i.Evidence {
			if f.Memories.Has(story.Memory.ID) {
				out.Logs = around(f.Logs, story)
				out.Pictures = p.pictures(f, story.Memory.User, &budget)
			}
		}
		all = append(all, out)
	}
	return all
}

// around gives the log lines next to the fault of a story, or else to its end; oldest first.
func around(logs []fact.Log, s *incident.Story) []fact.Log {
	var at memory.Instant
	for _, e := range slices.Backward(s.Events) {
		if at.IsZero() || e.What == "fault" {
			at = e.At
		}
	}
	near := slices.Clone(logs)
	slices.SortStableFunc(near, func(a, b fact.Log) int { return cmp.Compare(a.At.Sub(at).Abs(), b.At.Sub(at).Abs()) })
	near = near[:min(len(near), mostLines)]
	slices.SortStableFunc(near, func(a, b fact.Log) int { return cmp.Compare(a.At.Sub(b.At), 0) })
	return near
}

// pictures gives the pictures of one incident, those of the user of its story first; those that the budget allows have
// their content.
func (p page) pictures(f fact.Frozen, user string, budget *int) (all []htmlPicture) {
	located := incident.Located(f)
	slices.SortStableFunc(located, func(a, b fact.Picture) int {
		others := map[bool]int{true: 1}
		return cmp.Or(cmp.Compare(others[a.User != user], others[b.User != user]), cmp.Compare(b.When, a.When)) // "before", and then "after"
	})
	for _, picture := range located {
		if picture.Kind != "screenshot" || len(all) == mostPictures {
			continue
		}
		out := htmlPicture{Picture: picture}
		switch b, err := p.picture(picture.File); {
		case err != nil:
			out.Why = err.Error()
		case len(b) > *budget:
			out.Why = "there is no room for it here"
		default:
			*budget -= len(b)
			out.Data = template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(b))
		}
		all = append(all, out)
	}
	return all
}

// newest lists the newest memories of an incident.
func newest(i incident.Incident) string {
	var all []string
	for _, m := range slices.Backward(i.Members) {
		if len(all) == mostNamed {
			break
		}
		all = append(all, m.Verdict.Memory.String())
	}
	s := strings.Join(all, ", ")
	if more := i.Found - len(all); more > 0 {
		s += fmt.Sprintf(" and %d more", more)
	}
	return s
}
