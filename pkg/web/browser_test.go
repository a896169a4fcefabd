package web

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/playwright-community/playwright-go"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap/zaptest"

	"amnesia/pkg/fact"
	"amnesia/pkg/session/browser/browsertest"
)

// every is one page of each kind.
var every = []string{"/", "/incidents", "/incidents/silent/kill/redis/page+redis", "/memories", "/memories?verdict=lost&user=amnesia-r1-3", "/memories/m42",
	"/cycles", "/cycles/40", "/faults", "/cycles/999", "/memories?verdict=wrong"}

// serving serves books on loopback until the test ends.
func serving(t *testing.T, books Books, change ...func(*Server)) string {
	t.Helper()
	s := New(Config{Gatherer: prometheus.NewRegistry(), Logger: zaptest.NewLogger(t), Daemon: &daemon{}, Books: books, Token: token,
		Runbook: func(string) (string, bool) { return "# Runbook\n", true }})
	for _, c := range change {
		c(s)
	}
	l, err := s.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String()
}

// tab is a page of the browser that notes what should not happen.
type tab struct {
	playwright.Page
	mu    sync.Mutex
	wrong []string
}

func (b *tab) note(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wrong = append(b.wrong, fmt.Sprintf(format, args...))
}

// trouble gives what was noted, and forgets it.
func (b *tab) trouble() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.wrong
	b.wrong = nil
	return was
}

