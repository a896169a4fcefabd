package session_test

import (
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"amnesia/pkg/memory"
	"amnesia/pkg/session"
)

func teller(t testing.TB, p session.Personas) *session.Teller {
	t.Helper()
	tl, err := session.NewTeller(p)
	if err != nil {
		t.Fatal(err)
	}
	return tl
}

func TestMemoriesAreWellFormed(t *testing.T) {
	token := regexp.MustCompile(`^amn[0-9a-z]{10}$`)
	rapid.Check(t, func(t *rapid.T) {
		tl, err := session.NewTeller(session.Personas{Seed: rapid.Uint64().Draw(t, "seed"), Run: rapid.StringMatching(`[a-z0-9]{1,8}`).Draw(t, "run")})
		if err != nil {
			t.Fatal(err)
		}
		u := tl.User(rapid.IntRange(0, 5000).Draw(t, "user"))
		k := rapid.IntRange(0, 100000).Draw(t, "k")
		m := tl.Memory(u, k)
		switch {
		case !token.MatchString(m.Token):
			t.Errorf("token %q", m.Token)
		case strings.Count(m.Text, m.Token) != 1:
			t.Errorf("%q does not hold its token once", m.Text)
		case m.Question == "" || strings.Contains(m.Question, m.Token):
			t.Errorf("question %q", m.Question)
		case strings.TrimSpace(m.Text) != m.Text || strings.Contains(m.Text, "\r") || !utf8.ValidString(m.Text):
			t.Errorf("text %q", m.Text)
		case strings.Contains(m.Text, "%!") || strings.Contains(m.Question, "%!"):
			t.Errorf("badly phrased: %q, %q", m.Text, m.Question)
		case !reflect.DeepEqual(m, tl.Memory(u, k)):
			t.Error("the same number gives another memory")
		}
		switch m.Payload {
		case memory.PayloadLong:
			if n := len(m.Text); n < 1800 || n > 2400 {
				t.Errorf("a long one has %d bytes", n)
			}
		case memory.PayloadMultiline:
			if strings.Count(m.Text, "\n") < 2 {
				t.Errorf("%q has not several lines", m.Text)
			}
		case memory.PayloadEmoji:
			if !strings.Contains(m.Text, "\u200d") {
				t.Errorf("%q joins nothing", m.Text)
			}
		case memory.PayloadMarkup:
			if !strings.Contains(m.Text, `"`) && !strings.Contains(m.Text, "<script>") {
				t.Errorf("%q has no markup", m.Text)
			}
		}
	})
}

func TestTokensAndSubjectsAreUnique(t *testing.T) {
	tokens := map[string]string{}
	for _, run := range []string{"one", "two"} {
		tl := teller(t, session.Personas{Seed: 1, Run: run})
		for n := range 40 {
			u := tl.User(n)
			questions := map[string]bool{}
			for k := range 100 {
				m := tl.Memory(u, k)
				if other, ok := tokens[m.Token]; ok {
					t.Fatalf("%s has a token of %s", m.Text, other)
				}
				tokens[m.Token] = m.Text
				if questions[m.Question] {
					t.Fatalf("user %d is asked twice: %s", n, m.Question)
				}
				questions[m.Question] = true
			}
		}
	}
}

func TestEveryPayloadComesEarly(t *testing.T) {
	tl := teller(t, session.Personas{Seed: 7, Run: "r"})
	for n := range 20 {
		u := tl.User(n)
		count := map[memory.Payload]int{}
		for k := range 106 {
			if k == len(memory.Payloads) && len(count) != len(memory.Payloads) {
				t.Errorf("user %d's first six: %v", n, count)
			}
			count[tl.Memory(u, k).Payload]++
		}
		if count[memory.PayloadShort] != 51 || count[memory.PayloadLong] != 11 {
			t.Errorf("user %d: %v", n, count)
		}
	}
}

func TestPayloadsCanBeChosen(t *testing.T) {
	tl := teller(t, session.Personas{Payloads: []memory.Payload{memory.PayloadChinese}})
	for k := range 20 {
		if m := tl.Memory(tl.User(0), k); m.Payload != memory.PayloadChinese {
			t.Errorf("memory %d is %s", k, m.Payload)
		}
	}
	if _, err := session.NewTeller(session.Personas{Payloads: []memory.Payload{"shout"}}); err == nil || !strings.Contains(err.Error(), "— fix:") {
		t.Errorf("got %v", err)
	}
}

func TestAccounts(t *testing.T) {
	u := teller(t, session.Personas{Seed: 3, Run: "r1", Accounts: "qa+{{.N}}@example.com"}).User(4)
	if u.Name != "qa+4@example.com" || len(u.Password) < 12 {
		t.Errorf("got %+v", u)
	}
	for _, bad := range []string{"same", "{{.N", "{{.User}}-{{.N}}"} {
		if _, err := session.NewTeller(session.Personas{Accounts: bad}); err == nil || !strings.Contains(err.Error(), "— fix:") {
			t.Errorf("%q: got %v", bad, err)
		}
	}
}
