package discover

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"amnesia/chaos"
)

// Rules names every rule of Diagnose.
func Rules() []string {
	return []string{"anonymous-volume", "chroma-path", "data-in-layer", "ephemeral-volume", "flush-cut", "mount-unused", "no-restart", "postgres-fsync",
		"postgres-full-page-writes", "postgres-synchronous-commit", "redis-appendfsync", "redis-eviction", "redis-no-aof", "scratch",
		"shared-data", "shared-sqlite", "tmpfs", "unread"}
}

// Diagnose says what of a stack would lose memories, and to which faults. The worst comes first, then the order of the
// services.
func Diagnose(s Stack) []Finding {
	var all []Finding
	order := map[string]int{}
	for i, c := range s.Containers {
		if _, ok := order[c.Service]; !ok {
			order[c.Service] = i
		}
		all = append(all, life(c)...)
		if !slices.ContainsFunc(s.Stores, func(st Store) bool { return st.Service == c.Service && st.Kind != SQLite }) {
			all = append(all, strayData(c)...)
		}
	}
	for _, st := range s.Stores {
		var found []Finding
		for _, c := range s.Containers {
			if c.Service == st.Service && st.Kind != SQLite {
				found = append(found, place(st, c)...)
			}
		}
		if st.Kind != SQLite {
			found = append(found, shared(st, s.Containers)...)
		}
		found = append(found, settings(st, s.Containers)...)
		for _, f := range found {
			f.Service = st.Service
			all = append(all, excuse(st, f))
		}
	}
	weight := []Severity{Loses, Unknown, Warning}
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(slices.Index(weight, a.Severity), slices.Index(weight, b.Severity)), cmp.Compare(order[a.Service], order[b.Service]))
	})
	return all
}

// excuse: what is lost of a cache is no memory, as long as it is one; nor is anything missed by what cannot be read of a
// store in which nobody looks for memories.
func excuse(s Store, f Finding) Finding {
	if s.Unviewed && f.Severity == Unknown {
		f.Severity = Warning
	}
	if s.Cache && f.Severity != Warning {
		f.Severity = Warning
		f.Loses += "; it counts as a cache (no view of it is durable), so this alone loses no memory"
	}
	return f
}

// everything is lost with the place that it is in.
const everything = "all that it holds"

// place says whether the data of a store outlive its container.
func place(s Store, c Container) []Finding {
	at, unknown := dataOf(s, c)
	if unknown != "" {
		return []Finding{{Rule: "unread", Severity: Unknown, Container: c.Name, What: "where its data lie cannot be told: " + unknown, Loses: "not known", Faults: []string{},
			Fix: "see that a named volume is mounted where it writes"}}
	}
	f := Finding{Severity: Loses, Container: c.Name, Loses: everything}
	named := fmt.Sprintf("mount a named volume at %s", at)
	m := mountOf(c, at)
	unused := elsewhere(c, at)
	switch {
	case m == nil || m.Type == Volume && m.Anonymous:
		f.Faults = []string{chaos.Recreate, chaos.Wipe}
		where := "in the container's writable layer"
		f.Rule, f.Fix = "data-in-layer", named
		if m != nil {
			f.Rule, where = "anonymous-volume", "in an anonymous volume, which a new container does not get"
		}
		f.What = fmt.Sprintf("its data, %s, lie %s", at, where)
		if files := inLayer(c, at); m == nil && len(files) > 0 {
			f.What += " (there is " + files[0] + ")"
		} else if m == nil && c.Written != nil && c.Running && len(files) == 0 {
			// A guess that nothing bears out is no finding.
			f.Severity, f.Loses, f.What = Unknown, "not known", fmt.Sprintf("no volume is mounted at %s, where it should write, and nothing was written there yet", at)
		}
		if unused != nil {
			f.Rule = "mount-unused"
			if s.Kind == Chroma {
				f.Rule = "chroma-path"
			}
			f.What += fmt.Sprintf("; %s is mounted at %s, where it does not write", describe(*unused), unused.At)
			f.Fix = fmt.Sprintf("mount %s at %s", describe(*unused), at)
		}
		if c.AutoRemove {
			f.Faults = []string{chaos.Kill, chaos.Restart, chaos.Recreate, chaos.Wipe, chaos.CrashAll}
			f.What += "; and the container is removed when it ends (--rm)"
		}
	case m.Type == Tmpfs:
		f.Rule, f.Fix = "tmpfs", named+" instead"
		f.What = fmt.Sprintf("its data, %s, lie in memory (tmpfs at %s), which ends with the container's process", at, m.At)
		f.Faults = []string{chaos.Kill, chaos.Restart, chaos.Recreate, chaos.Wipe, chaos.CrashAll, PowerCut}
	case m.Type == Bind && (under(m.Source, "/dev/shm") || under(m.Source, "/run")):
		f.Rule, f.Fix = "tmpfs", "bind a folder of the host's disk, or "+named
		f.What = fmt.Sprintf("its data, %s, lie in the host's memory (%s)", at, m.Source)
		f.Faults = []string{PowerCut}
	case m.Ephemeral:
		f.Rule, f.Fix = "ephemeral-volume", "take the label amnesia.ephemeral off the volume, if it is not to be emptied"
		f.What = fmt.Sprintf("its data, %s, lie in %s, which is labelled to be emptied (amnesia.ephemeral=true)", at, describe(*m))
		f.Faults = []string{chaos.Wipe}
	default:
		return nil
	}
	return []Finding{f}
}

