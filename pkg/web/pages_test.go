package web

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap/zaptest"
	"golang.org/x/net/html"

	"amnesia/chaos"
	"amnesia/pkg/fact"
	"amnesia/pkg/incident"
	"amnesia/pkg/memory"
)

// paged gives a server with pages, open to whoever reads.
func paged(t *testing.T, books Books) *Server {
	t.Helper()
	s := New(Config{Gatherer: prometheus.NewRegistry(), Logger: zaptest.NewLogger(t), Daemon: &daemon{}, Books: books, Token: token})
	s.openToRead = true
	return s
}

// look asks for a page as a browser on the same machine does.
func look(s http.Handler, path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", path, nil)
	r.Host = "127.0.0.1:9464"
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		} else {
			r.Header.Set(header[i], header[i+1])
		}
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// TestHostilePages: of what others said there is no tag, no attribute and no character that a line of text would be read
// differently for.
func TestHostilePages(t *testing.T) {
	s := paged(t, newShelf())
	for _, path := range every {
		w := look(s, path)
		body := w.Body.String()
		if h := w.Header(); h.Get("Content-Type") != "text/html; charset=utf-8" || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "no-store" ||
			strings.Contains(h.Get("Content-Security-Policy"), "unsafe") || !strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: %v", path, h)
		}
		doc, err := html.Parse(strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for n := range doc.Descendants() {
			if n.Type != html.ElementNode {
				continue
			}
			if n.Data == "script" && (n.FirstChild != nil || len(n.Attr) != 2 || n.Attr[0].Val != "/static/live.js") {
				t.Errorf("%s has a script %v", path, n)
			}
			for _, a := range n.Attr {
				if strings.HasPrefix(a.Key, "on") || a.Key == "style" || a.Key == "srcdoc" || (a.Key == "href" || a.Key == "src" || a.Key == "action") && !strings.HasPrefix(a.Val, "/") && a.Val != "#main" {
					t.Errorf("%s has a %s with %s=%q", path, n.Data, a.Key, a.Val)
				}
			}
		}
		if strings.ContainsAny(body, "\x1b\u202e") {
			t.Errorf("%s has a character that changes how a line reads", path)
		}
	}
	if body := look(s, "/memories/m42").Body.String(); !strings.Contains(body, "&lt;script&gt;document.title=") {
		t.Errorf("what was said is not to be seen:\n%s", body)
	}
}

// TestPagesAndAnswers: what is not there, cannot be answered or went wrong says so, with its fix, to people and to programs.
func TestPagesAndAnswers(t *testing.T) {
	books := newShelf()
	s := paged(t, books)
	for path, want := range map[string]int{
		"/cycles/40": 200, "/cycles/999": 404, "/cycles/x": 404, "/cycles/-1": 404, "/memories/m42": 200, "/memories/42": 200, "/memories/m100001": 404, "/memories/x": 404,
		"/incidents/silent/kill/redis/page+redis": 200, "/incidents/nothing": 404, "/memories?verdict=wrong": 400, "/memories?typo=1": 400,
		"/memories?user=a&user=b": 400, "/memories?limit=0": 400, "/memories?limit=501": 400, "/memories?cursor=x": 400, "/memories?cursor=m0": 400,
		"/cycles?cursor=0": 400, "/cycles?limit=x": 400, "/cycles?x=%zz": 400, "/memories?limit=500&cursor=m9": 200,
	} {
		w := look(s, path)
		api, v := ask(s, "GET", "/api/v1"+path, "")
		if w.Code != want || api != want {
			t.Errorf("%s: the page %d, the API %d, want %d", path, w.Code, api, want)
		}
		if text, _ := v["error"].(string); want != 200 && (!strings.Contains(text, " — fix: ") || !strings.Contains(w.Body.String(), "<b>Fix:</b>")) {
			t.Errorf("%s has no fix: %v\n%s", path, v, w.Body)
		}
	}
	if w := look(s, "/memories?id=m7"); w.Code != 303 || w.Header().Get("Location") != "/memories/m7" {
		t.Errorf("a memory that was asked for by its id: %d %v", w.Code, w.Header())
	}
	books.err = errors.New("the disk is gone — fix: mount it")
	for _, path := range []string{"/", "/incidents", "/incidents/silent/kill/redis/page+redis", "/memories", "/memories/m42", "/cycles", "/cycles/40", "/faults"} {
		if w := look(s, path); w.Code != 500 || !strings.Contains(w.Body.String(), "the disk is gone") {
			t.Errorf("%s of books that cannot be read: %d", path, w.Code)
		}
	}
}

