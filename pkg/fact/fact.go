// Package fact holds what the ledger holds: the facts of a run, in the order in which they became durable. The judge
// reads nothing else.
//
// The facts stand in a package of their own, below chaos, oracle and ledger, so that what hurts, what judges and what
// writes can share them without knowing one another. Plain data; no I/O.
package fact

import (
	"encoding/json"
	"time"

	"amnesia/pkg/memory"
)

// Fact is one of the structs of this package.
type Fact interface{ fact() }

// Entry is a fact in its place. Seq rises by the order of durability; it, and not any clock, orders facts.
type Entry struct {
	Seq  int64
	Fact Fact
}

// Run opens a daemon's life on a ledger. One ledger holds many.
type Run struct {
	ID      string         `json:"id"`
	Seed    uint64         `json:"seed"`
	Version string         `json:"version"`
	Target  string         `json:"target"`
	Driver  string         `json:"driver"`
	Config  []string       `json:"config,omitempty"` // the configuration's files, as they were given
	At      memory.Instant `json:"at"`
}

// Contracts states what the views promise from here on.
type Contracts struct {
	Version    int               `json:"version"`
	Contracts  []memory.Contract `json:"contracts"`
	Levels     []string          `json:"levels"`      // the script's acknowledgement levels, in order
	CountsFrom string            `json:"counts_from"` // from this level on a loss counts
	At         memory.Instant    `json:"at"`
}

// Phase is a step in the life of a cycle.
type Phase string

const (
	PhaseTraffic  Phase = "traffic"
	PhaseRecovery Phase = "recovery"
	PhaseSettle   Phase = "settle"
	PhaseJudge    Phase = "judge"
	PhaseClosed   Phase = "closed"
)

// CycleOutcome is what came of a cycle, the worst first in the order of the constants.
type CycleOutcome string

const (
	CycleLosses       CycleOutcome = "losses"
	CycleDefects      CycleOutcome = "defects"
	CycleUnrecovered  CycleOutcome = "unrecovered"
	CycleInconclusive CycleOutcome = "inconclusive"
	CycleClean        CycleOutcome = "clean"
)

// Cycle marks a phase of a cycle. Outcome and Reason come with PhaseClosed.
type Cycle struct {
	Run     string         `json:"run"`
	N       int            `json:"n"`
	Control bool           `json:"control,omitempty"`
	Phase   Phase          `json:"phase"`
	Outcome CycleOutcome   `json:"outcome,omitempty"`
	Reason  string         `json:"reason,omitempty"`
	At      memory.Instant `json:"at"`
}

// Begun says that the first keystroke of a memory may follow.
type Begun struct {
	Memory memory.Memory  `json:"memory"`
	At     memory.Instant `json:"at"`
}

// Settled records the outcome of a write, once, with every level reached.
type Settled struct {
	Memory  memory.ID      `json:"memory"`
	Outcome memory.Outcome `json:"outcome"`
	Levels  []memory.Level `json:"levels,omitempty"`
	Cause   string         `json:"cause,omitempty"`  // such as throttled, timeout, refused, interrupted
	Detail  string         `json:"detail,omitempty"` // what the user saw
	At      memory.Instant `json:"at"`
}

// ForgetBegun and ForgetSettled are the same pair for a deletion by the user.
type ForgetBegun struct {
	Memory memory.ID      `json:"memory"`
	At     memory.Instant `json:"at"`
}

// ForgetSettled records the outcome of a forget, once.
type ForgetSettled struct {
	Memory  memory.ID      `json:"memory"`
	Outcome memory.Outcome `json:"outcome"`
	Detail  string         `json:"detail,omitempty"`
	At      memory.Instant `json:"at"`
}

// Told says that the app told this user about this memory (By: "page"), or that an error-level log line carries the
// memory's token or id (By: "log").
type Told struct {
	Memory memory.ID      `json:"memory"`
	By     string         `json:"by"`
	Detail string         `json:"detail,omitempty"`
	At     memory.Instant `json:"at"`
}

// Retired memories are no longer swept.
type Retired struct {
	Memories memory.Set     `json:"memories"`
	At       memory.Instant `json:"at"`
}

