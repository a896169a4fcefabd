package page_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"amnesia/pkg/clock"
	"amnesia/pkg/memory"
	"amnesia/pkg/session"
	"amnesia/pkg/view"
	"amnesia/pkg/view/page"
	"amnesia/pkg/view/viewtest"
)

// app is a chat app with a page. The driver and the script are the session package's to test.
type app struct {
	mu      sync.Mutex
	history map[string][]session.Utterance
	trouble viewtest.Trouble
	mended  chan struct{}
	open    int   // sessions
	most    int   // of them at once
	login   error // of every user called bob
	recall  error
}

func newApp() *app { return &app{history: map[string][]session.Utterance{}} }

// opener is the app's door; the app itself is the suite's Store.
type opener struct{ *app }

func (o opener) Open(_ context.Context, u session.User) (page.Reader, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open++
	o.most = max(o.most, o.open)
	return &visit{o.app, u}, nil
}

type visit struct {
	app  *app
	user session.User
}

func (s *visit) Close() error {
	s.app.mu.Lock()
	defer s.app.mu.Unlock()
	s.app.open--
	return nil
}

func (s *visit) Login(context.Context) error {
	if s.user.Name == "bob" {
		return s.app.login
	}
	return nil
}

func (s *visit) Recall(ctx context.Context) (session.Transcript, error) {
	s.app.mu.Lock()
	trouble, mended := s.app.trouble, s.app.mended
	said := slices.Clone(s.app.history[s.user.Name])
	s.app.mu.Unlock()
	switch trouble {
	case viewtest.Hang:
		select {
		case <-mended:
		case <-ctx.Done():
			return session.Transcript{}, ctx.Err()
		}
	case viewtest.Refuse:
		return session.Transcript{}, &session.TargetError{Cause: session.CauseRefused}
	case viewtest.Cut:
		return session.Transcript{Utterances: said[:len(said)/2]}, &session.TargetError{Cause: session.CauseReset}
	case viewtest.Short:
		return session.Transcript{Utterances: said[:len(said)/2]}, nil
	}
	return session.Transcript{Utterances: said, Complete: true}, s.app.recall
}

func (a *app) config() page.Config {
	return page.Config{Name: "page", Opener: opener{a}, Account: account, Parallel: 4, Clock: clock.System()}
}

func (a *app) Open(*testing.T) view.View { return page.New(a.config()) }

func account(user string) (session.User, error) { return session.User{Name: user}, nil }

func (a *app) Put(_ *testing.T, user string, texts ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, text := range texts {
		// The page shows the text as a browser gives it back, and the app confirms it.
		a.history[user] = append(a.history[user],
			session.Utterance{Role: "user", Text: "\n " + strings.ReplaceAll(text, "\n", "\r\n") + "\n"},
			session.Utterance{Role: "assistant", Text: "I shall remember: " + text})
	}
}

func (a *app) Delete(_ *testing.T, user, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.history[user] = slices.DeleteFunc(a.history[user], func(u session.Utterance) bool {
		return u.Role == "user" && session.Same(u.Text, text)
	})
}

func (a *app) Break(_ *testing.T, how viewtest.Trouble) func() {
	a.mu.Lock()
	defer a.mu.Unlock()
	mended := make(chan struct{})
	a.trouble, a.mended = how, mended
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.trouble = ""
		close(mended)
	}
}

func TestConformance(t *testing.T) {
	viewtest.Run(t, viewtest.Harness{
		New:      func(*testing.T) viewtest.Store { return newApp() },
		Troubles: []viewtest.Trouble{viewtest.Hang, viewtest.Refuse, viewtest.Cut, viewtest.Short},
	})
}

var (
	ann = memory.Memory{ID: 1, User: "ann", Token: "tok1xyz", Text: "code tok1xyz"}
	bob = memory.Memory{ID: 2, User: "bob", Token: "tok2xyz", Text: "code tok2xyz"}
)

