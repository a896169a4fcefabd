// Package terminal is the one place where text is made fit for a terminal, and for the shell in it. What a target's page, log or name says is
// hostile: an escape sequence in it could move the cursor, rewrite what stands above, set the window's title or fill the
// clipboard, and a mark for the direction of writing could turn one name into another. It knows nothing of who prints
// what.
package terminal

import (
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// hostile reports whether a terminal would do something about a character, and not show it.
func hostile(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp)
}

// Text shows control characters, and bytes that are no UTF-8, as �; line breaks and tabs stay.
func Text(s string) string {
	return strings.Map(func(r rune) rune {
		if hostile(r) && r != '\n' && r != '\t' {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// Line is Text that stays on one line: a line break is shown as ⏎, a tab is a space.
func Line(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return '⏎'
		case r == '\t':
			return ' '
		case hostile(r):
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// JSON writes the characters that JSON need not escape, and a terminal would act on, as \u escapes: it says the same to a
// program.
func JSON(text []byte) []byte {
	const hex = "0123456789abcdef"
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if r >= 0x7f && r <= 0xffff && hostile(r) { // below, JSON escapes them itself, but for its own line breaks
			out = append(out, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
		} else {
			out = append(out, text[:n]...)
		}
		text = text[n:]
	}
	return out
}

// Writer gives a writer through which only what Text lets through comes to w. A character may not be split over two
// writes.
func Writer(w io.Writer) io.Writer { return writer{w} }

type writer struct{ w io.Writer }

func (w writer) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.w, Text(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Word writes a text as one word for a POSIX shell, in quotes where it needs them.
func Word(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./+:=@,"
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