// Instance is the identity of one running copy of a service. A change of ID, Started or Restarts is a death.
type Instance struct {
	ID       string `json:"id"`      // container id or process id
	Started  string `json:"started"` // as the engine gives it; compared, never calculated with
	Restarts int    `json:"restarts,omitempty"`
}

// Health is one reading of a service: whether it answers, and who it is.
type Health struct {
	Service   string         `json:"service"`
	Healthy   bool           `json:"healthy"`
	Unread    bool           `json:"unread,omitempty"` // the engine could not be asked: not healthy, and nothing of the service's doing
	Instances []Instance     `json:"instances,omitempty"`
	Detail    string         `json:"detail,omitempty"`
	At        memory.Instant `json:"at"`
}

// Sweep is one reading of one view for the memories that were due. The ledger keeps Read whole, of Observations only
// those that changed or confirm; what it gives back carries, for the members of Read that are not among Observations,
// the state they had before ("read again").
type Sweep struct {
	ID           int64                `json:"id"` // rises within a ledger
	Cycle        int                  `json:"cycle"`
	View         string               `json:"view"`
	Began        memory.Instant       `json:"began"`
	Ended        memory.Instant       `json:"ended"`
	Before       *Health              `json:"before,omitempty"` // of the view's service; nil where it has none
	After        *Health              `json:"after,omitempty"`
	Complete     bool                 `json:"complete"` // reached the end of the view for every member
	Error        string               `json:"error,omitempty"`
	Read         memory.Set           `json:"read"`
	Observations []memory.Observation `json:"observations,omitempty"`
}

// Injection is one planned application of a fault: plain data, journaled before anything is done, and all that an undo
// needs. It never holds an environment or a secret.
type Injection struct {
	ID        int64         `json:"id"` // rises within a ledger
	Cycle     int           `json:"cycle"`
	Kind      string        `json:"kind"` // kill, restart, pause, recreate, wipe, partition, crash_all, daemon_restart
	Service   string        `json:"service"`
	Services  []string      `json:"services,omitempty"` // crash_all, daemon_restart: every service hit, in order
	Instances string        `json:"instances"`          // "one" or "all"
	Volume    string        `json:"volume,omitempty"`   // wipe: the path or volume
	After     string        `json:"after,omitempty"`    // told, acknowledged, logged_in, idle; empty: by time
	Nth       int           `json:"nth,omitempty"`      // the n-th such point of the cycle
	Delay     time.Duration `json:"delay"`
	Hold      time.Duration `json:"hold,omitempty"`  // pause, partition: for how long
	Grace     time.Duration `json:"grace,omitempty"` // restart: between SIGTERM and SIGKILL
	// Supervised kills past the engine, so that its restart policy, and not we, must bring the service back.
	Supervised bool `json:"supervised,omitempty"`
	DryRun     bool `json:"dry_run,omitempty"`
	// Undo is what the engine needs to revert: ids and names. Set when the injection is armed, before it fires.
	Undo json.RawMessage `json:"undo,omitempty"`
}

// StepName is a station in the life of an injection.
type StepName string

const (
	StepPlanned   StepName = "planned"
	StepGated     StepName = "gated"    // healthy before
	StepFiring    StepName = "firing"   // the very next thing is the fault: from here an undo is owed
	StepInjected  StepName = "injected" // the engine has done it
	StepProven    StepName = "proven"   // pid or start time changed, volume empty
	StepReverted  StepName = "reverted"
	StepRecovered StepName = "recovered" // healthy after
	StepClosed    StepName = "closed"
	StepRefused   StepName = "refused" // by the guard; nothing was done
	StepFailed    StepName = "failed"  // only a revert may follow
)

// Step records that an injection reached a station. StepPlanned carries the injection itself; so does StepFiring,
// with Undo set.
type Step struct {
	Injection int64      `json:"injection"`
	Name      StepName   `json:"step"`
	Plan      *Injection `json:"plan,omitempty"`
	Before    []Health   `json:"before,omitempty"`
	After     []Health   `json:"after,omitempty"`
	Detail    string     `json:"detail,omitempty"`
	// Fired comes with StepInjected, and with StepFailed if it got so far: when the fault was let loose, just after StepFiring had become durable.
	Fired memory.Instant `json:"fired,omitzero"`
	At    memory.Instant `json:"at"`
}

