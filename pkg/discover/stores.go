package discover

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"amnesia/chaos"
)

// settings says what a store's settings would lose. The facts are those of the stores' manuals, and were measured: a
// SIGKILL never loses what reached the page cache, only a power cut does.
func settings(s Store, all []Container) []Finding {
	switch s.Kind {
	case Redis, Postgres:
		set, unread := s.Settings, []Finding(nil)
		if set == nil {
			set, unread = told(s, all)
		}
		of, found := map[Kind]func(map[string]string) []Finding{Redis: redis, Postgres: postgres}[s.Kind], []Finding(nil)
		for _, f := range of(set) {
			found = append(found, abruptly(f, s, all))
		}
		return append(unread, found...)
	case SQLite:
		return append(mounted(s, all), sqlite(s)...)
	}
	return nil
}

// abruptly: what an orderly end would keep is lost to it too where there is none.
func abruptly(f Finding, s Store, all []Container) Finding {
	for _, c := range all {
		if c.Service == s.Service && abrupt(c) && slices.Contains(f.Faults, chaos.Kill) && !slices.Contains(f.Faults, chaos.Restart) {
			f.Faults = slices.Insert(slices.Clone(f.Faults), slices.Index(f.Faults, chaos.Kill)+1, chaos.Restart, chaos.Recreate)
			f.What += "; and it is killed when it is to stop (" + stops(c) + ")"
		}
	}
	return f
}

// told gives the settings of a store that does not tell them itself, as far as its container's command line does.
func told(s Store, all []Container) (map[string]string, []Finding) {
	why := "it was not asked"
	if s.Unread != nil {
		why = s.Unread.Error()
	}
	f := Finding{Rule: "unread", Severity: Unknown, Loses: "not known", Faults: []string{}, What: "its settings could not be read: " + why,
		Fix: map[Kind]string{Redis: "give the view's user the right +config|get", Postgres: "see that the view can be read"}[s.Kind]}
	if s.Unviewed {
		f.What, f.Loses = "no view looks there: its settings were not read", "no memory, as far as the configuration says"
		f.Fix = "write a view of it, if it does hold memories"
	}
	for _, c := range all {
		if c.Service != s.Service {
			continue
		}
		f.Container = c.Name
		set, whole := FromCommand(s.Kind, c.Command)
		if whole {
			f.Severity = Warning
			f.What += "; taken from its command line instead, which CONFIG SET may have changed"
		} else if len(set) > 0 {
			f.What += "; its command line says some of them"
		}
		return set, []Finding{f}
	}
	return nil, []Finding{f}
}

func redis(set map[string]string) (out []Finding) {
	loses := func(rule, what, lost, fix string, faults ...string) {
		out = append(out, Finding{Rule: rule, Severity: Loses, What: what, Loses: lost, Faults: faults, Fix: fix})
	}
	const fix = "appendonly yes (redis-server --appendonly yes)"
	nosave := strings.Contains(set["shutdown-on-sigterm"], "nosave")
	save, saves := set["save"]
	switch {
	case set["appendonly"] == "no" && saves && (save == "" || nosave):
		how := "neither append-only file nor snapshots"
		if nosave {
			how = "no append-only file, and takes no snapshot when it ends (shutdown-on-sigterm)"
		}
		lost := everything
		if save != "" {
			lost = "all that was written since its last snapshot"
		}
		loses("redis-no-aof", "Redis has "+how, lost, fix, chaos.Kill, chaos.Restart, chaos.Recreate, chaos.CrashAll, PowerCut)
	case set["appendonly"] == "no":
		loses("redis-no-aof", "Redis has no append-only file, only snapshots (save "+save+")",
			"all that was written since its last snapshot; an orderly end takes one", fix, chaos.Kill, chaos.CrashAll, PowerCut)
	case set["appendonly"] == "yes" && set["appendfsync"] == "no":
		loses("redis-appendfsync", "Redis leaves it to the system when its append-only file reaches the disk (appendfsync no)",
			"the last half minute or so; a SIGKILL loses nothing", "appendfsync always, or everysec if one second may go", PowerCut)
	case set["appendonly"] == "yes" && set["appendfsync"] == "everysec":
		loses("redis-appendfsync", "Redis has its append-only file reach the disk once a second (appendfsync everysec)",
			"the last second, or two; a SIGKILL loses nothing", "appendfsync always, or --ignore redis-appendfsync if one second may go", PowerCut)
	}
	if limit, policy := set["maxmemory"], set["maxmemory-policy"]; limit != "" && limit != "0" {
		const fix = "maxmemory-policy noeviction, with which a write that has no room is refused, and maxmemory large enough"
		switch {
		case strings.HasPrefix(policy, "allkeys-"):
			loses("redis-eviction", fmt.Sprintf("Redis drops keys when its memory is full (maxmemory %s, %s)", limit, policy), "whole users' keys, any of them", fix, NoFault)
		case strings.HasPrefix(policy, "volatile-"):
			loses("redis-eviction", fmt.Sprintf("Redis drops keys with a time to live when its memory is full (maxmemory %s, %s)", limit, policy),
				"keys with a time to live, before it is over", fix, NoFault)
		}
	}
	return out
}

