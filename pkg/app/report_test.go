package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/playwright-community/playwright-go"

	"amnesia/pkg/fact"
	"amnesia/pkg/ledger"
	"amnesia/pkg/memory"
	"amnesia/pkg/session/browser/browsertest"
)

// markup tries to leave the place it is in, wherever that is in a page.
const markup = `x"'></title></style></bdi></pre></svg><script>window.owned=1;fetch("http://127.0.0.1:9/")</script><img src=x onerror="window.owned=2"><svg onload="window.owned=3"><a href="javascript:window.owned=4">` + "\u202e`|"

// scribe writes the ledger of a long soak.
type scribe struct {
	t     *testing.T
	bad   string // is in everything that is not ours
	l     *ledger.Ledger
	now   int64
	id    memory.ID
	sweep int64
	facts []fact.Fact
}

func (s *scribe) at() memory.Instant {
	s.now += int64(time.Millisecond)
	return memory.Instant{Mono: s.now, Wall: 1_790_000_000e9 + s.now, Boot: "b"}
}

func (s *scribe) note(f ...fact.Fact) { s.facts = append(s.facts, f...) }

func (s *scribe) write() {
	s.t.Helper()
	if err := s.l.Append(s.t.Context(), s.facts...); err != nil {
		s.t.Fatal(err)
	}
	s.facts = nil
}

// soak writes so many cycles with so many memories each, the text of which the target made hostile. In every fifth cycle
// the kill takes five memories, and the evidence is frozen with a screenshot.
func (s *scribe) soak(cycles, memories int, picture string) {
	service := "redis" + s.bad
	health := func() fact.Health {
		return fact.Health{Service: service, Healthy: true, Instances: []fact.Instance{{ID: fmt.Sprint(s.now / 1e11), Started: "s"}}, At: s.at()}
	}
	s.note(fact.Run{ID: "r", Seed: 1, Target: "http://app" + s.bad, Driver: "http", At: s.at()},
		fact.Contracts{Version: 1, Levels: []string{"shown"}, CountsFrom: "shown", At: s.at(), Contracts: []memory.Contract{
			{View: "page", Service: service, User: true, Durable: true, Settle: time.Millisecond},
			{View: "redis", Service: service, Durable: true, Settle: time.Millisecond}}})
	for n := 1; n <= cycles; n++ {
		inj := fact.Injection{ID: int64(n), Cycle: n, Kind: "kill", Service: service, Instances: "all", After: "acknowledged", Nth: 1}
		s.note(fact.Cycle{Run: "r", N: n, Phase: fact.PhaseTraffic, At: s.at()}, fact.Gate{Cycle: n, Services: []fact.Health{health()}, At: s.at()},
			fact.Step{Injection: inj.ID, Name: fact.StepPlanned, Plan: &inj, At: s.at()}, fact.Step{Injection: inj.ID, Name: fact.StepGated, Before: []fact.Health{health()}, At: s.at()})
		first := s.id + 1
		for range memories {
			s.id++
			s.note(fact.Begun{At: s.at(), Memory: memory.Memory{ID: s.id, Run: "r", Cycle: n, User: fmt.Sprint(s.bad, s.id%8), Token: fmt.Sprint("tok", s.id),
				Text: fmt.Sprint("My locker code is tok", s.id, s.bad), Payload: memory.PayloadShort, Views: []string{"page", "redis"}}},
				fact.Settled{Memory: s.id, Outcome: memory.Acknowledged, Levels: []memory.Level{{Name: "shown", NotSeen: s.at(), Seen: s.at()}}, At: s.at()})
		}
		all, lost := memory.Set{{First: first, Last: s.id}}, memory.Set{}
		if n%5 == 0 {
			lost = memory.Set{{First: s.id - 4, Last: s.id}}
		}
		s.note(fact.Step{Injection: inj.ID, Name: fact.StepFiring, Plan: &inj, Before: []fact.Health{health()}, At: s.at()})
		s.note(fact.Log{Service: service, Level: "error", Line: s.bad, Memory: 0, At: s.at()})
		s.note(fact.Step{Injection: inj.ID, Name: fact.StepInjected, Fired: s.at(), At: s.at()})
		s.now += 1e11
		s.note(fact.Step{Injection: inj.ID, Name: fact.StepProven, At: s.at()}, fact.Step{Injection: inj.ID, Name: fact.StepRecovered, After: []fact.Health{health()}, At: s.at()},
			fact.Step{Injection: inj.ID, Name: fact.StepClosed, At: s.at()}, fact.Cycle{Run: "r", N: n, Phase: fact.PhaseSettle, At: s.at()})
		s.now += int64(time.Second)
		for _, view := range []string{"page", "redis", "page", "redis"} {
			s.read(n, view, health, all, lost)
		}
		if len(lost) > 0 {
			s.found(n, inj, lost, picture)
		}
		s.note(fact.Cycle{Run: "r", N: n, Phase: fact.PhaseClosed, Outcome: fact.CycleClean, Reason: s.bad, At: s.at()})
		if n%100 == 0 {
			s.note(fact.Retired{Memories: memory.Set{{First: 1, Last: s.id - 1000}}, At: s.at()})
		}
		s.write()
	}
}

