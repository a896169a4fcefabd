package terminal

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"
)

// attacks are what a target might say to whoever reads about it in a terminal.
var attacks = []string{
	"\x1b[2J\x1b[H all is well",                // clears the screen
	"\x1b]0;owned\x07", "\x1b]52;c;aGk=\x1b\\", // sets the title, fills the clipboard
	"\u009b31mred", "\x9b31mred", "\u0085next", // the same begun by one character, in UTF-8 and not; a line break
	"lost\rkept", "lost\b\b\b\bkept", "bell\a", "\x7f", "\x00", "\x0b\x0c", "\x0e\x0f", // rewrites what stands there
	"\u202ekept\u202c", "\u2066a\u2069", "\u200fb", // turned round
	"one\u2028two\u2029three",
	"half \xe2\x80", "\xff\xfe", "\xed\xa0\x80", // no UTF-8
}

// harmless are texts that stay as they are.
var harmless = []string{"", "plain", "ünï©ødé 日本語 👩‍👩‍👧 𝔘", "\ufffd", "<script>alert(1)</script>", "'; DROP TABLE fact; --"}

// raw reports what a terminal would act on.
func raw(s string, lines bool) bool {
	return !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool {
		return r < ' ' && !(lines && (r == '\n' || r == '\t')) || r >= 0x7f && r < 0xa0 || r >= 0x200e && r <= 0x200f ||
			r >= 0x2028 && r <= 0x202e || r >= 0x2066 && r <= 0x2069
	})
}

func TestNothingIsActedOn(t *testing.T) {
	for _, s := range append(attacks, "a\nb\tc") {
		if got := Text(s); raw(got, true) {
			t.Errorf("Text(%q) = %q", s, got)
		}
		if got := Line(s); raw(got, false) {
			t.Errorf("Line(%q) = %q", s, got)
		}
		var b bytes.Buffer
		if n, err := Writer(&b).Write([]byte(s)); n != len(s) || err != nil || raw(b.String(), true) {
			t.Errorf("Writer(%q) wrote %q: %d, %v", s, b.String(), n, err)
		}
		// JSON says the same to a program.
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var want, back string
		safe := JSON(text)
		if json.Unmarshal(text, &want) != nil || json.Unmarshal(safe, &back) != nil || back != want || raw(string(safe), true) {
			t.Errorf("JSON(%q) = %q", s, safe)
		}
	}
	for _, s := range harmless {
		if Text(s) != s || Line(s) != s {
			t.Errorf("%q becomes %q and %q", s, Text(s), Line(s))
		}
	}
	if got := Text("a\nb\tc"); got != "a\nb\tc" {
		t.Errorf("Text: %q", got)
	}
	if got := Line("a\nb\tc"); got != "a⏎b c" {
		t.Errorf("Line: %q", got)
	}
}

// TestWord: a shell takes back the text that it was made of, and does nothing else.
func TestWord(t *testing.T) {
	for _, text := range []string{"", "amnesia.db", "my ledger.db", "it's", "$(touch x)", "`id`", "a;b|c&d", "--flag", `back\slash`, "*", "~", "two\nlines", "日本"} {
		out, err := exec.Command("sh", "-c", "printf %s "+Word(text)).Output()
		if err != nil || string(out) != text {
			t.Errorf("%q is %s to a shell, which gives %q (%v)", text, Word(text), out, err)
		}
	}
	if got := Word("soak/amnesia.db"); got != "soak/amnesia.db" {
		t.Errorf("what needs no quotes has some: %s", got)
	}
}
