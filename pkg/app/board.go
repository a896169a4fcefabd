package app

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"amnesia/chaos"
	"amnesia/pkg/fact"
	"amnesia/pkg/incident"
	"amnesia/pkg/ledger"
	"amnesia/pkg/memory"
	"amnesia/pkg/oracle"
	"amnesia/pkg/report"
	"amnesia/pkg/web"
)

// recent is how many cycles the page of now shows.
const recent = 60

// board is what the pages read: the web.Books. It folds what is asked for often, and looks the rest up in the ledger.
type board struct {
	a *App

	mu sync.Mutex
	boardFold
	changing chan struct{} // closed when something has changed
}

// boardFold is what of it follows from facts.
type boardFold struct {
	log      *incident.Log
	cycles   incident.Cycles
	counts   web.Counts
	once     map[foundIn]bool
	verified map[memory.ID]bool // whether the last verdict says something
	refused  map[refusal]*web.Refusals
	planned  map[int64]fact.Injection // that are not closed
}

// foundIn is what a memory was counted as.
type foundIn struct {
	memory memory.ID
	what   string
}

// refusal is what makes refusals alike.
type refusal struct {
	kind, service string
	reason        chaos.Reason
}

func newBoard(a *App) *board {
	return &board{a: a, changing: make(chan struct{}), boardFold: boardFold{log: incident.NewLog(nil), cycles: incident.Cycles{Keep: recent},
		once: map[foundIn]bool{}, verified: map[memory.ID]bool{}, refused: map[refusal]*web.Refusals{}, planned: map[int64]fact.Injection{},
		counts: web.Counts{Outcomes: map[fact.CycleOutcome]int{}, Losses: map[memory.Class]int{}, Defects: map[memory.Defect]int{}}}}
}

// lend lends what the facts have made: see ledger.Fold.
func (b *board) lend(fn func(state any) error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return fn(&b.boardFold)
}

// tap follows the facts, those of earlier daemons first.
func (b *board) tap(entries []fact.Entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range entries {
		b.log.Apply(e)
		b.cycles.Apply(e)
		switch f := e.Fact.(type) {
		case fact.Begun:
			b.counts.Begun++
		case fact.Settled:
			switch f.Outcome {
			case memory.Acknowledged:
				b.counts.Acknowledged++
			case memory.Rejected:
				b.counts.Rejected++
			default:
				b.counts.Unknown++
			}
		case fact.Judged:
			b.judged(f.Verdict)
			b.verified[f.Verdict.Memory] = f.Verdict.Kind != memory.Unverified
		case fact.Cycle:
			if f.Phase == fact.PhaseClosed {
				b.counts.Cycles++
				b.counts.Outcomes[f.Outcome]++
			}
		case fact.Step:
			b.step(f)
		case fact.Retired: // not judged any more
			maps.DeleteFunc(b.once, func(k foundIn, _ bool) bool { return f.Memories.Has(k.memory) })
			maps.DeleteFunc(b.verified, func(id memory.ID, _ bool) bool { return f.Memories.Has(id) })
		}
	}
	b.change()
}

// changed says that something that is in no fact has changed.
func (b *board) changed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.change()
}

func (b *board) change() {
	close(b.changing)
	b.changing = make(chan struct{})
}

// Changed gives a channel that is closed at the next change.
func (b *board) Changed() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changing
}

// judged counts each loss, by class, and each defect of a memory once.
func (b *board) judged(v memory.Verdict) {
	first := func(what string) bool {
		key := foundIn{v.Memory, what}
		was := b.once[key]
		b.once[key] = true
		return !was
	}
	if v.Alarming() && !v.Open && first(string(v.Class)) {
		b.counts.Losses[v.Class]++
	}
	for _, d := range v.Defects {
		if first(string(d)) {
			b.counts.Defects[d]++
		}
	}
}

// reread counts those of which the last verdict said something.
func (b *board) reread(ids []memory.ID) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range ids {
		if b.verified[id] {
			n++
		}
	}
	return n
}

