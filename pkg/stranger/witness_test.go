package stranger

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// stay is one stretch in which a note was in a place: it came between from[0] and from[1], and went between to[0] and
// to[1]. Zero times of to: it is there still. A zero from[1]: nobody said that it came.
type stay struct{ from, to [2]time.Time }

func (s stay) over() bool { return !s.to[1].IsZero() }

// finding is what a look must come to.
type finding int

const (
	away finding = iota
	there
	either // it came or went meanwhile
)

// look gives what a look from a to b must come to.
func (s stay) look(a, b time.Time) finding {
	switch {
	case s.from[1].IsZero() || b.Before(s.from[0]) || s.over() && a.After(s.to[1]):
		return away
	case a.Before(s.from[1]) || s.over() && b.After(s.to[0]):
		return either
	}
	return there
}

// telling is one note as the app saw it.
type telling struct {
	text, kept string // what it was told, and what of that it keeps
	said       bool
	sorry      time.Time         // its log said that it is lost; zero: it did not
	stays      map[string][]stay // by place, in their order
}

// story is what a whole witness says, by ref.
type story map[string]*telling

// listen reads what the app's witness wrote; see app/witness.go.
func listen(path string) (story, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s := story{}
	var before, died time.Time // the last line, and that before the latest start
	for n, line := range strings.Split(strings.TrimSuffix(string(content), "\n"), "\n") {
		words := strings.Split(line, "\t")
		ns, err := strconv.ParseInt(words[0], 10, 64)
		if err == nil && len(words) > 1 {
			err = s.hear(time.Unix(0, ns), died, words[1:])
		}
		if err != nil || len(words) < 2 {
			return nil, fmt.Errorf("%s:%d: %q: %w", path, n+1, line, err)
		}
		if words[1] == "up" {
			died = before
		}
		before = time.Unix(0, ns)
	}
	return s, nil
}

func (s story) hear(at, died time.Time, words []string) error {
	switch words[0] {
	case "up":
		return nil
	case "told":
		text, err := strconv.Unquote(words[3])
		kept, kerr := strconv.Unquote(words[4])
		s[words[1]] = &telling{text: text, kept: kept, stays: map[string][]stay{}}
		return errors.Join(err, kerr)
	case "said":
		s[words[1]].said = true
		return nil
	case "sorry":
		s[words[1]].sorry = at
		return nil
	case "found":
		s.found(words[1], strings.Fields(words[2]), at, died)
		return nil
	}
	place, t := words[1], s[words[2]]
	if words[0] == "put>" {
		t.stays[place] = append(t.stays[place], stay{from: [2]time.Time{at, {}}})
		return nil
	}
	if len(t.stays[place]) == 0 {
		return fmt.Errorf("%s was never put there", words[2])
	}
	last := &t.stays[place][len(t.stays[place])-1]
	switch words[0] {
	case "put<":
		last.from[1] = at
	case "cut>":
		last.to[0] = at
	case "cut<":
		last.to[1] = at
	default:
		return fmt.Errorf("what is %q", words[0])
	}
	return nil
}

// found settles what the end of the process before left open: what came and was not said to have come, and what went.
func (s story) found(place string, refs []string, at, died time.Time) {
	for ref, t := range s {
		n := len(t.stays[place])
		if n == 0 || t.stays[place][n-1].over() {
			continue
		}
		last, here := &t.stays[place][n-1], slices.Contains(refs, ref)
		switch {
		case here && last.from[1].IsZero():
			last.from[1] = at
		case here:
			last.to[0] = time.Time{} // it was to be taken away, and was not
		case last.from[1].IsZero():
			t.stays[place] = t.stays[place][:n-1]
		default:
			if last.to[0].IsZero() {
				last.to[0] = died
			}
			last.to[1] = at
		}
	}
}

// TestListen holds the reading of a witness to short stories, in which each line comes a second after the one before.
func TestListen(t *testing.T) {
	second := func(n int) time.Time { return time.Unix(int64(n), 0) }
	const told = "told a pat \"x\" \"x\""
	for _, c := range []struct {
		name  string
		lines []string
		looks string // at the odd half seconds, from 0.5 on: + there, - away, ? either
	}{
		{"it came", []string{"up", told, "put> feed a", "put< feed a"}, "---?+"},
		{"it went", []string{told, "put> feed a", "put< feed a", "cut> feed a", "cut< feed a"}, "--?+?-"},
		{"it came again", []string{told, "put> feed a", "put< feed a", "cut> feed a", "cut< feed a", "put> feed a", "put< feed a"}, "--?+?-?+"},
		{"the process ended when it was to come, and it had", []string{told, "put> feed a", "up", "found feed a"}, "--??+"},
		{"the process ended when it was to come, and it had not", []string{told, "put> feed a", "up", "found feed "}, "-----"},
		{"the process ended when it was to go, and it had", []string{told, "put> feed a", "put< feed a", "cut> feed a", "up", "found feed "}, "--?+??-"},
		{"the process ended when it was to go, and it had not", []string{told, "put> feed a", "put< feed a", "cut> feed a", "up", "found feed a"}, "--?++++"},
		{"it went with the process", []string{told, "put> feed a", "put< feed a", "said a", "up", "found feed "}, "--?+??-"},
		{"it is elsewhere", []string{told, "put> journal a", "put< journal a", "up", "found feed ", "found journal a"}, "-------"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b strings.Builder
			for n, line := range c.lines {
				fmt.Fprintf(&b, "%d\t%s\n", second(n+1).UnixNano(), strings.ReplaceAll(line, " ", "\t"))
			}
			file := filepath.Join(t.TempDir(), "witness.tsv")
			if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := listen(file)
			if err != nil {
				t.Fatal(err)
			}
			found := ""
			for n := range len(c.looks) {
				at, most := second(n).Add(time.Second/2), away
				for _, stay := range s["a"].stays["feed"] {
					if f := stay.look(at, at); f == there || f == either && most == away {
						most = f
					}
				}
				found += string("-+?"[most])
			}
			if found != c.looks {
				t.Errorf("looks find %s, want %s", found, c.looks)
			}
		})
	}
}
