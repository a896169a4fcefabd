package incident

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

// Incident is what was found wanting with one fingerprint: it grows, and is never two.
type Incident struct {
	Fingerprint string         `json:"fingerprint"`
	Class       string         `json:"class"` // silent, reported or unsure, or the defect
	Fault       string         `json:"fault,omitempty"`
	Service     string         `json:"service,omitempty"`
	Views       []string       `json:"views,omitempty"`           // that miss it; sorted
	First       memory.Instant `json:"first"`                     // when the first was found
	Last        memory.Instant `json:"last"`                      // when the last was
	Found       int            `json:"found"`                     // memories that were ever in it
	Cycles      int            `json:"cycles"`                    // in which some were found
	Members     []Member       `json:"members"`                   // oldest first; of many, the first and the newest
	Truncated   bool           `json:"truncated,omitempty"`       // members are missing in the middle: more were found than are kept
	ExposureMin *time.Duration `json:"exposure_min_ns,omitempty"` // of all that were found: the least time from the acknowledgement to the fault; nil: no single fault followed one
	ExposureMax *time.Duration `json:"exposure_max_ns,omitempty"` // the greatest
	Evidence    []fact.Frozen  `json:"evidence,omitempty"`        // oldest first; of much, the first and the newest
	Known       *Known         `json:"known,omitempty"`           // set: muted
}

// Member is one memory of an incident, as it was judged when it was found.
type Member struct {
	Verdict memory.Verdict `json:"verdict"`
	Cycle   int            `json:"cycle"` // in which it was found
	At      memory.Instant `json:"at"`
}

// Classes gives what an incident may be, the worst first: a class of loss, or a defect.
func Classes() []string { return slices.Clone(weight) }

// Known mutes an incident until a date.
type Known = fact.Known

// mostMembers bounds the members that are kept of one incident, in each of its halves: the first and the newest.
const mostMembers = 100

// mostEvidence bounds the evidence that is kept of one incident: the ledger has the rest.
const mostEvidence = 5

// none stands in a fingerprint for what a defect does not have.
const none = "-"

// Fingerprints gives those of a verdict: one of its loss, if it is one that anybody should hear of, and one of each defect.
// The form is class/fault/service/views, such as silent/kill/redis/page+redis, and leaked/-/-/page.
func Fingerprints(v memory.Verdict) []string {
	var all []string
	views := slices.Sorted(slices.Values(v.Missing))
	if v.Alarming() && !v.Open {
		all = append(all, fingerprint(string(v.Class), v.Fault, v.Service, views))
	}
	for _, d := range v.Defects {
		all = append(all, fingerprint(string(d), "", "", nil))
	}
	return all
}

func fingerprint(class, fault, service string, views []string) string {
	parts := []string{class, fault, service, strings.Join(views, "+")}
	for i, p := range parts {
		if p == "" {
			parts[i] = none
		}
	}
	return strings.Join(parts, "/")
}

// Log is the incidents of a ledger. It folds facts, and holds of a memory only what is still open: of a ledger of a
// million it stays small.
type Log struct {
	known     []Known // of whoever reads
	muted     []Known // of the daemon, as the ledger has it
	incidents map[string]*Incident
	order     []*Incident // by their first
	in        members
	cycle     map[string]int // in which an incident was last found
}

// members are the fingerprints of the memories that are not retired. Each memory is in an incident once, ever.
type members map[memory.ID][]string

// gained gives the fingerprints that a memory has by a verdict and did not have before.
func (m members) gained(v memory.Verdict) []string {
	return slices.DeleteFunc(Fingerprints(v), func(fp string) bool { return slices.Contains(m[v.Memory], fp) })
}

func (m members) retire(gone memory.Set) {
	for id := range m {
		if gone.Has(id) {
			delete(m, id)
		}
	}
}

// NewLog gives an empty log, in which the known ones are muted until their date, beside those that the ledger says are.
func NewLog(known []Known) *Log {
	return &Log{known: known, incidents: map[string]*Incident{}, in: members{}, cycle: map[string]int{}}
}