func (b *board) step(f fact.Step) {
	if f.Plan != nil {
		b.planned[f.Injection] = *f.Plan
	}
	plan := b.planned[f.Injection]
	switch f.Name {
	case fact.StepClosed:
		delete(b.planned, f.Injection)
	case fact.StepRefused:
		delete(b.planned, f.Injection)
		reason := chaos.ReasonOf(f.Detail)
		key := refusal{plan.Kind, incident.Hit(plan), reason}
		r := b.refused[key]
		if r == nil {
			r = &web.Refusals{Kind: key.kind, Service: key.service, Reason: reason}
			b.refused[key] = r
		}
		r.Times++
		r.Last, r.Why = f.At.Time().UTC(), f.Detail
	}
}

// Live is what goes on now.
func (b *board) Live(ctx context.Context) (web.Live, error) {
	a := b.a
	now := a.clock.Now()
	l := web.Live{At: now.Time().UTC(), Version: Version(a.opts.Version), Run: a.run, Target: a.cfg.Target.URL, Ledger: a.cfg.Ledger.Path,
		Config: a.opts.Config}
	a.desk.live(&l)
	b.mu.Lock()
	defer b.mu.Unlock()
	l.Counts = b.counts
	l.Counts.Outcomes, l.Counts.Losses, l.Counts.Defects = maps.Clone(b.counts.Outcomes), maps.Clone(b.counts.Losses), maps.Clone(b.counts.Defects)
	l.Incidents = b.log.Open(now)
	l.Last = b.cycles.All()
	for i, c := range l.Last {
		if in := c.Injections; l.Cycle != nil && c.N == l.Cycle.N && len(in) > 0 {
			l.Fault = &in[len(in)-1]
		}
		l.Last[i] = c.Brief()
	}
	return l, nil
}

// Cycles gives some from the ledger.
func (b *board) Cycles(ctx context.Context, before, limit int) ([]incident.Cycle, error) {
	var c incident.Cycles
	for e, err := range b.a.Ledger.CycleFacts(ctx, before, limit) {
		if err != nil {
			return nil, err
		}
		c.Apply(e)
	}
	all := slices.DeleteFunc(c.All(), func(c incident.Cycle) bool { return before > 0 && c.N >= before })
	return all[:min(limit, len(all))], nil
}

// Memories searches the ledger.
func (b *board) Memories(ctx context.Context, s web.Search) ([]web.Memory, error) {
	rows, err := b.a.Ledger.Memories(ctx, ledger.Search(s))
	all := make([]web.Memory, len(rows))
	for i, r := range rows {
		all[i] = web.Memory{ID: r.ID, Cycle: r.Cycle, User: r.User, Token: r.Token, Text: r.Text, Payload: r.Payload, Begun: time.Unix(0, r.Begun).UTC(),
			Outcome: r.Outcome, Verdict: r.Verdict, Class: r.Class, Defects: r.Defects, Missing: r.Missing, Fault: r.Fault, Service: r.Service}
	}
	return all, err
}

// Memory tells the story of one from its own facts: the book has judged it already.
func (b *board) Memory(ctx context.Context, id memory.ID) (*incident.Story, error) {
	now := b.a.clock.Now()
	var v memory.Verdict
	var ok bool
	b.a.Docket.Read(func(book *oracle.Book) { v, ok = book.Verdict(id, now) })
	if !ok {
		return nil, fmt.Errorf("%w: %s is not in this ledger — fix: see /memories", incident.ErrNoMemory, id)
	}
	var all []fact.Entry
	spans := incident.Spans{}
	for e, err := range b.a.Ledger.About(ctx, id) {
		if err != nil {
			return nil, err
		}
		spans.Apply(e)
		all = append(all, e)
	}
	t := incident.NewTeller(memory.Memory{ID: id}, v, spans)
	for _, e := range all {
		t.Apply(e)
	}
	return t.Story(now), nil
}

