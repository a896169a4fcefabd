// Package report says what a run found: the summary that programs read, and the table and sentences that people read.
// It looks at recorded facts and at what the oracle makes of them, so that a run, a demo and a re-judged ledger are reported
// alike, and does no I/O of its own.
package report

import (
	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

// Summary is one target's result. Its field names are a contract: they only grow.
type Summary struct {
	Target          string                `json:"target"`
	Seed            uint64                `json:"seed"`
	Outcome         fact.CycleOutcome     `json:"outcome"`
	Cycles          Cycles                `json:"cycles"`
	Writes          Writes                `json:"writes"`
	Sweeps          Sweeps                `json:"sweeps"`
	Verdicts        map[memory.Kind]int   `json:"verdicts"`
	Defects         map[memory.Defect]int `json:"defects"`
	Losses          map[memory.Class]int  `json:"losses"`
	Faults          []Fault               `json:"faults"`
	Rates           Rates                 `json:"rates"`
	Exposure        Exposure              `json:"exposure_ms"`
	Windows         []Window              `json:"windows"`
	DurationSeconds float64               `json:"duration_seconds"`
	Ledger          string                `json:"ledger"`
	Known           []Known               `json:"known"` // what of the losses and defects fails no run

	// Found holds the verdicts with a loss or a defect, by memory, for the words to a person.
	Found []memory.Verdict `json:"-"`
	// Returned holds the losses of memories that are there again, which are counted like any other.
	Returned []memory.Verdict `json:"-"`
	// Told holds the texts of those memories.
	Told map[memory.ID]string `json:"-"`
}

// Cycles counts cycles by outcome; Control counts those without a fault, which are among the outcomes too.
type Cycles struct {
	Clean        int `json:"clean"`
	Losses       int `json:"losses"`
	Defects      int `json:"defects"`
	Unrecovered  int `json:"unrecovered"`
	Inconclusive int `json:"inconclusive"`
	Control      int `json:"control"`
}

// All counts the closed cycles.
func (c Cycles) All() int { return c.Clean + c.Losses + c.Defects + c.Unrecovered + c.Inconclusive }

// Writes counts memories by the outcome of their write.
type Writes struct {
	Acknowledged int `json:"acknowledged"`
	Rejected     int `json:"rejected"`
	Unknown      int `json:"unknown"`
}

// Sweeps counts the memories that the cycles read, and those whose last reading stood since nothing had touched them, added up
// over the cycles.
type Sweeps struct {
	Read   int `json:"read"`
	Unread int `json:"unread"`
}

// Fault counts the injections of one kind into one service, and the losses attributed to them.
type Fault struct {
	Kind     string `json:"kind"`
	Service  string `json:"service"`
	Injected int    `json:"injected"`
	Lost     int    `json:"lost"`
}

// Rates stand beside every attribution: what is lost in controls as well, no fault explains.
type Rates struct {
	Control Rate `json:"control"` // memories told in cycles without a fault, and lost without one
	Struck  Rate `json:"struck"`  // memories told in cycles with a fault
}

// Rate is a share of the acknowledged memories.
type Rate struct {
	Acknowledged int `json:"acknowledged"`
	Lost         int `json:"lost"`
}

// Exposure is acknowledgement → firing of the lost memories, in milliseconds; null when there were none.
type Exposure struct {
	P50 *float64 `json:"p50"`
	Max *float64 `json:"max"`
}

// Window is the largest time from acknowledgement to fault with which memories are still lost, in milliseconds, with a
// 95 % interval; High is null when nothing was survived that says where it ends.
type Window struct {
	Kind    string   `json:"kind"`
	Service string   `json:"service"`
	MS      float64  `json:"ms"`
	Low     float64  `json:"low"`
	High    *float64 `json:"high"`
}

// Conclusive is the share of the closed cycles that were conclusive; 0 when there were none, for no evidence is no proof.
func (s Summary) Conclusive() float64 {
	if s.Cycles.All() == 0 {
		return 0
	}
	return 1 - float64(s.Cycles.Inconclusive)/float64(s.Cycles.All())
}

// Injections counts the faults that were injected.
func (s Summary) Injections() int {
	n := 0
	for _, f := range s.Faults {
		n += f.Injected
	}
	return n
}

// ExitCode gives the exit code of the command line (interface.md): 3 for a silent or reported loss or a defect that
// nobody knows of, or a target that did not recover, 4 when too few cycles were conclusive, else 0.
func (s Summary) ExitCode(minConclusive float64) int {
	losses, defects := s.failing()
	switch {
	case losses > 0, defects > 0, s.Cycles.Unrecovered > 0:
		return 3
	case s.Conclusive() < minConclusive:
		return 4
	}
	return 0
}
