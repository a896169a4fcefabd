package incident

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"amnesia/chaos"
	"amnesia/pkg/discover"
	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
	"amnesia/pkg/session"
)

const (
	// firstFreezes of an incident are made at once, later ones at most so often: its evidence stays bounded while it grows.
	firstFreezes = 5
	freezeEvery  = time.Hour
	// freezesAtOnce bounds the incidents whose evidence one cycle freezes.
	freezesAtOnce = 8
	// freezeWithin bounds what is asked of others meanwhile: the cycle is not closed before.
	freezeWithin = 3 * time.Second
	// frozenText bounds the log text of one freeze, in bytes; frozenEvents and frozenPictures the rest.
	frozenText     = 64 << 10
	frozenEvents   = 100
	frozenPictures = 4
	// injectionsKnown is how many injections back a loss is still traced to its fault.
	injectionsKnown = 100
)

// Freezer keeps what is at hand only for a while (log lines, the engine's events, what pages showed), and makes the
// evidence of an incident of it when the losses of a cycle are found. It holds a bounded amount, however long a soak is.
//
// Fill the fields, then give it the ledger's facts (Tap), those of earlier daemons first. Its methods may be called by many
// goroutines. A func that is nil is not asked.
type Freezer struct {
	Clock  memory.Clock
	Log    *zap.Logger
	Redact func(string) string
	// Describe gives the engine's view of services, Diagnose what makes their data less durable.
	Describe func(ctx context.Context, services ...string) ([]fact.ServiceState, error)
	Diagnose func(ctx context.Context) ([]discover.Finding, error)
	// Dir is the folder of evidence; empty: there are no pictures. Draw makes a screenshot of a document.
	Dir  string
	Draw func(ctx context.Context, g session.Glance, path string) error
	// Owes reports whether the page has to show a memory to a user who asks for it at an instant.
	Owes func(id memory.ID, at memory.Instant) bool

	mu      sync.Mutex
	shelves map[string]*shelf // by service
	events  []fact.ServiceEvent
	album   album
	folded
}

// folded is what of it follows from facts alone.
type folded struct {
	in         members
	frozen     map[string]freezes // by fingerprint
	injections map[int64]*injection
	behind     map[string]string // the service of a view
	cycle      fact.Cycle        // as it began
	fault      memory.Instant    // the last
	shown      shown             // of the cycle that is not closed
}

// freezes is how often an incident was frozen.
type freezes struct {
	n    int
	last memory.Instant
}

// due reports whether it is to be frozen again.
func (f freezes) due(now memory.Instant) bool {
	return f.n < firstFreezes || now.Time().Sub(f.last.Time()) >= freezeEvery
}

type injection struct {
	plan  fact.Injection
	fired memory.Instant
}

// open makes the maps. The mutex is held.
func (z *Freezer) open() {
	if z.shelves == nil {
		z.shelves, z.in, z.frozen = map[string]*shelf{}, members{}, map[string]freezes{}
		z.injections, z.behind = map[int64]*injection{}, map[string]string{}
	}
}

// Tap takes facts that have become durable.
func (z *Freezer) Tap(entries []fact.Entry) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.open()
	for _, e := range entries {
		switch f := e.Fact.(type) {
		case fact.Contracts:
			clear(z.behind)
			for _, k := range f.Contracts {
				z.behind[k.View] = k.Service
			}
		case fact.Cycle:
			switch f.Phase {
			case fact.PhaseTraffic:
				z.cycle = f
			case fact.PhaseClosed:
				z.album.close(z.Dir, z.Log)
				z.shown = shown{}
			}
		case fact.Step:
			z.stepped(f)
		case fact.Session:
			for _, p := range traces(f) {
				z.album.trace(f.User, p)
				z.shown.trace(f.User, p)
			}
		case fact.Judged:
			if fps := z.in.gained(f.Verdict); len(fps) > 0 {
				z.in[f.Verdict.Memory] = append(z.in[f.Verdict.Memory], fps...)
			}
		case fact.Retired:
			z.in.retire(f.Memories)
		case fact.Frozen:
			z.frozen[f.Incident] = freezes{z.frozen[f.Incident].n + 1, f.At}
			z.album.use(f.Pictures)
			z.shown.use(f.Pictures)
		}
	}
}

