package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"amnesia/pkg/fact"
	"amnesia/pkg/incident"
	"amnesia/pkg/memory"
	"amnesia/pkg/terminal"
)

// hostile tries to leave the place it is in.
const hostile = "app`|\x1b[2J\u202e</script>]]>&\"'\n## owned\n"

// aReport is one with a loss that is known and two that are not, a defect, and cycles of every outcome.
func aReport(t *testing.T) *Full {
	t.Helper()
	exposure := 41 * time.Millisecond
	loss := func(id memory.ID, fault, service string) memory.Verdict {
		return memory.Verdict{Memory: id, Kind: memory.Lost, Class: memory.Silent, Fault: fault, Service: service, Missing: []string{"page", "redis"},
			Suspects: []int64{1}, Exposure: &exposure, Because: hostile}
	}
	leaked := memory.Verdict{Memory: 4, Kind: memory.Kept, Defects: []memory.Defect{memory.Leaked}}
	log := incident.NewLog([]incident.Known{{Fingerprint: "silent/wipe/app/page+redis", Until: NoEnd(), Reason: "ticket 7"}})
	full := &Full{Began: time.Unix(1_790_000_000, 0).UTC(), Ended: time.Unix(1_790_000_600, 0).UTC()}
	for _, v := range []memory.Verdict{loss(1, "kill", "redis"), loss(2, "kill", hostile), loss(3, "wipe", "app"), leaked} {
		log.Apply(fact.Entry{Fact: fact.Judged{Verdict: v, Cycle: 2, At: memory.Instant{Wall: 1, Boot: "b"}}})
		full.Summary.Found = append(full.Summary.Found, v)
		full.Memories = append(full.Memories, MemoryRow{Verdict: v, User: hostile, Cycle: 2, Text: hostile})
	}
	full.Incidents = log.All(memory.Instant{Wall: 2, Boot: "b"})
	s := &full.Summary
	s.Target, s.Seed, s.Ledger, s.DurationSeconds, s.Outcome = hostile, 42, "amnesia.db", 600, fact.CycleLosses
	s.Cycles = Cycles{Clean: 1, Losses: 1, Unrecovered: 1, Inconclusive: 2}
	s.Losses = map[memory.Class]int{memory.Silent: 3}
	s.Defects = map[memory.Defect]int{memory.Leaked: 1}
	s.Verdicts = map[memory.Kind]int{memory.Lost: 3, memory.Kept: 97}
	s.Faults = []Fault{{"kill", "redis", 2, 1}, {"kill", hostile, 1, 1}, {"wipe", "app", 1, 1}, {"pause", "redis", 3, 0}}
	s.Mute([]incident.Known{{Fingerprint: "silent/wipe/app/page+redis", Until: NoEnd(), Reason: "ticket 7"}, {Fingerprint: "silent/wipe/other/page", Until: NoEnd()}}, memory.Instant{Wall: 2, Boot: "b"})
	s.Windows = []Window{{Kind: "kill", Service: "redis", MS: 50, Low: 41}}
	full.Curves = []FaultCurve{{Kind: "kill", Service: "redis", Points: []Point{{UptoMS: 64, Lost: 1, Kept: 3, P: .25, Low: .05, High: .7}}}}
	full.losses()
	for i, o := range []fact.CycleOutcome{fact.CycleClean, fact.CycleLosses, fact.CycleUnrecovered, fact.CycleInconclusive, fact.CycleInconclusive} {
		full.Cycles = append(full.Cycles, CycleRow{N: i + 1, Outcome: o, Reason: hostile, Fault: "kill", Service: "redis", Control: i == 0})
	}
	for _, i := range full.Incidents {
		v := i.Members[0].Verdict
		teller := incident.NewTeller(memory.Memory{ID: v.Memory, User: hostile, Text: hostile}, v, incident.Spans{1: {Cycle: 2}})
		full.Stories = append(full.Stories, Story{i.Fingerprint, teller.Story(memory.Instant{Wall: 2, Boot: "b"})})
	}
	return full
}

