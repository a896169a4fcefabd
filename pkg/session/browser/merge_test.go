package browser

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"amnesia/pkg/session"
)

func TestMerge(t *testing.T) {
	for _, c := range []struct{ read, now, want string }{
		{"", "a b", "a b"},
		{"a b", "", "a b"},
		{"a b", "a b c", "a b c"},     // more below
		{"b c", "a b c", "a b c"},     // more above
		{"a b c", "b c d", "a b c d"}, // a window that moved down
		{"b c d", "a b c", "a b c d"}, // and up
		{"a b c", "b", "a b c"},       // a smaller window
		{"a b", "c d", "a b c d"},     // another page
		{"a a", "a a a", "a a a"},     // copies count
		{"a x", "x x b", "a x x b"},   // as little as must be is taken for the same
	} {
		if got := merge(strings.Fields(c.read), strings.Fields(c.now)); !slices.Equal(got, strings.Fields(c.want)) {
			t.Errorf("merge(%q, %q) = %q, want %q", c.read, c.now, got, c.want)
		}
	}
}

func TestBeyondCSS(t *testing.T) {
	for selector, want := range map[string]bool{
		"#send": false, ".message.user": false, "input[name=username]": false, "a:not(:first-child) > b": false, "ul li:has(b)": false,
		"role=button": true, "text=Log out": true, "css=b": true, "//div": true, `"Log out"`: true, "#log >> b": true,
		`.message:has-text("x")`: true, "button:visible": true, "internal:role=button": true,
	} {
		if got := beyondCSS.MatchString(selector); got != want {
			t.Errorf("%s: %v, want %v", selector, got, want)
		}
	}
}

func TestNetCause(t *testing.T) {
	for message, want := range map[string]string{
		"playwright: Error: page.goto: net::ERR_CONNECTION_REFUSED at http://127.0.0.1:1/": session.CauseRefused,
		"net::ERR_INCOMPLETE_CHUNKED_ENCODING":                                             session.CauseEOF,
		"net::ERR_SSL_PROTOCOL_ERROR":                                                      session.CauseInterrupted,
		"apiRequestContext.fetch: connect ECONNREFUSED 127.0.0.1:1":                        session.CauseRefused,
		"apiRequestContext.fetch: socket hang up":                                          session.CauseEOF,
		"Timeout 100ms exceeded.":                                                          "",
	} {
		if _, got := netCause(message); got != want {
			t.Errorf("%s: %q, want %q", message, got, want)
		}
	}
}

func TestBrief(t *testing.T) {
	for _, c := range [][2]string{
		{"timeout: Timeout 100ms exceeded.\nCall log:\n  - waiting for locator(\"#x\")\n", `timeout: Timeout 100ms exceeded. (waiting for locator("#x"))`},
		{"playwright: Error: nothing more", "Error: nothing more"},
	} {
		if got := brief(errors.New(c[0])); got != c[1] {
			t.Errorf("got %q, want %q", got, c[1])
		}
	}
}