// describe names a mount to a person.
func describe(m Mount) string {
	switch {
	case m.Type == Volume && !m.Anonymous:
		return "the volume " + m.Name
	case m.Type == Bind:
		return "the host's " + m.Source
	}
	return "a " + string(m.Type)
}

// elsewhere is a mount that looks as if it was meant for the data: one that can be written and holds something else.
func elsewhere(c Container, at string) *Mount {
	for i, m := range c.Mounts {
		furniture := slices.ContainsFunc([]string{"/etc", "/usr", "/run", "/tmp", "/docker-entrypoint-initdb.d"}, func(dir string) bool { return under(m.At, dir) })
		if !m.ReadOnly && !m.Anonymous && m.Type != Tmpfs && !furniture && path.Ext(m.At) == "" && mountOf(c, at) != &c.Mounts[i] {
			return &c.Mounts[i]
		}
	}
	return nil
}

// strayData finds a database in the writable layer of a container that is no store by itself.
func strayData(c Container) []Finding {
	for _, w := range c.Written {
		if ext := path.Ext(w); (ext == ".db" || ext == ".sqlite" || ext == ".sqlite3") && mountOf(c, w) == nil && !strings.HasPrefix(w, "/var/cache/") {
			return []Finding{{Rule: "data-in-layer", Severity: Warning, Service: c.Service, Container: c.Name, Faults: []string{chaos.Recreate, chaos.Wipe},
				What:  "a database lies in the container's writable layer: " + w,
				Loses: "all that is in it, if memories are", Fix: fmt.Sprintf("mount a named volume at %s", path.Dir(w))}}
		}
	}
	return nil
}

// life says what of a container's own settings stands between a memory and its store.
func life(c Container) (out []Finding) {
	if c.Restart == "" || c.Restart == "no" {
		out = append(out, Finding{Rule: "no-restart", Severity: Warning, Service: c.Service, Container: c.Name,
			What: "it has no restart policy: after a crash it stays down", Loses: "nothing that is stored; nobody can be told anything until it is started by hand (Amnesia starts what it kills)",
			Faults: []string{}, Fix: "restart: unless-stopped"})
	}
	if KindOf(c) != "" {
		return out // it writes before it answers, or else its settings say so
	}
	flush := Finding{Rule: "flush-cut", Severity: Warning, Service: c.Service, Container: c.Name, Faults: []string{chaos.Restart, chaos.Recreate},
		Loses: "what it has acknowledged and not written yet when it is stopped, if it answers before it writes"}
	who, s, ok := flushes(c)
	seconds, err := strconv.Atoi(s)
	switch {
	case abrupt(c):
		flush.What, flush.Fix = "it is killed when it is to stop ("+stops(c)+"), and cannot write what it holds", "stop_signal: SIGTERM, and stop_grace_period: 10s or as long as it needs"
	case ok && err == nil && time.Duration(seconds)*time.Second > c.Grace:
		flush.What = fmt.Sprintf("%s takes up to %d s to end what is under way, and is killed after %s", who, seconds, c.Grace)
		flush.Fix = fmt.Sprintf("stop_grace_period: %ds, or a shorter time for %s", seconds+5, who)
	default:
		return out
	}
	return append(out, flush)
}

// abrupt reports whether a container is killed whenever it is to stop: then an orderly end is no better than a kill.
func abrupt(c Container) bool {
	return c.Grace == 0 || slices.Contains([]string{"SIGKILL", "KILL", "9"}, c.StopSignal)
}

// stops says how an abrupt container is stopped.
func stops(c Container) string {
	if c.Grace == 0 {
		return "its stop grace is 0"
	}
	return "its stop signal is SIGKILL"
}

// shared finds a second container that writes the data of a store.
func shared(s Store, all []Container) []Finding {
	users := map[string][]string{}
	for _, c := range all {
		kind := KindOf(c)
		if c.Service == s.Service {
			kind = s.Kind
		}
		at, unknown := dataOf(Store{Kind: s.Kind}, c)
		if c.Service == s.Service {
			at, unknown = dataOf(s, c)
		}
		if m := mountOf(c, at); unknown == "" && kind == s.Kind && c.Running && m != nil && !m.ReadOnly && m.Type != Tmpfs && m.Source != "" {
			users[m.Source] = append(users[m.Source], c.Name)
		}
	}
	for _, names := range users {
		if len(names) > 1 {
			return []Finding{{Rule: "shared-data", Severity: Loses, What: "two servers write the same data: " + strings.Join(names, ", "),
				Loses: "what one writes over the other; the data can be corrupted", Faults: []string{NoFault}, Fix: "run one server on one volume"}}
		}
	}
	return nil
}
