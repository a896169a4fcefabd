package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"amnesia/pkg/memory"
)

// Known is an incident that somebody knows of: until its date what is found of it wakes nobody and fails no run, and is
// counted apart.
type Known struct {
	Fingerprint string `yaml:"fingerprint"` // as `amnesia incidents` prints it
	Until       Until  `yaml:"until"`       // one in the past mutes nothing
	Reason      string `yaml:"reason"`
}

// Until is when something ends; written as a day, which it includes, in UTC, or as an instant of RFC 3339.
type Until struct{ time.Time }

// UnmarshalText reads the written form.
func (u *Until) UnmarshalText(b []byte) error {
	if day, err := time.Parse(time.DateOnly, string(b)); err == nil {
		u.Time = day.AddDate(0, 0, 1).Add(-time.Second) // so that it still says the day
		return nil
	}
	at, err := time.Parse(time.RFC3339, string(b))
	if err != nil {
		return mistake{fmt.Sprintf("%q is no date", b), "write a day such as 2030-01-31, or an instant such as 2030-01-31T18:00:00Z"}
	}
	u.Time = at.UTC()
	return nil
}

func (l *loader) known(all []Known) {
	first := map[string]int{}
	for i, k := range all {
		path := fmt.Sprintf("known[%d].fingerprint", i)
		n, twice := first[k.Fingerprint]
		switch {
		case !l.has(path):
		case !isFingerprint(k.Fingerprint):
			l.fail(path, fmt.Sprintf("%q is no name of an incident", k.Fingerprint),
				"write it as 'amnesia incidents' prints it, such as silent/kill/redis/page+redis or leaked/-/-/-")
		case twice:
			l.fail(path, fmt.Sprintf("is the one of known[%d]", n), "remove one of them")
		default:
			first[k.Fingerprint] = i
		}
	}
}

// isFingerprint reports whether an incident may have the name: class/fault/service/views.
func isFingerprint(name string) bool {
	parts := strings.Split(name, "/")
	if len(parts) != 4 || slices.Contains(parts, "") {
		return false
	}
	if slices.Contains(memory.Defects[:], memory.Defect(parts[0])) {
		return slices.Equal(parts[1:], []string{"-", "-", "-"})
	}
	class := memory.Class(parts[0])
	return slices.Contains(memory.Classes[:], class) && class != memory.Permitted && slices.IsSorted(strings.Split(parts[3], "+"))
}
