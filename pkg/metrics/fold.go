package metrics

import (
	"cmp"
	"strconv"
	"time"

	"amnesia/chaos"
	"amnesia/pkg/fact"
	"amnesia/pkg/incident"
	"amnesia/pkg/memory"
)

// fold is what has to be remembered from one fact to a later one. What it holds of memories goes when they retire, what
// it holds of injections when they are old; only losses and defects are kept for ever, since each counts once, ever.
type fold struct {
	verdicts     map[memory.ID]memory.Kind
	acknowledged map[memory.ID]memory.Instant
	seen         map[sighting]bool
	counted      map[once]bool
	injections   map[int64]*injection
	deaths       map[string]fact.Instance
	cycle        fact.Cycle
	muted        []fact.Known
	series       map[string]map[string]*series // of a vec, by its name and their labels
}

// sighting is a memory that was found in a view.
type sighting struct {
	memory memory.ID
	view   string
}

// once is a memory in a counter: its labels in which a memory counts once.
type once struct {
	memory memory.ID
	what   string
}

// injection is the life of one injection so far.
type injection struct {
	plan              fact.Injection
	fired             memory.Instant
	active            bool // fired and not yet closed
	failed, recovered bool
	unwell            bool // a look after it found a service that was not healthy
}

// oldInjections is how many injections back a loss is still traced to its fault.
const oldInjections = 1000

func newFold() fold {
	return fold{
		verdicts: map[memory.ID]memory.Kind{}, acknowledged: map[memory.ID]memory.Instant{}, seen: map[sighting]bool{},
		counted: map[once]bool{}, injections: map[int64]*injection{}, deaths: map[string]fact.Instance{},
		series: map[string]map[string]*series{},
	}
}

// Tap folds facts that have just become durable, in their order: see ledger.Options.Tap.
func (m *Metrics) Tap(facts []fact.Entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range facts {
		m.take(e.Fact)
	}
}

// Lend lends what the facts have made: see ledger.Fold.
func (m *Metrics) Lend(fn func(state any) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return fn(&m.fold)
}

func (m *Metrics) take(f fact.Fact) {
	switch f := f.(type) {
	case fact.Settled:
		m.settled(f)
	case fact.Judged:
		m.judged(f)
	case fact.Muting:
		m.fold.muted = f.Known
	case fact.Retired:
		m.retired(f)
	case fact.Cycle:
		m.cycled(f)
	case fact.Step:
		m.stepped(f)
	case fact.Death:
		// The same death is recorded again once the service is healthy.
		if m.fold.deaths[f.Service] != f.Instance {
			m.fold.deaths[f.Service] = f.Instance
			m.foreignDeaths.with(f.Service, f.Cause).inc()
		}
	case fact.Session:
		m.sessions.with(f.Driver, f.Outcome).inc()
		m.sessionDuration.observe(m.sessionDuration.with(f.Driver), f.Began, f.Ended, nil)
	case fact.Sweep:
		m.swept(f)
	}
}

func (m *Metrics) settled(f fact.Settled) {
	m.writes.with(string(f.Outcome)).inc()
	if f.Outcome != memory.Acknowledged {
		return
	}
	at := f.At
	if n := len(f.Levels); n > 0 {
		at = f.Levels[n-1].Seen
	}
	m.fold.acknowledged[f.Memory] = at
}

func (m *Metrics) judged(f fact.Judged) {
	v := f.Verdict
	if old, ok := m.fold.verdicts[v.Memory]; ok {
		m.memories.with(string(old)).dec()
	}
	m.fold.verdicts[v.Memory] = v.Kind
	m.memories.with(string(v.Kind)).inc()

	for _, d := range v.Defects {
		m.found(f, string(d), m.defects.with(string(d)), string(d), "", "")
	}
	if v.Recovered {
		for _, view := range v.Found {
			if m.first(v.Memory, "recovered "+view) {
				m.recoveries.with(view).inc()
			}
		}
	}
	// By class as well: what was permitted or unsure at first and is silent now has to be heard of.
	if v.Open || !v.Kind.Loss() {
		return
	}
	service := incident.ServiceLabel(v.Fault, v.Service)
	counter := m.losses.with(string(v.Kind), string(v.Class), v.Level, v.Fault, service)
	if !m.found(f, string(v.Kind)+" "+string(v.Class), counter, string(v.Class), v.Fault, service) || v.Class == memory.Permitted {
		return
	}
	exemplar := exemplarOf(f)
	if v.Exposure != nil {
		m.exposure.take(m.exposure.with(v.Fault, service), *v.Exposure, exemplar, f.At)
	}
	if len(v.Suspects) == 1 {
		if inj := m.fold.injections[v.Suspects[0]]; inj != nil {
			m.detection.observe(m.detection.with(), inj.fired, f.At, exemplar)
		}
	}
}

