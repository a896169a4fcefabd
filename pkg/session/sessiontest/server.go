package sessiontest

import (
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"amnesia/pkg/clock"
	"amnesia/pkg/memory"
)

// Mode is a way in which the server answers.
type Mode string

// What POST /api/chat does (Chat), or what GET /chat does (Page).
const (
	Normal  Mode = ""
	Slow    Mode = "slow"     // the answer stands complete a while before the response ends
	Cut     Mode = "cut"      // half of the response, then the connection is gone
	Fail503 Mode = "503"      // an error that the user is shown
	Mute503 Mode = "503-mute" // an error with an empty body, of which a page with script shows nothing
	Busy429 Mode = "429"      // Retry-After: 1
	Hang    Mode = "hang"     // no answer at all
	Drop    Mode = "drop"     // the message is read, then the connection is gone
	Expired Mode = "expired"  // nobody is logged in any more, at each request
)

const (
	pageSize = 10                     // messages on one page of the history
	linger   = 150 * time.Millisecond // how long a slow response goes on once its answer stands there
)

// Message is one line of a conversation.
type Message struct{ Role, Text string }

// Server is a small chat app, with a page that works with and without JavaScript.
type Server struct {
	*httptest.Server
	scripts bool // the page carries its script
	clock   memory.Clock

	mu       sync.Mutex
	chat     Mode
	page     Mode
	sessions map[string]string    // cookie → user
	messages map[string][]Message // user → history
	posts    int                  // messages that reached the server, stored or not
	ended    memory.Instant       // when the last chat response ended
	hung     chan struct{}
	arrived  chan struct{} // holds something once a message has reached the server
}

// NewServer starts a server that ends with the test. With scripts, the page sends and shows messages by script.
func NewServer(t testing.TB, scripts bool) *Server {
	s := &Server{scripts: scripts, clock: clock.System(), sessions: map[string]string{}, messages: map[string][]Message{},
		hung: make(chan struct{}), arrived: make(chan struct{}, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/chat", http.StatusFound) })
	mux.HandleFunc("GET /login", s.login)
	mux.HandleFunc("POST /login", s.login)
	mux.HandleFunc("POST /logout", s.logout)
	mux.HandleFunc("GET /chat", s.history)
	mux.HandleFunc("POST /forget", s.forget)
	mux.HandleFunc("POST /api/chat", s.tell)
	mux.HandleFunc("GET /api/history", s.list)
	s.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		close(s.hung)
		s.Server.CloseClientConnections()
		s.Server.Close()
	})
	return s
}

// Chat sets how messages are answered from now on, Page how the history is shown.
func (s *Server) Chat(m Mode) { s.locked(func() { s.chat = m }) }

// Page sets how the history is shown from now on.
func (s *Server) Page(m Mode) { s.locked(func() { s.page = m }) }

// LogoutAll ends every login, as a restarted app does that keeps them in memory.
func (s *Server) LogoutAll() { s.locked(func() { clear(s.sessions) }) }

// Messages gives a user's history.
func (s *Server) Messages(user string) (ms []Message) {
	s.locked(func() { ms = slices.Clone(s.messages[user]) })
	return ms
}

// Add writes messages into a user's history.
func (s *Server) Add(user string, ms ...Message) {
	s.locked(func() { s.messages[user] = append(s.messages[user], ms...) })
}

// Posts counts the messages that reached the server.
func (s *Server) Posts() (n int) {
	s.locked(func() { n = s.posts })
	return n
}

// Ended says when the last answer ended.
func (s *Server) Ended() (t memory.Instant) {
	s.locked(func() { t = s.ended })
	return t
}

func (s *Server) locked(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn()
}

// Password is every user's.
const Password = "open sesame"

func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	wrong := false
	if r.Method == http.MethodPost {
		if r.FormValue("csrf") != "login-csrf" {
			http.Error(w, "bad csrf", http.StatusForbidden)
			return
		}
		user := r.FormValue("username")
		if wrong = r.FormValue("password") != Password; !wrong {
			s.mu.Lock()
			id := fmt.Sprintf("%s-%d", user, len(s.sessions)+int(time.Now().UnixNano()))
			if s.page != Expired {
				s.sessions[id] = user
			}
			s.mu.Unlock()
			http.SetCookie(w, &http.Cookie{Name: "sid", Value: id, Path: "/", HttpOnly: true})
			http.Redirect(w, r, "/chat", http.StatusSeeOther)
			return
		}
	}
	render(w, http.StatusOK, "login", wrong)
}