func (s *scribe) read(cycle int, view string, health func() fact.Health, all, lost memory.Set) {
	s.sweep++
	before, began := health(), s.at()
	f := fact.Sweep{ID: s.sweep, Cycle: cycle, View: view, Began: began, Ended: s.at(), Before: &before, Complete: true, Read: all}
	after := health()
	f.After = &after
	for id := all[0].First; id <= all[0].Last; id++ {
		o := memory.Observation{Memory: id, View: view, State: memory.Present, Copies: 1, Began: f.Began, Ended: f.Ended}
		if lost.Has(id) {
			o.State, o.Copies, o.Detail = memory.Absent, 0, s.bad
		}
		f.Observations = append(f.Observations, o)
	}
	s.note(f)
}

// found is what the daemon writes down when it has found the loss.
func (s *scribe) found(cycle int, inj fact.Injection, lost memory.Set, picture string) {
	exposure := 41 * time.Millisecond
	name := "silent/kill/" + inj.Service + "/page+redis"
	for id := lost[0].First; id <= lost[0].Last; id++ {
		s.note(fact.Judged{Cycle: cycle, At: s.at(), Verdict: memory.Verdict{Memory: id, Kind: memory.Lost, Class: memory.Silent, Level: "shown", Fault: "kill",
			Service: inj.Service, Suspects: []int64{inj.ID}, Exposure: &exposure, Missing: []string{"page", "redis"}, Because: s.bad}})
	}
	f := fact.Frozen{Incident: name, Cycle: cycle, Injection: inj.ID, Memories: lost, At: s.at(), Services: []fact.ServiceState{{Service: inj.Service, Name: "redis-1" + s.bad,
		Image: "redis" + s.bad, State: "running" + s.bad, RestartPolicy: "no" + s.bad, Command: []string{"redis-server", s.bad}, Mounts: []fact.Mount{{Kind: "volume", Source: "data" + s.bad, Path: "/data" + s.bad}},
		Findings: []string{"Redis writes no append-only file" + s.bad + " — fix: appendonly yes"}}},
		Events:   []fact.ServiceEvent{{Service: inj.Service, Kind: "die" + s.bad, At: s.at().Time()}},
		Pictures: []fact.Picture{{File: picture, Kind: "screenshot", When: "after", At: s.at()}, {File: s.bad + ".png", Kind: "screenshot", When: "before", At: s.at()}}}
	for range 100 {
		f.Logs = append(f.Logs, fact.Log{Service: inj.Service, Level: "info", Line: strings.Repeat(s.bad, 3), At: s.at()})
	}
	s.note(f)
}

