package chatapp

import (
	"fmt"
	"slices"
	"strings"
)

// Bug is a bug that can be planted (or, for SlowIndex and Unsynced, a strange but lawful behaviour that must not be
// taken for one). Each was had by real projects.
type Bug string

const (
	// AckEarly answers "Saved" first; every store is written later from a queue in memory.
	AckEarly Bug = "ack-early"
	// Buffered collects writes in user space until 50 of them or 64 KiB have gathered, or the process ends in order.
	Buffered Bug = "buffered"
	// CounterID numbers the records of the vector store from 0 again in every process; the store, as many do, ignores
	// a record whose number it has.
	CounterID Bug = "counter-id"
	// DualWriteGap commits to the database, answers, and writes the vector memory Config.Drain later.
	DualWriteGap Bug = "dual-write-gap"
	// EphemeralClient keeps the vector memory in the process only.
	EphemeralClient Bug = "ephemeral-client"
	// EphemeralVolume keeps the vector memory under the scratch directory.
	EphemeralVolume Bug = "ephemeral-volume"
	// GhostDelete saves every memory once more Config.Drain later, even when it was deleted in between.
	GhostDelete Bug = "ghost-delete"
	// Leak reads history and answers without a filter on the user.
	Leak Bug = "leak"
	// LocalEcho lets the page draw its history from the browser's storage, while the stores are written as in AckEarly.
	LocalEcho Bug = "local-echo"
	// RetryDup gives Redis half a second to save, and then saves once more under a new id. If it was only slow it has the
	// memory twice.
	RetryDup Bug = "retry-dup"
	// SlowIndex (a control) shows a memory only Config.IndexDelay after it was stored.
	SlowIndex Bug = "slow-index"
	// StaleCache shows the history out of a cache that is filled at the first start and by what this process saves, and
	// never refreshed: what an earlier process saved is missing.
	StaleCache Bug = "stale-cache"
	// SwallowedError drops the error of a store that could not save, and answers "Saved".
	SwallowedError Bug = "swallowed-error"
	// TTLLong lets the lists in Redis live a thousand times as long as they should.
	TTLLong Bug = "ttl-long"
	// TTLNone lets them live for ever.
	TTLNone Bug = "ttl-none"
	// TTLShort counts the life of a list from its first memory: the later ones expire too early.
	TTLShort Bug = "ttl-short"
	// UIField lets the page show a wrong, empty field of each stored utterance.
	UIField Bug = "ui-field"
	// Unsynced (a control) never calls fsync. A killed process loses nothing by it: the page cache survives.
	Unsynced Bug = "unsynced"
	// WipeScope deletes the memories of every user when one user deletes anything.
	WipeScope Bug = "wipe-scope"
)

// KnownBugs lists every bug, sorted.
func KnownBugs() []Bug {
	return []Bug{AckEarly, Buffered, CounterID, DualWriteGap, EphemeralClient, EphemeralVolume, GhostDelete, Leak,
		LocalEcho, RetryDup, SlowIndex, StaleCache, SwallowedError, TTLLong, TTLNone, TTLShort, UIField, Unsynced, WipeScope}
}

// Bugs is the set of bugs that are planted; nil is the healthy app.
type Bugs map[Bug]bool

// any reports whether one of the bugs is planted.
func (b Bugs) any(bugs ...Bug) bool {
	return slices.ContainsFunc(bugs, func(bug Bug) bool { return b[bug] })
}

// ParseBugs reads a comma-separated list; empty means none.
func ParseBugs(list string) (Bugs, error) {
	bugs := Bugs{}
	for _, name := range words(list) {
		if !slices.Contains(KnownBugs(), Bug(name)) {
			known := make([]string, 0, len(KnownBugs()))
			for _, bug := range KnownBugs() {
				known = append(known, string(bug))
			}
			return nil, fmt.Errorf("there is no bug %q — fix: choose from %s", name, strings.Join(known, ", "))
		}
		bugs[Bug(name)] = true
	}
	return bugs, nil
}
