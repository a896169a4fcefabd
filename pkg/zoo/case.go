// Package zoo holds the daemon to what it says: it runs the real daemon on the real sample target, with each bug that can
// be planted there and with none, and compares every verdict, memory by memory, with what the target's own truth log
// shows to be right.
//
// What is right is derived from the truth log by code that shares nothing with the oracle. From the ledger it takes only
// what no target can know: what the user saw of each write, when the faults fired, and when each view was read. A case
// counts only if its bug showed.
//
// The tests run each case with three seeds, and judge the recorded histories of testdata again. With the flag -whole, as
// `make zoo` has it, each case has ten seeds (three in a browser), a healthy target takes 500 faults, and the table goes
// to zoo.json at the repository's root; a person sees how far it is. With the flag -record a history is recorded
// for each case that has none.
package zoo

import (
	"slices"
	"strings"
	"time"

	"amnesia/pkg/memory"
)

// Case is one animal: a planted bug (or none) with what provokes it.
type Case struct {
	Name  string
	Bugs  string   // as CHATAPP_BUGS has them
	Homes []string // the stores that hold memories; each is a view, beside the page
	// Servers are services beside the app: redis, a cache (with a view of its own) unless it is a home, and postgres, the
	// database.
	Servers  []string
	Unlogged bool // Redis keeps no append-only file, and saves when it is stopped
	// Faults are lines of the configuration's list of faults. Without any, every cycle is a control.
	Faults []string
	Driver string // http or browser
	Forget float64

	Users, Memories, Cycles int
	Pace                    time.Duration // between two messages of a user
	Retire                  time.Duration // the age after which a memory is no longer looked for; 0: none is
	Patience                time.Duration // of a user with an answer; 0: the daemon's default
	// TTL is how long a user's list shall live in Redis after its last write, as the contract has it, give or take Slack.
	TTL, Slack time.Duration
	Blind      *Blind        // nil: the rig sees everything
	Recovery   time.Duration // how long the app may take to be back, and the rig tries to see; 0: 30 s
	// Settle is what every contract of the case grants, Drain and IndexDelay how late the target writes and shows.
	Settle, Drain, IndexDelay time.Duration

	// Shows is the verdict or the defect that the bug must bring about at least once for the case to count, beside at
	// least one memory without it unless All.
	Shows string
	All   bool

	// page gives what the history shows, where that is not what the first home holds.
	page func(*truthOf) []span
	// slow: what the app's own reads show comes only IndexDelay after it was told.
	slow bool
	// strangers: the page shows what other users told.
	strangers bool
	// twice: the app may save one message under several ids.
	twice bool
}

// file is its name in a path.
func (c Case) file() string { return strings.ReplaceAll(c.Name, " ", "-") }

// Home reports whether the store is a home of memories.
func (c Case) Home(store string) bool { return slices.Contains(c.Homes, store) }

// Runs reports whether the server is one of its services.
func (c Case) Runs(server string) bool { return slices.Contains(c.Servers, server) }

// cached reports whether Redis is a cache.
func (c Case) cached() bool { return c.Runs(redisServer) && !c.Home(redisServer) }

// service is the one behind a store.
func (c Case) service(store string) string {
	switch {
	case store == redisServer:
		return redisServer
	case store == database && c.Runs(postgresServer):
		return postgresServer
	}
	return "app"
}

// Control reports whether any loss is a false alarm.
func (c Case) Control() bool {
	return c.Shows == string(memory.Kept) || c.Shows == string(memory.Indeterminate) || c.Shows == string(memory.Late) || c.Shows == string(memory.Released) ||
		c.Shows == string(memory.Unverified)
}

const (
	database = "database"
	vectors  = "vectors"

	redisServer    = "redis" // also the store in it
	postgresServer = "postgres"
)

