package session_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"amnesia/pkg/clock"
	"amnesia/pkg/memory"
	"amnesia/pkg/session"
)

// hands is a surface that does as it is told: do is asked before each action, await and read after.
type hands struct {
	log   []string
	do    func(what string) error
	await func(any []session.Condition) (session.Sighting, error)
	reads func(session.Read) ([]string, bool, error)
	resp  session.Response
}

func (h *hands) Name() string { return "hands" }

func (h *hands) Open(context.Context, session.User) (session.Surface, error) { return h, nil }

func (h *hands) act(what string) error {
	h.log = append(h.log, what)
	if h.do != nil {
		return h.do(what)
	}
	return nil
}

func (h *hands) Goto(_ context.Context, url string) error     { return h.act("goto " + url) }
func (h *hands) Fill(_ context.Context, s, text string) error { return h.act("fill " + text) }
func (h *hands) Click(_ context.Context, s string) error      { return h.act("click " + s) }
func (h *hands) Press(_ context.Context, s, key string) error { return h.act("press " + key) }
func (h *hands) Select(_ context.Context, s, v string) error  { return h.act("select " + v) }
func (h *hands) Evidence(context.Context, string) []string    { return nil }
func (h *hands) Close() error                                 { return nil }
func (h *hands) Request(_ context.Context, r session.Request) (session.Response, error) {
	return h.resp, h.act("request " + r.Path)
}

func (h *hands) Await(_ context.Context, any []session.Condition) (session.Sighting, error) {
	if h.await != nil {
		return h.await(any)
	}
	if any[0].Timeout == time.Millisecond { // the look for the login page
		return session.Sighting{}, errNotThere
	}
	return session.Sighting{Index: len(any) - 1}, nil
}

func (h *hands) Read(_ context.Context, r session.Read) ([]string, bool, error) {
	h.log = append(h.log, "read")
	if h.reads != nil {
		return h.reads(r)
	}
	return []string{"it"}, true, nil
}

var errNotThere = &session.TargetError{Cause: session.CauseTimeout, Doing: "waiting"}

