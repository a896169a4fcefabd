package memory

import "time"

// Contract is what a view promises (oracle.md §3). The zero values of the optional parts promise the most.
type Contract struct {
	View    string `json:"view"`
	Service string `json:"service"` // the service behind it: health proof, suspects, MayLose
	// User is true for a view that a user looks at (page, answer); false for a store.
	User bool `json:"user,omitempty"`
	// Durable: an acknowledged memory must be here after any fault. False: a cache, excused only when none of that
	// user's memories is there.
	Durable bool `json:"durable"`
	// MayLose excuses a window of acknowledged memories, for faults of certain kinds on Service only.
	MayLose *MayLose `json:"may_lose,omitempty"`
	// TTL is how long a memory stays; 0: for ever. Slack is the tolerance around it.
	TTL     time.Duration `json:"ttl,omitempty"`
	Slack   time.Duration `json:"ttl_slack,omitempty"`
	TTLFrom TTLFrom       `json:"ttl_from,omitempty"`
	// KeepLast: only each user's newest N must be here; 0: all.
	KeepLast int `json:"keep_last,omitempty"`
	// KeepUnit says what KeepLast counts: "memory" (default) or "message" (answers and our own questions count too).
	KeepUnit string `json:"keep_unit,omitempty"`
	// Settle is how long a memory may take to appear after its acknowledgement or after recovery.
	Settle time.Duration `json:"settle"`
	// Copies is how many records one write makes in this view; 0: calibrated in the first control cycle, and 1 until
	// then.
	Copies int `json:"copies,omitempty"`
}

// MayLose is an excused loss: at most Window of writes before the fault, by faults of the kinds On.
type MayLose struct {
	Window time.Duration `json:"window"`
	On     []string      `json:"on"`
}

// TTLFrom says which event a time to live counts from.
type TTLFrom string

const (
	TTLFromWrite      TTLFrom = "write"
	TTLFromLastWrite  TTLFrom = "last_write"
	TTLFromLastAccess TTLFrom = "last_access"
)
