// Package memory is the vocabulary of Amnesia: what a memory is, what became of its write, how it looked in a view,
// what a view promises, and what the oracle says of it.
//
// It is plain data. It does no I/O, reads no clock, and imports nothing of ours, so that every other package can speak
// it.
package memory

import (
	"fmt"
	"strconv"
	"strings"
)

// ID numbers a memory within one ledger, from 1 upwards, in the order in which memories were begun. Numbers, and not
// random names, let a sweep record the exact set it read as a few ranges.
type ID int64

// String gives the form that people see and type: m42.
func (id ID) String() string { return "m" + strconv.FormatInt(int64(id), 10) }

// ParseID reads the form that String gives. It also takes the bare number.
func ParseID(s string) (ID, error) {
	n, err := strconv.ParseInt(strings.TrimPrefix(s, "m"), 10, 64)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%q is no memory id — fix: give an id such as m42", s)
	}
	return ID(n), nil
}

// Memory is one fact that one user tells the target. Its token occurs in no other memory of any run, so that the memory
// can be found by exact match wherever the target keeps it.
type Memory struct {
	ID       ID      `json:"id"`
	Run      string  `json:"run"`
	Cycle    int     `json:"cycle"`
	User     string  `json:"user"`
	Text     string  `json:"text"`               // what is typed, token included
	Token    string  `json:"token"`              // lower-case letters and digits only: survives HTML, JSON, SQL and URLs
	Question string  `json:"question,omitempty"` // how a person would ask for it; answered right when the answer holds Token
	Payload  Payload `json:"payload"`
	// Views names the views in which the memory is due.
	Views []string `json:"views,omitempty"`
}

// Payload is the shape of a memory's text. Real stores have lost only the long ones, only the Chinese ones, only the
// ones with a quote; so the shape is drawn for each memory and kept with it.
type Payload string

const (
	PayloadShort     Payload = "short"     // one natural sentence
	PayloadLong      Payload = "long"      // about 2 KB
	PayloadChinese   Payload = "chinese"   // Chinese text
	PayloadEmoji     Payload = "emoji"     // four-byte UTF-8, joiners
	PayloadMarkup    Payload = "markup"    // quotes, HTML, SQL
	PayloadMultiline Payload = "multiline" // several lines
)

// Payloads lists every payload in a fixed order.
var Payloads = [...]Payload{PayloadShort, PayloadLong, PayloadChinese, PayloadEmoji, PayloadMarkup, PayloadMultiline}

// Outcome is what became of a write (or of a forget), as its user saw it.
type Outcome string

const (
	Acknowledged Outcome = "acknowledged" // the user saw the confirmation
	Rejected     Outcome = "rejected"     // the user saw an error
	Unknown      Outcome = "unknown"      // neither: it may or may not land
)

// Level is one acknowledgement level that a write reached. The moment lies between NotSeen and Seen.
type Level struct {
	Name    string  `json:"name"`
	NotSeen Instant `json:"not_seen"` // last look at which it was not there yet
	Seen    Instant `json:"seen"`     // first look at which it was
}

// LevelObserved is the level of a memory that was never acknowledged but later stood on a fresh page, and so was seen
// by its user.
const LevelObserved = "observed"

// State is how a memory looked in one view at one read.
type State string

const (
	Present    State = "present"
	Absent     State = "absent"     // proven: see Observation
	Altered    State = "altered"    // found by its token, but the text differs; counts as present
	Unreadable State = "unreadable" // no evidence either way
)

// Here reports whether the memory was found.
func (s State) Here() bool { return s == Present || s == Altered }

// Observation is what one read of one view said of one memory.
//
// Absent needs proof: the read finished without error and reached the end of what the view holds for that user, and
// (checked by whoever runs the sweep) the view's service was healthy before and after with the same identity. All else
// is Unreadable.
type Observation struct {
	Memory ID     `json:"memory"`
	View   string `json:"view"`
	State  State  `json:"state"`
	// Copies counts the records found for the owner; 0 when not Here.
	Copies int `json:"copies,omitempty"`
	// Strangers names the other users under whom the token was found (a leak), sorted.
	Strangers []string `json:"strangers,omitempty"`
	// TTL is the remaining time to live in milliseconds where the view has one; 0 where it has none, -1 for a
	// record that never expires in a view that could expire it.
	TTL int64 `json:"ttl_ms,omitempty"`
	// Siblings counts how many memories of the same user this read found in this view (for caches and torn lists).
	Siblings int `json:"siblings,omitempty"`
	// Records counts what the read went through of the user's, whatever it says, where the memory is absent and the view
	// tells; else 0.
	Records int `json:"records,omitempty"`
	// Began and Ended bound the read.
	Began Instant `json:"began"`
	Ended Instant `json:"ended"`
	// Rig is true when the state is Unreadable through trouble of our own (browser died, probe refused, time-out, 429).
	Rig    bool   `json:"rig,omitempty"`
	Detail string `json:"detail,omitempty"`
}
