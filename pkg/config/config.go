// Package config is amnesia.yaml: its shape, its strict load and its JSON Schema.
//
// A file is either taken whole or refused with every mistake in it at once, each with its line, its column and what to
// write instead. The structs below are the one source: the loader and the schema are both read off their tags, so that
// they cannot come to differ.
//
//	yaml:"name"            the key; required, unless it has omitempty or a default
//	yaml:",key"            a list that the file writes as a mapping, in file order: this field holds the mapping's key
//	yaml:",inline"         the keys of this struct stand among those of the outer one
//	kind:"page"            … but only for a view of this kind, or one of these
//	default:"10s"          as it would be written
//	enum:"a,b"             the only words allowed
//	min:"1"                the least number; 0 where there is none
//	path:"true"            a file name; a relative one starts at the folder of the configuration
//
// It knows nothing of how a view is read or a service hurt; what it allows is what this build can do.
package config

import (
	"strings"
	"time"

	"amnesia/chaos"
	"amnesia/pkg/memory"
	"amnesia/pkg/session"
	"amnesia/pkg/view"
)

// Config is amnesia.yaml, checked, with its defaults filled in.
type Config struct {
	Version  int      `yaml:"version"`
	Armed    bool     `yaml:"armed,omitempty"` // false: faults are only announced
	Seed     *uint64  `yaml:"seed,omitempty"`  // nil: to be drawn
	Target   Target   `yaml:"target"`
	Sessions Sessions `yaml:"sessions"`
	Views    []View   `yaml:"views"` // in file order
	// Sweep says what a cycle reads: due, what something may have changed, or full, everything. SweepEvery is in how many
	// cycles each account is read whole all the same.
	Sweep      string   `yaml:"sweep,omitempty" default:"due" enum:"due,full"`
	SweepEvery int      `yaml:"sweep_every,omitempty" default:"10" min:"1"`
	Faults     []Fault  `yaml:"faults,omitempty"`
	Known      []Known  `yaml:"known,omitempty"`
	Limits     Limits   `yaml:"limits,omitempty"`
	Ledger     Ledger   `yaml:"ledger,omitempty"`
	Evidence   Evidence `yaml:"evidence,omitempty"`
	Web        Web      `yaml:"web,omitempty"`

	hidden *strings.Replacer // takes the secrets out of a text; nil: there are none
}

// Target is the application under test.
type Target struct {
	URL      string    `yaml:"url"`
	Engine   string    `yaml:"engine"`            // see engines
	Project  string    `yaml:"project,omitempty"` // compose project; engine docker
	Services []Service `yaml:"services"`          // in file order
}

// Service is a part of the target that can be hurt.
type Service struct {
	Name   string `yaml:",key"`
	Health string `yaml:"health"` // http://, https:// or tcp://

	// The rest is for the engine process, which starts the services itself.

	Command []string `yaml:"command,omitempty"` // no shell in between
	Env     Values   `yaml:"env,omitempty"`     // on top of the daemon's own environment
	Dir     string   `yaml:"dir,omitempty" default:"." path:"true"`
	// Scratch are directories within Dir that recreate empties, all of them, and wipe, one of them.
	Scratch []string `yaml:"scratch,omitempty"`
}

// Sessions says who talks to the target, and how.
type Sessions struct {
	Driver   string `yaml:"driver,omitempty" default:"browser" enum:"browser,http"`
	Users    int    `yaml:"users,omitempty" default:"4" min:"1"`
	Memories int    `yaml:"memories,omitempty" default:"5" min:"1"` // per user and cycle
	// Accounts is a template over Run and N that names the users.
	Accounts string `yaml:"accounts,omitempty" default:"amnesia-{{.Run}}-{{.N}}"`
	// AccountsFile is a CSV file, name and password a line, used instead of Accounts.
	AccountsFile string `yaml:"accounts_file,omitempty" path:"true"`
	// Logins are the accounts that AccountsFile held: at least Users of them, or none without a file.
	Logins []Login `yaml:"-"`
	// Password is that of every account that Accounts names. Unset: each account is given one of its own.
	Password Secret `yaml:"password,omitempty"`
	// PerAccount is how many memories an account is told, or those of one cycle; then its user goes on with a new one,
	// so that no page grows for ever. 0: never, and always so with an AccountsFile: its accounts are all there are.
	PerAccount int `yaml:"memories_per_account,omitempty" default:"50"`
	// Retire is the age after which a memory is no longer swept.
	Retire time.Duration `yaml:"retire,omitempty" default:"24h"`
	// Pace is drawn between two messages of one user.
	Pace Range `yaml:"pace,omitempty" default:"0s"`
	// Forget is the share of acknowledged memories, 0 to 1, that their users delete again.
	Forget float64 `yaml:"forget,omitempty"`
	// CountsFrom is the acknowledgement level from which on a loss counts; filled in with the script's last.
	CountsFrom string         `yaml:"counts_from,omitempty"`
	Script     session.Script `yaml:"script"`
	Browser    Browser        `yaml:"browser,omitempty"`
}