// Incidents gives all.
func (b *board) Incidents(context.Context) ([]incident.Incident, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.log.All(b.a.clock.Now()), nil
}

// Incident gives one.
func (b *board) Incident(_ context.Context, fingerprint string) (incident.Incident, bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i, ok := b.log.Get(fingerprint, b.a.clock.Now())
	return i, ok, nil
}

// Faults gives what the configuration declares with what came of it.
func (b *board) Faults(context.Context) (web.Faults, error) {
	out := web.Faults{Armed: b.a.cfg.Armed, Faults: []web.Fault{}, Refusals: []web.Refusals{}}
	rows := map[oracle.FaultKey]*web.Fault{}
	row := func(k oracle.FaultKey) *web.Fault {
		if rows[k] == nil {
			rows[k] = &web.Fault{Kind: k.Kind, Service: k.Service, Declared: []web.Declared{}}
		}
		return rows[k]
	}
	var totals oracle.Totals
	now := b.a.clock.Now()
	b.a.Docket.Read(func(book *oracle.Book) { totals = book.Totals(now) })
	for _, f := range totals.Faults {
		r := row(f.FaultKey)
		r.Injected, r.Lost = f.Injected, f.Lost
	}
	for _, c := range totals.Curves {
		r := row(c.FaultKey)
		w := c.Window()
		r.Window = &report.Window{Kind: c.Kind, Service: c.Service, MS: milliseconds(w.At), Low: milliseconds(w.Low)}
		if w.High > 0 {
			high := milliseconds(w.High)
			r.Window.High = &high
		}
		for _, p := range c.Points() {
			r.Curve = append(r.Curve, report.Point{UptoMS: milliseconds(p.Upto), Lost: p.Lost, Kept: p.Kept, P: p.P, Low: p.Low, High: p.High})
		}
	}
	from := b.a.planConfig()
	for _, rule := range from.Rules {
		on := rule.Service
		if rule.Kind == chaos.CrashAll {
			on = strings.Join(from.Services, "+")
		}
		r := row(oracle.FaultKey{Kind: rule.Kind, Service: on})
		r.Declared = append(r.Declared, web.Declared{Weight: rule.Weight, When: when(rule), How: how(rule)})
	}
	for _, r := range rows {
		out.Faults = append(out.Faults, *r)
	}
	slices.SortFunc(out.Faults, func(x, y web.Fault) int {
		return cmp.Or(cmp.Compare(y.Lost, x.Lost), cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Service, y.Service))
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.refused {
		out.Refusals = append(out.Refusals, *r)
	}
	slices.SortFunc(out.Refusals, func(x, y web.Refusals) int {
		return cmp.Or(cmp.Compare(y.Times, x.Times), cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Service, y.Service), cmp.Compare(x.Reason, y.Reason))
	})
	return out, nil
}

// when says in words when a declared fault strikes.
func when(r chaos.Rule) string {
	return fmt.Sprintf("%s to %s after “%s”", r.Delay.Min, r.Delay.Max, cmp.Or(r.After, "acknowledged"))
}

// how says in words what else is declared of it.
func how(r chaos.Rule) string {
	var all []string
	switch r.Kind {
	case chaos.Pause, chaos.Partition:
		all = append(all, fmt.Sprintf("held for %s to %s", r.Hold.Min, r.Hold.Max))
	case chaos.Restart, chaos.Recreate:
		all = append(all, fmt.Sprintf("%s between SIGTERM and SIGKILL", r.Grace))
	case chaos.Wipe:
		all = append(all, "empties "+r.Volume)
	}
	if r.Instances == "all" {
		all = append(all, "all instances")
	}
	if r.Supervised {
		all = append(all, "the engine has to bring it back")
	}
	return strings.Join(all, ", ")
}

// Evidence opens a file in the folder of evidence, and none that a link there leads out to.
func (b *board) Evidence(name string) (fs.File, error) {
	return os.OpenInRoot(b.a.cfg.Evidence.Dir, name)
}