func (s *Server) logout(w http.ResponseWriter, r *http.Request) {
	if c, err := r.Cookie("sid"); err == nil {
		s.locked(func() { delete(s.sessions, c.Value) })
	}
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// user gives the logged in user, or sends the browser to the login page.
func (s *Server) user(w http.ResponseWriter, r *http.Request) (string, Mode, Mode, bool) {
	c, err := r.Cookie("sid")
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		if u, ok := s.sessions[c.Value]; ok {
			return u, s.chat, s.page, true
		}
	}
	http.Redirect(w, r, "/login?next="+r.URL.Path, http.StatusSeeOther)
	return "", "", "", false
}

type line struct {
	Message
	N int
}

type chatPage struct {
	User    string
	Lines   []line
	Older   int // next page, 0: none
	Status  string
	Alert   string
	Scripts bool
}

// history shows one page of messages: the newest first page, each page in order.
func (s *Server) history(w http.ResponseWriter, r *http.Request) {
	user, _, mode, ok := s.user(w, r)
	if !ok {
		return
	}
	switch mode {
	case Fail503:
		render(w, http.StatusServiceUnavailable, "chat", chatPage{User: user, Alert: "The database is away"})
		return
	case Hang:
		s.hang(r)
		return
	}
	n, _ := strconv.Atoi(r.FormValue("page"))
	p := s.show(user, n)
	if r.FormValue("forgot") != "" {
		p.Status = "Forgotten"
	}
	if mode == Cut {
		var b strings.Builder
		_ = pages.ExecuteTemplate(&b, "chat", p)
		head := b.String()
		cut(w, head[:max(0, strings.LastIndex(head, `<li class="message`))])
		return
	}
	render(w, http.StatusOK, "chat", p)
}

// show gives page n of a history.
func (s *Server) show(user string, n int) chatPage {
	all := s.Messages(user)
	end := max(0, len(all)-n*pageSize)
	begin := max(0, end-pageSize)
	p := chatPage{User: user, Scripts: s.scripts}
	for i := begin; i < end; i++ {
		p.Lines = append(p.Lines, line{all[i], i})
	}
	if begin > 0 {
		p.Older = n + 1
	}
	return p
}

// list is the same history as JSON.
func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	user, _, _, ok := s.user(w, r)
	if !ok {
		return
	}
	all := s.Messages(user)
	from, _ := strconv.Atoi(r.FormValue("from"))
	end := min(len(all), from+pageSize)
	out := map[string]any{"messages": all[from:end], "next": ""}
	if end < len(all) {
		out["next"] = "/api/history?from=" + strconv.Itoa(end)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out)
}

func (s *Server) forget(w http.ResponseWriter, r *http.Request) {
	user, _, _, ok := s.user(w, r)
	if !ok {
		return
	}
	n, err := strconv.Atoi(r.FormValue("n"))
	s.locked(func() {
		if ms := s.messages[user]; err == nil && n < len(ms) {
			s.messages[user] = slices.Delete(ms, n, min(n+2, len(ms)))
		}
	})
	http.Redirect(w, r, "/chat?forgot=1", http.StatusSeeOther)
}

// tell stores a message and answers: JSON to an API call, a stream to the page's script, a redirect to a plain form.
func (s *Server) tell(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseMultipartForm(1 << 20); err != nil && err != http.ErrNotMultipart {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	text := strings.ReplaceAll(r.FormValue("message"), "\r\n", "\n")
	api := strings.HasPrefix(r.Header.Get("Content-Type"), "application/json")
	if api {
		var body struct{ Message string }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		text = body.Message
	}
	user, mode, _, ok := s.user(w, r)
	if !ok {
		return
	}
	s.locked(func() { s.posts++ })
	select {
	case s.arrived <- struct{}{}:
	default:
	}
	if !api && r.FormValue("csrf") != "chat-csrf" {
		http.Error(w, "bad csrf", http.StatusForbidden)
		return
	}
	script := r.Header.Get("X-Script") != ""
	switch mode {
	case Hang:
		s.hang(r)
		return
	case Drop:
		drop(w)
		return
	case Mute503:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case Fail503, Busy429:
		status, alert := http.StatusServiceUnavailable, "The memory is away"
		if mode == Busy429 {
			status, alert = http.StatusTooManyRequests, "Too many messages"
			w.Header().Set("Retry-After", "1")
		}
		switch {
		case api:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(map[string]string{"error": alert})
		case script:
			http.Error(w, alert, status)
		default:
			render(w, status, "chat", chatPage{User: user, Alert: alert})
		}
		return
	}
	answer := "Noted: " + text
	if strings.HasSuffix(text, "?") {
		answer = "You told me: "
		for _, m := range s.Messages(user) {
			if m.Role == "user" {
				answer += m.Text + " "
			}
		}
	}
	if mode != Cut {
		s.Add(user, Message{"user", text}, Message{"assistant", strings.TrimSpace(answer)})
	}
	defer func() { s.locked(func() { s.ended = s.clock.Now() }) }()
	switch {
	case mode == Cut:
		cut(w, answer)
	case api:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"reply": answer, "id": len(s.Messages(user))})
	case script || mode == Slow:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if script {
			fmt.Fprint(w, answer)
		} else {
			_ = pages.ExecuteTemplate(w, "chat", s.show(user, 0))
		}
		_ = http.NewResponseController(w).Flush()
		if mode == Slow {
			select { // the time for which the answer stands complete is what this mode is about
			case <-time.After(linger):
			case <-s.hung:
			}
		}
	default:
		http.Redirect(w, r, "/chat", http.StatusSeeOther)
	}
}

