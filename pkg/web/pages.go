package web

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"amnesia/pkg/fact"
	"amnesia/pkg/incident"
	"amnesia/pkg/memory"
	"amnesia/pkg/session"
	"amnesia/pkg/terminal"
)

// files are the templates, and what the pages need beside: all of it.
//
//go:embed pages
var files embed.FS

// page is one page of ours. Its data is what the template of its name shows.
type page struct {
	pattern, name string
	data          func(*http.Request) (view, error)
}

// view is what every template is given.
type view struct {
	Title string
	Here  string // which entry of the navigation this is under
	Live  Live
	Data  any
}

// pages lets the mux show the pages.
func (s *Server) pages(mux *http.ServeMux) {
	for _, p := range []page{
		{"/{$}", "now", s.nowPage},
		{"/incidents", "incidents", s.incidentsPage},
		{"/incidents/{fingerprint...}", "incident", s.incidentPage},
		{"/memories", "memories", s.memoriesPage},
		{"/memories/{id}", "memory", s.memoryPage},
		{"/cycles", "cycles", s.cyclesPage},
		{"/cycles/{n}", "cycle", s.cyclePage},
		{"/faults", "faults", s.faultsPage},
	} {
		// Each has a template set of its own: the frame, and what is in it.
		t := template.Must(template.New("").Funcs(words).ParseFS(files, "pages/frame.html", "pages/parts.html", "pages/"+p.name+".html"))
		mux.Handle("GET "+p.pattern, ours(s.reader(s.show(t, p.data))))
	}
	mux.Handle("GET /evidence/{name}", ours(s.reader(http.HandlerFunc(s.evidence))))
}