// first reports whether the memory was never counted there.
func (m *Metrics) first(id memory.ID, what string) bool {
	key := once{id, what}
	if m.fold.counted[key] {
		return false
	}
	m.fold.counted[key] = true
	return true
}

// found counts a loss or a defect once, and says whether it did: with what is known where its incident was muted when it
// was found, and else in its counter. Known once it stays known: that the date has passed makes it no news.
func (m *Metrics) found(f fact.Judged, what string, counter *series, class, fault, service string) bool {
	id := f.Verdict.Memory
	if m.fold.counted[once{id, what}] {
		return false
	}
	for _, fingerprint := range incident.Fingerprints(f.Verdict) {
		known := "known " + fingerprint
		switch {
		case incident.Class(fingerprint) != class:
		case m.fold.counted[once{id, known}]:
			return false
		case incident.Muted(m.fold.muted, fingerprint, f.At) != nil:
			what, counter = known, m.known.with(class, fault, service)
		}
	}
	m.fold.counted[once{id, what}] = true
	counter.example(exemplarOf(f), f.At)
	return true
}

func exemplarOf(f fact.Judged) map[string]string {
	return map[string]string{"memory": f.Verdict.Memory.String(), "cycle": strconv.Itoa(f.Cycle)}
}

func (m *Metrics) retired(f fact.Retired) {
	for id := range m.fold.verdicts {
		if f.Memories.Has(id) {
			delete(m.fold.verdicts, id)
		}
	}
	for id := range m.fold.acknowledged {
		if f.Memories.Has(id) {
			delete(m.fold.acknowledged, id)
		}
	}
	for s := range m.fold.seen {
		if f.Memories.Has(s.memory) {
			delete(m.fold.seen, s)
		}
	}
}

func (m *Metrics) cycled(f fact.Cycle) {
	before := m.fold.cycle
	m.fold.cycle = f
	if before.Run == f.Run && before.N == f.N && before.Phase != fact.PhaseClosed && before.Phase != "" {
		m.cycleDuration.observe(m.cycleDuration.with(string(before.Phase)), before.At, f.At, nil)
	}
	if f.Phase == fact.PhaseClosed {
		m.cycles.with(string(f.Outcome), strconv.FormatBool(f.Control)).inc()
	}
}

func (m *Metrics) stepped(f fact.Step) {
	inj := m.fold.injections[f.Injection]
	if inj == nil {
		inj = &injection{}
		m.fold.injections[f.Injection] = inj
		delete(m.fold.injections, f.Injection-oldInjections)
	}
	if f.Plan != nil {
		inj.plan = *f.Plan
	}
	for _, h := range f.After {
		inj.unwell = inj.unwell || h.Sick()
	}
	if !f.Fired.IsZero() {
		inj.fired = f.Fired
	}
	kind, service := inj.plan.Kind, cmp.Or(inj.plan.Service, all)
	if kind == chaos.CrashAll {
		service = all
	}
	ended := func(o chaos.Outcome) { m.faults.with(kind, service, string(o)).inc() }
	switch f.Name {
	case fact.StepFiring:
		inj.fired, inj.active = f.At, true
		m.faultsActive.with(kind, service).inc()
	case fact.StepFailed:
		inj.failed = true
	case fact.StepRecovered:
		inj.recovered = true
		if !inj.failed && kind != chaos.DaemonRestart { // how long no daemon lived is not the target's
			m.faultRecovery.observe(m.faultRecovery.with(kind, service), inj.fired.Add(inj.plan.Hold), f.At, nil)
		}
	case fact.StepRefused:
		ended(chaos.Refused)
		if r := chaos.ReasonOf(f.Detail); r != "" {
			m.refusals.with(string(r)).inc()
		}
	case fact.StepClosed:
		switch fired := !inj.fired.IsZero(); {
		case inj.plan.DryRun:
			ended(chaos.DryRun)
		case !fired: // called off before its moment came
		case inj.recovered && !inj.failed:
			ended(chaos.Injected)
		case !inj.recovered && inj.unwell:
			ended(chaos.Unrecovered)
		default:
			ended(chaos.Failed)
		}
		if inj.active {
			inj.active = false
			m.faultsActive.with(kind, service).dec()
		}
	}
}

func (m *Metrics) swept(f fact.Sweep) {
	result := partial
	switch {
	case f.Error != "":
		result = unreadable
	case f.Complete:
		result = complete
		m.lastSweep.with(f.View).set(float64(f.Ended.Wall) / float64(time.Second))
	}
	m.sweeps.with(f.View, result).inc()
	m.sweepDuration.observe(m.sweepDuration.with(f.View), f.Began, f.Ended, nil)
	for _, o := range f.Observations {
		key := sighting{o.Memory, f.View}
		if at, ok := m.fold.acknowledged[o.Memory]; ok && o.State.Here() && !m.fold.seen[key] {
			m.fold.seen[key] = true
			m.visible.observe(m.visible.with(f.View), at, o.Ended, nil)
		}
	}
}