func (s *Server) hang(r *http.Request) {
	select {
	case <-s.hung:
	case <-r.Context().Done():
	}
}

// drop ends the connection without an answer.
func drop(w http.ResponseWriter) {
	if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = c.Close()
	}
}

// cut sends the head of a chunked response that never ends.
func cut(w http.ResponseWriter, text string) {
	c, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	fmt.Fprintf(buf, "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(text), text)
	_ = buf.Flush()
}

func render(w http.ResponseWriter, status int, name string, data any) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_ = pages.ExecuteTemplate(w, name, data)
}

var pages = template.Must(template.New("").Parse(`
{{define "login"}}<!doctype html><title>Log in</title>
{{if .}}<p role="alert">Wrong password</p>{{end}}
<form method="post" action="/login">
<input type="hidden" name="csrf" value="login-csrf">
<label>Name <input name="username"></label>
<label>Password <input name="password" type="password"></label>
<button type="submit">Log in</button>
</form>{{end}}

{{define "chat"}}<!doctype html><title>Chat</title>
<h1>Chat of {{.User}}</h1>
<p id="hint" hidden>nobody sees this</p>
<div id="alert">{{with .Alert}}<p role="alert">{{.}}</p>{{end}}</div>
{{with .Status}}<p role="status">{{.}}</p>{{end}}
<ol id="log">{{range .Lines}}
<li class="message {{.Role}}"><div class="text" style="white-space: pre-wrap">{{.Text}}</div>
{{- if eq .Role "user"}}<form method="post" action="/forget"><input type="hidden" name="n" value="{{.N}}"><button class="forget">Forget</button></form>{{end}}</li>
{{- end}}</ol>
{{with .Older}}<a id="older" href="/chat?page={{.}}">Older messages</a>{{end}}
<form id="composer" method="post" action="/api/chat">
<input type="hidden" name="csrf" value="chat-csrf">
<label for="message">Message</label>
<textarea id="message" name="message"></textarea>
<select id="mood" name="mood"><option value="calm">Calm</option><option value="merry">Very merry</option></select>
<button id="send" aria-label="Send">➤</button>
</form>
<form method="post" action="/logout"><button id="logout">Log out</button></form>
{{if .Scripts}}<script>` + script + `</script>{{end}}{{end}}
`))

// script sends messages and shows the older ones without loading the page anew.
const script = `
const log = document.getElementById('log');
function add(role, text) {
  const li = document.createElement('li'), div = document.createElement('div');
  li.className = 'message ' + role; div.className = 'text'; div.style.whiteSpace = 'pre-wrap'; div.textContent = text;
  li.append(div); log.append(li); return div;
}
function alertUser(text) {
  const p = document.createElement('p'); p.setAttribute('role', 'alert'); p.textContent = text;
  document.getElementById('alert').replaceChildren(p);
}
document.getElementById('composer').addEventListener('submit', async (e) => {
  e.preventDefault();
  const form = e.target, data = new FormData(form), field = document.getElementById('message');
  add('user', data.get('message')); field.value = '';
  try {
    const r = await fetch(form.action, {method: 'POST', body: data, headers: {'X-Script': '1'}});
    if (r.redirected) { location = r.url; return; }
    if (!r.ok) { const t = await r.text(); if (t) alertUser(t); return; }
    const answer = add('assistant', ''), reader = r.body.getReader(), dec = new TextDecoder();
    for (;;) {
      const {done, value} = await reader.read();
      if (done) break;
      answer.textContent += dec.decode(value, {stream: true});
    }
  } catch (err) { /* as many pages do: the answer just stops */ }
});
document.getElementById('message').addEventListener('keydown', (e) => {
  if (e.key === 'Enter' && !e.shiftKey) { e.preventDefault(); e.target.form.requestSubmit(); }
});
document.addEventListener('click', async (e) => {
  if (e.target.id !== 'older') return;
  e.preventDefault();
  const doc = new DOMParser().parseFromString(await (await fetch(e.target.href)).text(), 'text/html');
  log.prepend(...doc.querySelectorAll('#log > li'));
  const next = doc.getElementById('older');
  if (next) e.target.href = next.href; else e.target.remove();
});
`
