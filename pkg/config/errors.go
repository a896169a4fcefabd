package config

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Error is one mistake in a file.
type Error struct {
	File         string
	Line, Column int    // from 1; 0 when the file could not be read at all
	Path         string // such as views.redis.key or faults[2].kind; empty for the file as a whole
	What         string
	Fix          string

	cause error
}

// Error gives file:line:column: path: what — fix: what to do.
func (e Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		b.WriteString(":" + strconv.Itoa(e.Line) + ":" + strconv.Itoa(e.Column))
	}
	b.WriteString(": ")
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	b.WriteString(e.What + " — fix: " + e.Fix)
	return b.String()
}

// Unwrap gives what the operating system said, where it said something.
func (e Error) Unwrap() error { return e.cause }

// Errors are all mistakes in a file, by position.
type Errors []Error

// Error prints one mistake a line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, x := range e {
		lines[i] = x.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap lets errors.Is and errors.As look at each.
func (e Errors) Unwrap() []error {
	out := make([]error, len(e))
	for i, x := range e {
		out[i] = x
	}
	return out
}

func (e Errors) sort() {
	slices.SortStableFunc(e, func(a, b Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Path, b.Path))
	})
}

// mistake is what is wrong with one value, before its place is known.
type mistake struct{ what, fix string }

func (m mistake) Error() string { return m.what + " — fix: " + m.fix }

// split takes an error's own fix off it.
func split(err error) (what, fix string) {
	what, fix, ok := strings.Cut(err.Error(), " — fix: ")
	if !ok {
		fix = "correct it"
	}
	return what, fix
}
