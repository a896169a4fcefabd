package oracle

import (
	"slices"
	"time"

	"amnesia/pkg/memory"
)

// The two user views that are evidence. Any other is a note.
const (
	viewPage   = "page"
	viewAnswer = "answer"
)

// History is what the facts say of one memory. Its size does not depend on how often the memory was read.
type History struct {
	Memory  memory.Memory
	Begun   memory.Instant
	Outcome memory.Outcome // empty while the write is in flight
	Settled memory.Instant
	Levels  []memory.Level
	// Ack is the acknowledgement from which a loss counts; zero when there is none.
	Ack     Ack
	Forget  *Forget
	Reports []Report
	// Views are the views of the memory's contracts in their order, then any others that were read.
	Views  []View
	Leaked bool
	// Loss is the last loss that was proven, kept although the memory may be there again. LossCycle is the cycle in
	// which the first was.
	Loss      *memory.Verdict
	LossCycle int
	// Retired memories are no longer read.
	Retired memory.Instant

	terms   *terms
	ord     int  // place among the user's writes
	watch   bool // something was read that may make a loss or a defect
	read    int  // the last cycle whose sweeps read it
	counted bool // its loss has been counted in a cycle
	found   []memory.Defect
}

// Ack is the moment of an acknowledgement, between NotSeen and Seen.
type Ack struct {
	Level         string
	NotSeen, Seen memory.Instant
}

// Forget is a deletion by the user.
type Forget struct {
	Begun   memory.Instant
	Outcome memory.Outcome // empty while in flight
	Settled memory.Instant
}

// Report is something that told of trouble with this memory: the app to its user (By: page) or a log line (By: log).
type Report struct {
	By     string
	Detail string
	At     memory.Instant
}

// Read bounds one reading.
type Read struct{ Began, Ended memory.Instant }

// None reports whether there was no such reading.
func (r Read) None() bool { return r.Ended.IsZero() }

// View is what is known of a memory in one view.
type View struct {
	Name string
	// Due is false for a view that holds no promise for this memory: without a contract, or not among its views.
	Due bool
	// Last is the last reading, and State what it said.
	Last  Read
	State memory.State
	// FirstHere and LastHere are the first and the last reading that found the memory; HereSince is the first one of
	// the presence that stands (or stood last).
	FirstHere, LastHere, HereSince Read
	// Absence is what has been read since the memory was last there.
	Absence Absence
	// Empty is true when the last evidence is a cache that holds nothing of this user: excused.
	Empty bool
	// Copies is the largest number of records found since the acknowledgement.
	Copies int
	// TTL is the remaining time to live at the reading TTLRead, negative for a record that never expires.
	TTL     time.Duration
	TTLRead Read
	// Runs is the story for a person, equal readings in a row drawn together; the oldest but the first few are dropped
	// when it grows long. No verdict depends on it.
	Runs []Run

	altered, outlived, early, resurfaced, late bool
	lateness                                   time.Duration
	apart                                      bool               // absent since it was last there
	came                                       bool               // it was absent before HereSince
	emptied                                    Read               // the first of the empty readings in a row
	raw                                        memory.Observation // as recorded last, for "read again"
	pass                                       int64              // the last sweep with a row for it
}

// Absence is a stretch of proven absent readings of a view that owed the memory, with no presence in between.
type Absence struct {
	Reads       int
	First, Last Read
	// Due is the first that began after the deadline; Proof the first such that had another before it.
	Due, Proof Read
}

// Proven reports whether the absence is proven.
func (a Absence) Proven() bool { return !a.Proof.None() }

// Run is one or more equal readings in a row.
type Run struct {
	State       memory.State
	Copies      int
	Strangers   []string
	TTL         int64 // of the first reading, as in memory.Observation
	Siblings    int
	Rig         bool
	Detail      string
	First, Last Read
	Reads       int
}

// Story lengths: the first runs and the latest are what a person asks for.
const (
	storyHead = 4
	storyMost = 24
)

func (v *View) tell(o memory.Observation, r Read) {
	if n := len(v.Runs); n > 0 {
		if l := &v.Runs[n-1]; l.State == o.State && l.Copies == o.Copies && l.Rig == o.Rig &&
			(l.Siblings == 0) == (o.Siblings == 0) && slices.Equal(l.Strangers, o.Strangers) {
			l.Last, l.Reads = r, l.Reads+1
			return
		}
	}
	if len(v.Runs) >= storyMost {
		v.Runs = slices.Delete(v.Runs, storyHead, storyHead+1)
	}
	v.Runs = append(v.Runs, Run{State: o.State, Copies: o.Copies, Strangers: o.Strangers, TTL: o.TTL, Siblings: o.Siblings,
		Rig: o.Rig, Detail: o.Detail, First: r, Last: r, Reads: 1})
}

// acknowledged reports whether a loss would count.
func (h *History) acknowledged() bool { return !h.Ack.Seen.IsZero() }

// level is the last acknowledgement level reached.
func (h *History) level() string {
	if h.Ack.Level == memory.LevelObserved {
		return memory.LevelObserved
	}
	if n := len(h.Levels); n > 0 {
		return h.Levels[n-1].Name
	}
	return h.Ack.Level
}

// view gives the place of a view in h, adding one without a promise where there is none yet.
func (h *History) view(name string) int {
	for i := range h.Views {
		if h.Views[i].Name == name {
			return i
		}
	}
	h.Views = append(h.Views, View{Name: name})
	return len(h.Views) - 1
}

// acknowledge begins the promise. Absences that were read before say nothing.
func (h *History) acknowledge(a Ack) {
	h.Ack = a
	for i := range h.Views {
		v := &h.Views[i]
		v.Absence, v.Empty = Absence{}, false
		if v.State == memory.Absent {
			v.State = memory.Unreadable
		}
	}
}

// settle records the outcome of the write and finds the acknowledgement from which a loss counts: the first level
// reached at or after counts_from, or, in a script without levels, the outcome.
func (h *History) settle(outcome memory.Outcome, levels []memory.Level, at memory.Instant) {
	h.Outcome, h.Settled, h.Levels = outcome, at, levels
	order, counts := h.terms.levels, h.terms.countsFrom
	from := slices.Index(order, counts)
	if counts == "" {
		from = len(order) - 1
	}
	for _, l := range levels {
		if i := slices.Index(order, l.Name); l.Name == counts || (i >= from && from >= 0) {
			h.acknowledge(Ack{Level: l.Name, NotSeen: l.NotSeen, Seen: memory.Later(l.Seen, l.NotSeen)})
			break
		}
	}
	if !h.acknowledged() && outcome == memory.Acknowledged && (len(levels) == 0 || (len(order) == 0 && counts == "")) {
		a := Ack{NotSeen: h.Begun, Seen: at}
		if n := len(levels); n > 0 {
			a = Ack{Level: levels[n-1].Name, NotSeen: levels[n-1].NotSeen, Seen: levels[n-1].Seen}
		}
		h.acknowledge(a)
	}
	if h.acknowledged() && outcome == memory.Rejected {
		// Confirmed at the level that counts, then refused: the user was told.
		h.Reports = append(h.Reports, Report{By: viewPage, At: at})
	}
}
