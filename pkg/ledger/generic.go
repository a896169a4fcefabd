package ledger

import (
	"encoding/json"
	"fmt"

	"amnesia/pkg/fact"
)

// kinds of the generic table, whose facts are kept as JSON.
const (
	kindRun           = "run"
	kindContracts     = "contracts"
	kindCycle         = "cycle"
	kindForgetBegun   = "forget_begun"
	kindForgetSettled = "forget_settled"
	kindTold          = "told"
	kindRetired       = "retired"
	kindStep          = "step"
	kindGate          = "gate"
	kindDeath         = "death"
	kindLog           = "log"
	kindSession       = "session"
	kindGap           = "gap"
	kindPause         = "pause"
	kindFrozen        = "frozen"
	kindMuting        = "muting"
)

// generic is a fact as the table fact holds it.
type generic struct {
	kind string
	ref  any // int64 or nil: what it is about
	wall int64
	body string
}

// encodeGeneric gives the row of a fact that has no table of its own.
func encodeGeneric(f fact.Fact) (generic, error) {
	var g generic
	switch f := f.(type) {
	case fact.Run:
		g = generic{kind: kindRun, wall: f.At.Wall}
	case fact.Contracts:
		g = generic{kind: kindContracts, wall: f.At.Wall}
	case fact.Cycle:
		g = generic{kind: kindCycle, ref: int64(f.N), wall: f.At.Wall}
	case fact.ForgetBegun:
		g = generic{kind: kindForgetBegun, ref: int64(f.Memory), wall: f.At.Wall}
	case fact.ForgetSettled:
		g = generic{kind: kindForgetSettled, ref: int64(f.Memory), wall: f.At.Wall}
	case fact.Told:
		g = generic{kind: kindTold, ref: int64(f.Memory), wall: f.At.Wall}
	case fact.Retired:
		if err := checkSet(f.Memories); err != nil {
			return g, err
		}
		g = generic{kind: kindRetired, wall: f.At.Wall}
	case fact.Step:
		g = generic{kind: kindStep, ref: f.Injection, wall: f.At.Wall}
	case fact.Gate:
		g = generic{kind: kindGate, ref: int64(f.Cycle), wall: f.At.Wall}
	case fact.Death:
		g = generic{kind: kindDeath, wall: f.At.Wall}
	case fact.Log:
		g = generic{kind: kindLog, ref: int64(f.Memory), wall: f.At.Wall}
	case fact.Session:
		g = generic{kind: kindSession, wall: f.Ended.Wall}
	case fact.Gap:
		g = generic{kind: kindGap, wall: f.To.Wall}
	case fact.Pause:
		g = generic{kind: kindPause, wall: f.At.Wall}
	case fact.Frozen:
		if err := checkSet(f.Memories); err != nil {
			return g, err
		}
		g = generic{kind: kindFrozen, ref: int64(f.Cycle), wall: f.At.Wall}
	case fact.Muting:
		g = generic{kind: kindMuting, wall: f.At.Wall}
	default:
		return g, fmt.Errorf("a %T is no fact that the ledger knows (facts are passed by value)", f)
	}
	body, err := json.Marshal(f)
	g.body = string(body)
	return g, err
}

// decodeGeneric is the reverse of encodeGeneric.
func decodeGeneric(kind string, body []byte) (fact.Fact, error) {
	switch kind {
	case kindRun:
		return decode[fact.Run](body)
	case kindContracts:
		return decode[fact.Contracts](body)
	case kindCycle:
		return decode[fact.Cycle](body)
	case kindForgetBegun:
		return decode[fact.ForgetBegun](body)
	case kindForgetSettled:
		return decode[fact.ForgetSettled](body)
	case kindTold:
		return decode[fact.Told](body)
	case kindRetired:
		return decode[fact.Retired](body)
	case kindStep:
		return decode[fact.Step](body)
	case kindGate:
		return decode[fact.Gate](body)
	case kindDeath:
		return decode[fact.Death](body)
	case kindLog:
		return decode[fact.Log](body)
	case kindSession:
		return decode[fact.Session](body)
	case kindGap:
		return decode[fact.Gap](body)
	case kindPause:
		return decode[fact.Pause](body)
	case kindFrozen:
		return decode[fact.Frozen](body)
	case kindMuting:
		return decode[fact.Muting](body)
	}
	return nil, fmt.Errorf("a fact of the unknown kind %q: %w", kind, errDamaged)
}

func decode[F fact.Fact](body []byte) (fact.Fact, error) {
	var f F
	if err := json.Unmarshal(body, &f); err != nil {
		return nil, fmt.Errorf("a %T: %w: %w", f, errDamaged, err)
	}
	return f, nil
}
