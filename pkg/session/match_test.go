package session_test

import (
	"slices"
	"testing"

	"amnesia/pkg/session"
)

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, url string
		want         bool
	}{
		{"**/chat", "http://h/chat", true},
		{"**/chat", "http://h:80/app/chat?x=1#y", true},
		{"**/chat", "http://h/chats", false},
		{"**/api/*/chat", "http://h/api/v1/chat", true},
		{"**/api/*/chat", "http://h/api/v1/v2/chat", false},
		{"**/login?next=**", "http://h/login?next=/chat", true},
		{"**/{chat,talk}", "http://h/talk", true},
	} {
		match, err := session.Glob(c.pattern)
		if err != nil || match(c.url) != c.want {
			t.Errorf("%s over %s: want %v (%v)", c.pattern, c.url, c.want, err)
		}
	}
	if _, err := session.Glob("**/[chat"); err == nil {
		t.Error("a broken glob compiles")
	}
}

func TestSame(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"a\nb", "a\r\nb", true},
		{"a\nb", "a \nb\n", true},
		{"a b", "a  b", false},
		{"a", "A", false},
		{"a\nb", "ab", false},
		{" a", "a", true},
	} {
		if session.Same(c.a, c.b) != c.want {
			t.Errorf("%q and %q: want %v", c.a, c.b, c.want)
		}
	}
}

func TestLookup(t *testing.T) {
	got, err := session.Lookup([]byte(`{"m":[{"t":"a","r":"u"},{"t":9007199254740993,"r":"x"},{"t":null},{"t":"b","r":"u"}]}`), "$.m[*].t")
	if want := []string{"a", "9007199254740993", "b"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	got, err = session.Lookup([]byte(`{"m":[{"t":"a","r":"u"},{"t":"c","r":"x"}]}`), "$.m[?(@.r == 'u')].t")
	if err != nil || !slices.Equal(got, []string{"a"}) {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := session.Lookup([]byte("<html>"), "$.a"); err == nil || session.IsRig(err) {
		t.Errorf("no JSON is the target's: %v", err)
	}
	if _, err := session.Lookup([]byte("{}"), "$.["); !session.IsRig(err) {
		t.Errorf("a bad path is ours: %v", err)
	}
}
