package memory

import "time"

// Kind is the one verdict of a memory (oracle.md §4, in the order in which the first match wins).
type Kind string

const (
	Indeterminate Kind = "indeterminate"
	Released      Kind = "released"
	Volatile      Kind = "volatile"
	Lost          Kind = "lost"
	Torn          Kind = "torn"
	Hidden        Kind = "hidden"
	Unverified    Kind = "unverified"
	Late          Kind = "late"
	Kept          Kind = "kept"
)

// Kinds lists every verdict in the order of the rules.
var Kinds = [...]Kind{Indeterminate, Released, Volatile, Lost, Torn, Hidden, Unverified, Late, Kept}

// Loss reports whether the verdict is a loss.
func (k Kind) Loss() bool { return k == Lost || k == Torn || k == Hidden }

// Class says how a loss came to light (oracle.md §5).
type Class string

const (
	Silent    Class = "silent"    // nobody was told
	Reported  Class = "reported"  // the app told this user about this memory, or logged an error with its token
	Permitted Class = "permitted" // inside may_lose: in no loss total
	Unsure    Class = "unsure"    // hidden in the answer alone
)

// Classes lists every class.
var Classes = [...]Class{Silent, Reported, Permitted, Unsure}

// Alarming reports whether the verdict is a loss that somebody has to hear of: of a memory that its user saw acknowledged,
// beyond what a contract permits. That of one which was only observed is reported apart (oracle.md §1).
func (v Verdict) Alarming() bool {
	return v.Kind.Loss() && v.Class != Permitted && v.Level != LevelObserved
}

// Defect is something wrong beside the verdict.
type Defect string

const (
	Leaked       Defect = "leaked"
	AlteredText  Defect = "altered"
	Duplicated   Defect = "duplicated"
	ExpiredEarly Defect = "expired_early"
	Outlived     Defect = "outlived"
	Resurfaced   Defect = "resurfaced"
)

// Defects lists every defect.
var Defects = [...]Defect{Leaked, AlteredText, Duplicated, ExpiredEarly, Outlived, Resurfaced}

// Labels of Verdict.Fault when a loss has not exactly one suspect of ours.
const (
	FaultNone    = "none"
	FaultSeveral = "several"
	FaultForeign = "foreign"
)

// Verdict is what the oracle says of one memory, with why.
type Verdict struct {
	Memory  ID       `json:"memory"`
	Kind    Kind     `json:"verdict"`
	Defects []Defect `json:"defects,omitempty"` // sorted, each once

	// Class, Level and the cause are set for a loss only.
	Class Class  `json:"class,omitempty"`
	Level string `json:"level,omitempty"` // the last acknowledgement level reached
	// Fault is a fault kind, or FaultNone, FaultSeveral, FaultForeign. Service is the service hit, or with several
	// suspects theirs joined by "+", or, with none, the service behind the view that misses it.
	Fault    string  `json:"fault,omitempty"`
	Service  string  `json:"service,omitempty"`
	Suspects []int64 `json:"suspects,omitempty"` // ids of injections whose interval meets the disappearance
	// Exposure is acknowledgement → firing in nanoseconds, when the one suspect fired after the acknowledgement.
	Exposure *time.Duration `json:"exposure_ns,omitempty"`
	// During is true when the fault fired before the acknowledgement came.
	During bool `json:"during,omitempty"`

	// Missing and Found name the views that decided.
	Missing []string `json:"missing,omitempty"`
	Found   []string `json:"found,omitempty"`
	// Lateness is how long after its acknowledgement (or after the recovery) a late memory was complete.
	Lateness time.Duration `json:"lateness_ns,omitempty"`
	// Recovered is true for an indeterminate memory that a store has.
	Recovered bool `json:"recovered,omitempty"`
	// Open is true while more reads of the present situation could still change the verdict: some must view is not
	// yet complete and its deadline has not passed, or could not be read, or a loss waits for its confirming read, or a
	// deletion for the read that shows that it holds. Whoever polls has a bound of its own.
	Open bool `json:"open,omitempty"`
	// Because is one sentence for a person.
	Because string `json:"because"`
}
