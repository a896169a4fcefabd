// Package incident is what was found wanting, for a person: incidents, in which losses of one cause are one; cycles as they
// went; and the story of one memory. All of that is told from the facts of the ledger alone, so that it can be told when the
// daemon and the target are long gone; what can be had only meanwhile (log lines, the engine's view, what pages showed) a
// Freezer makes a fact in time.
//
// It judges nothing, and does nothing to a target; how a ledger, an engine or a browser is asked it does not know.
package incident

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
	"amnesia/pkg/oracle"
)

// around bounds the log lines and events of a story that do not name the memory: those from this long before the fault to
// as long after the service was back.
const around = 2 * time.Second

// most log lines and events of each service in a story.
const most = 12

// Facts streams a ledger's facts in their order.
type Facts interface {
	Facts(ctx context.Context, after int64) iter.Seq2[fact.Entry, error]
}

// ErrNoMemory says that the ledger knows no such memory.
var ErrNoMemory = errors.New("no such memory")

// Story is what happened to one memory, in order, and what to do about it.
type Story struct {
	Memory    memory.Memory       `json:"memory"`
	Verdict   memory.Verdict      `json:"verdict"`
	Incidents []string            `json:"incidents"`          // their fingerprints
	Advice    []string            `json:"advice"`             // what was found of the services first, with the fix
	Cycle     int                 `json:"cycle,omitempty"`    // of the fault, to be played again; 0: it had not one of ours
	Services  []fact.ServiceState `json:"services,omitempty"` // when it, or another memory of its incident, was found wanting
	Pictures  []fact.Picture      `json:"pictures,omitempty"`
	Events    []Event             `json:"events"`

	config []string // the files of the last run
}

// Event is one moment of a story.
type Event struct {
	At   memory.Instant `json:"at"`
	What string         `json:"what"` // begun, acknowledged, settled, seen, absent, unreadable, fault, died, log, verdict …
	Who  string         `json:"who"`  // the view, service or user it is about
	Text string         `json:"text"`
}

// Tell reads the ledger twice: once to judge, once for the story. what is a memory's id (m42) or its token.
func Tell(ctx context.Context, facts Facts, what string) (*Story, error) {
	book, spans := oracle.NewBook(), Spans{}
	var m *memory.Memory
	var end memory.Instant
	for e, err := range facts.Facts(ctx, 0) {
		if err != nil {
			return nil, err
		}
		book.Apply(e)
		spans.Apply(e)
		if b, ok := e.Fact.(fact.Begun); ok && m == nil && (b.Memory.Token == what || b.Memory.ID.String() == what) {
			m = &b.Memory
		}
		end = memory.Later(end, fact.At(e.Fact))
	}
	if m == nil {
		return nil, fmt.Errorf("%w: %q is neither the id nor the token of a memory in this ledger — fix: give an id such as m42, or a token, from the ledger's own run", ErrNoMemory, what)
	}
	v, ok := book.Verdict(m.ID, end)
	if !ok {
		return nil, fmt.Errorf("%w: %s was begun but cannot be judged", ErrNoMemory, m.ID)
	}
	t := NewTeller(*m, v, spans)
	for e, err := range facts.Facts(ctx, 0) {
		if err != nil {
			return nil, err
		}
		t.Apply(e)
	}
	return t.Story(end), nil
}

// Spans are the injections of a ledger as intervals, by their id.
type Spans map[int64]Span

// Span is one injection: it fired, and the services were back. Zero: they were not.
type Span struct {
	Cycle       int
	Fired, Back memory.Instant
}

// Apply takes in the next fact.
func (s Spans) Apply(e fact.Entry) {
	f, ok := e.Fact.(fact.Step)
	if !ok {
		return
	}
	span := s[f.Injection]
	if f.Plan != nil {
		span.Cycle = f.Plan.Cycle
	}
	switch f.Name {
	case fact.StepFiring:
		span.Fired = f.At
	case fact.StepInjected:
		if !f.Fired.IsZero() {
			span.Fired = f.Fired
		}
	case fact.StepRecovered:
		span.Back = f.At
	}
	s[f.Injection] = span
}

// Teller gathers the story of one memory from the facts of a ledger that was judged before.
type Teller struct {
	m      memory.Memory
	v      memory.Verdict
	spans  Spans
	story  Story
	events []Event
	views  map[string]*reading
	faults map[int64]*fault
	logs   []line
	judged memory.Kind // the last verdict that was given
	own    bool        // what was frozen is of this memory
}