// Lend lends what the facts have made: see ledger.Fold.
func (z *Freezer) Lend(fn func(state any) error) error {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.open()
	err := fn(&z.folded)
	if z.album.traces == nil && z.album.used == nil {
		z.album.shown = shown{maps.Clone(z.shown.traces), maps.Clone(z.shown.used)}
	}
	return err
}

func (z *Freezer) stepped(f fact.Step) {
	i := z.injections[f.Injection]
	if i == nil {
		i = &injection{}
		z.injections[f.Injection] = i
		delete(z.injections, f.Injection-injectionsKnown)
	}
	if f.Plan != nil {
		i.plan = *f.Plan
	}
	switch {
	case f.Name == fact.StepFiring:
		i.fired, z.fault = f.At, f.At
	case !f.Fired.IsZero():
		i.fired = f.Fired
	}
}

// Line takes a line that a service printed.
func (z *Freezer) Line(f fact.Log) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.open()
	s := z.shelves[f.Service]
	if s == nil {
		s = &shelf{}
		z.shelves[f.Service] = s
	}
	if s.fault != z.fault {
		s.strike(z.fault)
	}
	s.push(f)
}

// Event takes an event of the engine's.
func (z *Freezer) Event(e fact.ServiceEvent) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if len(z.events) == eventsHeld {
		z.events = slices.Delete(z.events, 0, eventsHeld/4)
	}
	z.events = append(z.events, e)
}

// finding is what one cycle adds to one incident.
type finding struct {
	fingerprint string
	verdicts    []memory.Verdict
	memories    memory.Set
	suspects    []*injection
	injection   int64          // the only suspect
	fault       memory.Instant // the first of the suspects'; without any, the begin of the cycle
	services    []string
}

// Freeze gives the evidence of the incidents to which the verdicts of a cycle, which are not on record yet, add something;
// told are the memories. It never fails: what cannot be had is missing, and said in the log.
func (z *Freezer) Freeze(ctx context.Context, cycle int, judged []fact.Judged, told func(memory.ID) memory.Memory) []fact.Frozen {
	ctx, cancel := context.WithTimeout(ctx, freezeWithin)
	defer cancel()
	all := z.findings(judged)
	if len(all) == 0 {
		return nil
	}
	var services []string
	for _, f := range all {
		services = append(services, f.services...)
	}
	slices.Sort(services)
	states, diagnosis := z.ask(ctx, slices.Compact(services))
	var out []fact.Frozen
	for _, f := range all {
		e := fact.Frozen{Incident: f.fingerprint, Cycle: cycle, Injection: f.injection, Memories: f.memories}
		for _, s := range states {
			if slices.Contains(f.services, s.Service) {
				s.Findings, s.Explains = sentences(diagnosis, s, f)
				e.Services = append(e.Services, s)
			}
		}
		z.fill(&e, f)
		if e.Pictures = z.pictures(ctx, cycle, f, told); len(e.Pictures) > 0 {
			e.Folder, _ = filepath.Abs(z.Dir) // where there is no working folder, they are looked for beside the ledger
		}
		e.At = z.Clock.Now()
		out = append(out, e)
	}
	return out
}

// findings groups the verdicts by the incidents that gain a memory, the largest first, as far as they are to be frozen.
func (z *Freezer) findings(judged []fact.Judged) (all []*finding) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.open()
	now := z.Clock.Now()
	by := map[string]*finding{}
	for _, j := range judged {
		for _, fp := range z.in.gained(j.Verdict) {
			f := by[fp]
			if f == nil {
				f = &finding{fingerprint: fp}
				by[fp] = f
			}
			f.verdicts = append(f.verdicts, j.Verdict)
		}
	}
	for _, fp := range slices.Sorted(maps.Keys(by)) {
		if z.frozen[fp].due(now) {
			all = append(all, by[fp])
		}
	}
	slices.SortStableFunc(all, func(a, b *finding) int { return cmp.Compare(len(b.verdicts), len(a.verdicts)) })
	all = all[:min(len(all), freezesAtOnce)]
	for _, f := range all {
		z.trace(f)
	}
	return all
}