// TestPaging: following the cursors gives everything once.
func TestPaging(t *testing.T) {
	s := paged(t, newShelf())
	for path, of := range map[string]struct {
		list string
		want int
	}{"/api/v1/cycles?": {"cycles", 120}, "/api/v1/memories?verdict=kept&": {"memories", 111}, "/api/v1/memories?limit=100&": {"memories", 1000}} {
		seen, cursor := map[any]bool{}, ""
		for range 20 {
			_, v := ask(s, "GET", path+"cursor="+cursor, "")
			for _, one := range v[of.list].([]any) {
				m := one.(map[string]any)
				id := m["id"]
				if id == nil {
					id = m["n"]
				}
				if seen[id] {
					t.Errorf("%s: %v twice", path, id)
				}
				seen[id] = true
			}
			if cursor, _ = v["next"].(string); cursor == "" {
				break
			}
		}
		if len(seen) != of.want {
			t.Errorf("%s gave %d, want %d", path, len(seen), of.want)
		}
	}
}

// TestIncidentByAnyName: a link leads to its incident however a service is called.
func TestIncidentByAnyName(t *testing.T) {
	s := paged(t, newShelf())
	links := regexp.MustCompile(`href="(/incidents/[^"]+)"`).FindAllStringSubmatch(look(s, "/incidents").Body.String(), -1)
	if len(links) != 3 {
		t.Fatalf("links %q", links)
	}
	for _, l := range links {
		if w := look(s, html.UnescapeString(l[1])); w.Code != 200 {
			t.Errorf("%s: %d %s", l[1], w.Code, w.Header().Get("Location"))
		}
	}
}

// TestIncidentsOfAnAlert: an alert knows class, fault and service; where they leave one incident, the link leads to it.
func TestIncidentsOfAnAlert(t *testing.T) {
	s := paged(t, newShelf())
	for query, want := range map[string]string{
		"class=silent&fault=kill&service=redis":             "/incidents/silent/kill/redis/page+redis",
		"service=a%2Fb%3Fc%23d%3Ce%3E%252F..&class=silent":  "/incidents/silent/kill/a/b%3Fc%23d%3Ce%3E%252F../page+redis",
		"class=leaked&fault=&service=":                      "/incidents/leaked/-/-/-",
		"class=silent&fault=kill":                           "",
		"class=silent&fault=kill&service=postgres":          "",
		"class=leaked&fault=kill":                           "",
		"class=&fault=&service=":                            "",
		"class=%3Cscript%3Ealert(1)%3C%2Fscript%3E&fault=x": "",
	} {
		w := look(s, "/incidents?"+query)
		if to := w.Header().Get("Location"); to != want || (w.Code == 303) != (want != "") {
			t.Errorf("%s leads to %q (%d), want %q", query, to, w.Code, want)
		}
		if w.Code == 303 && look(s, want).Code != 200 {
			t.Errorf("%s leads nowhere", query)
		}
	}
	body := look(s, "/incidents?class=silent&fault=kill").Body.String()
	if n := strings.Count(body, `<a href="/incidents/silent`); n != 2 || strings.Contains(body, "leaked") || !strings.Contains(body, "Those of class silent, fault kill only") {
		t.Errorf("%d incidents are listed:\n%s", n, body)
	}
	if body := look(s, "/incidents?service=postgres").Body.String(); !strings.Contains(body, "No incident is like that") || strings.Contains(body, "Nothing was lost") {
		t.Errorf("of what is not there is said\n%s", body)
	}
	if _, v := ask(s, "GET", "/api/v1/incidents?service=redis", ""); len(v["incidents"].([]any)) != 1 {
		t.Errorf("the API gives %v", v)
	}
	if w := look(s, "/incidents?typo=1"); w.Code != 400 {
		t.Errorf("a filter that is none: %d", w.Code)
	}
}