// NewTeller gives the teller for a memory with the verdict v. Of the memory its id is enough; of one that is retired no
// more may be known.
func NewTeller(m memory.Memory, v memory.Verdict, spans Spans) *Teller {
	t := &Teller{m: m, v: v, spans: spans, views: map[string]*reading{}, faults: map[int64]*fault{}}
	if len(v.Suspects) == 1 {
		t.story.Cycle = spans[v.Suspects[0]].Cycle
	}
	return t
}

// fault is what the story tells of one injection.
type fault struct {
	plan   fact.Injection
	firing memory.Instant
	told   bool // what came of the firing
}

// reading is a run of equal readings of the memory in one view.
type reading struct {
	first memory.Observation
	last  memory.Observation // read again, as before: only the times differ
	reads int
	told  bool // of the last one too
}

func (t *Teller) add(at memory.Instant, what, who, format string, args ...any) {
	t.events = append(t.events, Event{At: at, What: what, Who: who, Text: fmt.Sprintf(format, args...)})
}

// Apply takes in the next fact.
func (t *Teller) Apply(e fact.Entry) {
	id := t.m.ID
	switch f := e.Fact.(type) {
	case fact.Run:
		t.story.config = f.Config
	case fact.Begun:
		if f.Memory.ID == id {
			t.m = f.Memory
			t.add(f.At, "told", f.Memory.User, "begins to type (%s, %d bytes)", f.Memory.Payload, len(f.Memory.Text))
		}
	case fact.Settled:
		if f.Memory == id {
			for _, l := range f.Levels {
				t.add(l.Seen, "acknowledged", t.m.User, "sees it acknowledged: %s (not yet %s before)", l.Name, short(l.Seen.Sub(l.NotSeen)))
			}
			if f.Outcome != memory.Acknowledged {
				t.add(f.At, string(f.Outcome), t.m.User, "%s", join("the write ends "+string(f.Outcome), f.Cause, f.Detail))
			}
		}
	case fact.ForgetBegun:
		if f.Memory == id {
			t.add(f.At, "forget", t.m.User, "asks for it to be deleted")
		}
	case fact.ForgetSettled:
		if f.Memory == id {
			t.add(f.At, "forget", t.m.User, "%s", join("the deletion ends "+string(f.Outcome), f.Detail))
		}
	case fact.Told:
		if f.Memory == id {
			t.add(f.At, "reported", t.m.User, "%s", join("is told by the "+f.By, f.Detail))
		}
	case fact.Sweep:
		t.sweep(f)
	case fact.Step:
		t.step(f)
	case fact.Death:
		t.add(f.At, "died", f.Service, "%s", join("died, and not by us: "+f.Cause, f.Detail))
	case fact.Log:
		if f.Memory == id || f.Level == "error" && t.near(f.At) {
			t.log(f)
		}
	case fact.Frozen:
		t.frozen(f)
	case fact.Judged:
		if v := f.Verdict; v.Memory == id && v.Kind != t.judged {
			t.judged = v.Kind
			for _, view := range v.Missing {
				t.finish(view, "which confirms it")
			}
			t.add(f.At, "verdict", string(v.Kind), "%s", v.Because)
		}
	}
}

// sweep gathers the readings of the memory; of a run of equal ones, the story tells the first and the last.
func (t *Teller) sweep(s fact.Sweep) {
	if !s.Read.Has(t.m.ID) {
		return
	}
	r := t.views[s.View]
	i := slices.IndexFunc(s.Observations, func(o memory.Observation) bool { return o.Memory == t.m.ID })
	switch {
	case i >= 0 && (r == nil || !alike(r.first, s.Observations[i])):
		t.finish(s.View, "for the last time")
		o := s.Observations[i]
		t.views[s.View] = &reading{first: o, last: o, reads: 1}
		t.reading(s.View, o, "")
	case i >= 0:
		r.last, r.reads = s.Observations[i], r.reads+1
	case r != nil: // read again, as before
		r.last.Began, r.last.Ended = s.Began, s.Ended
		r.reads++
	}
}

func alike(a, b memory.Observation) bool {
	return a.State == b.State && a.Copies == b.Copies && slices.Equal(a.Strangers, b.Strangers)
}

// finish tells of the last of a run of readings.
func (t *Teller) finish(view, note string) {
	if r := t.views[view]; r != nil && r.reads > 1 && !r.told {
		r.told = true
		t.reading(view, r.last, fmt.Sprintf("read %d times, %s", r.reads, note))
	}
}

