package config

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Range is a span of durations from which one is drawn; written 0ms..2s, or 500ms for exactly that.
type Range struct{ Min, Max time.Duration }

// UnmarshalText reads the written form.
func (r *Range) UnmarshalText(b []byte) error {
	from, to, both := strings.Cut(string(b), "..")
	if !both {
		to = from
	}
	lo, err := parseDuration(from)
	if err != nil {
		return err
	}
	hi, err := parseDuration(to)
	if err != nil {
		return err
	}
	if lo > hi {
		return mistake{fmt.Sprintf("the range %s ends before it begins", b), fmt.Sprintf("write %s..%s", short(hi), short(lo))}
	}
	*r = Range{lo, hi}
	return nil
}

// String gives the written form.
func (r Range) String() string {
	if r.Min == r.Max {
		return short(r.Min)
	}
	return short(r.Min) + ".." + short(r.Max)
}

// Size is an amount of space in bytes; written 500MB or 2GB (powers of ten), or GiB (of two).
type Size int64

var sizeForm = regexp.MustCompile(`(?i)^(\d{1,9})\s*([kmgt])(i?)b$`)

// UnmarshalText reads the written form.
func (s *Size) UnmarshalText(b []byte) error {
	m := sizeForm.FindStringSubmatch(string(b))
	if m == nil {
		return mistake{fmt.Sprintf("%q is no size", b), "write a number and a unit: 500MB, 2GB"}
	}
	n, _ := strconv.ParseInt(m[1], 10, 64)
	if n == 0 {
		return mistake{"is zero", "write a size above zero, or remove the key"}
	}
	unit := int64(1000)
	if m[3] != "" {
		unit = 1024
	}
	for range 1 + strings.Index("kmgt", strings.ToLower(m[2])) {
		if n > math.MaxInt64/unit {
			return mistake{fmt.Sprintf("the size %s is too large", b), "write a smaller one"}
		}
		n *= unit
	}
	*s = Size(n)
	return nil
}

// Zone is a time zone by its IANA name.
type Zone struct{ *time.Location }

// UnmarshalText looks the name up.
func (z *Zone) UnmarshalText(b []byte) error {
	loc, err := time.LoadLocation(string(b))
	if err != nil || len(b) == 0 {
		return mistake{fmt.Sprintf("%q is no time zone of this machine", b), "write an IANA name such as UTC or Europe/Paris"}
	}
	z.Location = loc
	return nil
}

// Values are named texts of which any may be a secret: environment variables, request headers. In the file each is a
// text, or {env: NAME}, or {file: PATH}.
type Values map[string]Secret

// Reveal gives them in the clear.
func (v Values) Reveal() map[string]string {
	if v == nil {
		return nil
	}
	out := make(map[string]string, len(v))
	for _, k := range slices.Sorted(maps.Keys(v)) {
		out[k] = v[k].Reveal()
	}
	return out
}

// spoken matches durations as people write them.
var spoken = regexp.MustCompile(`^(\d+(?:\.\d+)?)\s*([a-z]*)$`)

// parseDuration reads a duration of Go's form, not negative.
func parseDuration(s string) (time.Duration, error) {
	s = strings.TrimSpace(s)
	d, err := time.ParseDuration(s)
	if err == nil && d >= 0 {
		return d, nil
	}
	if err == nil {
		return 0, mistake{fmt.Sprintf("the duration %s is negative", s), "write " + short(-d)}
	}
	fix := "write a number and a unit: 500ms, 10s, 2m, 24h"
	if m := spoken.FindStringSubmatch(strings.ToLower(s)); m != nil {
		if unit := unitOf(m[2]); unit > 0 {
			n, _ := strconv.ParseFloat(m[1], 64)
			if ns := n * float64(unit); ns < math.MaxInt64/2 {
				fix = "write " + short(time.Duration(ns))
			}
		}
	}
	return 0, mistake{fmt.Sprintf("%q is no duration", s), fix}
}

// unitOf gives the duration that a person means by a word; a bare number means seconds. 0: not known.
func unitOf(word string) time.Duration {
	switch strings.TrimSuffix(word, "s") {
	case "", "sec", "second":
		return time.Second
	case "m", "min", "minute":
		if word == "ms" {
			return time.Millisecond
		}
		return time.Minute
	case "millisecond", "msec":
		return time.Millisecond
	case "h", "hr", "hour":
		return time.Hour
	case "d", "day":
		return 24 * time.Hour
	case "w", "week":
		return 7 * 24 * time.Hour
	}
	return 0
}

// short writes a duration without zero parts: 2m and not 2m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