func newTab(t *testing.T, b playwright.Browser, base string, o playwright.BrowserNewContextOptions) *tab {
	t.Helper()
	c, err := b.NewContext(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // the browser may be gone already
	p, err := c.NewPage()
	if err != nil {
		t.Fatal(err)
	}
	n := &tab{Page: p}
	p.OnConsole(func(m playwright.ConsoleMessage) {
		if m.Type() == "error" && !strings.Contains(m.Text(), "status of 40") { // those that the test asks for
			n.note("console: %s", m.Text())
		}
	})
	p.OnResponse(func(r playwright.Response) {
		if r.Status() >= 400 && r.Request().ResourceType() != "document" {
			n.note("%s is answered with %d", r.URL(), r.Status())
		}
	})
	p.OnPageError(func(err error) { n.note("script: %v", err) })
	p.OnDialog(func(d playwright.Dialog) { n.note("dialog: %s", d.Message()); _ = d.Dismiss() })
	p.OnRequest(func(r playwright.Request) {
		if !strings.HasPrefix(r.URL(), base+"/") {
			n.note("a request to %s", r.URL())
		}
	})
	return n
}

func (b *tab) open(t *testing.T, url string) {
	t.Helper()
	if _, err := b.Goto(url, playwright.PageGotoOptions{WaitUntil: playwright.WaitUntilStateLoad}); err != nil {
		t.Fatal(err)
	}
}

func (b *tab) eval(t *testing.T, script string, arg ...any) any {
	t.Helper()
	v, err := b.Evaluate(script, arg...)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestInChromium uses the pages as people do.
func TestInChromium(t *testing.T) {
	b := browsertest.Chromium(t)
	for name, test := range map[string]func(*testing.T, playwright.Browser){"pages": testPages, "following": testFollowing, "without script": testWithoutScript,
		"first sight": testFirstSight, "search": testSearch, "keyboard": testKeyboard} {
		t.Run(name, func(t *testing.T) { test(t, b) })
	}
}

// testPages: each page, in light and dark and on a phone, loads without an error or a request to elsewhere, is
// fit for all (axe-core), no wider than the screen, and says what is hostile without doing it.
func testPages(t *testing.T, b playwright.Browser) {
	axe, err := os.ReadFile("testdata/axe/axe.min.js")
	if err != nil {
		t.Fatal(err)
	}
	base := serving(t, newShelf())
	for name, o := range map[string]playwright.BrowserNewContextOptions{
		"light": {ColorScheme: playwright.ColorSchemeLight, Viewport: &playwright.Size{Width: 1280, Height: 900}},
		"dark":  {ColorScheme: playwright.ColorSchemeDark, Viewport: &playwright.Size{Width: 1280, Height: 900}, ReducedMotion: playwright.ReducedMotionReduce},
		"phone": {ColorScheme: playwright.ColorSchemeLight, Viewport: &playwright.Size{Width: 360, Height: 740}, IsMobile: playwright.Bool(true), HasTouch: playwright.Bool(true)},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTab(t, b, base, o)
			for _, path := range every {
				p.open(t, base+path)
				if title, _ := p.Title(); !strings.HasSuffix(title, " · Amnesia") {
					t.Errorf("%s: the title is %q", path, title)
				}
				if wide := p.eval(t, "document.documentElement.scrollWidth - innerWidth"); wide != 0 {
					t.Errorf("%s: it is %v px wider than the screen", path, wide)
				}
				p.eval(t, string(axe)+";0")
				result := p.eval(t, `async () => JSON.stringify((await axe.run(document, {resultTypes: ["violations"]})).violations
					.filter(v => ["serious", "critical", "moderate"].includes(v.impact)).map(v => v.id + ": " + v.help + ": " + v.nodes.map(n => n.html).slice(0, 3).join(" ")))`)
				var violations []string
				if err := json.Unmarshal([]byte(result.(string)), &violations); err != nil || len(violations) > 0 {
					t.Errorf("%s: %v %s", path, err, strings.Join(violations, "\n"))
				}
				if wrong := p.trouble(); len(wrong) > 0 {
					t.Errorf("%s: %q", path, wrong)
				}
				if dir := os.Getenv("AMNESIA_SCREENSHOTS"); dir != "" {
					file := filepath.Join(dir, strings.NewReplacer("/", "_", "?", "_", "&", "_").Replace(name+path)+".png")
					if _, err := p.Screenshot(playwright.PageScreenshotOptions{Path: &file, FullPage: playwright.Bool(true)}); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

// testFollowing: the page moves with the daemon, by itself, and says when it does not.
func testFollowing(t *testing.T, b playwright.Browser) {
	books := newShelf()
	base := serving(t, books, func(s *Server) { s.readTimeout, s.writeTimeout = 200*time.Millisecond, 300*time.Millisecond })
	p := newTab(t, b, base, playwright.BrowserNewContextOptions{})
	p.open(t, base+"/")
	p.eval(t, "window.stayed = true")
	has := func(id, text string) {
		t.Helper()
		if err := p.Locator("#"+id, playwright.PageLocatorOptions{HasText: text}).WaitFor(); err != nil {
			t.Fatalf("%s does not say %q: %v", id, text, err)
		}
	}
	has("phase", "traffic")
	has("following", "Follows")
	// Past the time-outs of the server, which are for answers that end.
	for _, phase := range []fact.Phase{fact.PhaseRecovery, fact.PhaseSettle, fact.PhaseJudge} {
		time.Sleep(250 * time.Millisecond)
		books.change(func(l *Live) { c := *l.Cycle; c.Phase = phase; l.Cycle = &c })
		has("phase", string(phase))
	}
	// Whoever has come to a link with the keyboard stays there, when what is around it is made anew.
	p.eval(t, "document.querySelector('#cycles a').focus()")
	books.change(func(l *Live) { l.Last = l.Last[:5]; l.Counts.Acknowledged = 12345 })
	has("counts", "12345")
	if at := p.eval(t, "document.activeElement.pathname"); at != "/cycles/42" {
		t.Errorf("the focus is on %v", at)
	}
	if stayed := p.eval(t, "window.stayed"); stayed != true {
		t.Error("the page was loaded anew")
	}
	if wrong := p.trouble(); len(wrong) > 0 {
		t.Errorf("%q", wrong)
	}
}

// testWithoutScript: all but the following is there.
func testWithoutScript(t *testing.T, b playwright.Browser) {
	base := serving(t, newShelf())
	p := newTab(t, b, base, playwright.BrowserNewContextOptions{JavaScriptEnabled: playwright.Bool(false)})
	p.open(t, base+"/")
	if err := p.Locator("#reload").Click(); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ click, heading string }{
		{"nav >> text=Incidents", "Incidents"}, {"td >> text=/SIGKILL of redis/", "SIGKILL of redis"}, {"h2 >> text=m42", "Memory m42"}, {"nav >> text=Cycles", "Cycles"},
		{"text=Older", "Cycles"}, {"tbody a >> nth=0", "Cycle 70"}, {"nav >> text=Faults", "Faults"},
	} {
		if err := p.Locator(step.click).First().Click(); err != nil {
			t.Fatal(err)
		}
		if heading, err := p.Locator("h1").InnerText(); err != nil || !strings.Contains(heading, step.heading) {
			t.Errorf("behind %s is %q (%v)", step.click, heading, err)
		}
	}
}

// testFirstSight: the link of an alert leads to what was lost by what, why, what to change and how to play it again, before
// anything is scrolled, in few words.
func testFirstSight(t *testing.T, b playwright.Browser) {
	base := serving(t, newShelf())
	p := newTab(t, b, base, playwright.BrowserNewContextOptions{Viewport: &playwright.Size{Width: 1280, Height: 800}})
	p.open(t, base+"/incidents?class=silent&fault=kill&service=redis")
	seen := p.eval(t, `[...document.querySelectorAll("main *")].filter(e => e.childElementCount === 0 && e.getBoundingClientRect().top >= 0 &&
		e.getBoundingClientRect().bottom <= innerHeight).map(e => e.innerText).join("\n")`).(string)
	at := 0
	for _, want := range []string{"lost silently: SIGKILL of redis", "no append-only file", "--appendonly yes", "page, redis", "amnesia-r1-1", "amnesia replay amnesia.db --cycle 3 --armed", "m42"} {
		next := strings.Index(seen[at:], want)
		if next < 0 {
			t.Fatalf("no %q after what comes before it in\n%s", want, seen)
		}
		at += next
	}
	if words := len(strings.Fields(seen)); words > 400 {
		t.Errorf("%d words take more than two minutes", words)
	}
}

// testSearch: what is searched for is found, page by page, and the form keeps it.
func testSearch(t *testing.T, b playwright.Browser) {
	base := serving(t, newShelf())
	p := newTab(t, b, base, playwright.BrowserNewContextOptions{})
	p.open(t, base+"/memories")
	first := func(want string) {
		t.Helper()
		if got, err := p.Locator("tbody a").First().InnerText(); err != nil || got != want {
			t.Errorf("the first is %q (%v), want %s", got, err, want)
		}
	}
	first("m1000")
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(p.GetByLabel("User").Fill("amnesia-r1-3"))
	check(p.GetByRole("button").Click())
	first("m995")
	check(p.GetByText("Older").Click())
	first("m595")
	if user, err := p.GetByLabel("User").InputValue(); err != nil || user != "amnesia-r1-3" {
		t.Errorf("the form has %q (%v)", user, err)
	}
	check(p.GetByLabel("User").Fill(""))
	_, err := p.GetByLabel("Verdict").SelectOption(playwright.SelectOptionValues{Values: &[]string{"torn"}})
	check(err)
	check(p.GetByLabel("Token").Fill("k0004"))
	check(p.GetByRole("button").Click())
	first("m49")
	check(p.GetByLabel("Memory").Fill("m77"))
	check(p.GetByRole("button").Click())
	if h, err := p.Locator("h1").InnerText(); err != nil || h != "Memory m77" {
		t.Errorf("m77 is %q (%v)", h, err)
	}
}

// testKeyboard: the first key leads past the navigation, and every link, field and region can be come to, in order, with
// the focus to be seen.
func testKeyboard(t *testing.T, b playwright.Browser) {
	base := serving(t, newShelf())
	p := newTab(t, b, base, playwright.BrowserNewContextOptions{Viewport: &playwright.Size{Width: 1280, Height: 900}})
	for _, path := range []string{"/", "/incidents/silent/kill/redis/page+redis", "/memories"} {
		p.open(t, base+path)
		if path == "/" { // until it follows there is a link more
			if err := p.Locator("#following").WaitFor(); err != nil {
				t.Fatal(err)
			}
		}
		order := p.eval(t, `[...document.querySelectorAll("a[href], input, select, button, summary, [tabindex='0']")].filter(e => e.checkVisibility() && !e.hidden).length`).(int)
		var seen []string
		for n := range order {
			if err := p.Keyboard().Press("Tab"); err != nil {
				t.Fatal(err)
			}
			at := p.eval(t, `() => { const e = document.activeElement, all = [...document.querySelectorAll("*")], style = getComputedStyle(e);
				return JSON.stringify([all.indexOf(e), e.outerHTML.slice(0, 60), style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2]) }`).(string)
			var got []any
			if err := json.Unmarshal([]byte(at), &got); err != nil {
				t.Fatal(err)
			}
			if n == 0 && !strings.Contains(at, "skip") {
				t.Errorf("%s: the first is %s", path, at)
			}
			if got[2] != true || slices.Contains(seen, at) {
				t.Fatalf("%s: after %d of %d the focus is on %s", path, n, order, at)
			}
			if n > 0 {
				var before []any
				_ = json.Unmarshal([]byte(seen[n-1]), &before)
				if before[0].(float64) >= got[0].(float64) {
					t.Errorf("%s: %s comes after %s", path, at, seen[n-1])
				}
			}
			seen = append(seen, at)
		}
	}
	p.open(t, base+"/")
	for _, key := range []string{"Tab", "Enter", "Tab"} {
		if err := p.Keyboard().Press(key); err != nil {
			t.Fatal(err)
		}
	}
	if in := p.eval(t, "document.querySelector('main').contains(document.activeElement)"); in != true {
		t.Error("the skip link does not lead into the content")
	}
}
