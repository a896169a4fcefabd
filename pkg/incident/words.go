package incident

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"amnesia/chaos"
	"amnesia/pkg/memory"
	"amnesia/pkg/terminal"
)

// weight orders classes and defects, the worst first: what nobody was told of, what strangers saw, and then the rest.
var weight = []string{string(memory.Silent), string(memory.Leaked), string(memory.Reported), string(memory.AlteredText), string(memory.Resurfaced),
	string(memory.Outlived), string(memory.ExpiredEarly), string(memory.Duplicated), string(memory.Unsure)}

// Worse orders incidents as a person should look at them: those that are muted last, then by what they are, then by how
// many memories are in them.
func Worse(a, b Incident) int {
	muted := map[bool]int{true: 1}
	return cmp.Or(cmp.Compare(muted[a.Known != nil], muted[b.Known != nil]),
		cmp.Compare(slices.Index(weight, a.Class), slices.Index(weight, b.Class)), cmp.Compare(b.Found, a.Found))
}

// Loss reports whether the incident is one of losses, and not of a defect.
func (i Incident) Loss() bool {
	return slices.Contains(memory.Classes[:], memory.Class(i.Class))
}

// Sentence says the incident in one sentence, such as: 12 memories that users were told are saved were lost silently:
// SIGKILL of redis, 41ms after the acknowledgement (median).
func (i Incident) Sentence() string {
	if !i.Loss() {
		return counted(i.Found, "memory") + " " + strings.ReplaceAll(defects[memory.Defect(i.Class)], "{was}", was(i.Found)) + "."
	}
	s := counted(i.Found, "memory") + " that users were told " + map[bool]string{true: "is", false: "are"}[i.Found == 1] + " saved " + was(i.Found) + " lost"
	switch memory.Class(i.Class) {
	case memory.Silent:
		s += " silently"
	case memory.Reported:
		s += ", which was reported"
	case memory.Unsure:
		s = counted(i.Found, "memory") + " " + was(i.Found) + " missing from the assistant's answers alone, which may have been bad answers"
	}
	s += ": " + Hurt(i.Fault, i.Service)
	if d, ok := i.Median(); ok {
		s += ", " + short(d) + " after the acknowledgement"
		if i.Found > 1 {
			s += " (median)"
		}
	}
	return s + "."
}

// Median gives the median time from the acknowledgement to the fault, of the members that are kept; ok is false where no
// fault followed one.
func (i Incident) Median() (d time.Duration, ok bool) {
	var all []time.Duration
	for _, m := range i.Members {
		if m.Verdict.Exposure != nil {
			all = append(all, *m.Verdict.Exposure)
		}
	}
	if len(all) == 0 {
		return 0, false
	}
	slices.Sort(all)
	return all[(len(all)-1)/2], true
}

// Suspect gives the injection whose cycle is to be played again: of the newest losses that have one cause of ours. 0 when
// there is none.
func (i Incident) Suspect() int64 {
	for _, m := range slices.Backward(i.Members) {
		if len(m.Verdict.Suspects) == 1 {
			return m.Verdict.Suspects[0]
		}
	}
	return 0
}

// Hurt says in words what was done to whom; it names also what was not done by us.
func Hurt(fault, service string) string {
	switch fault {
	case memory.FaultNone:
		if service != "" {
			return "without any fault, in " + service
		}
		return "without any fault"
	case memory.FaultForeign:
		return service + " died, and not by us"
	case memory.FaultSeveral:
		return "one of several faults of " + service
	case "kill":
		return "SIGKILL of " + service
	case "crash_all":
		return "SIGKILL of all of " + service
	case "daemon_restart":
		return "end of the daemon, and " + service + " with it"
	}
	return fault + " of " + service
}

// Replay gives the command that plays a cycle of a ledger again, with the files of the run's configuration where they are
// not what the command takes by itself.
func Replay(ledger string, config []string, cycle int) string {
	s := fmt.Sprintf("amnesia replay %s --cycle %d --armed", terminal.Word(ledger), cycle)
	if len(config) == 1 && config[0] == "amnesia.yaml" {
		return s
	}
	for _, file := range config {
		s += " -c " + terminal.Word(file)
	}
	return s
}

// Replay gives the command that plays the fault of the story again; empty where it had not one of ours.
func (s *Story) Replay(ledger string) string {
	if s.Cycle == 0 {
		return ""
	}
	return Replay(ledger, s.config, s.Cycle)
}

// Why gives the command that tells the story of a memory.
func Why(ledger string, id memory.ID) string {
	return fmt.Sprintf("amnesia why %s --ledger %s", id, terminal.Word(ledger))
}

// defects says what became of memories, after their number.
var defects = map[memory.Defect]string{
	memory.Leaked:       "{was} shown to another user",
	memory.AlteredText:  "came back with another text",
	memory.Duplicated:   "{was} stored more than once",
	memory.ExpiredEarly: "{was} gone before the time to live was over",
	memory.Outlived:     "{was} still there after the time to live was over",
	memory.Resurfaced:   "came back after a deletion or a proven loss",
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %s", n, strings.TrimSuffix(what, "y")+"ies")
}

func was(n int) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

// What metrics and alerts, whose labels are few, have for a service that is not one.
const (
	AllServices     = "all"     // of a fault that hits every one
	SeveralServices = "several" // of a loss with more than one suspect
)

// ServiceLabel gives the service of what was found as metrics and alerts name it.
func ServiceLabel(fault, service string) string {
	switch {
	case fault == memory.FaultSeveral:
		return SeveralServices
	case fault == chaos.CrashAll, fault == chaos.DaemonRestart:
		return AllServices
	case strings.Contains(service, "+"):
		return SeveralServices
	}
	return service
}

// Class gives the class, or the defect, of a fingerprint.
func Class(fingerprint string) string {
	class, _, _ := strings.Cut(fingerprint, "/")
	return class
}

// Cause gives the fault and the service of a fingerprint; empty where it has none.
func Cause(fingerprint string) (fault, service string) {
	parts := strings.Split(fingerprint, "/")
	if len(parts) < 3 {
		return "", ""
	}
	return strings.TrimSuffix(parts[1], none), strings.TrimSuffix(parts[2], none)
}
