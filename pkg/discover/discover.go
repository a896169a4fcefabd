// Package discover reads from a stack what of it would lose memories: where each store keeps its data, whether that place
// outlives its container, and with which settings the store writes. Engines and stores are asked elsewhere and give plain
// facts; Diagnose is a pure function of them. Of a stack without a configuration, Survey asks the published ports what they
// are, and a Draft is the configuration that comes of it and of what others found.
//
// It knows what Redis, PostgreSQL, Chroma and SQLite keep over which fault, and nothing of what an application holds in
// its memory before it writes: that is what cycles find out. It does not look into volumes.
package discover

import (
	"context"
	"slices"
	"time"
)

// Kind is a kind of store.
type Kind string

// The kinds of stores that are known.
const (
	Redis    Kind = "redis"
	Postgres Kind = "postgres"
	Chroma   Kind = "chroma"
	SQLite   Kind = "sqlite"
)

// Engine tells of the containers behind the services. An engine that has none is no Engine.
type Engine interface {
	Containers(ctx context.Context) ([]Container, error)
	// Written gives the paths in the writable layer of a container that differ from its image, by the container's id.
	Written(ctx context.Context, id string) ([]string, error)
}

// Settler is a store that tells its settings, by name; one that it does not know, or may not tell, is left out.
type Settler interface {
	Settings(ctx context.Context, names ...string) (map[string]string, error)
}

// Container is what an engine says of one container.
type Container struct {
	ID      string
	Service string
	Name    string
	Image   string // as it was named when the container was made
	Running bool
	// Command is the entry point and its arguments. It may hold secrets and is never printed.
	Command []string
	WorkDir string
	Env     map[string]string // those that KeepsEnv names: others may be secrets
	Ports   []int             // that it listens on
	// Published are those of its ports that this host has.
	Published []Published
	Target    bool // it is labelled as what may be hurt
	Mounts    []Mount
	Restart   string // its policy: no, always, unless-stopped, on-failure
	// Grace is the time between the stop signal and SIGKILL.
	Grace      time.Duration
	StopSignal string
	AutoRemove bool // it is removed when it ends
	// Written are the paths of the writable layer that differ from the image; nil where that was not asked, or not told.
	Written []string
}

// Published is a TCP port of a container that can be reached from this host.
type Published struct {
	Port int    // within the container
	At   string // host:port, from here
}

// Project is a Compose project that runs.
type Project struct {
	Name     string
	Dir      string   // of its files
	Files    []string // that its containers were made by
	Services []string
}

// MountType says what is mounted.
type MountType string

// The types of mounts that matter.
const (
	Volume MountType = "volume"
	Bind   MountType = "bind"
	Tmpfs  MountType = "tmpfs"
)

// Mount is one mount of a container.
type Mount struct {
	Type      MountType
	At        string // the mount point
	Name      string // of a volume
	Source    string // the host's path
	ReadOnly  bool
	Anonymous bool // a volume that nobody named: a new container gets a new one
	Ephemeral bool // a volume that a wipe may empty
}

// Store is a service that keeps memories.
type Store struct {
	Service string
	Kind    Kind
	// Cache: no view of it is durable, so that it may lose.
	Cache bool
	// Unviewed: the configuration looks nowhere in it, so that as far as that says it holds no memories.
	Unviewed bool
	// Settings are the store's own words; nil where it could not be asked, and Unread says why.
	Settings map[string]string
	Unread   error
	Path     string   // of SQLite: the file on this host
	Holders  []string // of SQLite: the processes that have the file open
	Scratch  string   // of SQLite: the folder around it that a wipe or recreate empties
}

// Stack is what was read.
type Stack struct {
	Containers []Container
	Stores     []Store
}

// Layers asks for what was written into the writable layers of those containers of which it matters: of stores whose data
// seem to lie there, and of services that are no stores. What an engine does not tell stays unknown.
func (s *Stack) Layers(ctx context.Context, e Engine) {
	for i, c := range s.Containers {
		store := slices.IndexFunc(s.Stores, func(st Store) bool { return st.Service == c.Service && st.Kind != SQLite })
		if store >= 0 {
			if at, unknown := dataOf(s.Stores[store], c); unknown != "" || mountOf(c, at) != nil {
				continue
			}
		}
		s.Containers[i].Written, _ = e.Written(ctx, c.ID)
	}
}

// KeepsEnv reports whether a variable of a container's environment says where data lie. All others are left unread.
func KeepsEnv(name string) bool {
	return slices.Contains([]string{"PGDATA", "PERSIST_DIRECTORY", "CHROMA_PERSIST_PATH", "GUNICORN_CMD_ARGS"}, name)
}

// Wants names the settings of a store that Diagnose knows what to make of.
func Wants(k Kind) []string {
	switch k {
	case Redis:
		return []string{"appendonly", "appendfsync", "save", "maxmemory", "maxmemory-policy", "dir", "shutdown-on-sigterm"}
	case Postgres:
		return []string{"fsync", "synchronous_commit", "full_page_writes", "data_directory", "wal_writer_delay"}
	case Chroma:
		return []string{"version"}
	}
	return nil
}

// Severity says how bad a finding is.
type Severity string

// The severities, the worst first.
const (
	Loses   Severity = "loses"   // an acknowledged memory would be lost
	Unknown Severity = "unknown" // it could not be read: that nothing was found says nothing
	Warning Severity = "warning" // nothing is lost by it alone
)

// What a finding can be lost to beside the kinds of faults that Amnesia injects.
const (
	PowerCut = "power_cut" // of the host, a crash of its kernel: what was not fsynced is gone. Not injected
	NoFault  = "none"      // it is lost while all is well
)

// Finding is one thing that was found.
type Finding struct {
	Rule      string   `json:"rule"`
	Severity  Severity `json:"severity"`
	Service   string   `json:"service"`
	Container string   `json:"container,omitempty"`
	What      string   `json:"what"`
	Loses     string   `json:"loses"`  // what it would lose
	Faults    []string `json:"faults"` // to which faults; the kinds of package chaos, power_cut, none
	Fix       string   `json:"fix"`
	Ignored   bool     `json:"ignored,omitempty"` // by whoever asked
}
