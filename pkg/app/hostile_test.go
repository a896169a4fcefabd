package app

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"amnesia/pkg/fact"
	"amnesia/pkg/ledger"
	"amnesia/pkg/memory"
	"amnesia/pkg/web"
)

// hostile is what a page, a log line or a name may say: it begins escape sequences in every way there is, turns text round,
// rewrites lines, and tries HTML and SQL.
const hostile = "x\x1b]0;owned\x07\x1b[2J\u009b31m\x9b31m\rkept\b\u202eemos\u202c\u2028\x7f\x00 </text><script>alert(1)</script>'); DROP TABLE fact; --"

// acted reports whether a terminal would do something about a text, and not show it.
func acted(s string) bool {
	return !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool {
		return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || r >= 0x2028 && r <= 0x202e
	})
}

// hostileLedger is of a run in which everything that comes from the target tries to break out: two memories, one of them lost.
func hostileLedger(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "h'ostile\".db")
	l, err := ledger.Open(t.Context(), path, ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	n := int64(0)
	at := func() memory.Instant {
		n += int64(time.Second)
		return memory.Instant{Mono: n, Wall: 1_700_000_000_000_000_000 + n, Boot: "boot"}
	}
	service := "app" + hostile
	health := &fact.Health{Service: service, Healthy: true, Detail: hostile, Instances: []fact.Instance{{ID: hostile, Started: hostile}}, At: at()}
	facts := []fact.Fact{
		fact.Run{ID: "r", Target: "http://" + hostile, Driver: hostile, At: at()},
		fact.Contracts{Contracts: []memory.Contract{{View: "page", Service: service, User: true, Durable: true, Settle: time.Millisecond}},
			Levels: []string{"shown"}, CountsFrom: "shown", At: at()},
		fact.Cycle{Run: "r", N: 1, Phase: fact.PhaseTraffic, At: at()},
	}
	for id := memory.ID(1); id <= 2; id++ {
		facts = append(facts, fact.Begun{Memory: memory.Memory{ID: id, Run: "r", Cycle: 1, User: hostile, Text: hostile, Token: "tok" + id.String()}, At: at()},
			fact.Settled{Memory: id, Outcome: memory.Acknowledged, Detail: hostile, Levels: []memory.Level{{Name: "shown", NotSeen: at(), Seen: at()}}, At: at()})
	}
	plan := fact.Injection{ID: 1, Cycle: 1, Kind: "kill", Service: service, Instances: "all"}
	gone := *health
	gone.Instances = []fact.Instance{{ID: hostile, Started: "later"}}
	facts = append(facts,
		fact.Step{Injection: 1, Name: fact.StepFiring, Plan: &plan, Before: []fact.Health{*health}, At: at()},
		fact.Step{Injection: 1, Name: fact.StepInjected, Fired: at(), At: at()},
		fact.Step{Injection: 1, Name: fact.StepRecovered, After: []fact.Health{gone}, At: at()},
		fact.Step{Injection: 1, Name: fact.StepClosed, Detail: hostile, At: at()},
		fact.Step{Injection: 2, Name: fact.StepPlanned, Plan: &plan, At: at()},
		fact.Step{Injection: 2, Name: fact.StepRefused, Detail: hostile, At: at()},
		fact.Log{Service: service, Level: "error", Line: hostile, Memory: 2, At: at()},
		fact.Death{Service: "db" + hostile, Cause: hostile, Detail: hostile, NotBefore: at(), At: at()},
		fact.Session{User: hostile, Driver: hostile, Outcome: "target_error", Detail: hostile, Files: []string{hostile}, Began: at(), Ended: at()})
	for id := int64(1); id <= 3; id++ {
		began := at()
		before, after := *health, gone
		before.At, after.At = began, at()
		facts = append(facts, fact.Sweep{ID: id, Cycle: 1, View: "page", Began: began, Ended: after.At, Before: &after, After: &after, Complete: true,
			Read: memory.SetOf(1, 2), Observations: []memory.Observation{
				{Memory: 1, View: "page", State: memory.Present, Copies: 1, Records: 1, Strangers: []string{hostile}, Detail: hostile, Began: began, Ended: after.At},
				{Memory: 2, View: "page", State: memory.Absent, Records: 1, Detail: hostile, Began: began, Ended: after.At}}})
	}
	facts = append(facts, fact.Cycle{Run: "r", N: 1, Phase: fact.PhaseClosed, Outcome: fact.CycleLosses, Reason: hostile, At: at()},
		fact.Pause{On: true, Reason: hostile, At: at()})
	if err := errors.Join(l.Append(t.Context(), facts...), l.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestHostileTextOnTheTerminal prints everything that is printed of a ledger, and of a daemon.
func TestHostileTextOnTheTerminal(t *testing.T) {
	path := hostileLedger(t)
	s, _, err := judge(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Found) != 2 { // one lost, one leaked: so that all the words about them are printed
		t.Fatalf("found %d: %+v", len(s.Found), s)
	}
	picture := filepath.Join(t.TempDir(), "curve.svg")
	status := web.Status{Run: hostile, Version: hostile, Target: hostile, Asked: &web.Ask{Kind: hostile}, Held: []web.Held{{Reason: "paused", Why: hostile}},
		Cycle: &web.Cycle{Phase: hostile}, Summary: s}
	for name, do := range map[string]func(c Console) error{
		"judge": func(c Console) error { _, err := Judge(t.Context(), c, JudgeOptions{Ledger: path}); return err },
		"judge json": func(c Console) error {
			_, err := Judge(t.Context(), c, JudgeOptions{Ledger: path, Form: JSON})
			return err
		},
		"report":      func(c Console) error { return Report(t.Context(), c, ReportOptions{Ledger: path, Picture: picture}) },
		"report md":   func(c Console) error { return Report(t.Context(), c, ReportOptions{Ledger: path, Form: Markdown}) },
		"report html": func(c Console) error { return Report(t.Context(), c, ReportOptions{Ledger: path, Form: HTML}) },
		"report json": func(c Console) error { return Report(t.Context(), c, ReportOptions{Ledger: path, Form: JSON}) },
		"incidents":   func(c Console) error { return Incidents(t.Context(), c, path, Text) },
		"why":         func(c Console) error { return Why(t.Context(), c, WhyOptions{Ledger: path, Memory: "m2"}) },
		"why json": func(c Console) error {
			return Why(t.Context(), c, WhyOptions{Ledger: path, Memory: "tok" + memory.ID(1).String(), Form: JSON})
		},
		"status":      func(c Console) error { return writeStatus(c.Out, status) },
		"status json": func(c Console) error { return writeJSON(c.Out, status) },
		"logs": func(c Console) error {
			c.logger("console", false).Sugar().Errorw(hostile, "k", hostile, hostile, errors.New(hostile))
			return nil
		},
		"logs json": func(c Console) error {
			c.logger("json", false).Sugar().Errorw(hostile, "k", hostile, hostile, errors.New(hostile))
			return nil
		},
		"errors": func(c Console) error { _, err := io.WriteString(c.Err, Explain(errors.New(hostile))); return err },
		"no memory": func(c Console) error {
			_, err := io.WriteString(c.Err, Explain(Why(t.Context(), c, WhyOptions{Ledger: path, Memory: hostile})))
			return err
		},
	} {
		var b bytes.Buffer
		if err := do(NewConsole(&b, &b, false)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if out := b.String(); acted(out) || !strings.Contains(out, "owned") && !strings.HasPrefix(name, "judge json") {
			t.Errorf("%s prints %q", name, out)
		}
		if strings.HasSuffix(name, "json") && name != "logs json" && !json.Valid(b.Bytes()) {
			t.Errorf("%s is no JSON: %q", name, b.String())
		}
	}
	// The JSON of a story says the same to a program as was recorded.
	var b bytes.Buffer
	if err := Why(t.Context(), NewConsole(&b, &b, false), WhyOptions{Ledger: path, Memory: "m2", Form: JSON}); err != nil {
		t.Fatal(err)
	}
	var story struct{ Memory memory.Memory }
	if err := json.Unmarshal(b.Bytes(), &story); err != nil || story.Memory.Text != strings.ToValidUTF8(hostile, "\ufffd") {
		t.Errorf("%v: %q", err, story.Memory.Text)
	}
	// The drawing is XML that holds no element of the target's.
	drawn, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(bytes.NewReader(drawn)); ; {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if el, ok := tok.(xml.StartElement); err != nil || ok && el.Name.Local == "script" {
			t.Fatalf("the drawing: %v, %v", tok, err)
		}
	}
}