// stricken are books with losses that no single service is named for.
type stricken struct{ *shelf }

func (stricken) Incidents(context.Context) ([]incident.Incident, error) {
	l := incident.NewLog(nil)
	for i, cause := range [][2]string{{chaos.CrashAll, "app+redis"}, {memory.FaultSeveral, "redis"}, {chaos.Kill, "app+redis"}} {
		v := lost(memory.ID(i + 1))
		v.Fault, v.Service = cause[0], cause[1]
		l.Apply(fact.Entry{Fact: fact.Judged{Cycle: 1, Verdict: v, At: moment(int64(i))}})
	}
	return l.All(moment(9)), nil
}

// TestIncidentsOfAnAlertForMany: the labels of alerts have no names of several services, and their links lead somewhere all
// the same.
func TestIncidentsOfAnAlertForMany(t *testing.T) {
	s := paged(t, stricken{newShelf()})
	for query, want := range map[string]string{
		"fault=crash_all&service=all":                   "/incidents/silent/crash_all/app+redis/page+redis",
		"class=silent&fault=several&service=several":    "/incidents/silent/several/redis/page+redis",
		"class=silent&fault=kill&service=several":       "/incidents/silent/kill/app+redis/page+redis",
		"class=silent&fault=kill&service=app%2Bredis":   "/incidents/silent/kill/app+redis/page+redis",
		"class=silent&fault=kill&service=all":           "",
		"class=silent&fault=crash_all&service=postgres": "",
	} {
		if to := look(s, "/incidents?"+query).Header().Get("Location"); to != want {
			t.Errorf("%s leads to %q, want %q", query, to, want)
		}
	}
}

// TestMuted: what is known is listed apart, with the reason and the date.
func TestMuted(t *testing.T) {
	body := look(paged(t, newShelf()), "/incidents").Body.String()
	_, muted, ok := strings.Cut(body, "Known and muted")
	if !ok || !strings.Contains(muted, "the demo account is shared") || !strings.Contains(muted, "Muted until 2") || !strings.Contains(muted, "/incidents/leaked/-/-/-") || strings.Contains(muted, "silent/kill") {
		t.Errorf("muted are:\n%s", muted)
	}
}

// TestIncidentPage says the cause first, then what to do, and how to play it again.
func TestIncidentPage(t *testing.T) {
	body := look(paged(t, newShelf()), "/incidents/silent/kill/redis/page+redis").Body.String()
	at := 0
	for _, want := range []string{"SIGKILL of redis, 41ms after the acknowledgement", "it has no append-only file", "<b>Fix:</b> <span>start it with --appendonly yes", "page, redis",
		"amnesia-r1-2, amnesia-r1-1", "amnesia replay amnesia.db --cycle 3 --armed -c staging.yaml", "/memories/m42", "<svg", "/evidence/20261201T041931.000Z-u1.png", "volume redis-data at /data",
		"exit code 137", "3 lines were left out", "Ready to accept connections", "/memories/m41", "Earlier evidence"} {
		next := strings.Index(body[at:], want)
		if next < 0 {
			t.Errorf("no %q after what comes before it", want)
			continue
		}
		at += next
	}
}

// TestPicturesOfAStory: those of its own user come first, and each can be had, though a story has them with their folder.
func TestPicturesOfAStory(t *testing.T) {
	s := paged(t, newShelf())
	links := regexp.MustCompile(`<img src="(/evidence/[^"]+)"`).FindAllStringSubmatch(look(s, "/memories/m42").Body.String(), -1)
	if len(links) != 2 || links[0][1] != "/evidence/20261201T041931.000Z-u1.png" {
		t.Errorf("its pictures are %q", links)
	}
	for _, l := range links {
		if w := look(s, html.UnescapeString(l[1]), TokenHeader, token); w.Code != 200 {
			t.Errorf("%s: %d", l[1], w.Code)
		}
	}
}

