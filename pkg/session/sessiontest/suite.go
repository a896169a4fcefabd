// Package sessiontest is the suite that every session driver must pass, and the small chat app that it runs against.
// It knows nothing of any driver.
package sessiontest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"amnesia/pkg/clock"
	"amnesia/pkg/memory"
	"amnesia/pkg/session"
)

// Features says what a driver can do.
type Features struct {
	// JavaScript: pages run their scripts. The suite then serves pages that need theirs.
	JavaScript bool
}

// Run runs the suite. open gives a driver for the server at baseURL; the suite closes it.
func Run(t *testing.T, open func(t *testing.T, baseURL string) session.Driver, f Features) {
	k := &kit{open: open, f: f}
	for _, c := range []struct {
		name string
		run  func(*testing.T, *kit)
	}{
		{"tells every kind of payload once", tellsPayloads},
		{"passes the points in order", pointsInOrder},
		{"bounds the moment of each level", boundsLevels},
		{"a stream that breaks off settles nothing", brokenStream},
		{"an error that the user sees is a rejection", errorShown},
		{"an error that the user does not see is unknown", errorMute},
		{"429 is throttled", throttled},
		{"no answer is unknown", hangs},
		{"an ended context is unknown", aborted},
		{"a dead target is unknown", refused},
		{"a message is sent at most once", atMostOnce},
		{"told is before the answer", toldBeforeAnswer},
		{"recalls every page", recallsAll},
		{"a history that breaks off is not complete", brokenHistory},
		{"a history on an error page is no history", errorPage},
		{"an expired login is renewed", expiredLogin},
		{"a login that keeps expiring is the rig's", expiredAgain},
		{"a refused login says so", wrongPassword},
		{"users do not see each other", isolation},
		{"asks and reads the answer", asks},
		{"forgets", forgets},
		{"logs out", logsOut},
		{"names the element that is missing", missingElement},
		{"conditions on the present state", states},
		{"an old response satisfies nothing", oldResponse},
		{"a failed page satisfies nothing", failedPage},
		{"a redirect to the login confirms nothing", redirectedAway},
		{"finds by role, text and chain", selectors},
		{"tells and recalls by requests", requests},
		{"a refused request is a rejection", requestRefused},
		{"leaves evidence", evidence},
		{"closes twice", closesTwice},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) { c.run(t, k) })
	}
}

// kit makes what a case needs.
type kit struct {
	open func(*testing.T, string) session.Driver
	f    Features
}

// rig is one server, one player and one logged in user.
type rig struct {
	*Server
	*session.Session
	t      *testing.T
	ctx    context.Context
	driver session.Driver
	player *session.Player
	user   session.User

	mu     sync.Mutex
	points []session.Point
	watch  func(session.Point)
}

type option func(*session.Script, *session.Options)

// steps bounds the conditions of what the user does once logged in. Actions and the login have the time that a busy machine needs.
func steps(d time.Duration) option {
	return func(script *session.Script, _ *session.Options) {
		for _, section := range [][]session.Step{script.Tell, script.Recall, script.Ask, script.Forget, script.Logout} {
			for _, st := range section {
				if st.Acknowledged != nil {
					st.Acknowledged.Timeout = d
				}
				for _, e := range []*session.Expect{st.Expect, st.Rejected} {
					if e != nil {
						e.Timeout = d
					}
				}
			}
		}
	}
}

func (k *kit) rig(t *testing.T, script *session.Script, opts ...option) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	srv := NewServer(t, k.f.JavaScript)
	r := &rig{Server: srv, t: t, ctx: ctx, driver: k.open(t, srv.URL), user: person(0)}
	t.Cleanup(func() {
		if err := r.driver.Close(); err != nil {
			t.Errorf("closing the driver: %v", err)
		}
	})
	o := session.Options{Clock: clock.System(), StepTimeout: 8 * time.Second, Watch: func(p session.Point, _ session.User, _ memory.ID) {
		r.mu.Lock()
		r.points = append(r.points, p)
		watch := r.watch
		r.mu.Unlock()
		if watch != nil {
			watch(p)
		}
	}}
	for _, opt := range opts {
		opt(script, &o)
	}
	p, err := session.NewPlayer(r.driver, script, o)
	if err != nil {
		t.Fatal(err)
	}
	r.player = p
	r.Session = r.session(r.user)
	if err := r.Login(ctx); err != nil {
		t.Fatalf("login: %v", err)
	}
	return r
}

// session opens one more session.
func (r *rig) session(u session.User) *session.Session {
	r.t.Helper()
	s, err := r.player.Open(r.ctx, u)
	if err != nil {
		r.t.Fatalf("open: %v", err)
	}
	r.t.Cleanup(func() { _ = s.Close() })
	return s
}

// surface opens a bare surface of its own, logged in by hand.
func (r *rig) surface() session.Surface {
	r.t.Helper()
	sf, err := r.driver.Open(r.ctx, r.user)
	if err != nil {
		r.t.Fatalf("open: %v", err)
	}
	r.t.Cleanup(func() { _ = sf.Close() })
	must(r.t, sf.Goto(r.ctx, "/login"))
	must(r.t, sf.Fill(r.ctx, "input[name=username]", r.user.Name))
	must(r.t, sf.Fill(r.ctx, "input[name=password]", Password))
	must(r.t, sf.Click(r.ctx, "button[type=submit]"))
	r.await(sf, session.Condition{URL: "**/chat"})
	return sf
}

func (r *rig) await(sf session.Surface, any ...session.Condition) session.Sighting {
	r.t.Helper()
	for i := range any {
		any[i].Timeout = 5 * time.Second
	}
	seen, err := sf.Await(r.ctx, any)
	if err != nil {
		r.t.Fatalf("await %+v: %v", any, err)
	}
	return seen
}

// never wants that a condition does not hold.
func (r *rig) never(sf session.Surface, c session.Condition) {
	r.t.Helper()
	c.Timeout = short
	if seen, err := sf.Await(r.ctx, []session.Condition{c}); err == nil {
		r.t.Errorf("%+v held: %+v", c, seen)
	} else {
		target(r.t, err)
	}
}

func person(n int) session.User {
	return session.User{Run: "suite", N: n, Name: fmt.Sprintf("user-%d", n), Password: Password}
}

func note(n int, text string) memory.Memory {
	token := fmt.Sprintf("amnsuite%04d", n)
	return memory.Memory{ID: memory.ID(n), Token: token, Text: strings.ReplaceAll(text, "$", token), Question: "What is it?"}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// target wants an error of the target's.
func target(t *testing.T, err error) {
	t.Helper()
	if err == nil || session.IsRig(err) {
		t.Errorf("got %v, want an error of the target's", err)
	}
}

func outcome(t *testing.T, rc session.Receipt, err error, want memory.Outcome, cause string) {
	t.Helper()
	if rc.Outcome != want || rc.Cause != cause {
		t.Errorf("got %s (%s), want %s (%s); detail %q, error %v", rc.Outcome, rc.Cause, want, cause, rc.Detail, err)
	}
	if (err == nil) != (want != memory.Unknown) {
		t.Errorf("%s comes with the error %v", rc.Outcome, err)
	}
	if rc.At.IsZero() {
		t.Error("the receipt has no time")
	}
}

func users(ms []Message) (texts []string) {
	for _, m := range ms {
		if m.Role == "user" {
			texts = append(texts, m.Text)
		}
	}
	return texts
}
