package zoo

import (
	"strings"

	"amnesia/pkg/memory"
)

// Word is all that is compared of a verdict.
type Word struct {
	Kind    memory.Kind  `json:"verdict"`
	Class   memory.Class `json:"class,omitempty"` // with fault and service: of a loss
	Fault   string       `json:"fault,omitempty"`
	Service string       `json:"service,omitempty"`
	Defects string       `json:"defects,omitempty"` // sorted, with spaces between
}

// WordOf takes it from a verdict.
func WordOf(v memory.Verdict) Word {
	w := Word{Kind: v.Kind}
	for i, d := range v.Defects {
		if i > 0 {
			w.Defects += " "
		}
		w.Defects += string(d)
	}
	if v.Kind.Loss() {
		w.Class, w.Fault, w.Service = v.Class, v.Fault, v.Service
	}
	return w
}

func (w Word) String() string {
	parts := []string{string(w.Kind)}
	if w.Kind.Loss() {
		parts = append(parts, string(w.Class)+",", w.Fault, "of", w.Service)
	}
	if w.Defects != "" {
		parts = append(parts, "+", w.Defects)
	}
	return strings.Join(parts, " ")
}

// finding reports whether it is something to tell a person of.
func (w Word) finding() bool { return w.Kind.Loss() || w.Defects != "" }