func TestEvidenceIsSentAsWhatItIs(t *testing.T) {
	s := paged(t, newShelf())
	for path, want := range map[string]struct {
		code              int
		kind, disposition string
	}{
		"/evidence/20261201T041931.000Z-u1.png":                    {200, "image/png", ""},
		"/evidence/20261201T041931.000Z-u1.html":                   {200, "application/octet-stream", `attachment; filename="20261201T041931.000Z-u1.html"`},
		"/evidence/20261201T041931.000Z-u1.zip":                    {200, "application/octet-stream", `attachment; filename="20261201T041931.000Z-u1.zip"`},
		"/evidence/amnesia.yaml":                                   {404, "text/plain; charset=utf-8", ""},
		"/evidence/20261201T041931.000Z-u2.png":                    {404, "text/plain; charset=utf-8", ""},
		"/evidence/20261201T041931.000Z-x%2F..%2F..%2Famnesia.png": {404, "text/plain; charset=utf-8", ""},
		"/evidence/..%2Famnesia.yaml":                              {404, "text/plain; charset=utf-8", ""},
	} {
		w := look(s, path, TokenHeader, token)
		if h := w.Header(); w.Code != want.code || h.Get("Content-Type") != want.kind || h.Get("Content-Disposition") != want.disposition ||
			want.code == 200 && h.Get("Content-Security-Policy") != "sandbox; default-src 'none'" || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %v", path, w.Code, h)
		}
	}
}

// TestTracesAreForFew: what users typed is not for every user of the machine.
func TestTracesAreForFew(t *testing.T) {
	const path = "/evidence/20261201T041931.000Z-u1.zip"
	s := paged(t, newShelf())
	if w := look(s, path); w.Code != 401 || !strings.HasPrefix(w.Header().Get("WWW-Authenticate"), "Basic ") || strings.Contains(w.Body.String(), "PK") {
		t.Errorf("a trace is given to anybody: %d %q", w.Code, w.Body)
	}
	s.knowsUsers = true
	if w := look(s, path); w.Code != 200 {
		t.Errorf("a trace is not given to who has shown who they are: %d", w.Code)
	}
}

// TestWhoMayLook: off loopback the pages ask for the token, which a browser can give as a password, and nothing that acts
// takes it so; a name that is another's is refused.
func TestWhoMayLook(t *testing.T) {
	s := paged(t, newShelf())
	for _, path := range append(every, "/evidence/20261201T041931.000Z-u1.png", "/api/v1/incidents", "/api/v1/events") {
		if w := look(s, path, "Host", "rebound.example"); w.Code != http.StatusMisdirectedRequest {
			t.Errorf("%s by another's name: %d", path, w.Code)
		}
	}
	s.openToRead = false
	basic := func(password string) string {
		r := httptest.NewRequest("GET", "/", nil)
		r.SetBasicAuth("anybody", password)
		return r.Header.Get("Authorization")
	}
	for _, path := range []string{"/", "/incidents", "/memories/m42", "/evidence/20261201T041931.000Z-u1.png"} {
		for given, want := range map[string]int{"": 401, basic("wrong"): 401, basic(token): 200, "Bearer " + token: 401} {
			w := look(s, path, "Authorization", given)
			if w.Code != want || want == 401 && (!strings.HasPrefix(w.Header().Get("WWW-Authenticate"), "Basic ") || strings.Contains(w.Body.String(), "Felix")) {
				t.Errorf("%s with %q: %d %v", path, given, w.Code, w.Header())
			}
		}
		if w := look(s, path, TokenHeader, token); w.Code != 200 {
			t.Errorf("%s with the token in its header: %d", path, w.Code)
		}
	}
	if code, _ := ask(s, "POST", "/api/v1/pause", "", TokenHeader, "", "Authorization", basic(token)); code != 401 {
		t.Errorf("a pause with what a browser sends by itself: %d", code)
	}
}