// Gate is a reading of every service's health and identity between injections; a change of identity that no injection
// explains is foreign even when its event was missed.
type Gate struct {
	Cycle    int            `json:"cycle"`
	Services []Health       `json:"services"`
	At       memory.Instant `json:"at"`
}

// Death is the end of an instance that no injection of ours explains. It happened between NotBefore and At.
type Death struct {
	Service   string         `json:"service"`
	Instance  Instance       `json:"instance"`
	Cause     string         `json:"cause"` // oom, exit, external
	Detail    string         `json:"detail,omitempty"`
	NotBefore memory.Instant `json:"not_before"`
	At        memory.Instant `json:"at"`
	// Healthy is when the service answered again; zero while it has not.
	Healthy memory.Instant `json:"healthy"`
}

// Log is a log line of a service that was kept: one with a token or id of ours, or an error.
type Log struct {
	Service string         `json:"service"`
	Level   string         `json:"level,omitempty"` // error, warn, info …; empty when it cannot be told
	Line    string         `json:"line"`
	Memory  memory.ID      `json:"memory,omitempty"` // whose token or id it carries
	At      memory.Instant `json:"at"`
}

// Session is one run of a script by one user.
type Session struct {
	User    string         `json:"user"`
	Driver  string         `json:"driver"`
	Outcome string         `json:"outcome"` // ok, target_error, rig_error, aborted
	Detail  string         `json:"detail,omitempty"`
	Files   []string       `json:"files,omitempty"` // screenshot, trace
	Began   memory.Instant `json:"began"`
	Ended   memory.Instant `json:"ended"`
}

// Gap is a stretch in which the rig could not see: an event stream that broke, a clock that jumped, a suspend.
type Gap struct {
	Of   string         `json:"of"` // events, logs, clock; ledger: what was seen had to wait
	From memory.Instant `json:"from"`
	To   memory.Instant `json:"to"`
	Lost int64          `json:"lost,omitempty"` // of logs: so many lines
}

// Judged records a verdict that was given and counted. A later one for the same memory replaces it, but no loss or
// defect is counted twice.
type Judged struct {
	Verdict memory.Verdict `json:"verdict"`
	Cycle   int            `json:"cycle"`
	At      memory.Instant `json:"at"`
}

// Pause says that a person held back all faults, or let them go again, which also forgives failed recoveries. It holds
// until the next one, over restarts of the daemon.
type Pause struct {
	On     bool           `json:"on"`
	Reason string         `json:"reason,omitempty"` // in the person's words
	At     memory.Instant `json:"at"`
}

func (Run) fact()           {}
func (Contracts) fact()     {}
func (Cycle) fact()         {}
func (Begun) fact()         {}
func (Settled) fact()       {}
func (ForgetBegun) fact()   {}
func (ForgetSettled) fact() {}
func (Told) fact()          {}
func (Retired) fact()       {}
func (Sweep) fact()         {}
func (Step) fact()          {}
func (Gate) fact()          {}
func (Death) fact()         {}
func (Log) fact()           {}
func (Session) fact()       {}
func (Gap) fact()           {}
func (Judged) fact()        {}
func (Pause) fact()         {}

// Sick reports whether the service was found not to be well, by a reading that came to it.
func (h *Health) Sick() bool { return !h.Healthy && !h.Unread }

// At gives a fact's own instant: the end of what took time. It is for people and for "now" in a recorded ledger; the
// order of facts is their Seq.
func At(f Fact) memory.Instant {
	switch f := f.(type) {
	case Run:
		return f.At
	case Contracts:
		return f.At
	case Cycle:
		return f.At
	case Begun:
		return f.At
	case Settled:
		return f.At
	case ForgetBegun:
		return f.At
	case ForgetSettled:
		return f.At
	case Told:
		return f.At
	case Retired:
		return f.At
	case Sweep:
		return f.Ended
	case Step:
		return f.At
	case Gate:
		return f.At
	case Death:
		return f.At
	case Log:
		return f.At
	case Session:
		return f.Ended
	case Gap:
		return f.To
	case Judged:
		return f.At
	case Pause:
		return f.At
	case Frozen:
		return f.At
	case Muting:
		return f.At
	}
	return memory.Instant{}
}