// Login is one account of an accounts file.
type Login struct {
	Name     string
	Password Secret
}

// Browser says which browser the driver `browser` starts, and how; or which ones elsewhere it uses.
type Browser struct {
	Executable string   `yaml:"executable,omitempty" path:"true"` // empty: the first Chromium that is found
	Headless   bool     `yaml:"headless,omitempty" default:"true"`
	Trace      bool     `yaml:"trace,omitempty" default:"true"` // keep Playwright's trace of sessions that fail, beside a screenshot
	Args       []string `yaml:"args,omitempty"`                 // further flags of Chromium
	// Connect are browsers elsewhere, used instead of one that is started here.
	Connect []string `yaml:"connect,omitempty" single:"true"`
	// What a browser may reach until it is replaced by a new one, when nobody uses it.
	MaxAge    time.Duration `yaml:"max_age,omitempty" default:"6h"`
	MaxMemory Size          `yaml:"max_memory,omitempty" default:"2GB"`
}

// View is a place where a memory can be looked for. Only the settings of its own kind are set.
type View struct {
	Name     string   `yaml:",key"`
	Kind     string   `yaml:"kind,omitempty"`    // filled in with the name
	Service  string   `yaml:"service,omitempty"` // filled in: see kinds
	Contract Contract `yaml:"contract,omitempty"`

	Page     PageView     `yaml:",inline" kind:"page"`
	Answer   AnswerView   `yaml:",inline" kind:"answer"`
	SQLite   SQLiteView   `yaml:",inline" kind:"sqlite"`
	HTTP     HTTPView     `yaml:",inline" kind:"http"`
	Redis    RedisView    `yaml:",inline" kind:"redis"`
	Postgres PostgresView `yaml:",inline" kind:"postgres"`
	Chroma   ChromaView   `yaml:",inline" kind:"chroma,chroma_query"`
}

// PageView is the history as the page shows it, read by the script's recall section.
type PageView struct {
	Match view.Match `yaml:"match,omitempty" default:"exact" enum:"exact,token"`
}

// AnswerView asks the assistant, by the script's ask section.
type AnswerView struct {
	Attempts int `yaml:"attempts,omitempty" default:"3" min:"1"` // absent only if every one of them fails
}

// SQLiteView reads a database file that the target writes.
type SQLiteView struct {
	Path  string     `yaml:"path" path:"true"`
	Query string     `yaml:"query"` // one parameter: the user; the first column is the text
	Match view.Match `yaml:"match,omitempty" default:"exact" enum:"exact,token"`
}

// HTTPView reads a JSON API.
type HTTPView struct {
	URL     string     `yaml:"url"`             // {user} stands for the user
	Items   string     `yaml:"items"`           // JSONPath to the records
	Text    string     `yaml:"text,omitempty"`  // JSONPath within a record; empty: the record is the text
	Owner   string     `yaml:"owner,omitempty"` // JSONPath within a record
	ID      string     `yaml:"id,omitempty"`    // JSONPath within a record: two with the same are one copy, where a list moves while it is read
	Next    string     `yaml:"next,omitempty"`  // JSONPath to the next address; the end is reached when it is empty
	Headers Values     `yaml:"headers,omitempty"`
	Match   view.Match `yaml:"match,omitempty" default:"exact" enum:"exact,token"`
}

// RedisView reads a key of Redis for each user.
type RedisView struct {
	URL     string     `yaml:"url,omitempty"` // where there is no secret in it
	Address Secret     `yaml:"url,omitempty"` // filled in with URL
	Key     string     `yaml:"key"`           // {user} stands for the user
	Match   view.Match `yaml:"match,omitempty" default:"exact" enum:"exact,token"`
}

// PostgresView runs a query.
type PostgresView struct {
	URL     string     `yaml:"dsn,omitempty"` // where there is no secret in it
	Address Secret     `yaml:"dsn,omitempty"` // filled in with URL
	Query   string     `yaml:"query"`         // $1: the user, or with ANY($1) all of them
	Match   view.Match `yaml:"match,omitempty" default:"exact" enum:"exact,token"`
}

// ChromaView reads a collection of Chroma.
type ChromaView struct {
	URL        string      `yaml:"url"`
	Tenant     string      `yaml:"tenant,omitempty" default:"default_tenant"`
	Database   string      `yaml:"database,omitempty" default:"default_database"`
	Collection string      `yaml:"collection"`
	Match      ChromaMatch `yaml:"match"`
	Headers    Values      `yaml:"headers,omitempty"`
}

