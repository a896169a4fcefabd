package chatapp_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"amnesia/pkg/clock"
	"amnesia/pkg/memory"
	"amnesia/pkg/session"
	"amnesia/pkg/session/browser"
	"amnesia/pkg/session/browser/browsertest"
	"amnesia/pkg/session/sessiontest"
	"amnesia/pkg/session/web"
)

// TestSessions plays users with plain HTTP and with one real browser (skipped where none is installed, but not in CI).
func TestSessions(t *testing.T) {
	t.Parallel()
	t.Run("http", func(t *testing.T) {
		t.Parallel()
		everySession(t, func(t *testing.T, url string) session.Driver {
			d, err := web.New(web.Config{BaseURL: url, Clock: clock.System()})
			if err != nil {
				t.Fatal(err)
			}
			return d
		})
	})
	t.Run("browser", func(t *testing.T) {
		t.Parallel()
		d := chromium(t)
		open := func(_ *testing.T, url string) session.Driver { return d.At(url) }
		everySession(t, open)
		t.Run("local echo", func(t *testing.T) { playLocalEcho(t, open) })
	})
}

// opener gives a driver for the app at url.
type opener func(t *testing.T, url string) session.Driver

func everySession(t *testing.T, open opener) {
	t.Run("from login to logout", func(t *testing.T) { playDay(t, open) })
	t.Run("paging", func(t *testing.T) { playPaging(t, open) })
	t.Run("failures", func(t *testing.T) { playFailures(t, open) })
}

// chromium starts the browser. Where it is missing a test is skipped, but not in CI.
func chromium(t *testing.T) *browser.Driver {
	t.Helper()
	found := browsertest.Installed(t)
	d, err := browser.New(t.Context(), browser.Config{DriverDir: found.DriverDir, ExecutablePath: found.ExecutablePath, Headless: true, Clock: clock.System()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// person is one user at the pages.
type person struct {
	t *testing.T
	*session.Session
}

// sit opens a fresh browser (or client) for the user and logs in.
func sit(t *testing.T, d session.Driver, name string) person {
	t.Helper()
	p, err := session.NewPlayer(d, sessiontest.Script(), session.Options{Clock: clock.System()})
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.Open(t.Context(), session.User{Name: name, Password: "pw of " + name})
	if err == nil {
		err = s.Login(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return person{t, s}
}

func fact(id int, text string) memory.Memory {
	token := fmt.Sprintf("tok%dx", id)
	return memory.Memory{ID: memory.ID(id), Token: token, Text: text + " " + token}
}

func (p person) tell(m memory.Memory, want memory.Outcome, levels int) {
	p.t.Helper()
	receipt, err := p.Tell(p.t.Context(), m)
	if receipt.Outcome != want || len(receipt.Levels) != levels || (err != nil && want == memory.Acknowledged) {
		p.t.Errorf("%.40q: %+v, %v; want %s with %d levels", m.Text, receipt, err, want, levels)
	}
}

// recall gives the user's own utterances as they stand on the page, sorted.
func (p person) recall() []string {
	p.t.Helper()
	transcript, err := p.Recall(p.t.Context())
	if err != nil || !transcript.Complete {
		p.t.Fatalf("recall: complete %v, %v", transcript.Complete, err)
	}
	var texts []string
	for _, u := range transcript.Utterances {
		texts = append(texts, u.Text)
	}
	slices.Sort(texts)
	return texts
}

// playDay plays a user from the login to the log out.
func playDay(t *testing.T, open opener) {
	a := newTarget(t)
	d := open(t, a.url)
	ada := sit(t, d, "ada")
	var want []string
	for i, text := range hostile {
		m := fact(i+1, strings.TrimSpace(text)) // drivers trim what they read
		ada.tell(m, memory.Acknowledged, 2)
		want = append(want, m.Text)
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, ada.recall()); diff != "" {
		t.Errorf("the page (-told +shown):\n%s", diff)
	}
	if diff := cmp.Diff(want, sit(t, d, "ada").recall()); diff != "" {
		t.Errorf("a fresh page (-told +shown):\n%s", diff)
	}
	if got := sit(t, d, "bob").recall(); len(got) != 0 {
		t.Errorf("bob sees %q", got)
	}

	first := fact(1, hostile[0])
	first.Question = "What did I say about a plain sentence?"
	answer, err := ada.Ask(t.Context(), first)
	if err != nil || len(answer.Utterances) != 1 || !strings.Contains(answer.Utterances[0].Text, first.Token) {
		t.Errorf("the answer: %+v, %v", answer, err)
	}
	if receipt, err := ada.Forget(t.Context(), first); receipt.Outcome != memory.Acknowledged {
		t.Errorf("forget: %+v, %v", receipt, err)
	}
	if got := ada.recall(); slices.Contains(got, first.Text) || slices.Contains(got, first.Question) || len(got) != len(want)-1 {
		t.Errorf("after the forget the page shows %d texts: %q", len(got), got)
	}
	if told := a.truth(first.Token); !told.Deleted || len(told.Stores) != 0 {
		t.Errorf("the truth log says %+v", told)
	}
	if err := ada.Logout(t.Context()); err != nil {
		t.Error(err)
	}
}

// playPaging follows #older to the end.
func playPaging(t *testing.T, open opener) {
	a := newTarget(t, "CHATAPP_BUGS=unsynced")
	var want []string
	for i := range 55 { // more than one page holds
		want = append(want, fmt.Sprintf("memory number %03d", i))
		a.tell("ada", want[i])
	}
	if diff := cmp.Diff(want, sit(t, open(t, a.url), "ada").recall()); diff != "" {
		t.Errorf("(-told +shown):\n%s", diff)
	}
}

// playFailures hurts the app while a user types: what the user sees must not be a confirmation.
func playFailures(t *testing.T, open opener) {
	a := newTarget(t)
	ada := sit(t, open(t, a.url), "ada")
	ada.tell(fact(1, "before"), memory.Acknowledged, 2)
	unlock := a.lock()
	ada.tell(fact(2, "meanwhile"), memory.Rejected, 0)
	unlock()
	ada.tell(fact(3, "after"), memory.Acknowledged, 2)
	a.kill()
	receipt, err := ada.Tell(t.Context(), fact(4, "to a dead app"))
	if receipt.Outcome == memory.Acknowledged || len(receipt.Levels) > 0 {
		t.Errorf("a dead app confirmed: %+v, %v", receipt, err)
	}
}

// playLocalEcho needs a browser: the one in which a memory was told still shows it, a fresh one shows that it is gone.
func playLocalEcho(t *testing.T, open opener) {
	a := newTarget(t, "CHATAPP_BUGS=local-echo", "CHATAPP_ADDR="+freeAddress(t))
	ada := sit(t, open(t, a.url), "ada")
	kept, lost := fact(1, "kept"), fact(2, "lost")
	ada.tell(kept, memory.Acknowledged, 2)
	a.stop()
	a.start()
	ada.tell(lost, memory.Acknowledged, 2)
	a.kill()
	a.start()
	if got := ada.recall(); !slices.Equal(got, []string{kept.Text, lost.Text}) {
		t.Errorf("the browser of before shows %q", got)
	}
	if got := sit(t, open(t, a.url), "ada").recall(); !slices.Equal(got, []string{kept.Text}) {
		t.Errorf("a fresh browser shows %q", got)
	}
}
