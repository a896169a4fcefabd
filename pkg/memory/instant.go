package memory

import "time"

// Instant is one reading of the rig's clocks. Durations are taken from the monotonic clock, which goes on during
// suspend (CLOCK_BOOTTIME, clock_gettime(2)) and is comparable only within one boot; the wall clock is for people and
// for the order across boots.
type Instant struct {
	Mono int64  `json:"mono"` // nanoseconds since boot
	Wall int64  `json:"wall"` // Unix time in nanoseconds
	Boot string `json:"boot,omitempty"`
}

// Clock is where time comes in.
type Clock interface{ Now() Instant }

// IsZero reports whether the instant was never set.
func (t Instant) IsZero() bool { return t == Instant{} }

// SameBoot reports whether the two instants can be compared exactly.
func (t Instant) SameBoot(u Instant) bool { return t.Boot == u.Boot }

// Sub gives t−u: exact within one boot, by the wall clock across boots.
func (t Instant) Sub(u Instant) time.Duration {
	if t.SameBoot(u) {
		return time.Duration(t.Mono - u.Mono)
	}
	return time.Duration(t.Wall - u.Wall)
}

// Before reports whether t came before u.
func (t Instant) Before(u Instant) bool { return t.Sub(u) < 0 }

// After reports whether t came after u.
func (t Instant) After(u Instant) bool { return t.Sub(u) > 0 }

// Add moves both clocks by d.
func (t Instant) Add(d time.Duration) Instant {
	t.Mono += int64(d)
	t.Wall += int64(d)
	return t
}

// Time gives the wall clock reading.
func (t Instant) Time() time.Time { return time.Unix(0, t.Wall) }

// Later gives the later of the two; a zero instant is earlier than any other.
func Later(t, u Instant) Instant {
	if t.IsZero() || (!u.IsZero() && t.Before(u)) {
		return u
	}
	return t
}
