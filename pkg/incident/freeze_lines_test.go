package incident

import (
	"strings"
	"testing"
	"time"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

// TestShelfIsBounded: whatever a service prints, what is held of it is bounded, and the lines near the fault stay.
func TestShelfIsBounded(t *testing.T) {
	at := func(d time.Duration) memory.Instant {
		return memory.Instant{Mono: int64(time.Hour + d), Wall: int64(time.Hour + d), Boot: "b"}
	}
	s := &shelf{}
	s.push(fact.Log{Line: "just before", At: at(-time.Second)})
	s.strike(at(0))
	s.push(fact.Log{Line: "just after", At: at(time.Second)})
	s.push(fact.Log{Line: strings.Repeat("x", 2*shelfBytes), At: at(2 * time.Second)}) // larger than all that is held
	for i := range 100_000 {
		s.push(fact.Log{Line: "noise of a healthy service", At: at(time.Minute + time.Duration(i)*time.Millisecond)})
	}
	if s.near.bytes > shelfBytes || s.rest.bytes > shelfBytes {
		t.Errorf("it holds %d and %d bytes", s.near.bytes, s.rest.bytes)
	}
	all := s.since(at(-BeforeFault))
	if len(all) < 3 || all[0].Line != "just before" || all[1].Line != "just after" {
		t.Errorf("of %d lines the first are %v", len(all), all[:min(2, len(all))])
	}
	if last := all[len(all)-1].Line; last != "noise of a healthy service" {
		t.Errorf("the last is %q", last)
	}
}