// The faults aim at the window in which the bugs that write late lose: drain after an acknowledgement, wide enough for a
// busy machine.
const (
	drain = 1200 * time.Millisecond

	kill     = "{kind: kill, service: app, weight: 3, after: acknowledged, delay: 0ms..30ms}"
	killTold = "{kind: kill, service: app, after: told, delay: 0ms..10ms}"
	restart  = "{kind: restart, service: app, after: acknowledged, delay: 0ms..100ms, grace: 10s}"
	recreate = "{kind: recreate, service: app, after: acknowledged, delay: 0ms..100ms, grace: 10s}"
	wipe     = "{kind: wipe, service: app, volume: scratch, after: acknowledged, delay: 0ms..100ms, grace: 10s}"
	pause    = "{kind: pause, service: app, after: acknowledged, delay: 0ms..100ms, hold: 20ms..200ms}"
	crashAll = "{kind: crash_all, after: acknowledged, delay: 0ms..100ms}"
)

// hurt gives a fault of a server that strikes while users tell.
func hurt(kind, server, more string) string {
	return "{kind: " + kind + ", service: " + server + ", after: acknowledged, delay: 0ms..50ms" + more + "}"
}

// Cases lists the zoo: the eight switches first, then the controls and the further bugs, and last what needs a browser.
func Cases() []Case {
	cases := []Case{
		{Name: "ack-early", Bugs: "ack-early", Faults: []string{kill, restart}, Shows: "lost", Drain: drain, Settle: 2 * drain},
		{Name: "buffered", Bugs: "buffered", Homes: []string{database}, Faults: []string{kill, restart}, Shows: "lost", page: inProcess,
			// More than the 50 that the buffer holds: else the first control finds nothing in the database.
			// A kill finds it empty now and then, and one kill is not enough to see the bug.
			Users: 4, Memories: 13, Cycles: 8},
		{Name: "ephemeral-volume", Bugs: "ephemeral-volume", Faults: []string{wipe, recreate, kill}, Shows: "torn"},
		{Name: "ephemeral-volume alone", Bugs: "ephemeral-volume", Homes: []string{vectors}, Faults: []string{recreate, wipe, restart}, Shows: "lost", Cycles: 6},
		{Name: "dual-write-gap", Bugs: "dual-write-gap", Faults: []string{kill, restart}, Shows: "torn", Drain: drain, Settle: 2 * drain},
		{Name: "ui-field", Bugs: "ui-field", Faults: []string{kill}, Shows: "hidden", All: true, page: nowhere, Cycles: 3},
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

		{Name: "healthy on servers", Servers: []string{redisServer, postgresServer}, Shows: "kept", page: onItsWay, Settle: 3 * time.Second,
			Faults: []string{kill, killTold, restart, recreate, wipe, pause, crashAll,
				hurt("kill", redisServer, ""), hurt("restart", redisServer, ", grace: 5s"), hurt("pause", redisServer, ", hold: 50ms..400ms"),
				hurt("kill", postgresServer, ""), hurt("restart", postgresServer, ", grace: 5s"), hurt("pause", postgresServer, ", hold: 50ms..400ms")}},
		{Name: "redis-rdb", Servers: []string{redisServer}, Unlogged: true, Homes: []string{redisServer}, Shows: "lost",
			Faults: []string{hurt("kill", redisServer, ""), hurt("restart", redisServer, ", grace: 5s")}, Cycles: 5},
		{Name: "swallowed-error", Bugs: "swallowed-error", Servers: []string{postgresServer}, Homes: []string{database}, Shows: "lost",
			Faults: []string{hurt("kill", postgresServer, "")}, Memories: 20, Pace: 15 * time.Millisecond},
		{Name: "honest-error", Servers: []string{postgresServer}, Homes: []string{database}, Shows: "indeterminate",
			Faults: []string{hurt("kill", postgresServer, "")}, Memories: 20, Pace: 15 * time.Millisecond},
		{Name: "retry-dup", Bugs: "retry-dup", Servers: []string{redisServer}, Homes: []string{redisServer}, Shows: "duplicated", twice: true,
			Faults: []string{hurt("pause", redisServer, ", hold: 700ms..1200ms")}},
		{Name: "ttl-right", Servers: []string{redisServer}, Homes: []string{redisServer}, Shows: "released",
			// Each list is over before its user writes again.
			TTL: 3 * time.Second, Slack: 300 * time.Millisecond, Pace: 3600 * time.Millisecond, Memories: 2, Cycles: 3},
		{Name: "ttl-long", Bugs: "ttl-long", Servers: []string{redisServer}, Homes: []string{database}, Shows: "outlived", All: true, page: onItsWay,
			TTL: 4 * time.Second, Slack: 500 * time.Millisecond},
		{Name: "ttl-none", Bugs: "ttl-none", Servers: []string{redisServer}, Homes: []string{database}, Shows: "outlived", All: true, page: onItsWay,
			TTL: 4 * time.Second, Slack: 500 * time.Millisecond},
		{Name: "ttl-short", Bugs: "ttl-short", Servers: []string{redisServer}, Homes: []string{database}, Shows: "expired_early", All: true, page: onItsWay,
			// All in one life of each list.
			TTL: 60 * time.Second, Slack: 500 * time.Millisecond, Pace: 700 * time.Millisecond, Memories: 4, Cycles: 3, Settle: 300 * time.Millisecond},

		{Name: "blind-rig", Faults: []string{kill}, Shows: "unverified", All: true, Blind: &Blind{View: vectors, From: 3}, Cycles: 4, Recovery: 5 * time.Second},
		{Name: "blind-rig for a while", Faults: []string{kill}, Shows: "kept", Blind: &Blind{View: vectors, From: 2, Until: 3}, Cycles: 4, Recovery: 5 * time.Second},
		// What was proven before the rig went blind is not hidden by that.
		{Name: "blind-rig after a loss", Bugs: "ephemeral-volume", Faults: []string{recreate}, Shows: "torn", Blind: &Blind{View: vectors, From: 3}, Cycles: 3, Recovery: 5 * time.Second},

		// Its storage shows what no store has: only a fresh browser tells. It sends a message again when the app is killed over
		// the answer.
		{Name: "local-echo in a browser", Driver: "browser", Bugs: "local-echo", Faults: []string{kill}, Shows: "lost", Drain: drain, Settle: 2 * drain,
			Users: 2, Cycles: 3, twice: true},
	}
	for i := range cases {
		cases[i].complete()
	}
	return cases
}