func (t *Teller) reading(view string, o memory.Observation, note string) {
	what, text := "seen", "is there"
	switch o.State {
	case memory.Altered:
		text = "is there, but its text differs"
	case memory.Absent:
		what, text = "absent", "is not there"
	case memory.Unreadable:
		what, text = "unreadable", "cannot be read"
	}
	if o.Copies > 1 {
		note = join(note, fmt.Sprintf("%d copies", o.Copies))
	}
	if len(o.Strangers) > 0 {
		note = join(note, "shown to "+strings.Join(o.Strangers, ", "))
	}
	t.add(o.Ended, what, view, "%s", join(text, note, o.Detail))
}

func (t *Teller) step(s fact.Step) {
	f := t.faults[s.Injection]
	if f == nil {
		f = &fault{}
		t.faults[s.Injection] = f
	}
	if s.Plan != nil {
		f.plan = *s.Plan
	}
	if !slices.Contains(t.v.Suspects, s.Injection) && f.plan.Cycle != t.m.Cycle {
		return
	}
	switch s.Name {
	case fact.StepFiring:
		f.firing = s.At
	case fact.StepInjected:
		if !s.Fired.IsZero() {
			f.firing = s.Fired
		}
		text := f.plan.Kind
		if f.plan.Kind == "kill" {
			text = "kill (SIGKILL)"
		}
		if t.v.Exposure != nil && slices.Equal(t.v.Suspects, []int64{s.Injection}) {
			text += ", " + short(*t.v.Exposure) + " after the acknowledgement"
		}
		f.told = true
		if f.plan.Cycle > 0 {
			t.add(f.firing, "fault", Hit(f.plan), "%s (injection %d, cycle %d)", text, s.Injection, f.plan.Cycle)
		} else {
			t.add(f.firing, "fault", Hit(f.plan), "%s (injection %d)", text, s.Injection)
		}
	case fact.StepRecovered:
		t.add(s.At, "fault", Hit(f.plan), "healthy again, %s after the fault", short(s.At.Sub(f.firing)))
	case fact.StepReverted:
		if !f.told {
			t.add(f.firing, "fault", Hit(f.plan), "%s, in which the daemon died (injection %d, cycle %d)", f.plan.Kind, s.Injection, f.plan.Cycle)
			t.add(s.At, "fault", Hit(f.plan), "undone by whoever came after it")
		}
	case fact.StepFailed, fact.StepRefused:
		f.told = true
		t.add(s.At, "fault", Hit(f.plan), "%s", join(f.plan.Kind+" "+string(s.Name), s.Detail))
	}
}

// Story puts the events in order, with the log lines that belong and the verdict. end is the ledger's last instant.
func (t *Teller) Story(end memory.Instant) *Story {
	for view := range t.views {
		note := "for the last time"
		if slices.Contains(t.v.Missing, view) {
			note = "which confirms it"
		}
		t.finish(view, note)
	}
	t.tellLogs()
	slices.SortStableFunc(t.events, func(a, b Event) int {
		switch {
		case a.At.Before(b.At):
			return -1
		case a.At.After(b.At):
			return 1
		}
		return strings.Compare(a.Who, b.Who)
	})
	if t.judged != t.v.Kind { // the run ended before it was given, or today's oracle judges otherwise
		t.add(end, "verdict", string(t.v.Kind), "%s", t.v.Because)
	}
	s := t.story
	s.Memory, s.Verdict, s.Events, s.Incidents = t.m, t.v, t.events, append([]string{}, Fingerprints(t.v)...) // none is no null
	s.Advice = append(append([]string{}, findings(s.Services)...), advice(t.v, slices.ContainsFunc(s.Services, func(s fact.ServiceState) bool { return s.Explains }))...)
	return &s
}

// Hit names the services of an injection.
func Hit(inj fact.Injection) string {
	if inj.Service == "" {
		return strings.Join(inj.Services, "+")
	}
	return inj.Service
}

// near reports whether something happened around a fault that may be the cause.
func (t *Teller) near(at memory.Instant) bool {
	for _, id := range t.v.Suspects {
		s := t.spans[id]
		if !s.Fired.IsZero() && !at.Before(s.Fired.Add(-around)) && !at.After(memory.Later(s.Fired, s.Back).Add(around)) {
			return true
		}
	}
	return false
}

func join(parts ...string) string {
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	return strings.Join(parts, ": ")
}

// short rounds a duration to what a person reads.
func short(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond && d > -10*time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(10 * time.Millisecond).String()
}