// TestStatic: what the pages need is there, nothing else is, and none of it leads elsewhere.
func TestStatic(t *testing.T) {
	s := paged(t, newShelf())
	for path, kind := range map[string]string{"style.css": "text/css; charset=utf-8", "live.js": "text/javascript; charset=utf-8", "icon.svg": "image/svg+xml", "now.html": "", "..%2Fweb.go": ""} {
		w := look(s, "/static/"+path)
		if (w.Code == 200) != (kind != "") || kind != "" && w.Header().Get("Content-Type") != kind {
			t.Errorf("%s: %d %v", path, w.Code, w.Header())
		}
	}
	for _, ours := range []string{"style.css", "live.js", "icon.svg"} {
		text, err := files.ReadFile("pages/" + ours)
		if err != nil {
			t.Fatal(err)
		}
		for _, address := range regexp.MustCompile(`https?://[^\s"']+`).FindAllString(string(text), -1) {
			if address != "http://www.w3.org/2000/svg" {
				t.Errorf("%s has %s", ours, address)
			}
		}
	}
}

// stream follows the events over a real connection.
func stream(t *testing.T, base string) (*http.Response, *bufio.Reader) {
	t.Helper()
	r, err := http.Get(base + "/api/v1/events")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Body.Close() })
	return r, bufio.NewReader(r.Body)
}

// next gives the next event, or a comment.
func next(t *testing.T, b *bufio.Reader) (l Live, comment bool) {
	t.Helper()
	for {
		line, err := b.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(line, ":") {
			return l, true
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			if err := json.Unmarshal([]byte(data), &l); err != nil {
				t.Fatal(err)
			}
			return l, false
		}
	}
}

// TestEvents: each change comes, the last one always, heartbeats between, past the server's time-outs.
func TestEvents(t *testing.T) {
	books := newShelf()
	base := serving(t, books, func(s *Server) {
		s.readTimeout, s.writeTimeout, s.heartbeat = 500*time.Millisecond, 500*time.Millisecond, 250*time.Millisecond
	})
	_, b := stream(t, base)
	if l, comment := next(t, b); comment || l.Cycle.N != 42 {
		t.Errorf("the first is %+v", l.Cycle)
	}
	for n := range 3 { // each longer after the start than the time-outs are
		if _, comment := next(t, b); !comment {
			t.Errorf("heartbeat %d is none", n)
		}
	}
	for n := 43; n < 143; n++ {
		books.change(func(l *Live) { l.Cycle = &Cycle{N: n} })
	}
	before := books.looked()
	for l, comment := next(t, b); comment || l.Cycle.N != 142; l, comment = next(t, b) {
	}
	if looks := books.looked() - before; looks > 5 {
		t.Errorf("a hundred changes at once were sent %d times", looks)
	}
}

// TestFollowersLeave: those who take nothing are dropped, those who are too many refused, and none holds up the end.
func TestFollowersLeave(t *testing.T) {
	books := newShelf()
	books.live.Target = strings.Repeat("x", 1<<20) // more than the kernel holds for somebody
	s := New(Config{Gatherer: prometheus.NewRegistry(), Logger: zaptest.NewLogger(t), Daemon: &daemon{}, Books: books})
	s.eventTimeout = 200 * time.Millisecond
	l, err := s.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l) }()
	slow, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	fmt.Fprintf(slow, "GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
	follows := func(n int64) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); s.followers.Load() != n; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d follow, want %d", s.followers.Load(), n)
			}
			books.change(func(*Live) {})
		}
	}
	follows(1)
	follows(0) // it took nothing

	books.change(func(l *Live) { l.Target = "small" })
	_, b := stream(t, "http://"+l.Addr().String())
	next(t, b)
	s.followers.Store(mostFollowers)
	if code, v := ask(s, "GET", "/api/v1/events", ""); code != 503 || !strings.Contains(fmt.Sprint(v["error"]), "fix: ") {
		t.Errorf("one too many: %d %v", code, v)
	}
	time.Sleep(3 * s.eventTimeout / 2) // the time in which the last event had to be taken is over
	began := time.Now()
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > shutdownTimeout/2 {
		t.Errorf("it took %s to end with one who follows", took)
	}
	if _, err := io.ReadAll(b); err != nil {
		t.Errorf("who followed was cut off: %v", err)
	}
}

