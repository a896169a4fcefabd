package fact

import (
	"time"

	"amnesia/pkg/memory"
)

// Frozen is the evidence of an incident as it was when the losses of one cycle were found, before the next cycle wrote:
// what no other fact holds. It is bounded, and its texts are the target's: hostile, and redacted.
type Frozen struct {
	Incident  string         `json:"incident"` // its fingerprint
	Cycle     int            `json:"cycle"`
	Injection int64          `json:"injection,omitempty"` // the suspect; 0 when there is not exactly one
	Memories  memory.Set     `json:"memories"`            // found wanting in this cycle
	Services  []ServiceState `json:"services,omitempty"`
	Logs      []Log          `json:"logs,omitempty"` // of the services, whole, from before the fault to the detection; oldest first
	Cut       int            `json:"cut,omitempty"`  // so many older or excess lines were left out
	Events    []ServiceEvent `json:"events,omitempty"`
	Folder    string         `json:"folder,omitempty"` // of the pictures, from the root
	Pictures  []Picture      `json:"pictures,omitempty"`
	At        memory.Instant `json:"at"`
}

// ServiceState is what the engine says of one instance of a service.
type ServiceState struct {
	Service       string   `json:"service"`
	Instance      Instance `json:"instance"`
	Name          string   `json:"name,omitempty"` // as a person finds it: of the container
	Image         string   `json:"image,omitempty"`
	State         string   `json:"state,omitempty"` // running, exited, paused …
	Exit          int      `json:"exit,omitempty"`
	RestartPolicy string   `json:"restart_policy,omitempty"`
	Command       []string `json:"command,omitempty"`
	Mounts        []Mount  `json:"mounts,omitempty"`
	Findings      []string `json:"findings,omitempty"` // what makes its data less durable, in a sentence each, with the fix
	Explains      bool     `json:"explains,omitempty"` // one of them by itself says why the fault that hit it lost memories
}

// Mount is one mount of a service.
type Mount struct {
	Kind      string `json:"kind"`                // volume, bind, tmpfs; scratch: a folder that a recreate empties
	Source    string `json:"source,omitempty"`    // name of the volume, or the path
	Path      string `json:"path"`                // inside
	Anonymous bool   `json:"anonymous,omitempty"` // a volume that nobody named: a new container gets a new one
	ReadOnly  bool   `json:"read_only,omitempty"`
}

// ServiceEvent is what the engine told of a service.
type ServiceEvent struct {
	Service  string    `json:"service"`
	Kind     string    `json:"kind"` // die, oom, start, healthy, unhealthy
	Exit     int       `json:"exit,omitempty"`
	Ours     bool      `json:"ours,omitempty"`
	Instance Instance  `json:"instance"`
	At       time.Time `json:"at"` // by the engine's clock
}

// Picture is a file of evidence: a screenshot, a saved document, a trace.
type Picture struct {
	File   string         `json:"file"`             // its path, below the folder of evidence
	Kind   string         `json:"kind"`             // screenshot, document, trace
	When   string         `json:"when"`             // before or after the fault; before too is a page that was loaded before it and still shown
	Memory memory.ID      `json:"memory,omitempty"` // one that it is about
	User   string         `json:"user,omitempty"`
	At     memory.Instant `json:"at"`
}

func (Frozen) fact() {}
