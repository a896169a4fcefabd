package web

import (
	"context"
	"io/fs"
	"time"

	"amnesia/chaos"
	"amnesia/pkg/fact"
	"amnesia/pkg/incident"
	"amnesia/pkg/memory"
	"amnesia/pkg/report"
)

// Books are what the pages and the API read: the ledger, and what is folded out of it. Its methods may be called by many
// goroutines, and what they give is the caller's.
type Books interface {
	// Live is what goes on now. It is cheap, however long the ledger.
	Live(ctx context.Context) (Live, error)
	// Changed gives a channel that is closed when Live has changed since the call.
	Changed() <-chan struct{}
	// Cycles gives those with a number below before (0: of all), the newest first.
	Cycles(ctx context.Context, before, limit int) ([]incident.Cycle, error)
	// Memories gives those that are looked for, the newest first.
	Memories(ctx context.Context, s Search) ([]Memory, error)
	// Memory tells the story of one; incident.ErrNoMemory when there is none.
	Memory(ctx context.Context, id memory.ID) (*incident.Story, error)
	// Incidents gives all, the one that was found last first.
	Incidents(ctx context.Context) ([]incident.Incident, error)
	Incident(ctx context.Context, fingerprint string) (i incident.Incident, ok bool, err error)
	Faults(ctx context.Context) (Faults, error)
	// Evidence opens a file of the folder of evidence; fs.ErrNotExist when it is gone.
	Evidence(name string) (fs.File, error)
}

// Live is what goes on now.
type Live struct {
	At        time.Time           `json:"at"`
	Version   string              `json:"version"`
	Run       string              `json:"run"`
	Target    string              `json:"target"`
	Ledger    string              `json:"ledger"`
	Config    []string            `json:"-"`               // the configuration's files, for the commands that are shown
	Armed     bool                `json:"armed"`           // false: faults are only announced
	Held      []Held              `json:"held,omitempty"`  // why faults are held back; none: they are not
	Next      time.Time           `json:"next_fault"`      // the earliest time at which pace and hours allow one
	Cycle     *Cycle              `json:"cycle,omitempty"` // the last one that began; nil: none yet
	Fault     *incident.Injection `json:"fault,omitempty"` // of that cycle; nil: none
	Asked     *Ask                `json:"asked,omitempty"` // for the next cycle
	Counts    Counts              `json:"counts"`          // of the whole ledger
	Incidents int                 `json:"incidents"`       // that are not muted
	Last      []incident.Cycle    `json:"last"`            // cycles, the newest first
}

// Counts are what a ledger has counted. A memory is counted once in each.
type Counts struct {
	Cycles       int                       `json:"cycles"` // closed ones
	Outcomes     map[fact.CycleOutcome]int `json:"outcomes"`
	Begun        int                       `json:"begun"`
	Acknowledged int                       `json:"acknowledged"`
	Rejected     int                       `json:"rejected"`
	Unknown      int                       `json:"unknown"`
	Losses       map[memory.Class]int      `json:"losses"`
	Defects      map[memory.Defect]int     `json:"defects"`
}

// Search says which memories are looked for; what is empty does not matter.
type Search struct {
	User    string
	Token   string // or how it begins
	Verdict memory.Kind
	Before  memory.ID // only smaller numbers: the last of the page before
	Limit   int
}

// Memory is one as a list shows it, with the last verdict on record.
type Memory struct {
	ID      memory.ID       `json:"id"`
	Cycle   int             `json:"cycle"`
	User    string          `json:"user"`
	Token   string          `json:"token"`
	Text    string          `json:"text"`
	Payload memory.Payload  `json:"payload"`
	Begun   time.Time       `json:"begun"`
	Outcome memory.Outcome  `json:"outcome,omitempty"` // empty: under way
	Verdict memory.Kind     `json:"verdict,omitempty"` // empty: none yet
	Class   memory.Class    `json:"class,omitempty"`
	Defects []memory.Defect `json:"defects,omitempty"`
	Missing []string        `json:"missing,omitempty"`
	Fault   string          `json:"fault,omitempty"`
	Service string          `json:"service,omitempty"`
}

// Faults are what may be done to the target, and what came of it.
type Faults struct {
	Armed    bool       `json:"armed"`
	Faults   []Fault    `json:"faults"`
	Refusals []Refusals `json:"refusals"` // the most frequent first
}

// Fault is one kind on one service: what the configuration declares of it, and what the ledger holds.
type Fault struct {
	Kind     string         `json:"kind"`
	Service  string         `json:"service,omitempty"` // empty: crash_all's
	Declared []Declared     `json:"declared"`          // none: an earlier configuration's, or the end of a daemon
	Injected int            `json:"injected"`
	Lost     int            `json:"lost"`
	Window   *report.Window `json:"window_ms,omitempty"` // up to which time after the acknowledgement memories are lost
	Curve    []report.Point `json:"curve,omitempty"`     // P(lost | t)
}

// Declared is one entry of the configuration's faults, in words.
type Declared struct {
	Weight int    `json:"weight"`
	When   string `json:"when"`          // such as after acknowledged, 0s to 2s
	How    string `json:"how,omitempty"` // hold, grace, volume …
}

// Refusals are faults that were not allowed, of one kind on one service for one reason.
type Refusals struct {
	Kind    string       `json:"kind"`
	Service string       `json:"service,omitempty"`
	Reason  chaos.Reason `json:"reason"`
	Times   int          `json:"times"`
	Last    time.Time    `json:"last"`
	Why     string       `json:"why"` // of the last one
}
