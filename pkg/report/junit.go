package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"amnesia/pkg/fact"
	"amnesia/pkg/incident"
	"amnesia/pkg/memory"
	"amnesia/pkg/terminal"
)

// The form that GitLab, Jenkins and the actions for GitHub read: https://github.com/testmoapp/junitxml.
type (
	junitSuites struct {
		XMLName xml.Name `xml:"testsuites"`
		Name    string   `xml:"name,attr"`
		junitCounts
		Time   string       `xml:"time,attr"`
		Suites []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name string `xml:"name,attr"`
		junitCounts
		Time       string          `xml:"time,attr"`
		Timestamp  string          `xml:"timestamp,attr,omitempty"`
		Properties []junitProperty `xml:"properties>property,omitempty"`
		Cases      []junitCase     `xml:"testcase"`
	}
	junitCounts struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Errors   int `xml:"errors,attr"`
		Skipped  int `xml:"skipped,attr"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Class   string      `xml:"classname,attr"`
		Name    string      `xml:"name,attr"`
		Time    string      `xml:"time,attr"`
		Failure *junitWords `xml:"failure"`
		Error   *junitWords `xml:"error"`
		Skipped *junitWords `xml:"skipped"`
	}
	junitWords struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr,omitempty"`
		Text    string `xml:",chardata"`
	}
)

// WriteJUnit writes the result as JUnit's XML: a suite for the target, with a case for each fault of each service, for
// losses that no single fault of ours explains, for each defect, for the recovery, and for the share of conclusive cycles.
// Names stay the same from run to run. What is known is skipped. trouble is what ended the run early; nil: nothing did.
func (full *Full) WriteJUnit(w io.Writer, minConclusive float64, trouble error) error {
	s := full.Summary
	suite := junitSuite{Name: terminal.Line(s.Target), Time: seconds(s.DurationSeconds), Timestamp: full.Began.Format("2006-01-02T15:04:05"),
		Properties: []junitProperty{{"seed", fmt.Sprint(s.Seed)}, {"ledger", terminal.Line(s.Ledger)}, {"outcome", string(s.Outcome)}}}
	add := func(group, name string, failure *junitWords) {
		suite.Cases = append(suite.Cases, junitCase{Class: "amnesia." + group, Name: terminal.Line(name), Time: seconds(0), Failure: failure})
	}
	rows := slices.Clone(full.Losses)
	if !slices.ContainsFunc(rows, func(r LossRow) bool { return r.Fault == memory.FaultNone }) {
		rows = append(rows, LossRow{Fault: memory.FaultNone}) // the case is there also when it does not fail
	}
	slices.SortStableFunc(rows, func(a, b LossRow) int {
		return strings.Compare(a.Fault+" "+a.Service, b.Fault+" "+b.Service)
	})
	for _, row := range rows {
		add("losses", incident.Hurt(row.Fault, row.Service), full.junitLoss(row))
	}
	for _, d := range memory.Defects {
		add("defects", string(d), full.junitDefect(d))
	}
	add("target", "it recovers from every fault", full.junitCycles(fact.CycleUnrecovered, s.Cycles.Unrecovered > 0,
		fmt.Sprintf("the target did not recover in %d of %d cycles", s.Cycles.Unrecovered, s.Cycles.All())))
	add("evidence", "cycles are conclusive", full.junitCycles(fact.CycleInconclusive, s.Conclusive() < minConclusive,
		fmt.Sprintf("%.0f %% of %d cycles were conclusive, fewer than %.0f %%", 100*s.Conclusive(), s.Cycles.All(), 100*minConclusive)))
	for _, k := range s.Known {
		suite.Cases = append(suite.Cases, junitCase{Class: "amnesia.known", Name: terminal.Line(k.Fingerprint), Time: seconds(0),
			Skipped: &junitWords{Message: terminal.Line(fmt.Sprintf("%d found, and known (%s)", k.Found, knownWords(k.Until, k.Reason)))}})
	}
	if trouble != nil {
		suite.Cases = append(suite.Cases, junitTrouble(trouble))
	}
	return writeJUnit(w, suite)
}

