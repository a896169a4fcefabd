package explore_test

import (
	"fmt"
	"html/template"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"amnesia/pkg/session"
	"amnesia/pkg/session/browser"
)

// notebook is an app of plain forms that nobody wrote for Amnesia: an account is made first, by address of e-mail, and
// logs in at once; what is sent comes back as a page with all notes, each in an element whose class no person chose.
type notebook struct {
	forgets bool // the notes of a session are those of that session alone

	mu       sync.Mutex
	opened   int                 // sessions ever
	accounts map[string]string   // password by name
	sessions map[string]string   // name by cookie
	notes    map[string][]string // by name, or by cookie
}

var notebookPages = template.Must(template.New("").Parse(`
{{define "welcome"}}<h1>Notebook</h1><nav><a href="/enter">Log in</a></nav>{{end}}
{{define "enter"}}<form method="post"><label>E-mail <input type="email" name="mail"></label>
	<label>Password <input type="password" name="secret"></label><button>Continue</button></form>
	{{with .}}<p role="alert">{{.}}</p>{{end}}<a href="/join">Create an account</a>{{end}}
{{define "join"}}<form method="post"><label>E-mail <input type="email" name="mail"></label>
	<label>Password <input type="password" name="secret"></label><label>Once more <input type="password" name="again"></label>
	<label><input type="checkbox" name="terms" required> I agree</label><button>Sign up</button></form>{{end}}
{{define "notes"}}<a href="/leave">Sign out</a><input placeholder="Search your notes">
	<ul class="css-1x9z">{{range .}}<li data-kind="note"><span>{{.}}</span> <button>Delete</button></li>{{end}}</ul>
	<form method="post" action="/notes/add?from=page"><input name="body" aria-label="Write a note"><button>Save</button></form>{{end}}
`))

func (n *notebook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	page := func(name string, with any) { _ = notebookPages.ExecuteTemplate(w, name, with) }
	cookie, name := "", ""
	if c, err := r.Cookie("session"); err == nil {
		cookie, name = c.Value, n.sessions[c.Value]
	}
	key := name
	if n.forgets {
		key = cookie
	}
	in := func(mail string) {
		n.opened++
		id := fmt.Sprint("s", n.opened)
		n.sessions[id] = mail
		http.SetCookie(w, &http.Cookie{Name: "session", Value: id, Path: "/"})
		http.Redirect(w, r, "/notes", http.StatusSeeOther)
	}
	mail, secret := r.FormValue("mail"), r.FormValue("secret")
	switch get := r.Method == http.MethodGet; {
	case r.URL.Path == "/":
		page("welcome", nil)
	case r.URL.Path == "/enter" && get:
		page("enter", nil)
	case r.URL.Path == "/enter":
		if n.accounts[mail] != secret || secret == "" {
			page("enter", "Nobody is known by that")
			return
		}
		in(mail)
	case r.URL.Path == "/join" && get:
		page("join", nil)
	case r.URL.Path == "/join":
		if !strings.Contains(mail, "@") || secret != r.FormValue("again") || r.FormValue("terms") == "" {
			http.Error(w, "no", http.StatusBadRequest)
			return
		}
		n.accounts[mail] = secret
		in(mail)
	case name == "":
		http.Redirect(w, r, "/enter", http.StatusSeeOther)
	case r.URL.Path == "/leave":
		delete(n.sessions, cookie)
		http.Redirect(w, r, "/", http.StatusSeeOther)
	case r.URL.Path == "/notes/add":
		n.notes[key] = append(n.notes[key], r.FormValue("body"))
		http.Redirect(w, r, "/notes", http.StatusSeeOther)
	default:
		page("notes", n.notes[key])
	}
}

func open(t *testing.T, n *notebook) string {
	t.Helper()
	n.accounts, n.sessions, n.notes = map[string]string{}, map[string]string{}, map[string][]string{}
	s := httptest.NewServer(n)
	t.Cleanup(s.Close)
	return s.URL
}

// notebookIsRead finds its way through the sign-up, and reads the list by what an element is, not by what it happens to be
// called.
func notebookIsRead(t *testing.T, d *browser.Driver) {
	found := look(t, d, open(t, &notebook{}), enough)
	want := session.Script{
		Signup: []session.Step{
			{Goto: "/join"}, fill("input[name=mail]", "{{.User}}"), fill("input[name=secret]", "{{.Password}}"), fill("input[name=again]", "{{.Password}}"),
			{Click: "input[name=terms]"}, {Click: `role=button[name="Sign up"]`},
			{Expect: &session.Expect{Selector: `role=link[name="Sign out"]`}}, {Click: `role=link[name="Sign out"]`},
			{Expect: &session.Expect{Selector: `role=link[name="Sign out"]`, State: "hidden"}},
		},
		Login: []session.Step{
			{Goto: "/enter"}, fill("input[name=mail]", "{{.User}}"), fill("input[name=secret]", "{{.Password}}"), {Click: `role=button[name="Continue"]`},
			{Expect: &session.Expect{Selector: "input[name=body]"}},
		},
		Tell: []session.Step{
			fill("input[name=body]", "{{.Memory}}"), {Click: `role=button[name="Save"]`},
			{Acknowledged: &session.Ack{Level: "settled", Expect: session.Expect{Response: "**/notes/add"}}},
		},
		Recall: []session.Step{{Goto: "/notes"}, {Read: &session.Read{Selector: "[data-kind=note] span"}}},
		Logout: []session.Step{{Click: `role=link[name="Sign out"]`}, {Expect: &session.Expect{Selector: `role=link[name="Sign out"]`, State: "hidden"}}},
	}
	if diff := cmp.Diff(want, found.Script); diff != "" || len(found.Gaps) > 0 {
		t.Errorf("gaps %v (-want +got)\n%s", found.Gaps, diff)
	}
	if found.Accounts != "amnesia-{{.Run}}-{{.N}}@example.com" || found.Answer != "" {
		t.Errorf("accounts %q, answer %q", found.Accounts, found.Answer)
	}
}

// What a new session does not show is no recall.
func notSeenAgain(t *testing.T, d *browser.Driver) {
	found := look(t, d, open(t, &notebook{forgets: true}), 2*short)
	if len(found.Script.Recall) > 0 || found.Gap("recall") == "" || len(found.Script.Tell) == 0 {
		t.Errorf("%+v, gaps %v", found.Script.Recall, found.Gaps)
	}
}

// A page that has nothing of what is looked for gives gaps, and no guess; so does one that never answers to a message.
func nothingToFind(t *testing.T, d *browser.Driver) {
	for name, c := range map[string]struct{ page, gap, why string }{
		"no form":          {`<h1>Under construction</h1><a href="/">Home</a>`, "tell", "has no field"},
		"a password alone": {`<form><input type="password" name="key"><button>Unlock</button></form>`, "login", "none for a name"},
		"a dead button":    {`<textarea id="message"></textarea><button>Send</button>`, "tell", "nothing came of it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				_, _ = w.Write([]byte("<!DOCTYPE html><title>x</title>" + c.page))
			}))
			t.Cleanup(s.Close)
			found := look(t, d, s.URL, short)
			if len(found.Script.Tell) > 0 || !strings.Contains(found.Gap(c.gap), c.why) || found.Gap("recall") == "" {
				t.Errorf("tell %+v, gaps %v", found.Script.Tell, found.Gaps)
			}
		})
	}
}