// reader lets through whoever may read. A browser asks a person for the token where that is needed.
func (s *Server) reader(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		if !s.mayRead(r) {
			askForToken(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func askForToken(w http.ResponseWriter) {
	w.Header().Set("WWW-Authenticate", `Basic realm="Amnesia: any name, and the daemon's token as the password", charset="UTF-8"`)
	http.Error(w, "this needs the daemon's token as the password — fix: it is the configuration's, or in the file beside the ledger that ends with .token", http.StatusUnauthorized)
}

// show answers with a page, or with what is wrong in its place.
func (s *Server) show(t *template.Template, data func(*http.Request) (view, error)) http.Handler {
	wrong := template.Must(template.New("").Funcs(words).ParseFS(files, "pages/frame.html", "pages/parts.html", "pages/wrong.html"))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, err := data(r)
		live, lerr := s.cfg.Books.Live(r.Context())
		v.Live = live
		code, use := http.StatusOK, t
		if err = cmp.Or(err, lerr); err != nil {
			code, use = statusOf(err), wrong
			if to, ok := errors.AsType[elsewhere](err); ok {
				http.Redirect(w, r, string(to), http.StatusSeeOther)
				return
			}
			v.Title, v.Data = http.StatusText(code), err.Error()
		}
		var b bytes.Buffer
		if err := use.ExecuteTemplate(&b, "frame", v); err != nil {
			s.log.Error("a page could not be made", zap.String("path", r.URL.Path), zap.Error(err))
			http.Error(w, "this page could not be made: the daemon's log says why", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, terminal.Text(b.String())) // who has gone away needs no answer
	})
}

// elsewhere is the error of a request that is answered by another page.
type elsewhere string

func (e elsewhere) Error() string { return "see " + string(e) }

func (s *Server) nowPage(r *http.Request) (view, error) {
	return view{Title: "Now", Here: "/"}, nil // all of it is in Live
}

// incidentsPage lists the incidents; where a search, such as the link of an alert, finds a single one, that is the answer.
func (s *Server) incidentsPage(r *http.Request) (view, error) {
	found, err := s.incidents(r)
	v := struct {
		Open, Muted []incident.Incident
		Searched    []string
	}{}
	for _, key := range []string{"class", "fault", "service"} {
		if value := r.URL.Query().Get(key); value != "" {
			v.Searched = append(v.Searched, key+" "+value)
		}
	}
	if err == nil && len(v.Searched) > 0 && len(found.Incidents) == 1 {
		err = elsewhere(fingerprintPath(found.Incidents[0].Fingerprint))
	}
	for _, i := range found.Incidents {
		if i.Known != nil {
			v.Muted = append(v.Muted, i)
		} else {
			v.Open = append(v.Open, i)
		}
	}
	return view{Title: "Incidents", Here: "/incidents", Data: v}, err
}

// incidentView is an incident with the story of its newest memory.
type incidentView struct {
	incident.Incident
	Story   *incident.Story
	Picture *timeline
	Frozen  *fact.Frozen // the newest evidence
	Earlier []fact.Frozen
	Newest  []incident.Member
	Users   []string
	Asked   int // of how many memories, the newest, the users are named
	Advice  []string
	Replay  string
	Why     string
}

func (s *Server) incidentPage(r *http.Request) (view, error) {
	i, err := s.incident(r)
	if err != nil {
		return view{Here: "/incidents"}, err
	}
	v := incidentView{Incident: i, Newest: slices.Clone(i.Members)}
	slices.Reverse(v.Newest)
	users, err := s.users(r, v.Newest)
	if err != nil {
		return view{Here: "/incidents"}, err
	}
	v.Users, v.Asked = users, min(usersOf, len(v.Newest))
	if n := len(i.Evidence); n > 0 {
		v.Frozen, v.Earlier = &i.Evidence[n-1], i.Evidence[:n-1]
	}
	live, err := s.cfg.Books.Live(r.Context())
	if err != nil {
		return view{Here: "/incidents"}, err
	}
	// A memory that came back, or that the ledger cannot tell of now, takes nothing from the incident.
	newest := v.Newest[0].Verdict
	if story, err := s.cfg.Books.Memory(r.Context(), newest.Memory); err != nil {
		s.log.Warn("a memory of an incident cannot be told of", zap.Stringer("memory", newest.Memory), zap.Error(err))
		v.Advice = incident.Advice(newest)
	} else {
		v.Story, v.Picture, v.Advice = story, draw(story), story.Advice
		v.Why = incident.Why(live.Ledger, newest.Memory)
		if story.Cycle > 0 {
			v.Replay = incident.Replay(live.Ledger, live.Config, story.Cycle)
		}
	}
	return view{Title: i.Sentence(), Here: "/incidents", Data: v}, nil
}

// usersOf is of how many memories of an incident the users are named.
const usersOf = 20

// users names those whose memories are among the newest of an incident.
func (s *Server) users(r *http.Request, members []incident.Member) (names []string, err error) {
	for _, m := range members[:min(usersOf, len(members))] {
		found, err := s.cfg.Books.Memories(r.Context(), Search{Before: m.Verdict.Memory + 1, Limit: 1})
		if err != nil {
			return nil, err
		}
		if len(found) == 1 && !slices.Contains(names, found[0].User) {
			names = append(names, found[0].User)
		}
	}
	return names, nil
}

func (s *Server) memoriesPage(r *http.Request) (view, error) {
	q, err := asked(r, "user", "token", "verdict", "cursor", "limit", "id")
	if err != nil {
		return view{Here: "/memories"}, err
	}
	if id := strings.TrimSpace(q.Get("id")); id != "" {
		if _, err := memory.ParseID(id); err != nil {
			return view{Here: "/memories"}, mistaken(err.Error())
		}
		return view{}, elsewhere("/memories/" + url.PathEscape(id))
	}
	if q.Has("id") {
		q.Del("id")
		r = r.Clone(r.Context())
		r.URL.RawQuery = q.Encode()
	}
	found, err := s.memories(r)
	next := ""
	if found.Next != "" {
		q.Set("cursor", found.Next)
		next = "/memories?" + q.Encode()
	}
	return view{Title: "Memories", Here: "/memories", Data: struct {
		memoriesPage
		User, Token, Verdict string
		Kinds                []memory.Kind
		First                bool
		NextPage             string
	}{found, r.URL.Query().Get("user"), r.URL.Query().Get("token"), r.URL.Query().Get("verdict"), memory.Kinds[:], r.URL.Query().Get("cursor") == "", next}}, err
}

func (s *Server) memoryPage(r *http.Request) (view, error) {
	story, err := s.memory(r)
	if err != nil {
		return view{Here: "/memories"}, err
	}
	slices.SortStableFunc(story.Pictures, func(x, y fact.Picture) int { // its own user's first
		other := func(p fact.Picture) int {
			if p.User == story.Memory.User {
				return 0
			}
			return 1
		}
		return other(x) - other(y)
	})
	live, err := s.cfg.Books.Live(r.Context())
	v := struct {
		*incident.Story
		Picture     *timeline
		Replay, Why string
	}{Story: story, Picture: draw(story), Why: incident.Why(live.Ledger, story.Memory.ID)}
	if story.Cycle > 0 {
		v.Replay = incident.Replay(live.Ledger, live.Config, story.Cycle)
	}
	return view{Title: "Memory " + story.Memory.ID.String(), Here: "/memories", Data: v}, err
}

func (s *Server) cyclesPage(r *http.Request) (view, error) {
	found, err := s.cycles(r)
	return view{Title: "Cycles", Here: "/cycles", Data: struct {
		cyclesPage
		First bool
	}{found, r.URL.Query().Get("cursor") == ""}}, err
}

func (s *Server) cyclePage(r *http.Request) (view, error) {
	c, err := s.cycle(r)
	if err != nil {
		return view{Here: "/cycles"}, err
	}
	live, err := s.cfg.Books.Live(r.Context())
	replay := ""
	if slices.ContainsFunc(c.Injections, func(i incident.Injection) bool { return !i.Fired.IsZero() }) {
		replay = incident.Replay(live.Ledger, live.Config, c.N)
	}
	return view{Title: fmt.Sprintf("Cycle %d", c.N), Here: "/cycles", Data: struct {
		incident.Cycle
		Replay string
	}{c, replay}}, err
}

func (s *Server) faultsPage(r *http.Request) (view, error) {
	f, err := s.cfg.Books.Faults(r.Context())
	return view{Title: "Faults", Here: "/faults", Data: f}, err
}

// evidence sends a file of evidence so that nothing in it runs: a screenshot is a picture, all else is to be saved. A trace
// holds what users typed, their passwords too: it needs the token also where all else may be read by every user of the machine.
func (s *Server) evidence(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if path.Ext(name) == ".zip" && !s.knowsUsers && !s.hasToken(r) {
		askForToken(w)
		return
	}
	kind := "application/octet-stream"
	if path.Ext(name) == ".png" {
		kind = "image/png"
	}
	_, ok := session.EvidenceTime(name)
	var f fs.File
	err := fs.ErrNotExist
	if ok {
		f, err = s.cfg.Books.Evidence(name)
	}
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			s.log.Warn("a file of evidence cannot be read", zap.String("name", name), zap.Error(err))
		}
		http.Error(w, "there is no such file of evidence: it may be older than evidence.max_age", http.StatusNotFound)
		return
	}
	defer f.Close()
	info, err := f.Stat()
	content, seeks := f.(io.ReadSeeker)
	if err != nil || !seeks || !info.Mode().IsRegular() {
		http.Error(w, "this is no file of evidence", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Security-Policy", "sandbox; default-src 'none'")
	if kind != "image/png" {
		w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`) // of letters, digits, and -_. only
	}
	http.ServeContent(w, r, "", info.ModTime(), content)
}

// static serves what the pages need beside themselves. It is the same until the daemon is another.
func static() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind, ok := map[string]string{"style.css": "text/css; charset=utf-8", "live.js": "text/javascript; charset=utf-8", "icon.svg": "image/svg+xml"}[r.PathValue("name")]
		text, err := files.ReadFile("pages/" + r.PathValue("name"))
		if !ok || err != nil {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Cache-Control", "no-cache")
		_, _ = w.Write(text)
	})
}

// words are what the templates say things with.
var words = template.FuncMap{
	"stamp": func(v any) string { return instant(v).Format("2006-01-02 15:04:05") },
	"clock": func(v any) string { return instant(v).Format("15:04:05.000") },
	"iso":   func(v any) string { return instant(v).Format(time.RFC3339Nano) },
	"short": func(v any) string {
		switch d := v.(type) {
		case *time.Duration:
			return short(*d)
		case *float64:
			return short(ofMS(*d))
		case float64:
			return short(ofMS(d))
		}
		return short(v.(time.Duration))
	},
	"lasted": func(c incident.Cycle) string { return short(c.At.Sub(c.Began)) },
	"wait":   func(from, to time.Time) string { return short(max(0, to.Sub(from)).Round(time.Second)) },
	"join":   join[string],
	"link":   fingerprintPath,
	"file":   func(name string) string { return "/evidence/" + url.PathEscape(path.Base(name)) }, // a story has its folder, too
	"glyph":  func(kind any) string { return glyphs[fmt.Sprint(kind)] },
	"many": func(n int, one, several string) string {
		if n == 1 {
			return "1 " + one
		}
		return strconv.Itoa(n) + " " + several
	},
	"lost":         func(c Counts) int { return c.Losses[memory.Silent] + c.Losses[memory.Reported] },
	"reported":     func(c Counts) int { return c.Losses[memory.Reported] },
	"inconclusive": func(c Counts) int { return c.Outcomes[fact.CycleInconclusive] },
	"unrecovered":  func(c Counts) int { return c.Outcomes[fact.CycleUnrecovered] },
	"defects": func(c Counts) (n int) {
		for _, k := range c.Defects {
			n += k
		}
		return n
	},
	"cut": func(s string) string { // in the middle: what tells names apart is at their end
		if r := []rune(s); len(r) > laneLetters {
			return string(r[:laneLetters/2]) + "…" + string(r[len(r)-(laneLetters-1)/2:])
		}
		return s
	},
	"draw":   drawBars,
	"curve":  drawCurve,
	"by":     incident.By,
	"state":  incident.StateWords,
	"mount":  incident.MountWords,
	"recent": func(all []incident.Cycle) []incident.Cycle { return all[:min(len(all), 8)] },
	"wrong":  func(text string) (wrong string) { wrong, _, _ = strings.Cut(text, " — fix: "); return wrong },
	"fix":    func(text string) (fix string) { _, fix, _ = strings.Cut(text, " — fix: "); return fix },
}

// instant gives the time of what templates have, in UTC.
func instant(v any) time.Time {
	if at, ok := v.(memory.Instant); ok {
		return at.Time().UTC()
	}
	return v.(time.Time).UTC()
}

// fingerprintPath is where an incident is shown.
func fingerprintPath(fingerprint string) string {
	parts := strings.Split(fingerprint, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return "/incidents/" + strings.Join(parts, "/")
}

// glyphs stand beside words, so that nothing is said by colour alone.
var glyphs = map[string]string{
	"kept": "✓", "late": "◷", "lost": "✕", "torn": "◐", "hidden": "◌", "indeterminate": "?", "unverified": "…", "volatile": "≈", "released": "○",
	"silent": "✕", "reported": "!", "permitted": "○", "unsure": "?",
	"clean": "✓", "losses": "✕", "defects": "▲", "unrecovered": "■", "inconclusive": "?", "running": "…",
	"acknowledged": "✓", "rejected": "!", "unknown": "?",
	"leaked": "▲", "altered": "▲", "duplicated": "▲", "expired_early": "▲", "outlived": "▲", "resurfaced": "▲",
}