func find(t *testing.T, cfg page.Config, ms ...memory.Memory) []memory.Observation {
	t.Helper()
	out, err := page.New(cfg).Find(t.Context(), ms)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestEcho: the assistant's words are no evidence for their own user, and a leak on another user's page.
func TestEcho(t *testing.T) {
	a := newApp()
	said := []session.Utterance{{Role: "assistant", Text: "I know " + ann.Token}}
	a.history["ann"], a.history["bob"] = said, said
	out := find(t, a.config(), ann, bob)
	if o := out[0]; o.State != memory.Absent || !slices.Equal(o.Strangers, []string{"bob"}) || !strings.Contains(o.Detail, "echo") {
		t.Errorf("%+v, want absent with a note of the echo, and bob a stranger", o)
	}
	a.history["ann"] = []session.Utterance{{Text: ann.Text}}
	if o := find(t, a.config(), ann)[0]; o.State != memory.Present {
		t.Errorf("%+v, want present: a script that names no role reads the user's words", o)
	}
}

// TestFailures: what fails for one user says nothing of the others, and is ours or theirs as the session says.
func TestFailures(t *testing.T) {
	rig := &session.RigError{Err: errors.New("browser died")}
	for _, c := range []struct {
		name          string
		login, recall error
		rig           bool
		detail        string
	}{
		{"login refused", session.ErrRejected, nil, false, "log in as bob"},
		{"browser died", rig, nil, true, "browser died"},
		{"throttled", &session.TargetError{Cause: session.CauseThrottled, Status: 429}, nil, true, "429"},
		{"server error", nil, &session.TargetError{Cause: session.CauseResponse, Status: 500}, false, "500"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newApp()
			a.login, a.recall = c.login, c.recall
			a.Put(t, "ann", ann.Text)
			out := find(t, a.config(), ann, bob)
			if out[0].State != memory.Present {
				t.Errorf("ann: %+v, want present", out[0])
			}
			if o := out[1]; o.State != memory.Unreadable || o.Rig != c.rig || !strings.Contains(o.Detail, c.detail) {
				t.Errorf("bob: %+v, want unreadable, rig %t, with %q", o, c.rig, c.detail)
			}
			if a.open != 0 {
				t.Errorf("%d sessions were left open", a.open)
			}
		})
	}
}

// TestUnknownAccount: a memory of a user whose account we do not know is our own mistake.
func TestUnknownAccount(t *testing.T) {
	cfg := newApp().config()
	cfg.Account = func(string) (session.User, error) { return session.User{}, errors.New("no such account") }
	if o := find(t, cfg, ann)[0]; o.State != memory.Unreadable || !o.Rig {
		t.Errorf("%+v, want unreadable by our own fault", o)
	}
}

// TestTimeout: a user whose page hangs costs the others nothing.
func TestTimeout(t *testing.T) {
	a := newApp()
	mend := a.Break(t, viewtest.Hang)
	defer mend()
	cfg := a.config()
	cfg.Timeout = 50 * time.Millisecond
	if o := find(t, cfg, ann)[0]; o.State != memory.Unreadable || !o.Rig {
		t.Errorf("%+v, want unreadable by the time-out", o)
	}
}

func TestParallel(t *testing.T) {
	a := newApp()
	cfg := a.config()
	cfg.Parallel = 3
	find(t, cfg, viewtest.Memories(1, 20, 1)...)
	if a.most > 3 || a.open != 0 {
		t.Errorf("%d sessions at once and %d left open, want at most 3 and none", a.most, a.open)
	}
}

func TestToken(t *testing.T) {
	a := newApp()
	a.Put(t, "ann", "She has the code "+ann.Token)
	cfg := a.config()
	if o := find(t, cfg, ann)[0]; o.State != memory.Altered {
		t.Errorf("exact: %+v, want altered", o)
	}
	cfg.Match = view.MatchToken
	if o := find(t, cfg, ann)[0]; o.State != memory.Present {
		t.Errorf("token: %+v, want present", o)
	}
}