func postgres(set map[string]string) (out []Finding) {
	loses := func(rule, what, lost, fix string, faults ...string) {
		out = append(out, Finding{Rule: rule, Severity: Loses, What: what, Loses: lost, Faults: faults, Fix: fix})
	}
	if set["fsync"] == "off" {
		loses("postgres-fsync", "PostgreSQL does not wait for the disk (fsync = off)",
			"the last commits, or the whole database, which can be corrupted; a SIGKILL loses nothing", "fsync = on", PowerCut)
	}
	if set["full_page_writes"] == "off" {
		loses("postgres-full-page-writes", "PostgreSQL cannot mend a page that was half written (full_page_writes = off)",
			"pages that were being written, which can be corrupted; a SIGKILL loses nothing", "full_page_writes = on", PowerCut)
	}
	var names []string
	for name, value := range set { // "synchronous_commit", or with whom it is set for
		if strings.HasPrefix(name, "synchronous_commit") && value == "off" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		loses("postgres-synchronous-commit", "PostgreSQL confirms a commit before it is written ("+name+" = off)",
			"the last commits, up to three times wal_writer_delay ("+orUnknown(set["wal_writer_delay"])+"); an orderly end loses nothing",
			"synchronous_commit = on", chaos.Kill, chaos.CrashAll, PowerCut)
	}
	return out
}

func orUnknown(s string) string {
	if s == "" {
		return "200ms unless it is set"
	}
	return s
}

// mounted says what becomes of a database file that containers have by a mount.
func mounted(s Store, all []Container) (out []Finding) {
	var users []string
	for _, c := range all {
		i := slices.IndexFunc(c.Mounts, func(m Mount) bool { return m.Source != "" && under(s.Path, m.Source) })
		if i < 0 {
			continue
		}
		m := c.Mounts[i]
		if c.Running && !m.ReadOnly {
			users = append(users, c.Name)
		}
		f := Finding{Severity: Loses, Container: c.Name, Loses: everything}
		switch {
		case c.Service != s.Service:
			continue
		case m.Type == Volume && m.Anonymous:
			f.Rule, f.Faults, f.Fix = "anonymous-volume", []string{chaos.Recreate, chaos.Wipe}, "mount a named volume at "+m.At
			f.What = fmt.Sprintf("its database, %s, lies in an anonymous volume, which a new container does not get", s.Path)
		case m.Ephemeral:
			f.Rule, f.Faults, f.Fix = "ephemeral-volume", []string{chaos.Wipe}, "take the label amnesia.ephemeral off the volume, if it is not to be emptied"
			f.What = fmt.Sprintf("its database, %s, lies in %s, which is labelled to be emptied (amnesia.ephemeral=true)", s.Path, describe(m))
		default:
			continue
		}
		out = append(out, f)
	}
	if len(users) > 1 && len(s.Holders) < 2 { // else they are told by that
		out = append(out, sqlite(Store{Path: s.Path, Holders: users})...)
	}
	return out
}

func sqlite(s Store) (out []Finding) {
	if s.Scratch != "" {
		out = append(out, Finding{Rule: "scratch", Severity: Loses, What: fmt.Sprintf("its database, %s, lies in the folder %s, which is declared as scratch", s.Path, s.Scratch),
			Loses: everything, Faults: []string{chaos.Recreate, chaos.Wipe}, Fix: "keep the database elsewhere, or take the folder out of scratch, if it is not to be emptied"})
	}
	if len(s.Holders) < 2 {
		return out
	}
	f := Finding{Rule: "shared-sqlite", Severity: Warning, What: fmt.Sprintf("%d can write %s: %s", len(s.Holders), s.Path, strings.Join(s.Holders, ", ")),
		Loses:  "a write that meets the other's lock for longer than its busy_timeout, if the app does not say so; where they do not share a kernel or the disk is a network's, the database",
		Faults: []string{NoFault}, Fix: "let one process write it, or see that every writer sets busy_timeout and reports SQLITE_BUSY to its user"}
	if filepath.Base(s.Path) == "chroma.sqlite3" {
		f.Severity = Loses
		f.Loses = "from queries: each process has a vector index of its own in memory, in which what the other adds is missing"
		f.Fix = "run Chroma as a server, and let all of them be its clients"
	}
	return append(out, f)
}
