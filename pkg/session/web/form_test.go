package web_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"amnesia/pkg/session"
)

// site serves one page at / and echoes every other request as text: method, address, type, body.
func site(t *testing.T, page string) (session.Surface, *httptest.Server) {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.URL.RequestURI() == "/" {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			fmt.Fprint(w, page)
			return
		}
		body, _ := io.ReadAll(r.Body)
		kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprintf(w, "%s %s %s %s", r.Method, r.URL.RequestURI(), kind, body)
	}))
	t.Cleanup(srv.Close)
	return surface(t, srv.URL), srv
}

func surface(t *testing.T, url string) session.Surface {
	t.Helper()
	d := open(t, url)
	sf, err := d.Open(t.Context(), session.User{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sf.Close() })
	if err := sf.Goto(t.Context(), "/"); err != nil {
		t.Fatal(err)
	}
	return sf
}

// body gives the text of the page.
func body(t *testing.T, sf session.Surface) string {
	t.Helper()
	texts, _, err := sf.Read(t.Context(), session.Read{Selector: "pre"})
	if err != nil || len(texts) != 1 {
		t.Fatalf("read %q, %v", texts, err)
	}
	return texts[0]
}

func TestFormsAreSubmittedAsABrowserDoes(t *testing.T) {
	for name, c := range map[string]struct{ page, click, press, want string }{
		"controls in order": {`<form method=post action=/to><input name=b value=1><input type=hidden name=a value="x y&"><input name=b value=2>
			<input value=nameless><button name=go value=now>x</button><button name=other value=no>x</button></form>`, "button", "",
			"POST /to application/x-www-form-urlencoded b=1&a=x+y%26&b=2&go=now"},
		"get replaces the query": {`<form action="/to?old=1#frag"><input name=q value="ü"><button>x</button></form>`, "button", "", "GET /to?q=%C3%BC  "},
		"an empty action is this page": {`<form method=post><input name=q value=1><button>x</button></form>`, "button", "",
			"POST / application/x-www-form-urlencoded q=1"},
		"the base counts": {`<base href="/deep/er/"><form method=post action=to><button>x</button></form>`, "button", "",
			"POST /deep/er/to application/x-www-form-urlencoded"},
		"the button decides": {`<form method=get action=/no><input name=q value=1><button formaction=/yes formmethod=post formenctype=text/plain>x</button></form>`,
			"button", "", "POST /yes text/plain q=1"},
		"a form from afar": {`<form id=f method=post action=/to></form><input form=f name=q value=1><button form=f name=b>x</button>`, "button", "",
			"POST /to application/x-www-form-urlencoded q=1&b="},
		"disabled controls stay behind": {`<form method=post action=/to><input name=a value=1 disabled><fieldset disabled><legend><input name=l value=1></legend>
			<input name=c value=1></fieldset><datalist><input name=d></datalist><button>x</button></form>`, "button", "",
			"POST /to application/x-www-form-urlencoded l=1"},
		"boxes": {`<form method=post action=/to><input type=checkbox name=a checked><input type=checkbox name=b value=2><input type=radio name=r value=1 checked>
			<input type=radio name=r value=2><button>x</button></form>`, "button", "", "POST /to application/x-www-form-urlencoded a=on&r=1"},
		"selects": {`<form method=post action=/to><select name=a><option disabled>no<option>yes  it is<option>no</select><select name=b multiple><option selected value=1>
			<option selected value=2></select><select name=c multiple><option>1</select><select name=d><option value=1><option value=2 selected></select><button>x</button></form>`,
			"button", "", "POST /to application/x-www-form-urlencoded a=yes+it+is&b=1&b=2&d=2"},
		"image buttons":                    {`<form method=post action=/to><input type=image name=i></form>`, "input", "", "POST /to application/x-www-form-urlencoded i.x=0&i.y=0"},
		"a click on what is in the button": {`<form method=post action=/to><button><b id=in>x</b></button></form>`, "#in", "", "POST /to application/x-www-form-urlencoded"},
		"a label":                          {`<form method=post action=/to><label for=b id=l>x</label><input type=submit id=b name=s value=v></form>`, "#l", "", "POST /to application/x-www-form-urlencoded s=v"},
		"a link":                           {`<a href="to?x=1#there"><i>x</i></a>`, "i", "", "GET /to?x=1"},
		"Enter presses the first button": {`<form method=post action=/to><input name=q value=1><button type=button>no</button><button name=b value=1>x</button><button name=b value=2>x</button></form>`,
			"", "input", "POST /to application/x-www-form-urlencoded q=1&b=1"},
		"Enter without a button": {`<form method=post action=/to><input name=q value=1></form>`, "", "input", "POST /to application/x-www-form-urlencoded q=1"},
		"noscript is for us":     {`<noscript><form method=post action=/to><button>x</button></form></noscript>`, "button", "", "POST /to application/x-www-form-urlencoded"},
		"no nested forms":        {`<form method=post action=/to><form action=/no><input name=q value=1></form><button>x</button>`, "button", "", "POST / application/x-www-form-urlencoded"},
	} {
		t.Run(name, func(t *testing.T) {
			sf, _ := site(t, c.page)
			var err error
			if c.click != "" {
				err = sf.Click(t.Context(), c.click)
			} else {
				err = sf.Press(t.Context(), c.press, "Enter")
			}
			if name == "no nested forms" {
				// The inner <form> tag is ignored and its end tag ends the outer form: the button belongs to nobody.
				if !session.IsRig(err) {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := body(t, sf); got != strings.TrimSpace(c.want) {
				t.Errorf("sent %q\nwant %q", got, c.want)
			}
		})
	}
}

func TestWhatIsFilledInIsSent(t *testing.T) {
	sf, _ := site(t, `<form method=post action=/to><textarea name=t>
old</textarea><input name=i value=old><select name=s><option value=1>One<option value=2>Two</select><input type=checkbox name=c><button>x</button></form>`)
	must(t, sf.Fill(t.Context(), "textarea", "a\nb & c=é"))
	must(t, sf.Fill(t.Context(), "input[name=i]", ""))
	must(t, sf.Select(t.Context(), "select", "Two"))
	must(t, sf.Click(t.Context(), "[name=c]"))
	must(t, sf.Click(t.Context(), "button"))
	if got, want := body(t, sf), "POST /to application/x-www-form-urlencoded t=a%0D%0Ab+%26+c%3D%C3%A9&i=&s=2&c=on"; got != want {
		t.Errorf("sent %q\nwant %q", got, want)
	}
}

func TestMultipart(t *testing.T) {
	sf, _ := site(t, `<form method=post action=/to enctype=multipart/form-data><input name='a"b' value="1"><input type=file name=f><textarea name=t></textarea><button>x</button></form>`)
	must(t, sf.Fill(t.Context(), "textarea", "x\ny"))
	must(t, sf.Click(t.Context(), "button"))
	got := body(t, sf)
	for _, want := range []string{"POST /to multipart/form-data", "name=\"a%22b\"\r\n\r\n1\r\n", `name="f"; filename=""`, "name=\"t\"\r\n\r\nx\r\ny\r\n--"} {
		if !strings.Contains(got, want) {
			t.Errorf("sent %q\nit has no %q", got, want)
		}
	}
}

func TestWhatNeedsAScriptIsTheRigsAffair(t *testing.T) {
	sf, _ := site(t, `<p id=p>text</p><a id=a href="#">x</a><a id=j href="javascript:void(0)">x</a><button id=b type=button>x</button><button id=n>x</button>
		<textarea id=t></textarea><form method=dialog><button id=d>x</button></form><input id=one><div id=e contenteditable>x</div>`)
	for name, do := range map[string]func() error{
		"text":       func() error { return sf.Click(t.Context(), "#p") },
		"fragment":   func() error { return sf.Click(t.Context(), "#a") },
		"javascript": func() error { return sf.Click(t.Context(), "#j") },
		"button":     func() error { return sf.Click(t.Context(), "#b") },
		"formless":   func() error { return sf.Click(t.Context(), "#n") },
		"dialog":     func() error { return sf.Click(t.Context(), "#d") },
		"textarea":   func() error { return sf.Press(t.Context(), "#t", "Enter") },
		"key":        func() error { return sf.Press(t.Context(), "#one", "Tab") },
		"one line":   func() error { return sf.Fill(t.Context(), "#one", "a\nb") },
		"editable":   func() error { return sf.Fill(t.Context(), "#e", "a") },
		"selector":   func() error { return sf.Click(t.Context(), "//p") },
	} {
		if err := do(); !session.IsRig(err) || !strings.Contains(err.Error(), "— fix:") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDisabledControlsAreTheTargetsAffair(t *testing.T) {
	sf, _ := site(t, `<form><button id=b disabled>x</button><input id=i readonly></form><fieldset disabled><textarea id=t></textarea></fieldset>`)
	for name, do := range map[string]func() error{
		"button":   func() error { return sf.Click(t.Context(), "#b") },
		"readonly": func() error { return sf.Fill(t.Context(), "#i", "x") },
		"fieldset": func() error { return sf.Fill(t.Context(), "#t", "x") },
	} {
		if err := do(); err == nil || session.IsRig(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestVisibility(t *testing.T) {
	sf, _ := site(t, `<p class=y>x</p><p class=y><input></p><details><summary class=y>x</summary><p class=n>x</p></details><details open><p class=y>x</p></details>
		<div style="color: red; DISPLAY : none !important"><p class=n>x</p></div><p class=n role=alert></p><p class=n> <b></b></p><template><p>x</p></template>
		<dialog><p class=n>x</p></dialog><input type=hidden class=n><p hidden class=n>x</p><p style="display:block" class=y>x</p>`)
	for sel, want := range map[string]int{".y": 5, ".y >> visible=true": 5, ".n": 7, ".n >> visible=true": 0, ".n >> visible=false": 7} {
		texts, _, err := sf.Read(t.Context(), session.Read{Selector: sel})
		if err != nil || len(texts) != want {
			t.Errorf("%s: %d, %v; want %d", sel, len(texts), err, want)
		}
	}
}

func TestReadGivesTheTextContent(t *testing.T) {
	sf, _ := site(t, "<div class=m>  a\n  <b>b</b>&amp;<script>s</script> &lt;i&gt;\u00a0c \n</div><div class=m></div><pre class=m>\n1\n\n2</pre>")
	texts, complete, err := sf.Read(t.Context(), session.Read{Selector: ".m"})
	if want := []string{"a\n  b&s <i>\u00a0c", "", "1\n\n2"}; err != nil || !complete || fmt.Sprintf("%q", texts) != fmt.Sprintf("%q", want) {
		t.Errorf("read %q, %v; want %q", texts, err, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
