package sessiontest

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"amnesia/pkg/memory"
	"amnesia/pkg/session"
)

// fill writes n messages and their answers into the user's history.
func (r *rig) fill(n int) (texts []string) {
	for i := range n {
		text := note(i+1, "Number $.").Text
		texts = append(texts, text)
		r.Add(r.user.Name, Message{"user", text}, Message{"assistant", "Noted: " + text})
	}
	return texts
}

func recallsAll(t *testing.T, k *kit) {
	r := k.rig(t, Script())
	want := r.fill(23) // five pages of ten lines, the last not full
	tr, err := r.Recall(r.ctx)
	must(t, err)
	var got []string
	for _, u := range tr.Utterances {
		if u.Role != "user" {
			t.Errorf("an utterance of %q", u.Role)
		}
		got = append(got, u.Text)
	}
	slices.Sort(got) // which end a page adds to is the page's affair
	if !tr.Complete || !slices.Equal(got, want) {
		t.Errorf("complete %v, recalled %d %q, want each once of %d", tr.Complete, len(got), got, len(want))
	}
	if !tr.Began.Before(tr.Ended) {
		t.Errorf("began %v, ended %v", tr.Began, tr.Ended)
	}
}

func brokenHistory(t *testing.T, k *kit) {
	r := k.rig(t, Script(), steps(2*time.Second))
	r.fill(4)
	r.Page(Cut)
	tr, err := r.Recall(r.ctx)
	target(t, err)
	if tr.Complete {
		t.Errorf("complete: %+v", tr)
	}
}

func errorPage(t *testing.T, k *kit) {
	r := k.rig(t, Script(), steps(2*time.Second))
	r.Page(Fail503)
	tr, err := r.Recall(r.ctx)
	target(t, err)
	if tr.Complete {
		t.Errorf("complete: %+v", tr)
	}
	var te *session.TargetError
	if !errors.As(err, &te) || te.Status != 503 {
		t.Errorf("%v: want a TargetError with the status 503", err)
	}
}

func expiredLogin(t *testing.T, k *kit) {
	r := k.rig(t, Script(), steps(2*time.Second))
	want := r.fill(2)
	r.LogoutAll()
	tr, err := r.Recall(r.ctx)
	must(t, err)
	if !tr.Complete || len(tr.Utterances) != len(want) {
		t.Errorf("recalled %+v", tr)
	}
	r.LogoutAll()
	// Here the expiry shows only once the message has gone out: it must not be sent again, and nothing was confirmed.
	rc, err := r.Tell(r.ctx, note(50, "It is $."))
	if rc.Outcome != memory.Unknown || err == nil {
		t.Errorf("got %+v, %v", rc, err)
	}
	rc, err = r.Tell(r.ctx, note(51, "It is $."))
	outcome(t, rc, err, memory.Acknowledged, "")
}

func expiredAgain(t *testing.T, k *kit) {
	script := Script()
	script.Login = slices.DeleteFunc(script.Login, func(s session.Step) bool { return s.Expect != nil })
	r := k.rig(t, script, steps(2*time.Second))
	r.LogoutAll()
	r.Page(Expired)
	tr, err := r.Recall(r.ctx)
	if !session.IsRig(err) || tr.Complete {
		t.Errorf("got %+v, %v; want an error of the rig", tr, err)
	}
}

func wrongPassword(t *testing.T, k *kit) {
	r := k.rig(t, Script())
	u := person(1)
	u.Password = "wrong"
	err := r.session(u).Login(r.ctx)
	if !errors.Is(err, session.ErrRejected) || !strings.Contains(fmt.Sprint(err), "Wrong password") {
		t.Errorf("got %v", err)
	}
}

func isolation(t *testing.T, k *kit) {
	r := k.rig(t, Script())
	other := r.session(person(1))
	if tr, err := other.Recall(r.ctx); err != nil {
		// Logged in by the expired-login rule as the second user, never as the first.
		t.Fatalf("recall of the second user: %+v, %v", tr, err)
	}
	rc, err := r.Tell(r.ctx, note(1, "It is $."))
	outcome(t, rc, err, memory.Acknowledged, "")
	rc, err = other.Tell(r.ctx, note(2, "It is $."))
	outcome(t, rc, err, memory.Acknowledged, "")
	for i, s := range []*session.Session{r.Session, other} {
		tr, err := s.Recall(r.ctx)
		must(t, err)
		if want := note(i+1, "It is $.").Text; len(tr.Utterances) != 1 || tr.Utterances[0].Text != want {
			t.Errorf("user %d sees %+v", i, tr.Utterances)
		}
	}
}

func logsOut(t *testing.T, k *kit) {
	r := k.rig(t, Script())
	must(t, r.Logout(r.ctx))
	r.locked(func() {
		if len(r.sessions) != 0 {
			t.Errorf("still logged in: %v", r.sessions)
		}
	})
}

func missingElement(t *testing.T, k *kit) {
	r := k.rig(t, Script())
	sf := r.surface()
	for name, do := range map[string]func() error{
		"fill":     func() error { return sf.Fill(timeout(t), "#nowhere", "x") },
		"click":    func() error { return sf.Click(timeout(t), "#nowhere") },
		"press":    func() error { return sf.Press(timeout(t), "#nowhere", "Enter") },
		"select":   func() error { return sf.Select(timeout(t), "#nowhere", "calm") },
		"no value": func() error { return sf.Select(timeout(t), "#mood", "angry") },
		"hidden":   func() error { return sf.Click(timeout(t), "#hint") },
	} {
		err := do()
		target(t, err)
		want := []string{"#nowhere", "/chat"}
		if name == "no value" {
			want = []string{"#mood", "/chat"}
		} else if name == "hidden" {
			want = []string{"#hint", "/chat"}
		}
		for _, w := range want {
			if !strings.Contains(fmt.Sprint(err), w) {
				t.Errorf("%s: %v does not name %s", name, err, w)
			}
		}
	}
}

