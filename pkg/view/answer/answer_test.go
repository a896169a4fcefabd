package answer_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"amnesia/pkg/clock"
	"amnesia/pkg/memory"
	"amnesia/pkg/session"
	"amnesia/pkg/view"
	"amnesia/pkg/view/answer"
	"amnesia/pkg/view/viewtest"
)

// assistant answers every question with all that it knows of the user who asks.
type assistant struct {
	mu      sync.Mutex
	knows   map[string][]string
	trouble viewtest.Trouble
	mended  chan struct{}
	asked   map[string]int // by token
	open    int
	// say, where set, gives the answer to the n-th asking for a memory, from 1 on.
	say func(m memory.Memory, n int) (session.Transcript, error)
}

func newAssistant() *assistant {
	return &assistant{knows: map[string][]string{}, asked: map[string]int{}}
}

// opener is the assistant's door; the assistant itself is the suite's Store.
type opener struct{ *assistant }

func (o opener) Open(_ context.Context, u session.User) (answer.Asker, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open++
	return &talk{a: o.assistant, user: u.Name}, nil
}

type talk struct {
	a     *assistant
	user  string
	asked int
}

func (s *talk) Close() error {
	s.a.mu.Lock()
	defer s.a.mu.Unlock()
	s.a.open--
	return nil
}

func (s *talk) Login(context.Context) error { return nil }

func (s *talk) Ask(ctx context.Context, m memory.Memory) (session.Transcript, error) {
	s.a.mu.Lock()
	trouble, mended := s.a.trouble, s.a.mended
	knows := strings.Join(s.a.knows[s.user], "\n")
	s.a.asked[m.Token]++
	s.asked++
	n, say := s.a.asked[m.Token], s.a.say
	s.a.mu.Unlock()
	if say != nil {
		return say(m, n)
	}
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
		if s.asked > 5 {
			return session.Transcript{}, &session.RigError{Err: errors.New("browser died")}
		}
	case viewtest.Short:
		if s.asked > 5 {
			return session.Transcript{Utterances: []session.Utterance{{Text: "I rem"}}}, nil
		}
	}
	return said(knows, true), nil
}

func said(text string, complete bool) session.Transcript {
	// The script's reads have the role user unless they say otherwise.
	return session.Transcript{Utterances: []session.Utterance{{Role: "user", Text: text}}, Complete: complete}
}

func (a *assistant) config() answer.Config {
	return answer.Config{Name: "answer", Opener: opener{a}, Account: account, Parallel: 4, Clock: clock.System()}
}

func account(user string) (session.User, error) { return session.User{Name: user}, nil }

func (a *assistant) Open(*testing.T) view.View { return answer.New(a.config()) }

func (a *assistant) Put(_ *testing.T, user string, texts ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.knows[user] = append(a.knows[user], texts...)
}

func (a *assistant) Delete(_ *testing.T, user, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.knows[user] = slices.DeleteFunc(a.knows[user], func(s string) bool { return s == text })
}

func (a *assistant) Break(_ *testing.T, how viewtest.Trouble) func() {
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
		New:      func(*testing.T) viewtest.Store { return newAssistant() },
		Troubles: []viewtest.Trouble{viewtest.Hang, viewtest.Refuse, viewtest.Cut, viewtest.Short},
		NoCopies: true,
		NoText:   true,
	})
}

var (
	ann1 = memory.Memory{ID: 1, User: "ann", Token: "tok1xyz", Text: "code tok1xyz"}
	ann2 = memory.Memory{ID: 2, User: "ann", Token: "tok2xyz", Text: "code tok2xyz"}
)

func TestAttempts(t *testing.T) {
	down := &session.TargetError{Cause: session.CauseResponse, Status: 500}
	rig := &session.RigError{Err: errors.New("browser died")}
	for _, c := range []struct {
		name  string
		say   func(n int) (session.Transcript, error)
		state memory.State
		asked int
		rig   bool
	}{
		{"at once", func(int) (session.Transcript, error) { return said("It is TOK1XYZ, tok1xyz!", true), nil }, memory.Present, 1, false},
		{"at last", func(n int) (session.Transcript, error) {
			if n < 3 {
				return said("I am not sure", true), nil
			}
			return said("tok1xyz", true), nil
		}, memory.Present, 3, false},
		{"never", func(int) (session.Transcript, error) { return said("I do not know", true), nil }, memory.Absent, 3, false},
		{"a failure among the answers", func(n int) (session.Transcript, error) {
			if n == 2 {
				return session.Transcript{}, down
			}
			return said("I do not know", true), nil
		}, memory.Unreadable, 3, false},
		{"a failure and then the token", func(n int) (session.Transcript, error) {
			if n == 1 {
				return session.Transcript{}, down
			}
			return said("tok1xyz", true), nil
		}, memory.Present, 2, false},
		{"cut, with the token", func(int) (session.Transcript, error) { return said("tok1xyz and", false), down }, memory.Present, 1, false},
		{"cut, without it", func(int) (session.Transcript, error) { return said("It is to", false), nil }, memory.Unreadable, 3, false},
		{"the rig", func(int) (session.Transcript, error) { return session.Transcript{}, rig }, memory.Unreadable, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newAssistant()
			a.say = func(m memory.Memory, n int) (session.Transcript, error) {
				if m.ID != ann1.ID {
					return said("I do not know", true), nil
				}
				return c.say(n)
			}
			out, err := answer.New(a.config()).Find(t.Context(), []memory.Memory{ann1, ann2})
			if err != nil {
				t.Fatal(err)
			}
			o := out[0]
			if o.State != c.state || o.Rig != c.rig || a.asked[ann1.Token] != c.asked {
				t.Errorf("%+v after %d attempts, want %s, rig %t, after %d", o, a.asked[ann1.Token], c.state, c.rig, c.asked)
			}
			want := memory.Absent
			if c.rig {
				want = memory.Unreadable // never asked for
			}
			if out[1].State != want {
				t.Errorf("the next memory: %+v, want %s", out[1], want)
			}
			if a.open != 0 {
				t.Errorf("%d sessions were left open", a.open)
			}
		})
	}
}

// TestOwnQuestion: a token counts for the memory that was asked for. That it comes in the answer to another question
// shows that the assistant has it, but not that it answers right.
func TestOwnQuestion(t *testing.T) {
	a := newAssistant()
	a.say = func(m memory.Memory, _ int) (session.Transcript, error) { return said(ann1.Token, true), nil }
	for _, ms := range [][]memory.Memory{{ann1, ann2}, {ann2, ann1}} {
		out, err := answer.New(a.config()).Find(t.Context(), ms)
		if err != nil {
			t.Fatal(err)
		}
		for i, o := range out {
			if (o.State == memory.Present) != (ms[i].ID == ann1.ID) {
				t.Errorf("%+v", o)
			}
		}
	}
}
