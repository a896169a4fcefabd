package report

import (
	"slices"
	"time"

	"amnesia/pkg/incident"
	"amnesia/pkg/memory"
)

// Known is an incident that a person knows of: it is counted like any other, and fails no run.
type Known struct {
	Fingerprint string    `json:"fingerprint"`
	Found       int       `json:"found"`          // memories of the summary that are in it
	Until       time.Time `json:"until,omitzero"` // zero: no date
	Reason      string    `json:"reason"`
}

// Mute takes what is known out of the exit code, as of now, beside what was taken out before. It stays in every count, and
// is listed.
func (s *Summary) Mute(known []incident.Known, now memory.Instant) {
	found := map[string]int{}
	for _, v := range append(slices.Clone(s.Found), s.Returned...) {
		for _, fp := range incident.Fingerprints(v) {
			if class := incident.Class(fp); class != string(v.Class) || Counts(v) {
				found[fp]++
			}
		}
	}
	for _, k := range known {
		if k := incident.Muted([]incident.Known{k}, k.Fingerprint, now); k != nil && found[k.Fingerprint] > 0 && !s.knows(k.Fingerprint) {
			s.Known = append(s.Known, Known{Fingerprint: k.Fingerprint, Found: found[k.Fingerprint], Until: dated(k.Until), Reason: k.Reason})
		}
	}
}

func (s *Summary) knows(fingerprint string) bool {
	return slices.ContainsFunc(s.Known, func(k Known) bool { return k.Fingerprint == fingerprint })
}

// NoEnd is the date of what is known without one.
func NoEnd() time.Time { return time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC) }

func dated(until time.Time) time.Time {
	if until.Before(NoEnd()) {
		return until.UTC()
	}
	return time.Time{}
}

// knownWords says until when and why something is known.
func knownWords(until time.Time, reason string) string {
	if until = dated(until); until.IsZero() {
		return reason
	}
	return "until " + until.Format(time.DateOnly) + ": " + reason
}

// failing counts the losses and the defects that nobody knows of.
func (s *Summary) failing() (losses, defects int) {
	losses = s.Losses[memory.Silent] + s.Losses[memory.Reported]
	for _, n := range s.Defects {
		defects += n
	}
	for _, k := range s.Known {
		switch class := incident.Class(k.Fingerprint); {
		case class == string(memory.Silent), class == string(memory.Reported):
			losses -= k.Found
		case class != string(memory.Unsure):
			defects -= k.Found
		}
	}
	return losses, defects
}