// The names in the JSON are a contract: one may be added to testdata/full.json, none changed or removed.
func TestFullFieldNames(t *testing.T) {
	b, err := json.MarshalIndent(aReport(t), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "full.json", append(terminal.JSON(b), '\n'))
}

// What is known is counted and said, and fails nothing.
func TestMute(t *testing.T) {
	s := aReport(t).Summary
	if len(s.Known) != 1 || s.Known[0].Found != 1 || !s.Known[0].Until.IsZero() || s.Losses[memory.Silent] != 3 {
		t.Errorf("known %+v of %v", s.Known, s.Losses)
	}
	if losses, defects := s.failing(); losses != 2 || defects != 1 {
		t.Errorf("%d losses and %d defects fail it", losses, defects)
	}
	s.Cycles = Cycles{Clean: 1}
	now := memory.Instant{Wall: 2, Boot: "b"}
	all := []incident.Known{}
	for _, fp := range []string{"silent/wipe/app/page+redis", "silent/kill/redis/page+redis", "silent/kill/" + hostile + "/page+redis", "leaked/-/-/-"} {
		if code := s.ExitCode(0); code != 3 {
			t.Errorf("with %d known the exit code is %d", len(all), code)
		}
		all = append(all, incident.Known{Fingerprint: fp, Until: NoEnd()}, incident.Known{Fingerprint: fp, Until: NoEnd()})
		s.Mute(all, now)
	}
	if code := s.ExitCode(0); code != 0 {
		t.Errorf("with all known the exit code is %d: %+v", code, s.Known)
	}
	for i := range all {
		all[i].Until = now.Time()
	}
	s.Known = nil
	if s.Mute(all, now); s.ExitCode(0) != 3 {
		t.Error("what was known until now still fails nothing")
	}
	s.Found, s.Losses, s.Defects = nil, map[memory.Class]int{memory.Silent: 1}, nil
	s.Returned = []memory.Verdict{{Memory: 9, Kind: memory.Lost, Class: memory.Silent, Fault: "kill", Service: "app", Missing: []string{"page"}}}
	if s.Mute([]incident.Known{{Fingerprint: "silent/kill/app/page", Until: NoEnd()}}, now); s.ExitCode(0) != 0 {
		t.Error("a known loss that came back fails it")
	}
}

// TestJUnit holds the form to the rules that its readers follow, and to what they show.
func TestJUnit(t *testing.T) {
	for name, write := range map[string]func(io.Writer) error{
		"a result":          func(w io.Writer) error { return aReport(t).WriteJUnit(w, 0.9, nil) },
		"a result, cut off": func(w io.Writer) error { return aReport(t).WriteJUnit(w, 0.9, errors.New("disk full "+hostile)) },
		"no result":         func(w io.Writer) error { return WriteJUnitError(w, hostile, errors.New(hostile)) },
		"nothing was found": func(w io.Writer) error {
			return (&Full{Summary: Summary{Cycles: Cycles{Clean: 3}}}).WriteJUnit(w, 0.9, nil)
		},
		"nothing was judged": func(w io.Writer) error { return (&Full{}).WriteJUnit(w, 0.9, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := write(&b); err != nil {
				t.Fatal(err)
			}
			golden(t, "junit-"+strings.NewReplacer(" ", "-", ",", "").Replace(name)+".xml", b.Bytes())
			wellFormedJUnit(t, b.Bytes())
		})
	}
}

