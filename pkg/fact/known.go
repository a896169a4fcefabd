package fact

import (
	"time"

	"amnesia/pkg/memory"
)

// Known mutes an incident until a date: a person knows of it, and wants to hear of others.
type Known struct {
	Fingerprint string    `json:"fingerprint"`
	Until       time.Time `json:"until"`
	Reason      string    `json:"reason"`
}

// Muting states what is known from here on, until the next one: so that whoever reads the ledger tells as well as the
// daemon did whom a loss woke.
type Muting struct {
	Known []Known        `json:"known"`
	At    memory.Instant `json:"at"`
}

func (Muting) fact() {}