// ChromaMatch says how a memory is known among the records.
type ChromaMatch struct {
	User string     `yaml:"user"` // the field of the metadata that names the user
	Text view.Match `yaml:"text,omitempty" default:"exact" enum:"exact,token"`
}

// Contract is what a view promises (oracle.md §3).
type Contract struct {
	Durable  *bool          `yaml:"durable,omitempty"` // filled in by kind
	MayLose  *MayLose       `yaml:"may_lose,omitempty"`
	TTL      time.Duration  `yaml:"ttl,omitempty"`
	Slack    time.Duration  `yaml:"ttl_slack,omitempty"`
	TTLFrom  memory.TTLFrom `yaml:"ttl_from,omitempty" default:"write" enum:"write,last_write,last_access"`
	KeepLast int            `yaml:"keep_last,omitempty"`
	KeepUnit string         `yaml:"keep_unit,omitempty" default:"memory" enum:"memory,message"`
	Settle   time.Duration  `yaml:"settle,omitempty" default:"10s"`
	Copies   int            `yaml:"copies,omitempty"` // 0: calibrated
}

// MayLose excuses a window of writes before a fault of certain kinds.
type MayLose struct {
	Window time.Duration `yaml:"window"`
	On     []string      `yaml:"on"`
}

// Fault is one way in which the target is hurt; the plan draws among them by weight.
type Fault struct {
	Kind    string `yaml:"kind"` // see faultKinds
	Service string `yaml:"service,omitempty"`
	Weight  int    `yaml:"weight,omitempty" default:"1" min:"1"`
	// After is the point at which the fault strikes; empty: at a time drawn.
	After string `yaml:"after,omitempty" enum:"told,acknowledged,logged_in,idle"`
	Delay Range  `yaml:"delay,omitempty" default:"0ms..2s"` // after that point
	// Hold is how long a pause or a partition lasts.
	Hold Range `yaml:"hold,omitempty" default:"1s..10s"`
	// Grace is the time between SIGTERM and SIGKILL, for the kinds that stop a service; 0: SIGKILL at once.
	Grace time.Duration `yaml:"grace,omitempty" default:"10s"`
	// Volume is what a wipe empties.
	Volume    string `yaml:"volume,omitempty"`
	Instances string `yaml:"instances,omitempty" default:"one" enum:"one,all"`
	// Supervised leaves the restart after a kill to the engine.
	Supervised bool `yaml:"supervised,omitempty"`
}

// Limits keep the blast radius small.
type Limits struct {
	Every    time.Duration `yaml:"every,omitempty" default:"60s"`           // least time between two faults
	PerHour  int           `yaml:"per_hour,omitempty" default:"60" min:"1"` // most faults in an hour
	Hours    string        `yaml:"hours,omitempty"`                         // see Window
	Timezone Zone          `yaml:"timezone,omitempty" default:"UTC"`        // of Hours
	// Recovery is how long a service may take to be healthy again before the target counts as unrecovered.
	Recovery time.Duration `yaml:"recovery,omitempty" default:"60s"`
	// HaltAfter is the number of failed recoveries after which no more faults are injected.
	HaltAfter int `yaml:"halt_after_failed_recoveries,omitempty" default:"1" min:"1"`
	// Window is Hours, read; nil: always.
	Window *chaos.Hours `yaml:"-"`
}

// Ledger says where the facts are kept.
type Ledger struct {
	Path string `yaml:"path,omitempty" default:"amnesia.db" path:"true"`
}

// Evidence says where screenshots, documents and traces are kept, and for how long. What sessions of a cycle with a
// finding (a loss, a defect, a target that did not recover) left is kept longer than the rest, and goes last when space is
// short.
type Evidence struct {
	Dir            string        `yaml:"dir,omitempty" default:"amnesia-evidence" path:"true"`
	MaxSize        Size          `yaml:"max_size,omitempty" default:"1GB"`
	MaxAge         time.Duration `yaml:"max_age,omitempty" default:"72h"`
	MaxAgeFindings time.Duration `yaml:"max_age_findings,omitempty" default:"720h"`
}

// Web says where the daemon listens, and to whom.
type Web struct {
	Listen string `yaml:"listen,omitempty" default:"127.0.0.1:9464"`
	// Metrics is a further address, for /metrics, health and the runbook alone; empty: none.
	Metrics string `yaml:"metrics,omitempty"`
	// Token is asked of whoever acts; unset: one is made, in a file beside the ledger.
	Token      Secret `yaml:"token,omitempty"`
	ConfigFile string `yaml:"config_file,omitempty" path:"true"` // exporter-toolkit's: TLS, basic auth
}