// longSoak is the ledger of 200 cycles of 50 memories each, with its evidence beside it.
func longSoak(t *testing.T) string {
	dir := t.TempDir()
	path := filepath.Join(dir, "amnesia.db")
	l, err := ledger.Open(t.Context(), path, ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	picture := "20261130T020000.000Z-cycle5.png"
	evidence := filepath.Join(dir, "amnesia-evidence")
	if err := os.Mkdir(evidence, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(evidence, picture), pixel, 0o600); err != nil {
		t.Fatal(err)
	}
	s := &scribe{t: t, l: l, bad: markup, now: 1e12}
	s.soak(200, 50, picture)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// pixel is a PNG.
var pixel = []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89\x00\x00\x00\rIDATx\x9cc\xf8\xcf\xc0\xf0\x1f\x00\x05\x00\x01\xff\x89\x99=\x1d\x00\x00\x00\x00IEND\xaeB`\x82")

// TestReportOfALongSoak holds what a report of 10,000 memories and 200 cycles may cost, and that nothing in it can act, whatever the target said.
func TestReportOfALongSoak(t *testing.T) {
	path := longSoak(t)
	var b bytes.Buffer
	c := NewConsole(&b, &b, false)
	file := filepath.Join(t.TempDir(), "report.html")
	began := time.Now()
	if err := Report(t.Context(), c, ReportOptions{Ledger: path, Form: HTML, File: file}); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes in %s", info.Size(), took)
	if info.Size() > 5e6 {
		t.Errorf("the report has %d bytes", info.Size())
	}
	if took > time.Minute {
		t.Errorf("it took %s", took)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"200 memories were lost SILENTLY", "41ms after the acknowledgement (median)", "Redis writes no append-only file", "data:image/png;base64,",
		"amnesia replay ", "not there any more"} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("the report does not say %q", want)
		}
	}

	p := inChromium(t, browsertest.Chromium(t), file, playwright.BrowserNewPageOptions{})
	t.Logf("the load event comes after %.0f ms, the first paint after %.0f ms", p.Load, p.Paint)
	if p.Load > 2000 || p.Paint > 2000 || p.Load == 0 || p.Paint == 0 {
		t.Errorf("the load event comes after %.0f ms, the first paint after %.0f ms", p.Load, p.Paint)
	}
	p.actsNot(t)
}

// TestReportIsForEverybody: in light and dark and on a phone, by keyboard and by a screen reader (axe-core).
func TestReportIsForEverybody(t *testing.T) {
	axe, err := os.ReadFile("../web/testdata/axe/axe.min.js")
	if err != nil {
		t.Fatal(err)
	}
	path, file := shortSoak(t, markup), filepath.Join(t.TempDir(), "report.html")
	var b bytes.Buffer
	if err := Report(t.Context(), NewConsole(&b, &b, false), ReportOptions{Ledger: path, Form: HTML, File: file}); err != nil {
		t.Fatal(err)
	}
	chromium := browsertest.Chromium(t)
	for name, o := range map[string]playwright.BrowserNewPageOptions{
		"light": {ColorScheme: playwright.ColorSchemeLight}, "dark": {ColorScheme: playwright.ColorSchemeDark},
		"phone": {Viewport: &playwright.Size{Width: 360, Height: 740}, IsMobile: playwright.Bool(true)},
	} {
		t.Run(name, func(t *testing.T) {
			p := inChromium(t, chromium, file, o)
			p.actsNot(t)
			var found struct {
				Wide       int
				Violations []string
			}
			p.eval(t, string(axe)+`;(async () => {
				document.querySelectorAll('details').forEach(d => d.open = true)
				const found = (await axe.run(document, {resultTypes: ['violations']})).violations.filter(v => v.impact != 'minor')
				return JSON.stringify({wide: document.documentElement.scrollWidth - innerWidth,
					violations: found.map(v => v.id + ': ' + v.help + ': ' + v.nodes.map(n => n.html.slice(0, 200)).slice(0, 3).join(' '))})
			})()`, &found)
			if found.Wide > 0 || len(found.Violations) > 0 {
				t.Errorf("it is %d px wider than the screen, and not for everybody: %s", found.Wide, strings.Join(found.Violations, "\n"))
			}
		})
	}
}

// shownPage is a page that was opened, and what it did.
type shownPage struct {
	playwright.Page
	Load, Paint      float64 // milliseconds until then
	Owned            any
	Acting           int // elements that can do something
	requests, errors []string
}

// eval runs a script that gives JSON.
func (p *shownPage) eval(t *testing.T, script string, into any) {
	t.Helper()
	value, err := p.Evaluate(script)
	if err == nil {
		err = json.Unmarshal([]byte(fmt.Sprint(value)), into)
	}
	if err != nil {
		t.Fatalf("%v: %v", err, value)
	}
}

// actsNot holds that a page is only there to be read.
func (p *shownPage) actsNot(t *testing.T) {
	t.Helper()
	requests := slices.DeleteFunc(slices.Clone(p.requests), func(u string) bool { return strings.HasPrefix(u, "data:") }) // they are in the file
	if p.Owned != nil || p.Acting > 0 || len(requests) != 1 || len(p.errors) > 0 {
		t.Errorf("it acts: owned %v, %d elements, requests %q, errors %q", p.Owned, p.Acting, requests, p.errors)
	}
}

// inChromium opens a file in a real browser, until it is painted.
func inChromium(t *testing.T, b playwright.Browser, file string, o playwright.BrowserNewPageOptions) *shownPage {
	t.Helper()
	page, err := b.NewPage(o)
	if err != nil {
		t.Fatal(err)
	}
	p := &shownPage{Page: page}
	page.OnRequest(func(r playwright.Request) { p.requests = append(p.requests, r.URL()[:min(80, len(r.URL()))]) })
	page.OnConsole(func(m playwright.ConsoleMessage) { p.errors = append(p.errors, m.Text()) })
	page.OnPageError(func(err error) { p.errors = append(p.errors, err.Error()) })
	if _, err := page.Goto("file://" + file); err != nil {
		t.Fatal(err)
	}
	// Not WaitForFunction: the page's policy forbids what that does inside it.
	for deadline := time.Now().Add(30 * time.Second); p.Load == 0 || p.Paint == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it is not painted: load event after %.0f ms, paint after %.0f ms", p.Load, p.Paint)
		}
		p.eval(t, `JSON.stringify({load: performance.getEntriesByType('navigation')[0].loadEventEnd,
			paint: Math.max(0, ...performance.getEntriesByType('paint').map(e => e.startTime)), owned: window.owned ?? null,
			acting: document.querySelectorAll('script, [onload], [onerror], a, iframe, object, embed, form, link').length})`, p)
	}
	return p
}

// shortSoak is the ledger of five cycles of five memories each, without its evidence.
func shortSoak(t *testing.T, bad string, first ...fact.Fact) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "amnesia.db")
	l, err := ledger.Open(t.Context(), path, ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &scribe{t: t, l: l, bad: bad, now: 1e12}
	s.note(first...)
	s.soak(5, 5, "20261130T020000.000Z-cycle5.png")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestWhyNeedsTheLedgerAlone: nothing of the run is left but the file.
func TestWhyNeedsTheLedgerAlone(t *testing.T) {
	path := shortSoak(t, "")
	var b bytes.Buffer
	if err := Why(t.Context(), NewConsole(&b, &b, false), WhyOptions{Ledger: path, Memory: "m25"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"m25  lost, silent", "What to do\n  - redis", "Redis writes no append-only file", "play the fault again: amnesia replay " + path + " --cycle 5 --armed",
		"The services when the incident was found", "restart policy", "volume ", filepath.Join(filepath.Dir(path), "amnesia-evidence", "20261130T020000.000Z-cycle5.png") + " (not there any more)"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("why does not say %q:\n%s", want, b.String())
		}
	}
}

// TestWhatIsKnownIsInTheLedger: whoever judges or reads it later needs no configuration for it.
func TestWhatIsKnownIsInTheLedger(t *testing.T) {
	for _, tc := range []struct {
		until string
		code  int
		says  string
	}{
		{"2026-09-21", exitFound, " -  "}, // the ledger's last day is the 21st: over
		{"2027-01-01", exitNothing, "2027-01-01: ticket 7"},
	} {
		until, err := time.Parse(time.DateOnly, tc.until)
		if err != nil {
			t.Fatal(err)
		}
		path := shortSoak(t, "", fact.Muting{Known: []fact.Known{{Fingerprint: "silent/kill/redis/page+redis", Until: until, Reason: "ticket 7"}},
			At: memory.Instant{Mono: 1e12, Wall: 1_790_000_000e9, Boot: "b"}})
		dir := t.TempDir()
		var b bytes.Buffer
		c := NewConsole(&b, &b, false)
		code, err := Judge(t.Context(), c, JudgeOptions{Ledger: path, CI: CIOptions{JUnit: filepath.Join(dir, "junit.xml"), Markdown: filepath.Join(dir, "job.md")}})
		if err != nil || code != tc.code {
			t.Errorf("until %s: exit code %d, %v, want %d:\n%s", tc.until, code, err, tc.code, b.String())
		}
		junit, err := os.ReadFile(filepath.Join(dir, "junit.xml"))
		if err != nil || bytes.Contains(junit, []byte("<skipped")) != (tc.code == exitNothing) {
			t.Errorf("until %s: %v\n%s", tc.until, err, junit)
		}
		b.Reset()
		if err := Incidents(t.Context(), c, path, Text); err != nil || !strings.Contains(b.String(), tc.says) {
			t.Errorf("until %s: %v\n%s", tc.until, err, b.String())
		}
	}
}