// trace says which injections, services and moment a finding is about. The mutex is held.
func (z *Freezer) trace(f *finding) {
	var ids []memory.ID
	var suspects []int64
	for _, v := range f.verdicts {
		ids = append(ids, v.Memory)
		suspects = append(suspects, v.Suspects...)
		if v.Service != "" {
			f.services = append(f.services, strings.Split(v.Service, "+")...)
		}
		views := v.Missing
		if !v.Kind.Loss() { // a defect is of any
			views = slices.Collect(maps.Keys(z.behind))
		}
		for _, view := range views {
			f.services = append(f.services, z.behind[view])
		}
	}
	f.memories = memory.SetOf(ids...)
	slices.Sort(suspects)
	suspects = slices.Compact(suspects)
	if len(suspects) == 1 {
		f.injection = suspects[0]
	}
	for _, id := range suspects {
		if i := z.injections[id]; i != nil {
			f.suspects = append(f.suspects, i)
			f.services = append(f.services, chaos.Hit(i.plan)...)
			if f.fault.IsZero() || i.fired.Before(f.fault) {
				f.fault = i.fired
			}
		}
	}
	if f.fault.IsZero() {
		f.fault = z.cycle.At
	}
	slices.Sort(f.services)
	f.services = slices.DeleteFunc(slices.Compact(f.services), func(s string) bool { return s == "" })
}

// ask asks the engine and the stores, both at once.
func (z *Freezer) ask(ctx context.Context, services []string) (states []fact.ServiceState, found []discover.Finding) {
	var asking sync.WaitGroup
	if z.Describe != nil {
		asking.Go(func() {
			var err error
			if states, err = z.Describe(ctx, services...); err != nil {
				z.Log.Warn("the evidence says little of some services: the engine could not tell", zap.Error(err))
			}
		})
	}
	if z.Diagnose != nil {
		asking.Go(func() {
			var err error
			if found, err = z.Diagnose(ctx); err != nil {
				z.Log.Warn("the evidence may not say how durable the services are", zap.Error(err))
			}
		})
	}
	asking.Wait()
	for i := range states {
		states[i].Command = hideSecrets(states[i].Command)
	}
	return states, found
}

// sentences says what makes the data of a service's copy less durable. Where the fault is known, only what it takes.
func sentences(all []discover.Finding, s fact.ServiceState, f *finding) (out []string, explains bool) {
	for _, d := range all {
		if d.Service != s.Service || d.Container != "" && d.Container != s.Name || d.Severity == discover.Unknown {
			continue
		}
		kinds := map[string]bool{}
		for _, i := range f.suspects {
			kinds[i.plan.Kind] = true
		}
		if len(kinds) > 0 && !slices.ContainsFunc(d.Faults, func(kind string) bool { return kinds[kind] || kind == discover.NoFault }) {
			continue
		}
		explains = explains || d.Severity == discover.Loses && slices.ContainsFunc(f.suspects, func(i *injection) bool {
			return slices.Contains(d.Faults, i.plan.Kind) && slices.Contains(chaos.Hit(i.plan), s.Service)
		})
		out = append(out, fmt.Sprintf("%s. It would lose %s — fix: %s", d.What, d.Loses, d.Fix))
	}
	return out, explains
}

// fill adds the lines and events from before the fault on.
func (z *Freezer) fill(e *fact.Frozen, f *finding) {
	z.mu.Lock()
	defer z.mu.Unlock()
	from := f.fault.Add(-BeforeFault)
	for _, service := range f.services {
		s := z.shelves[service]
		if s == nil {
			continue
		}
		kept, cut := choose(s.since(from), f.fault, f.memories, frozenText/len(f.services), z.clean)
		e.Logs = append(e.Logs, kept...)
		e.Cut += cut
	}
	slices.SortStableFunc(e.Logs, func(a, b fact.Log) int { return cmp.Compare(a.At.Wall, b.At.Wall) })
	for _, ev := range z.events {
		if slices.Contains(f.services, ev.Service) && !ev.At.Before(from.Time()) {
			e.Events = append(e.Events, ev)
		}
	}
	e.Events = e.Events[max(0, len(e.Events)-frozenEvents):]
}

func (z *Freezer) clean(text string) string {
	if z.Redact == nil {
		return text
	}
	return z.Redact(text)
}