// Window is the case of which it is known for how long after its acknowledgement a memory is at risk: until the queue is
// drained, Drain at the most.
func Window() Case {
	c := Case{Name: "window", Bugs: "ack-early", Homes: []string{database}, Faults: []string{"{kind: kill, service: app, after: acknowledged, delay: 0ms..400ms}"},
		// The traffic is longer than the queue takes, so that every kill finds both sides of the edge.
		Users: 2, Memories: 8, Pace: 45 * time.Millisecond, Cycles: 60, Drain: 250 * time.Millisecond, Settle: 450 * time.Millisecond, Retire: 15 * time.Second}
	c.complete()
	return c
}

// Endurance is a healthy target under every kind of fault that the process engine has, 500 times. Users give up on an
// app that is held, so that of some writes of each kind nobody knows whether they landed.
func Endurance() Case {
	hit := func(kind, more string) string {
		return "{kind: " + kind + ", service: app, weight: 2, after: acknowledged, delay: 0ms..10ms" + more + "}"
	}
	c := Case{Name: "endurance", Faults: []string{hit("kill", ""), hit("restart", ", grace: 10s"), hit("recreate", ""), hit("wipe", ", volume: scratch"),
		"{kind: pause, service: app, after: acknowledged, delay: 0ms..10ms, hold: 500ms..700ms}",
		"{kind: crash_all, weight: 2, after: acknowledged, delay: 0ms..10ms}"},
		Cycles: 560, Retire: 4 * time.Second, Patience: 400 * time.Millisecond, Settle: 3 * time.Second}
	c.complete()
	return c
}

// complete fills in what the case leaves open.
func (c *Case) complete() {
	if c.Homes == nil {
		c.Homes = []string{database, vectors}
	}
	if c.Driver == "" {
		c.Driver = "http"
	}
	set(&c.Users, 3)
	set(&c.Memories, 5)
	set(&c.Cycles, max(len(c.Faults)+2, 4))
	set(&c.Settle, 700*time.Millisecond)
	set(&c.Recovery, 30*time.Second)
	set(&c.Drain, 250*time.Millisecond)
	set(&c.IndexDelay, time.Second)
}

func set[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}