func states(t *testing.T, k *kit) {
	r := k.rig(t, Script())
	sf := r.surface()
	for _, c := range []session.Condition{
		{URL: "**/chat"},
		{Selector: "h1", Contains: "Chat of user-0"},
		{Selector: "#hint", State: "hidden"},
		{Selector: "#nowhere", State: "hidden"},
		{Selector: "#send", State: "enabled"},
		{URL: "**/chat", Selector: "#send", State: "visible"},
	} {
		r.await(sf, c)
	}
	for _, c := range []session.Condition{
		{URL: "**/login"},
		{URL: "**/chat", Selector: "#nowhere"},
		{Selector: "#hint"},
		{Selector: "h1", State: "hidden"},
		{Selector: "#send", State: "disabled"},
		{Selector: "h1", Contains: "Chat of user-1"},
	} {
		r.never(sf, c)
	}
	if seen := r.await(sf, session.Condition{Selector: "#nowhere"}, session.Condition{Selector: "h1"}, session.Condition{URL: "**/chat"}); seen.Index != 1 || seen.Text != "Chat of user-0" {
		t.Errorf("saw %+v", seen)
	}
}

func oldResponse(t *testing.T, k *kit) {
	r := k.rig(t, Script())
	sf := r.surface()
	must(t, sf.Fill(r.ctx, "#message", "hello"))
	r.never(sf, session.Condition{Response: "**/api/chat"})
	must(t, sf.Click(r.ctx, "#send"))
	r.await(sf, session.Condition{Response: "**/api/chat"})
	must(t, sf.Fill(r.ctx, "#message", "hello again"))
	r.never(sf, session.Condition{Response: "**/api/chat"})
}

func failedPage(t *testing.T, k *kit) {
	r := k.rig(t, Script())
	sf := r.surface()
	r.Page(Fail503)
	target(t, sf.Goto(r.ctx, "/chat"))
	r.never(sf, session.Condition{URL: "**/chat"})
	r.never(sf, session.Condition{Selector: "#nowhere", State: "hidden"})
	r.never(sf, session.Condition{Response: "**/chat"})
	r.await(sf, session.Condition{Selector: "[role=alert]", Contains: "The database is away"})
}

func redirectedAway(t *testing.T, k *kit) {
	script := Script()
	script.Tell = slices.DeleteFunc(script.Tell, func(s session.Step) bool {
		return s.Acknowledged != nil && s.Acknowledged.Level == "shown"
	})
	r := k.rig(t, script, steps(2*time.Second))
	r.LogoutAll()
	rc, err := r.Tell(r.ctx, note(1, "It is $."))
	outcome(t, rc, err, memory.Unknown, session.CauseLoggedOut)
}

func selectors(t *testing.T, k *kit) {
	r := k.rig(t, Script())
	r.fill(3)
	sf := r.surface()
	token := note(2, "").Token
	for sel, want := range map[string]int{
		".message.user":                            3,
		"css=.message.user":                        3,
		".message.user, .message.assistant":        6,
		`.message.user:has-text("` + token + `")`:  1,
		`.message:has-text("` + token + `") .text`: 2,
		`.message:not(:has-text("` + token + `"))`: 4,
		`.message:has(button.forget)`:              3,
		`#log >> .message.user`:                    3,
		`#log >> role=button[name="Forget"]`:       3,
		`role=button[name="Send"]`:                 1,
		`role=textbox[name="Message"]`:             1,
		`role=heading[name="Chat of user-0"]`:      1,
		`text="Log out"`:                           1,
		`text=log OUT`:                             1,
		`.message.user >> nth=1`:                   1,
		`[role=alert]`:                             0,
	} {
		texts, complete, err := sf.Read(r.ctx, session.Read{Selector: sel})
		if err != nil || !complete || len(texts) != want {
			t.Errorf("%s: %d %q, complete %v, %v; want %d", sel, len(texts), texts, complete, err, want)
		}
	}
	must(t, sf.Fill(r.ctx, `role=textbox[name="Message"]`, "It is amnroles."))
	must(t, sf.Select(r.ctx, "#mood", "Very merry"))
	must(t, sf.Click(r.ctx, `role=button[name="Send"]`))
	r.await(sf, session.Condition{Selector: ".message.assistant", Contains: "amnroles"})
}

func evidence(t *testing.T, k *kit) {
	r := k.rig(t, Script())
	for _, f := range r.Evidence(r.ctx, "what-it-showed") {
		if fi, err := os.Stat(f); err != nil || fi.Size() == 0 {
			t.Errorf("%s is not there or empty: %v", f, err)
		}
		if !strings.Contains(f, "what-it-showed") {
			t.Errorf("%s does not carry its name", f)
		}
	}
}

func closesTwice(t *testing.T, k *kit) {
	r := k.rig(t, Script())
	must(t, r.Close())
	must(t, r.Close())
	rc, err := r.Tell(r.ctx, note(1, "It is $."))
	if rc.Outcome != memory.Unknown || !session.IsRig(err) {
		t.Errorf("a closed session: %+v, %v; want an error of the rig", rc, err)
	}
}
