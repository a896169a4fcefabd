package config

import (
	"maps"
	"slices"

	"amnesia/chaos"
)

// viewKind is one kind of view. A kind that is not built is known to the loader only so that it can say so.
type viewKind struct {
	built   bool
	user    bool   // what a user looks at; otherwise a store
	durable bool   // the default of the contract
	section string // of the script that reads it
	service string // behind it, unless the file names another; "": the one of the view's name
}

// kinds are the kinds of views. A new adapter is a line here and a struct of settings in View.
var kinds = map[string]viewKind{
	"page":         {built: true, user: true, durable: true, section: "recall", service: "app"},
	"answer":       {built: true, user: true, durable: true, section: "ask", service: "app"},
	"sqlite":       {built: true, durable: true},
	"http":         {built: true, durable: true},
	"chroma":       {built: true, durable: true},
	"chroma_query": {built: true, durable: true, service: "chroma"},
	"redis":        {built: true, durable: false},
	"postgres":     {built: true, durable: true},
	"mysql":        {durable: true},
}

// engine is one place where services run.
type engine struct{ built bool }

var engines = map[string]engine{
	"process": {built: true},
	"docker":  {built: true},
}

// faultKind is one kind of fault, with the settings that it takes beside those of all.
type faultKind struct {
	engines []string // that can do it
	keys    []string
	all     bool // hits every service: takes no service
}

var faultKinds = map[string]faultKind{
	chaos.Kill:      {engines: []string{"docker", "process"}, keys: []string{"supervised"}},
	chaos.Restart:   {engines: []string{"docker", "process"}, keys: []string{"grace"}},
	chaos.Pause:     {engines: []string{"docker", "process"}, keys: []string{"hold"}},
	chaos.Recreate:  {engines: []string{"docker", "process"}, keys: []string{"grace"}},
	chaos.Wipe:      {engines: []string{"docker", "process"}, keys: []string{"grace", "volume"}},
	chaos.Partition: {engines: []string{"docker"}, keys: []string{"hold"}},
	chaos.CrashAll:  {engines: []string{"docker", "process"}, all: true},
}

// built gives the names that this build can do, sorted.
func built[T any](table map[string]T, can func(T) bool) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(table)) {
		if can(table[name]) {
			out = append(out, name)
		}
	}
	return out
}