// WriteJUnitError writes the result of a run that found nothing out, because of an error.
func WriteJUnitError(w io.Writer, target string, trouble error) error {
	return writeJUnit(w, junitSuite{Name: terminal.Line(target), Time: seconds(0), Cases: []junitCase{junitTrouble(trouble)}})
}

func junitTrouble(err error) junitCase {
	return junitCase{Class: "amnesia.run", Name: "it runs to its end", Time: seconds(0),
		Error: &junitWords{Message: terminal.Line(abridged(err.Error(), longestText)), Type: "error", Text: terminal.Text(err.Error())}}
}

func writeJUnit(w io.Writer, suite junitSuite) error {
	for _, c := range suite.Cases {
		suite.Tests++
		switch {
		case c.Failure != nil:
			suite.Failures++
		case c.Error != nil:
			suite.Errors++
		case c.Skipped != nil:
			suite.Skipped++
		}
	}
	all := junitSuites{Name: "amnesia", junitCounts: suite.junitCounts, Time: suite.Time, Suites: []junitSuite{suite}}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// junitLoss says what was lost to one fault of one service and is not known; nil when nothing was.
func (full *Full) junitLoss(row LossRow) *junitWords {
	lost := row.Lost
	for _, k := range full.Summary.Known {
		fault, service := incident.Cause(k.Fingerprint)
		if class := incident.Class(k.Fingerprint); fault == row.Fault && service == row.Service && (class == string(memory.Silent) || class == string(memory.Reported)) {
			lost -= k.Found
		}
	}
	if lost <= 0 {
		return nil
	}
	return full.junitIncidents("loss", fmt.Sprintf("%d lost", lost), func(i incident.Incident) bool {
		return i.Fault == row.Fault && i.Service == row.Service && (i.Class == string(memory.Silent) || i.Class == string(memory.Reported))
	})
}

func (full *Full) junitDefect(d memory.Defect) *junitWords {
	n := full.Summary.Defects[d]
	for _, k := range full.Summary.Known {
		if incident.Class(k.Fingerprint) == string(d) {
			n -= k.Found
		}
	}
	if n <= 0 {
		return nil
	}
	return full.junitIncidents("defect", fmt.Sprintf("%d %s", n, d), func(i incident.Incident) bool { return i.Class == string(d) })
}

// junitIncidents tells of the incidents that are meant and are not known.
func (full *Full) junitIncidents(kind, message string, meant func(incident.Incident) bool) *junitWords {
	var b strings.Builder
	for n, i := range full.Incidents {
		if i.Known != nil || !meant(i) {
			continue
		}
		if b.Len() == 0 {
			message += ": " + i.Sentence()
		}
		fmt.Fprintf(&b, "%s\n  incident: %s\n  memories: %s\n", i.Sentence(), i.Fingerprint, newest(i))
		if n < len(full.Stories) {
			s := full.Stories[n]
			for _, a := range s.Advice {
				fmt.Fprintf(&b, "  to do: %s\n", a)
			}
			fmt.Fprintf(&b, "  the story of one: %s\n", full.WhyCommand(s.Memory.ID))
			if replay := s.Replay(full.Summary.Ledger); replay != "" {
				fmt.Fprintf(&b, "  play it again: %s\n", replay)
			}
		}
	}
	return &junitWords{Message: terminal.Line(message), Type: kind, Text: terminal.Text(b.String())}
}

// junitCycles lists the cycles with an outcome, if it fails the case.
func (full *Full) junitCycles(outcome fact.CycleOutcome, fails bool, message string) *junitWords {
	if !fails {
		return nil
	}
	var b strings.Builder
	n := 0
	for _, c := range full.Cycles {
		if c.Outcome == outcome && n < mostMemories {
			n++
			fmt.Fprintf(&b, "cycle %d: %s\n", c.N, c.Reason)
		}
	}
	return &junitWords{Message: message, Type: string(outcome), Text: terminal.Text(b.String())}
}

func seconds(s float64) string { return strconv.FormatFloat(s, 'f', 3, 64) }
