package chaos

import (
	"fmt"
	"strings"
	"time"
)

// Hours are the times of the week at which faults may fire.
type Hours struct {
	From, To time.Duration // since midnight; To before From runs over midnight, and belongs to the day it began on
	Days     [7]bool       // by time.Weekday
	Zone     *time.Location
	text     string
}

func (h Hours) String() string { return h.text + " " + h.Zone.String() }

var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// ParseHours reads "09:00-18:00", "Mon-Fri", or both, with days as ranges or lists ("Mon-Thu,Sat"). Without a clock
// time the whole day is meant, without days every day.
func ParseHours(text string, zone *time.Location) (Hours, error) {
	h := Hours{To: 24 * time.Hour, Zone: zone, text: text}
	var sawTime, sawDays bool
	fields := strings.Fields(text)
	for _, field := range fields {
		if strings.Contains(field, ":") {
			if sawTime {
				return h, badHours(text, "it has two clock ranges")
			}
			sawTime = true
			from, to, ok := strings.Cut(field, "-")
			if !ok {
				return h, badHours(text, fmt.Sprintf("%q is not a range", field))
			}
			var err error
			if h.From, err = parseClock(from); err != nil {
				return h, badHours(text, err.Error())
			}
			if h.To, err = parseClock(to); err != nil {
				return h, badHours(text, err.Error())
			}
			if h.From == h.To || h.From == 24*time.Hour {
				return h, badHours(text, "the clock range is empty")
			}
			continue
		}
		sawDays = true
		for part := range strings.SplitSeq(field, ",") {
			from, to, ok := strings.Cut(part, "-")
			if !ok {
				to = from
			}
			first, last := weekday(from), weekday(to)
			if first < 0 || last < 0 {
				return h, badHours(text, fmt.Sprintf("%q is neither a clock range nor weekdays", part))
			}
			for d := first; ; d = (d + 1) % 7 {
				h.Days[d] = true
				if d == last {
					break
				}
			}
		}
	}
	if len(fields) == 0 {
		return h, badHours(text, "it is empty")
	}
	if !sawDays {
		h.Days = [7]bool{true, true, true, true, true, true, true}
	}
	return h, nil
}

func badHours(text, why string) error {
	return fmt.Errorf("hours %q: %s — fix: write them as 09:00-18:00 Mon-Fri", text, why)
}

func parseClock(s string) (time.Duration, error) {
	if s == "24:00" {
		return 24 * time.Hour, nil
	}
	t, err := time.Parse("15:04", s)
	if err != nil {
		return 0, fmt.Errorf("%q is not a time of day", s)
	}
	return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute, nil
}

func weekday(s string) int {
	for i, day := range weekdays {
		if len(s) >= 3 && strings.HasPrefix(strings.ToLower(s), day) {
			return i
		}
	}
	return -1
}

// Contain reports whether t, read in the zone, is within the hours.
func (h Hours) Contain(t time.Time) bool {
	t = t.In(h.Zone)
	clock := time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute +
		time.Duration(t.Second())*time.Second + time.Duration(t.Nanosecond())
	today, yesterday := h.Days[t.Weekday()], h.Days[(t.Weekday()+6)%7]
	if h.From < h.To {
		return today && clock >= h.From && clock < h.To
	}
	return (today && clock >= h.From) || (yesterday && clock < h.To)
}

// Next gives the first time from t on that is within the hours, to the minute.
func (h Hours) Next(t time.Time) time.Time {
	if h.Contain(t) {
		return t
	}
	// Every opening is at a full minute; eight days hold every weekday, whatever a change to summer time does.
	next := t.Truncate(time.Minute)
	for range 8 * 24 * 60 {
		next = next.Add(time.Minute)
		if h.Contain(next) {
			break
		}
	}
	return next
}