// Apply takes in the next fact.
func (l *Log) Apply(e fact.Entry) {
	switch f := e.Fact.(type) {
	case fact.Judged:
		l.judged(f)
	case fact.Frozen:
		if i := l.incidents[f.Incident]; i != nil {
			if len(i.Evidence) == mostEvidence {
				i.Evidence = slices.Delete(i.Evidence, 1, 2)
			}
			i.Evidence = append(i.Evidence, f)
		}
	case fact.Muting:
		l.muted = f.Known
	case fact.Retired:
		l.in.retire(f.Memories)
	}
}

func (l *Log) judged(f fact.Judged) {
	id := f.Verdict.Memory
	for _, fp := range l.in.gained(f.Verdict) {
		l.in[id] = append(l.in[id], fp)
		i := l.incidents[fp]
		if i == nil {
			i = &Incident{Fingerprint: fp, First: f.At}
			parts := strings.Split(fp, "/")
			i.Class = parts[0]
			if f.Verdict.Kind.Loss() && i.Class == string(f.Verdict.Class) {
				i.Fault, i.Service, i.Views = f.Verdict.Fault, f.Verdict.Service, slices.Sorted(slices.Values(f.Verdict.Missing))
			}
			l.incidents[fp] = i
			l.order = append(l.order, i)
		}
		i.Last = f.At
		i.Found++
		if n, ok := l.cycle[fp]; !ok || n != f.Cycle {
			l.cycle[fp] = f.Cycle
			i.Cycles++
		}
		if e := f.Verdict.Exposure; e != nil {
			least, most := *e, *e
			if i.ExposureMin != nil {
				least, most = min(*i.ExposureMin, least), max(*i.ExposureMax, most)
			}
			i.ExposureMin, i.ExposureMax = &least, &most
		}
		if len(i.Members) == 2*mostMembers {
			i.Truncated = true
			i.Members = slices.Delete(i.Members, mostMembers, mostMembers+1)
		}
		i.Members = append(i.Members, Member{Verdict: f.Verdict, Cycle: f.Cycle, At: f.At})
	}
}

// All gives the incidents, the one that was found last first, as of an instant: what is known is muted until its date. They
// are copies, but for their evidence, which nobody changes.
func (l *Log) All(now memory.Instant) []Incident {
	all := make([]Incident, 0, len(l.order))
	for _, i := range l.order {
		all = append(all, l.copy(i, now))
	}
	slices.SortStableFunc(all, func(a, b Incident) int { return cmp.Compare(b.Last.Wall, a.Last.Wall) })
	return all
}

// Get gives one incident.
func (l *Log) Get(fingerprint string, now memory.Instant) (Incident, bool) {
	i := l.incidents[fingerprint]
	if i == nil {
		return Incident{}, false
	}
	return l.copy(i, now), true
}

// Open says how many incidents there are that nothing mutes at an instant.
func (l *Log) Open(now memory.Instant) (n int) {
	known := l.Known()
	for _, i := range l.order {
		if Muted(known, i.Fingerprint, now) == nil {
			n++
		}
	}
	return n
}

// Known gives what mutes incidents: what the log was made with, and what the last daemon was told.
func (l *Log) Known() []Known { return slices.Concat(l.known, l.muted) }

func (l *Log) copy(i *Incident, now memory.Instant) Incident {
	c := *i
	c.Views, c.Members, c.Evidence = slices.Clone(i.Views), slices.Clone(i.Members), slices.Clone(i.Evidence)
	c.Known = Muted(l.Known(), i.Fingerprint, now)
	return c
}

// Muted gives what mutes a fingerprint at an instant; nil when nothing does.
func Muted(known []Known, fingerprint string, at memory.Instant) *Known {
	for _, k := range known {
		if k.Fingerprint == fingerprint && at.Time().Before(k.Until) {
			return &k
		}
	}
	return nil
}
