// Package zoo holds the daemon to what it says: it runs the real daemon on the real sample target, with each bug that can
// be planted there and with none, and compares every verdict, memory by memory, with what the target's own truth log
// shows to be right.
//
// What is right is derived from the truth log by code that shares nothing with the oracle. From the ledger it takes only
// what no target can know: what the user saw of each write, when the faults fired, and when each view was read. A case
// counts only if its bug showed.
package zoo

import (
	"slices"
	"time"

	"amnesia/pkg/memory"
)

// Case is one animal: a planted bug (or none) with what provokes it.
type Case struct {
	Name  string
	Bugs  string   // as CHATAPP_BUGS has them
	Homes []string // the stores that hold memories; each is a view, beside the page
	// Faults are lines of the configuration's list of faults. Without any, every cycle is a control.
	Faults []string
	Driver string // http or browser
	Forget float64

	Users, Memories, Cycles int
	// Settle is what every contract of the case grants, Drain and IndexDelay how late the target writes and shows.
	Settle, Drain, IndexDelay time.Duration

	// Shows is the verdict or the defect that the bug must bring about at least once for the case to count, beside at
	// least one memory without it unless All.
	Shows string
	All   bool
	// Stops is true where the first control shows nothing at all in the page, so that the daemon must refuse to go on.
	Stops bool

	// page gives what the history shows, where that is not what the first home holds.
	page func(*truthOf) []span
	// slow: what the app's own reads show comes only IndexDelay after it was told.
	slow bool
	// strangers: the page shows what other users told.
	strangers bool
}

// Home reports whether the store is a home of memories.
func (c Case) Home(store string) bool { return slices.Contains(c.Homes, store) }

// Control reports whether any loss is a false alarm.
func (c Case) Control() bool {
	return c.Shows == string(memory.Kept) || c.Shows == string(memory.Late) || c.Shows == string(memory.Released)
}

const (
	database = "database"
	vectors  = "vectors"
)

// The faults aim at the window in which the bugs that write late lose: drain after an acknowledgement, wide enough for a
// busy machine.
const (
	drain = 800 * time.Millisecond

	kill     = "{kind: kill, service: app, weight: 3, after: acknowledged, delay: 0ms..30ms}"
	killTold = "{kind: kill, service: app, after: told, delay: 0ms..10ms}"
	restart  = "{kind: restart, service: app, after: acknowledged, delay: 0ms..100ms, grace: 10s}"
	recreate = "{kind: recreate, service: app, after: acknowledged, delay: 0ms..100ms, grace: 10s}"
	wipe     = "{kind: wipe, service: app, volume: scratch, after: acknowledged, delay: 0ms..100ms, grace: 10s}"
	pause    = "{kind: pause, service: app, after: acknowledged, delay: 0ms..100ms, hold: 20ms..200ms}"
	crashAll = "{kind: crash_all, after: acknowledged, delay: 0ms..100ms}"
)

// Cases lists the zoo: the eight switches first, then the controls and the further bugs.
func Cases() []Case {
	both := []string{database, vectors}
	cases := []Case{
		{Name: "ack-early", Bugs: "ack-early", Faults: []string{kill, restart}, Shows: "lost", Drain: drain, Settle: 2 * drain},
		{Name: "buffered", Bugs: "buffered", Homes: []string{database}, Faults: []string{kill, restart}, Shows: "lost", page: inProcess,
			// More than the 50 that the buffer holds: else the first control finds nothing in the database.
			Users: 4, Memories: 13, Cycles: 5},
		{Name: "ephemeral-volume", Bugs: "ephemeral-volume", Faults: []string{wipe, recreate, kill}, Shows: "torn"},
		{Name: "ephemeral-volume alone", Bugs: "ephemeral-volume", Homes: []string{vectors}, Faults: []string{recreate, wipe, restart}, Shows: "lost", Cycles: 6},
		{Name: "dual-write-gap", Bugs: "dual-write-gap", Faults: []string{kill, restart}, Shows: "torn", Drain: drain, Settle: 2 * drain},
		{Name: "ui-field", Bugs: "ui-field", Shows: "hidden", All: true, Stops: true, page: nowhere},
		{Name: "leak", Bugs: "leak", Faults: []string{kill}, Shows: "leaked", All: true, strangers: true},
		{Name: "local-echo", Bugs: "local-echo", Faults: []string{kill}, Shows: "lost", Drain: drain, Settle: 2 * drain},
		{Name: "slow-index", Bugs: "slow-index", Faults: []string{kill, restart}, Shows: "late", IndexDelay: 1500 * time.Millisecond, Settle: 3 * time.Second, slow: true},
		{Name: "healthy", Faults: []string{kill, killTold, restart, recreate, wipe, pause, crashAll}, Shows: "kept"},

		{Name: "unsynced", Bugs: "unsynced", Faults: []string{kill, killTold}, Shows: "kept"},
		{Name: "user-delete", Forget: 0.5, Faults: []string{kill}, Shows: "released"},
		{Name: "ephemeral-client", Bugs: "ephemeral-client", Faults: []string{restart}, Shows: "torn"},
		{Name: "counter-id", Bugs: "counter-id", Faults: []string{restart}, Shows: "torn"},
		{Name: "stale-cache", Bugs: "stale-cache", Faults: []string{restart}, Shows: "hidden", page: sinceStart},
		{Name: "wipe-scope", Bugs: "wipe-scope", Forget: 0.2, Shows: "lost"},
		{Name: "ghost-delete", Bugs: "ghost-delete", Forget: 0.5, Shows: "resurfaced",
			// It is deleted in the cycle after the one in which it was told, which must come before the second save.
			Users: 2, Memories: 3, Drain: 5 * time.Second, Settle: 500 * time.Millisecond, Cycles: 10},
	}
	for i := range cases {
		c := &cases[i]
		if c.Homes == nil {
			c.Homes = both
		}
		if c.Driver == "" {
			c.Driver = "http"
		}
		set(&c.Users, 3)
		set(&c.Memories, 5)
		set(&c.Cycles, max(len(c.Faults)+2, 4))
		set(&c.Settle, 700*time.Millisecond)
		set(&c.Drain, 250*time.Millisecond)
		set(&c.IndexDelay, time.Second)
	}
	return cases
}

func set[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}
