package web

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"amnesia/pkg/session"
)

const sample = `<!doctype html><body><div class="m u" id=one data-testid=first>Hello (World) <b>100%</b></div>
<div class="m a">hello   there<button>Go</button></div><div class=m><p>a &gt;&gt; b</p><span>it's "x"</span></div>
<label>City <input name=city></label><label for=z>Zip</label><input id=z><input aria-label=Street><input placeholder=Phone><input type=submit value="Send it">
<button aria-labelledby="l1 l2">x</button><i id=l1>New</i><i id=l2> chat</i><a href=/x>Link <img alt=pic></a><a>no link</a><h2>Title</h2><div role="alert">Bad</div><button hidden>Go</button></body>`

func samplePage() *page {
	u, _ := url.Parse("http://h/")
	return newPage(u, "text/html", []byte(sample))
}

func TestSelectors(t *testing.T) {
	p := samplePage()
	for sel, want := range map[string]int{
		`.m`: 3, `.m.u`: 1, `.m, h2`: 4, `#one b`: 1, `css=.m >> css=b`: 1, `id=one`: 1, `data-testid=first`: 1, `div[data-testid="first"]`: 1,
		`.m:has-text("hello")`: 2, `.m:has-text('HELLO THERE')`: 1, `.m:has-text("(world) 100%")`: 1, `.m:has-text("it's \"x\"")`: 1,
		`.m:has-text("a >> b") span`: 1, `.m:not(:has-text("hello"))`: 1, `.m:has(button)`: 1, `.m:has-text("]")`: 0, `.m:has-text("")`: 3,
		`text=hello`: 2, `text="hello there"`: 1, `text="Hello"`: 0, `text=/^hel+o/i`: 2, `"Title"`: 1, `text="Send it"`: 1, `text=100%`: 1,
		`role=button`: 3, `role=button[name="Go"]`: 1, `role=button[name="go" i]`: 1, `role=button[name="go"]`: 0, `role=button[name="New chat"]`: 1,
		`role=button[name=/send/i]`: 1, `role=button[name*="end"]`: 1, `role=textbox[name="City"]`: 1, `role=textbox[name="Zip"]`: 1,
		`role=textbox[name="Street"]`: 1, `role=textbox[name="Phone"]`: 1, `role=link`: 1, `role=link[name="Link pic"]`: 1, `role=heading[name="Title"]`: 1,
		`role=alert`: 1, `.m >> nth=0`: 1, `.m >> nth=-1 >> p`: 1, `.m >> nth=9`: 0, `body >> .m >> b`: 1, `div >> b`: 1,
	} {
		got, err := p.find(sel)
		if err != nil || len(got) != want {
			t.Errorf("%s: %d, %v; want %d", sel, len(got), err, want)
		}
	}
}

func TestSelectorsThatNeedABrowserAreRefused(t *testing.T) {
	for _, sel := range []string{"", ">>", ".a >>", "//div", "xpath=//div", "..", ".a:visible", `:text("x")`, `.a:nth-match(b, 1)`, `.a:contains("x")`,
		`internal:role=x`, `react=X`, `role=`, `role=button[pressed]`, `role=button[name=x]`, `role=button[name="x" y]`, `text="x`, `.a:has-text(x)`,
		`.a:has-text("x"`, `.a[`, `div:hoover`, `nth=x`, `text=/(/`} {
		_, err := parseSelector(sel)
		if err == nil || !strings.Contains(err.Error(), "fix:") {
			t.Errorf("%q: %v", sel, err)
		}
	}
}

func TestCheckNamesEveryStep(t *testing.T) {
	script := &session.Script{
		Tell: []session.Step{
			{Fill: &session.Fill{Selector: ".m:visible", Text: "{{.Memory}}"}},
			{Press: &session.Press{Selector: "#m", Key: "Control+Enter"}},
			{Acknowledged: &session.Ack{Expect: session.Expect{Selector: `.m:has-text("{{.Token}}")`}}},
			{Rejected: &session.Expect{Response: "ws://**/socket"}},
		},
		Recall: []session.Step{{Read: &session.Read{Selector: ".m", More: &session.More{Scroll: "#log"}}}},
	}
	var got []string
	for _, err := range Check(script) {
		var se *session.ScriptError
		if !errors.As(err, &se) || !strings.Contains(se.Problem, "fix:") {
			t.Errorf("%v", err)
			continue
		}
		place, _, _ := strings.Cut(se.Error(), ":")
		got = append(got, place)
	}
	want := "tell step 1, fill.selector|tell step 2, press.key|tell step 4, rejected.response|recall step 1, read.more.scroll"
	if strings.Join(got, "|") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "|"), want)
	}
}

// Whatever a script holds, the selector is understood or refused with a fix, and finds no more than there is.
func FuzzSelector(f *testing.F) {
	for _, s := range []string{`.m:has-text("x") b`, `role=button[name="Send" i]`, `text=/a/i`, `a >> nth=-1`, `.a[x="\\"]:not(:has-text('\''))`, `"`, `:has-text(`, `text=`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p := samplePage()
		nodes, err := p.find(s)
		if err != nil && !strings.Contains(err.Error(), "fix:") {
			t.Errorf("%q: %v names no fix", s, err)
		}
		met := map[any]bool{}
		for _, n := range nodes {
			if met[n] {
				t.Errorf("%q finds an element twice", s)
			}
			met[n] = true
		}
	})
}

// has-text holds its text as it is, whatever characters it has.
func FuzzHasText(f *testing.F) {
	for _, s := range []string{"a", "(", "[)", `\`, "a b", "{{", "é", "\u00a0", "👩‍👩‍👧", "]]>", "0\v0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		want := strings.Join(strings.Fields(text), " ")
		if want == "" || strings.ContainsAny(text, "\x00\r") || strings.ToValidUTF8(text, "") != text {
			return
		}
		u, _ := url.Parse("http://h/")
		p := newPage(u, "text/plain", []byte("before "+text+" after"))
		nodes, err := p.find(`pre:has-text("` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `")`)
		if err != nil || len(nodes) != 1 {
			t.Errorf("%q is not found: %v", text, err)
		}
	})
}
