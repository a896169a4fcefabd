package incident

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

// line is one log line that may belong into a story.
type line struct {
	fact.Log
	far time.Duration // from the fault
}

// log keeps a line. What was frozen may be on record by itself as well.
func (t *Teller) log(f fact.Log) {
	if slices.ContainsFunc(t.logs, func(l line) bool { return l.Service == f.Service && l.Line == f.Line && l.At == f.At }) {
		return
	}
	far := time.Duration(0)
	for _, id := range t.v.Suspects {
		if s := t.spans[id]; !s.Fired.IsZero() {
			far = f.At.Sub(s.Fired).Abs()
		}
	}
	t.logs = append(t.logs, line{f, far})
}

// tellLogs tells the lines that say the most: those that name the memory, then errors, then those next to the fault.
func (t *Teller) tellLogs() {
	rank := func(l line) int {
		switch {
		case l.Memory == t.m.ID:
			return 0
		case l.Level == "error":
			return 1
		}
		return 2
	}
	slices.SortStableFunc(t.logs, func(a, b line) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.far, b.far))
	})
	kept := map[string]int{}
	for _, l := range t.logs {
		if kept[l.Service]++; kept[l.Service] <= most {
			t.add(l.At, "log", l.Service, "%s", l.Line)
		}
	}
}

// frozen takes in what was frozen when the memory was found wanting: of the services the last word. Of an incident that
// grows not every cycle is frozen; then what was frozen of another cycle says what the services are.
func (t *Teller) frozen(f fact.Frozen) {
	if !f.Memories.Has(t.m.ID) {
		if !t.own && slices.Contains(Fingerprints(t.v), f.Incident) {
			t.story.Services = f.Services
		}
		return
	}
	t.own = true
	for _, l := range f.Logs {
		if l.Memory == t.m.ID || t.near(l.At) {
			t.log(l)
		}
	}
	told := map[string]int{}
	for _, e := range f.Events {
		at := memory.Instant{Wall: e.At.UnixNano()}
		if told[e.Service]++; t.near(at) && told[e.Service] <= most {
			t.add(at, "engine", e.Service, "%s", eventWords(e))
		}
	}
	t.story.Services = f.Services
	t.story.Pictures = append(t.story.Pictures, Located(f)...)
}

// Located gives the pictures of evidence with the path of each, as far as it was recorded.
func Located(f fact.Frozen) []fact.Picture {
	all := slices.Clone(f.Pictures)
	for i := range all {
		all[i].File = filepath.Join(f.Folder, all[i].File)
	}
	return all
}

func eventWords(e fact.ServiceEvent) string {
	s := e.Kind
	if e.Exit != 0 {
		s += fmt.Sprintf(", exit code %d", e.Exit)
	}
	if by := By(e); by != "" {
		s += ", " + by
	}
	return s
}

// By says whose doing an event was; empty for one that is nobody's doing.
func By(e fact.ServiceEvent) string {
	switch {
	case e.Kind != "die" && e.Kind != "start":
		return ""
	case e.Ours:
		return "by us"
	}
	return "not by us"
}

// findings lists what is wrong with the services, each once.
func findings(services []fact.ServiceState) (all []string) {
	for _, s := range services {
		for _, f := range s.Findings {
			if f = s.Service + ": " + f; !slices.Contains(all, f) {
				all = append(all, f)
			}
		}
	}
	return all
}

// StateWords says in a line what an instance of a service is and does.
func StateWords(s fact.ServiceState) string {
	words := []string{s.Name}
	if s.Image != "" {
		words = append(words, "image "+s.Image)
	}
	if s.State != "" {
		words = append(words, s.State)
	}
	if s.Exit != 0 {
		words = append(words, fmt.Sprintf("exit code %d", s.Exit))
	}
	if n := s.Instance.Restarts; n > 0 {
		words = append(words, fmt.Sprintf("restarted %d times", n))
	}
	if s.RestartPolicy != "" {
		words = append(words, "restart policy "+s.RestartPolicy)
	}
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), ", ")
}

// MountWords says in a line what is mounted where.
func MountWords(m fact.Mount) string {
	words := m.Kind
	if m.Source != "" {
		words += " " + m.Source
	}
	words += " at " + m.Path
	if m.ReadOnly {
		words += ", read only"
	}
	return words
}