func play(t *testing.T, h *hands, script string, opts session.Options) *session.Session {
	t.Helper()
	opts.Clock = clock.System()
	p, err := session.NewPlayer(h, load(t, script), opts)
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.Open(t.Context(), session.User{Name: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const simple = `
login: [{goto: /login}, {click: "#in"}, {expect: {selector: "#hello"}}]
tell: [{fill: {selector: "#m", text: "{{.Memory}}"}}, {click: "#send"}, {acknowledged: {level: shown, selector: .a}}, {acknowledged: {selector: .b}}, {rejected: {selector: .bad}}]
recall: [{goto: /chat}, {read: {selector: .m}}, {read: {selector: .a, role: assistant}}]
ask: [{goto: /chat}, {fill: {selector: "#m", text: "{{.Question}}"}}, {click: "#send"}, {read: {selector: .a, role: assistant}}]
`

var fact = memory.Memory{ID: 1, Text: "It is amn1.", Token: "amn1", Question: "What is it?"}

func TestOutcomes(t *testing.T) {
	target := func(e session.TargetError) error { e.Doing = "doing"; return fmt.Errorf("wrapped: %w", &e) }
	for name, c := range map[string]struct {
		err     error // of waiting for the second level
		outcome memory.Outcome
		cause   string
	}{
		"all levels":       {nil, memory.Acknowledged, ""},
		"timeout":          {target(session.TargetError{Cause: session.CauseTimeout}), memory.Unknown, session.CauseTimeout},
		"deadline":         {fmt.Errorf("x: %w", context.DeadlineExceeded), memory.Unknown, session.CauseTimeout},
		"refused":          {target(session.TargetError{Cause: session.CauseRefused}), memory.Unknown, session.CauseRefused},
		"reset":            {target(session.TargetError{Cause: session.CauseReset}), memory.Unknown, session.CauseInterrupted},
		"eof":              {target(session.TargetError{Cause: session.CauseEOF}), memory.Unknown, session.CauseInterrupted},
		"strange":          {errors.New("strange"), memory.Unknown, session.CauseInterrupted},
		"429":              {target(session.TargetError{Cause: session.CauseResponse, Status: 429}), memory.Rejected, session.CauseThrottled},
		"503 that is seen": {target(session.TargetError{Cause: session.CauseResponse, Status: 503, Text: "sorry"}), memory.Rejected, session.CauseRejected},
		"503 unseen":       {target(session.TargetError{Cause: session.CauseTimeout, Status: 503}), memory.Unknown, session.CauseResponse},
		"rig":              {fmt.Errorf("x: %w", &session.RigError{Err: errors.New("browser died")}), memory.Unknown, session.CauseRig},
	} {
		t.Run(name, func(t *testing.T) {
			h := &hands{}
			h.await = func(any []session.Condition) (session.Sighting, error) {
				switch last := any[len(any)-1]; {
				case last.Selector == ".a":
					return session.Sighting{Index: 1}, nil
				case last.Selector == ".b" && c.err == nil:
					return session.Sighting{Index: 1}, nil
				case last.Selector == ".b":
					return session.Sighting{}, c.err
				}
				return session.Sighting{}, errNotThere
			}
			rc, err := play(t, h, simple, session.Options{}).Tell(t.Context(), fact)
			if rc.Outcome != c.outcome || rc.Cause != c.cause {
				t.Errorf("got %s (%s), want %s (%s)", rc.Outcome, rc.Cause, c.outcome, c.cause)
			}
			if c.outcome == memory.Unknown && !errors.Is(err, c.err) || c.outcome != memory.Unknown && err != nil {
				t.Errorf("error %v", err)
			}
			if want := map[bool]int{true: 2, false: 1}[c.outcome == memory.Acknowledged]; len(rc.Levels) != want || rc.Levels[0].Name != "shown" {
				t.Errorf("levels %+v, want %d", rc.Levels, want)
			}
			if rc.Detail == "" && c.outcome == memory.Unknown {
				t.Error("no detail")
			}
		})
	}
}

func TestARefusalBeatsAnAcknowledgement(t *testing.T) {
	h := &hands{await: func(any []session.Condition) (session.Sighting, error) {
		if any[0].Selector != ".bad" {
			t.Errorf("the rejected condition is not looked at first: %+v", any)
		}
		return session.Sighting{Index: 0, Text: "No!"}, nil
	}}
	rc, err := play(t, h, simple, session.Options{}).Tell(t.Context(), fact)
	if rc.Outcome != memory.Rejected || rc.Detail != "No!" || err != nil || len(rc.Levels) != 0 {
		t.Errorf("got %+v, %v", rc, err)
	}
}

func TestAcknowledgedPassesAtCountsFrom(t *testing.T) {
	for _, from := range []string{"shown", "settled", ""} {
		var levels, at int
		h := &hands{}
		h.await = func(any []session.Condition) (session.Sighting, error) {
			levels++
			return session.Sighting{Index: len(any) - 1}, nil
		}
		s := play(t, h, strings.Replace(simple, "login:", "signup:", 1), session.Options{CountsFrom: from, Watch: func(p session.Point, _ session.User, m memory.ID) {
			if p == session.PointAcknowledged {
				at = levels
			}
			if m != fact.ID {
				t.Errorf("%s of memory %v", p, m)
			}
		}})
		if rc, err := s.Tell(t.Context(), fact); err != nil || rc.Outcome != memory.Acknowledged {
			t.Fatalf("%+v, %v", rc, err)
		}
		if want := map[string]int{"shown": 1, "settled": 2, "": 2}[from]; at != want {
			t.Errorf("counts_from %q: acknowledged passed after %d levels", from, at)
		}
	}
	if _, err := session.NewPlayer(&hands{}, load(t, simple), session.Options{CountsFrom: "saved"}); err == nil || !strings.Contains(err.Error(), "shown, settled") {
		t.Errorf("got %v", err)
	}
}

// onLogin makes a surface that stands on the login page while logged is false.
func onLogin(h *hands, logged *bool) {
	page := ""
	h.do = func(what string) error {
		switch {
		case what == "click #in":
			*logged, page = true, ""
		case strings.HasPrefix(what, "goto"):
			page = map[bool]string{true: "/chat", false: "/login"}[*logged]
		case what == "fill It is amn1." && !*logged:
			page = "/login"
			return &session.TargetError{Cause: session.CauseMissing, Doing: "fill"}
		}
		return nil
	}
	h.await = func(any []session.Condition) (session.Sighting, error) {
		if any[0].URL == "**/login" && page != "/login" {
			return session.Sighting{}, errNotThere
		}
		return session.Sighting{Index: len(any) - 1}, nil
	}
}

func TestAnExpiredLoginIsRenewedBeforeAnythingIsSent(t *testing.T) {
	h, logged := &hands{}, false
	onLogin(h, &logged)
	rc, err := play(t, h, simple, session.Options{}).Tell(t.Context(), fact)
	if err != nil || rc.Outcome != memory.Acknowledged {
		t.Fatalf("%+v, %v", rc, err)
	}
	want := []string{"fill It is amn1.", "goto /login", "click #in", "fill It is amn1.", "click #send"}
	if !slices.Equal(h.log, want) {
		t.Errorf("did %q, want %q", h.log, want)
	}
}

func TestWhatWasSentIsNeverSentAgain(t *testing.T) {
	h := &hands{await: func(any []session.Condition) (session.Sighting, error) {
		if any[0].URL == "**/login" {
			return session.Sighting{}, nil // the answer is the login page
		}
		return session.Sighting{}, errNotThere
	}}
	rc, err := play(t, h, simple, session.Options{}).Tell(t.Context(), fact)
	if rc.Outcome != memory.Unknown || rc.Cause != session.CauseLoggedOut || err == nil {
		t.Errorf("got %+v, %v", rc, err)
	}
	if want := []string{"fill It is amn1.", "click #send"}; !slices.Equal(h.log, want) {
		t.Errorf("did %q, want %q", h.log, want)
	}
}

func TestAHistoryOnTheLoginPageIsNone(t *testing.T) {
	h, logged := &hands{}, false
	onLogin(h, &logged)
	h.reads = func(session.Read) ([]string, bool, error) {
		if !logged {
			t.Error("read while logged out")
		}
		return nil, true, nil
	}
	tr, err := play(t, h, simple, session.Options{}).Recall(t.Context())
	if err != nil || !tr.Complete {
		t.Errorf("got %+v, %v", tr, err)
	}
}

func TestARecallIsCompleteOnlyWhenAllOfItIs(t *testing.T) {
	for name, c := range map[string]struct {
		complete bool
		err      error
	}{"complete": {true, nil}, "cut": {false, nil}, "broken": {true, errNotThere}} {
		h := &hands{reads: func(r session.Read) ([]string, bool, error) {
			if r.Role == "user" {
				return []string{"one"}, c.complete, c.err
			}
			return []string{"two"}, true, nil
		}}
		tr, err := play(t, h, simple, session.Options{}).Recall(t.Context())
		if tr.Complete != (name == "complete") || !errors.Is(err, c.err) {
			t.Errorf("%s: %+v, %v", name, tr, err)
		}
		if tr.Utterances[0] != (session.Utterance{Role: "user", Text: "one"}) {
			t.Errorf("%s: %+v", name, tr.Utterances)
		}
		if tr.Began.IsZero() || tr.Ended.IsZero() {
			t.Errorf("%s: %+v", name, tr)
		}
	}
}

func TestAskWaitsForWhatTellWaitsFor(t *testing.T) {
	var waited []string
	h := &hands{}
	h.await = func(any []session.Condition) (session.Sighting, error) {
		if any[0].URL != "" {
			return session.Sighting{}, errNotThere
		}
		waited = append(waited, any[len(any)-1].Selector+any[len(any)-1].Contains)
		return session.Sighting{Index: len(any) - 1}, nil
	}
	script := strings.Replace(simple, "selector: .a}}, {ack", `selector: .a, contains: "{{.Token}}"}}, {ack`, 1)
	if _, err := play(t, h, script, session.Options{}).Ask(t.Context(), fact); err != nil {
		t.Fatal(err)
	}
	if want := []string{".a", ".b"}; !slices.Equal(waited, want) {
		t.Errorf("waited for %q, want %q", waited, want)
	}
}

func TestAFailedTellReloadsThePageBeforeTheNext(t *testing.T) {
	h := &hands{}
	fail := true
	h.await = func(any []session.Condition) (session.Sighting, error) {
		if fail || any[0].URL != "" {
			return session.Sighting{}, errNotThere
		}
		return session.Sighting{Index: len(any) - 1}, nil
	}
	s := play(t, h, simple, session.Options{})
	_, _ = s.Tell(t.Context(), fact)
	fail = false
	if rc, err := s.Tell(t.Context(), fact); err != nil || rc.Outcome != memory.Acknowledged {
		t.Fatalf("%+v, %v", rc, err)
	}
	want := []string{"fill It is amn1.", "click #send", "goto /chat", "fill It is amn1.", "click #send"}
	if !slices.Equal(h.log, want) {
		t.Errorf("did %q, want %q", h.log, want)
	}
}

func TestCapturesGoFromStepToStep(t *testing.T) {
	h := &hands{resp: session.Response{URL: "http://h/x", Status: 200, Body: []byte(`{"token":"t7"}`)}}
	s := play(t, h, `
login: [{request: {path: /token, capture: {token: $.token}}}]
tell: [{request: {path: "/say/{{.Captured.token}}", json: {m: "{{.Memory}}"}}}, {acknowledged: {response: "**"}}]
`, session.Options{})
	if rc, err := s.Tell(t.Context(), fact); !session.IsRig(err) || rc.Outcome != memory.Unknown {
		t.Errorf("a capture that is not there yet: %+v, %v", rc, err)
	}
	if err := s.Login(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Tell(t.Context(), fact); err != nil {
		t.Fatal(err)
	}
	if want := []string{"request /token", "request /say/t7"}; !slices.Equal(h.log, want) {
		t.Errorf("did %q, want %q", h.log, want)
	}
}

func TestWithoutASectionThereIsNothingToDo(t *testing.T) {
	s := play(t, &hands{}, `tell: [{fill: {selector: a, text: "{{.Memory}}"}}, {acknowledged: {selector: b}}]`, session.Options{})
	if _, err := s.Recall(t.Context()); !session.IsRig(err) {
		t.Errorf("recall: %v", err)
	}
	if _, err := s.Forget(t.Context(), fact); !session.IsRig(err) {
		t.Errorf("forget: %v", err)
	}
	for _, do := range []func(context.Context) error{s.Login, s.Logout, s.Signup, s.Cleanup} {
		if err := do(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