// TestPictureOfAStory: each view has its lane, and each thing its place in time.
func TestPictureOfAStory(t *testing.T) {
	story, err := newShelf().Memory(t.Context(), 42)
	if err != nil {
		t.Fatal(err)
	}
	p := draw(story)
	var lanes []string
	for _, l := range p.Lanes {
		lanes = append(lanes, l.Name)
	}
	if got := strings.Join(lanes, ","); got != "amnesia-r1-1,service redis,view redis,view postgres,view page" {
		t.Errorf("lanes %s", got)
	}
	var rules []string
	last := 0
	for _, r := range p.Rules {
		rules = append(rules, r.Label)
		if r.X < last {
			t.Errorf("%s is before what was before it", r.Label)
		}
		last = r.X
	}
	if got := strings.Join(rules, ", "); got != "acknowledged, kill of redis +41ms, lost +10.09s" {
		t.Errorf("rules %s", got)
	}
	redis := p.Lanes[2]
	var kinds []string
	for i, s := range redis.Spans {
		kinds = append(kinds, s.Kind)
		if s.W <= 0 || i > 0 && s.X != redis.Spans[i-1].X+redis.Spans[i-1].W {
			t.Errorf("redis' spans do not meet: %+v", redis.Spans)
		}
	}
	if got := strings.Join(kinds, ","); got != "unreadable,absent,absent" {
		t.Errorf("redis was %s", got)
	}
	if draw(&incident.Story{}) != nil {
		t.Error("a story of nothing has a picture")
	}
	if one := draw(&incident.Story{Events: story.Events[:1]}); one == nil || len(one.Lanes) != 1 {
		t.Errorf("a story of one event: %+v", one)
	}
}

// TestLabelsAreApart however close what they say is.
func TestLabelsAreApart(t *testing.T) {
	events := []incident.Event{{What: "told", Who: "u", At: moment(0)}, {What: "acknowledged", Who: "u", At: moment(1)}}
	for n := range 6 {
		events = append(events, incident.Event{What: "fault", Who: "a service with a long name", Text: "kill (SIGKILL)", At: moment(2 + int64(n))})
	}
	events = append(events, incident.Event{What: "verdict", Who: "lost", At: moment(9)})
	p := draw(&incident.Story{Memory: memory.Memory{User: "u"}, Events: events})
	type place struct{ from, to, y int }
	var places []place
	for _, r := range p.Rules {
		w := 7 * len([]rune(r.Label))
		at := place{r.X, r.X + w, r.Y}
		if r.Anchor == "end" {
			at = place{r.X - w, r.X, r.Y}
		}
		for _, o := range places {
			if o.y == at.y && at.from < o.to && o.from < at.to {
				t.Errorf("%q stands on another: %+v and %+v", r.Label, at, o)
			}
		}
		if at.from < 0 || at.to > wide {
			t.Errorf("%q leaves the picture: %+v", r.Label, at)
		}
		places = append(places, at)
	}
}

func TestBars(t *testing.T) {
	if b := drawBars(nil); len(b.Bars) != 0 {
		t.Errorf("of nothing: %+v", b)
	}
	b := drawBars([]incident.Cycle{{N: 3}, {N: 2, Acknowledged: 1000, Lost: 1, Outcome: fact.CycleLosses}, {N: 1, Acknowledged: 500, Outcome: fact.CycleClean}})
	if len(b.Bars) != 3 || b.Bars[0].H != 44 || b.Bars[1].H != 88 || b.Bars[1].LostH != 3 || !b.Bars[1].Mark || b.Bars[2].Kind != "running" || b.Bars[0].X >= b.Bars[1].X {
		t.Errorf("%+v", b)
	}
}

func TestFingerprintPath(t *testing.T) {
	for _, name := range []string{"silent/kill/redis/page+redis", "a b/c%d/é/?#", "x/<script>/-/-"} {
		u, err := url.Parse(fingerprintPath(name))
		if err != nil || u.Path != "/incidents/"+name {
			t.Errorf("%q is at %v (%v)", name, u, err)
		}
	}
}