// wellFormedJUnit counts what the attributes promise. A case has a name, a class and a time, no name occurs twice, and none
// has two results.
func wellFormedJUnit(t *testing.T, b []byte) {
	t.Helper()
	type node struct {
		XMLName  xml.Name
		Attrs    []xml.Attr `xml:",any,attr"`
		Children []node     `xml:",any"`
	}
	var root node
	if err := xml.Unmarshal(b, &root); err != nil {
		t.Fatal(err)
	}
	attr := func(n node, name string) string {
		for _, a := range n.Attrs {
			if a.Name.Local == name {
				return a.Value
			}
		}
		t.Errorf("<%s> has no %s", n.XMLName.Local, name)
		return ""
	}
	number := func(n node, name string) int {
		i, err := strconv.Atoi(attr(n, name))
		if err != nil {
			t.Errorf("%s of <%s>: %v", name, n.XMLName.Local, err)
		}
		return i
	}
	if root.XMLName.Local != "testsuites" || len(root.Children) != 1 || root.Children[0].XMLName.Local != "testsuite" {
		t.Fatalf("<%s> with %d children is no JUnit", root.XMLName.Local, len(root.Children))
	}
	suite := root.Children[0]
	counts, names := map[string]int{}, map[string]bool{}
	for _, c := range suite.Children {
		if c.XMLName.Local == "properties" {
			continue
		}
		if c.XMLName.Local != "testcase" || len(c.Children) > 1 {
			t.Errorf("<%s> with %d results", c.XMLName.Local, len(c.Children))
		}
		counts["tests"]++
		for _, r := range c.Children {
			attr(r, "message")
			counts[map[string]string{"failure": "failures", "error": "errors", "skipped": "skipped"}[r.XMLName.Local]]++
		}
		if name := attr(c, "classname") + " " + attr(c, "name"); names[name] {
			t.Errorf("%s occurs twice", name)
		} else {
			names[name] = true
		}
		if _, err := strconv.ParseFloat(attr(c, "time"), 64); err != nil {
			t.Error(err)
		}
	}
	for _, n := range []node{root, suite} {
		for _, what := range []string{"tests", "failures", "errors", "skipped"} {
			if number(n, what) != counts[what] {
				t.Errorf("<%s %s=%d>, but there are %d", n.XMLName.Local, what, number(n, what), counts[what])
			}
		}
	}
}

// TestMarkdown holds the form for an issue and the short one for a job. Nothing that the target says is markup.
func TestMarkdown(t *testing.T) {
	for name, write := range map[string]func(io.Writer) error{"issue.md": aReport(t).WriteMarkdown, "job.md": aReport(t).WriteStepSummary} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		golden(t, name, b.Bytes())
		for line := range strings.Lines(b.String()) {
			if strings.HasPrefix(line, "## owned") || strings.ContainsAny(line, "\x1b\u202e") {
				t.Errorf("%s: the target wrote the line %q", name, line)
			}
		}
	}
}

// TestTimeline: the picture is sound XML, says each column, and does not grow with the soak.
func TestTimeline(t *testing.T) {
	for _, tc := range []struct{ cycles, columns int }{{1, 1}, {200, 200}, {400, 400}, {401, 201}, {10_000, 400}} {
		var rows []CycleRow
		lost := 0
		for n := range tc.cycles {
			row := CycleRow{N: n + 1, Outcome: fact.CycleClean, Fault: "kill", Service: hostile + fmt.Sprint(n%20)}
			if n%7 == 0 {
				row.Outcome, row.Losses = fact.CycleLosses, 3
				lost++
			}
			rows = append(rows, row)
		}
		var b bytes.Buffer
		if err := DrawTimeline(&b, rows); err != nil {
			t.Fatal(err)
		}
		columns, said := 0, ""
		for d := xml.NewDecoder(bytes.NewReader(b.Bytes())); ; {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%d cycles: %v", tc.cycles, err)
			}
			switch x := token.(type) {
			case xml.StartElement:
				if x.Name.Local == "g" {
					columns++
				}
			case xml.CharData:
				said += string(x)
			}
		}
		if columns != tc.columns {
			t.Errorf("%d cycles have %d columns, want %d", tc.cycles, columns, tc.columns)
		}
		if got := strings.Count(said, "cycle ") + strings.Count(said, "cycles ") - 1; got < tc.columns-1 || got > tc.columns {
			t.Errorf("of %d columns it says %d", tc.columns, got)
		}
		if b.Len() > 500_000 {
			t.Errorf("of %d cycles it takes %d bytes", tc.cycles, b.Len())
		}
		if want := fmt.Sprintf("%d losses", lost); !strings.Contains(said, want) {
			t.Errorf("%d cycles: it does not say %q", tc.cycles, want)
		}
	}
	var b bytes.Buffer
	if err := DrawTimeline(&b, nil); err != nil || b.Len() > 0 {
		t.Errorf("of no cycle it draws %q, %v", b.String(), err)
	}
}
