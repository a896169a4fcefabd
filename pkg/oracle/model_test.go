package oracle

import (
	"math/big"
	"slices"
	"sort"
	"strings"
	"time"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

// The model is the oracle again, slow and plain: it keeps every fact, and answers each question by going through all of
// them from the first. It shares no code with the book beyond the vocabulary.

type model struct {
	facts  []fact.Fact
	worlds []world                // worlds[i] is what was known when facts[i] had been recorded
	losses map[memory.ID][]lossAt // as they were found, in order
	// recalls are, by cycle, what the assistant knew after each sweep in which it was asked for a memory of that cycle.
	recalls map[int][]answers
}

// answers are how many memories the assistant was asked for at fact i, and how many it knew.
type answers struct{ i, asked, knew int }

// opinion is the part of a verdict that is compared.
type opinion struct {
	Kind    memory.Kind
	Defects []memory.Defect
	Class   memory.Class
	Fault   string
	Service string
	Missing []string
	Open    bool
}

// weighed is an opinion before what the memory's past, and its cause, add to it.
type weighed struct {
	opinion
	where  map[string]string // view → here, missing, gap, none
	sights map[string]sight
}

// span is a stretch of trouble: one fault of ours or one foreign death.
type span struct {
	ours           bool
	id             int64
	kind, service  string
	who            fact.Instance
	from, done     memory.Instant // for ours: fired, and injected
	to             memory.Instant // healthy again; zero: not yet
	quiet          memory.Instant // from here deadlines run; zero: not yet
	failed, undone bool
	undoneAt       memory.Instant
	died           memory.Instant
}

type told struct {
	m       memory.Memory
	at      memory.Instant
	settled *fact.Settled
	ack     memory.Level // Seen zero: none
	forgot  memory.Instant
	forget  *fact.ForgetSettled
	retired memory.Instant
	reports []memory.Instant
	gone    bool // retired
}

// world is what is known at one point of the ledger.
type world struct {
	contracts fact.Contracts
	spans     []span
	who       map[string]memory.Instant // service → when its identity was read last
	ids       map[string][]fact.Instance
	well      map[string]memory.Instant
	told      []told // in order
	jump      memory.Instant
	asked     []fact.Sweep
	raw       map[string]memory.Observation // "id view"
}

func newModel(facts []fact.Fact) *model {
	m := &model{facts: facts, losses: map[memory.ID][]lossAt{}, recalls: map[int][]answers{}}
	w := world{}
	for i := range facts {
		w = m.next(w, facts[i])
		m.worlds = append(m.worlds, w)
		switch f := facts[i].(type) {
		case fact.Sweep:
			if f.View == "answer" {
				m.ask(i, f)
			}
			for _, t := range w.told {
				// What a view has never said anything of, it has not been read for, whatever the set says.
				if _, known := w.raw[t.m.ID.String()+" "+f.View]; known && f.Read.Has(t.m.ID) && !t.gone {
					m.look(i, t.m.ID, f.Ended)
				}
			}
		case fact.Told:
			m.again(i, f.Memory, f.At)
		case fact.Log:
			if f.Level == "error" {
				m.again(i, f.Memory, f.At)
			}
		}
	}
	return m
}

// look judges as the book does on the way; a loss is remembered.
func (m *model) look(i int, id memory.ID, now memory.Instant) {
	if o := m.judge(i, id, now); o.Kind.Loss() {
		m.losses[id] = append(m.losses[id], lossAt{i, o})
	}
}

// ask counts what the assistant knows of the cycles that it was asked about. What was a bad answer may now be a loss.
func (m *model) ask(i int, f fact.Sweep) {
	w := &m.worlds[i]
	about := map[int]bool{}
	for _, t := range w.told {
		if _, known := w.raw[t.m.ID.String()+" answer"]; known && f.Read.Has(t.m.ID) && !t.gone {
			about[t.m.Cycle] = true
		}
	}
	for n := range about {
		a := answers{i: i}
		for _, t := range w.told {
			if t.m.Cycle != n || t.gone {
				continue
			}
			o := m.weigh(i, t.m.ID, f.Ended)
			if o.where["answer"] == "here" {
				a.asked, a.knew = a.asked+1, a.knew+1
			} else if o.Kind == memory.Hidden && !slices.Contains(o.Missing, "page") {
				a.asked++
			}
		}
		m.recalls[n] = append(m.recalls[n], a)
	}
	for _, t := range w.told {
		if log := m.losses[t.m.ID]; about[t.m.Cycle] && !t.gone && len(log) > 0 && log[len(log)-1].o.Class == memory.Unsure {
			m.look(i, t.m.ID, f.Ended)
		}
	}
}

// forgetful reports whether too few of a cycle's memories are known since its fault, by fact i. Of all the ways in which
// as many memories may be known as are, of this cycle and of the earlier ones without a fault together, it counts those in
// which this cycle has no more of them than it has.
func (m *model) forgetful(n, i int) bool {
	struck := map[int]bool{}
	for _, f := range m.facts[:i+1] {
		if s, ok := f.(fact.Step); ok && s.Name == fact.StepFiring && !s.Plan.DryRun {
			struck[s.Plan.Cycle] = true
		}
	}
	var here, free answers
	for k, log := range m.recalls {
		for j := len(log) - 1; j >= 0; j-- {
			if log[j].i > i {
				continue
			}
			if k == n {
				here = log[j]
			} else if k < n && !struck[k] {
				free.asked, free.knew = free.asked+log[j].asked, free.knew+log[j].knew
			}
			break
		}
	}
	ways, few := int64(0), int64(0)
	for k := 0; k <= here.asked; k++ {
		if rest := here.knew + free.knew - k; rest >= 0 && rest <= free.asked {
			w := new(big.Int).Mul(new(big.Int).Binomial(int64(here.asked), int64(k)), new(big.Int).Binomial(int64(free.asked), int64(rest))).Int64()
			ways += w
			if k <= here.knew {
				few += w
			}
		}
	}
	return struck[n] && float64(few)/float64(ways) < modelDoubt
}

// modelDoubt is high: the ledgers that are drawn hold few memories.
const modelDoubt = 0.4

func (m *model) again(i int, id memory.ID, now memory.Instant) {
	if len(m.losses[id]) > 0 && !m.worlds[i].of(id).gone {
		m.look(i, id, now)
	}
}

// next is the world after one more fact. Nothing of the old one is changed.
func (m *model) next(w world, f fact.Fact) world {
	w.spans, w.told, w.asked = slices.Clone(w.spans), slices.Clone(w.told), slices.Clone(w.asked)
	who, ids, well, raw := map[string]memory.Instant{}, map[string][]fact.Instance{}, map[string]memory.Instant{}, map[string]memory.Observation{}
	for k, v := range w.who {
		who[k] = v
	}
	for k, v := range w.ids {
		ids[k] = v
	}
	for k, v := range w.well {
		well[k] = v
	}
	for k, v := range w.raw {
		raw[k] = v
	}
	w.who, w.ids, w.well, w.raw = who, ids, well, raw
	t := func(id memory.ID) *told {
		for i := range w.told {
			if w.told[i].m.ID == id && !w.told[i].gone {
				return &w.told[i]
			}
		}
		return &told{}
	}
	switch f := f.(type) {
	case fact.Contracts:
		w.contracts = f
	case fact.Begun:
		w.told = append(w.told, told{m: f.Memory, at: f.At})
	case fact.Settled:
		x := t(f.Memory)
		x.settled = &f
		for _, l := range f.Levels {
			if l.Name == "settled" {
				x.ack = l
			}
		}
		if f.Outcome == memory.Acknowledged && len(f.Levels) == 0 {
			x.ack = memory.Level{NotSeen: x.at, Seen: f.At}
		}
		if x.ack.Seen != (memory.Instant{}) && f.Outcome == memory.Rejected {
			x.reports = append(slices.Clone(x.reports), f.At)
		}
	case fact.ForgetBegun:
		t(f.Memory).forgot = f.At
	case fact.ForgetSettled:
		t(f.Memory).forget = &f
	case fact.Told:
		x := t(f.Memory)
		x.reports = append(slices.Clone(x.reports), f.At)
	case fact.Log:
		if x := t(f.Memory); f.Level == "error" {
			x.reports = append(slices.Clone(x.reports), f.At)
		}
	case fact.Retired:
		for i := range w.told {
			if f.Memories.Has(w.told[i].m.ID) {
				w.told[i].gone, w.told[i].retired = true, f.At
			}
		}
	case fact.Gap:
		if f.Of == "clock" {
			w.jump = f.To
		}
	case fact.Step:
		w.stepped(f)
	case fact.Death:
		known := -1
		for i, s := range w.spans {
			if !s.ours && s.service == f.Service && s.who == f.Instance && !s.died.Before(f.NotBefore) {
				known = i
			}
		}
		if known < 0 {
			w.spans = append(w.spans, span{service: f.Service, who: f.Instance, from: f.NotBefore, died: f.At})
			known = len(w.spans) - 1
		}
		if f.Healthy != (memory.Instant{}) && w.spans[known].to == (memory.Instant{}) {
			w.spans[known].to, w.spans[known].quiet = f.Healthy, f.Healthy
		}
	case fact.Sweep:
		w.hear(f.Before)
		w.hear(f.After)
		if f.View == "answer" {
			w.asked = append(w.asked, f)
		}
		for _, o := range f.Observations {
			w.raw[o.Memory.String()+" "+f.View] = o
		}
		answered := false
		for _, x := range w.told {
			o, known := w.raw[x.m.ID.String()+" "+f.View]
			answered = answered || f.Read.Has(x.m.ID) && !x.gone && known && o.State != memory.Unreadable
		}
		if f.After == nil && trusted(f) && answered {
			for _, k := range w.contracts.Contracts {
				if k.View == f.View {
					w.answers(k.Service, f.Ended)
				}
			}
		}
		// Seen on the page by a user who had no answer.
		for i := range w.told {
			x := &w.told[i]
			o := w.raw[x.m.ID.String()+" "+f.View]
			if f.View == "page" && f.Read.Has(x.m.ID) && !x.gone && (o.State == "present" || o.State == "altered") &&
				x.settled != nil && x.ack.Seen == (memory.Instant{}) && w.contract("page") != nil &&
				(len(x.m.Views) == 0 || slices.Contains(x.m.Views, "page")) {
				x.ack = memory.Level{Name: "observed", NotSeen: f.Began, Seen: f.Ended}
			}
		}
	}
	return w
}

func (w *world) contract(view string) *memory.Contract {
	for i := range w.contracts.Contracts {
		if w.contracts.Contracts[i].View == view {
			return &w.contracts.Contracts[i]
		}
	}
	return nil
}

func (w *world) stepped(f fact.Step) {
	if f.Name == fact.StepFiring && !f.Plan.DryRun {
		w.spans = append(w.spans, span{ours: true, id: f.Injection, kind: f.Plan.Kind, service: f.Plan.Service, from: f.At})
	}
	for i := range w.spans {
		s := &w.spans[i]
		if !s.ours || s.id != f.Injection {
			continue
		}
		switch f.Name {
		case fact.StepInjected:
			s.from, s.done = f.Fired, f.At
		case fact.StepRecovered:
			s.to, s.quiet = f.At, f.At
		case fact.StepFailed:
			s.failed = true
		case fact.StepReverted:
			s.undone, s.undoneAt = true, f.At
			s.quiet = f.At
		case fact.StepClosed:
			if s.quiet == (memory.Instant{}) {
				s.quiet = f.At
			}
		}
	}
}

// hear takes one reading of a service's health and identity.
func (w *world) hear(h *fact.Health) {
	if h == nil {
		return
	}
	since := w.who[h.Service]
	for _, old := range w.ids[h.Service] {
		if slices.Contains(h.Instances, old) {
			continue
		}
		explained := false
		for _, s := range w.spans {
			switch {
			case s.service != h.Service || s.from.After(h.At):
			case s.ours && (s.to == (memory.Instant{}) || !s.to.Before(since)):
				explained = true
			case !s.ours && !s.died.Before(since):
				explained = true
			}
		}
		if !explained {
			w.spans = append(w.spans, span{service: h.Service, who: old, from: since, died: h.At})
		}
		break
	}
	w.ids[h.Service], w.who[h.Service] = h.Instances, h.At
	if h.Healthy {
		w.answers(h.Service, h.At)
	}
}

// answers ends what waits for a service.
func (w *world) answers(service string, at memory.Instant) {
	for i := range w.spans {
		s := &w.spans[i]
		if s.service != service || s.to != (memory.Instant{}) {
			continue
		}
		if !s.ours && !at.Before(s.died) || s.ours && (s.failed || s.undone) && !at.Before(memory.Later(s.done, s.undoneAt)) {
			s.to, s.quiet = at, memory.Later(s.quiet, at)
		}
	}
}

func trusted(f fact.Sweep) bool {
	if !f.Complete || f.Error != "" {
		return false
	}
	if f.Before == nil && f.After == nil {
		return true
	}
	return f.Before != nil && f.After != nil && f.Before.Healthy && f.After.Healthy && slices.Equal(f.Before.Instances, f.After.Instances)
}

func (w *world) of(id memory.ID) *told {
	for i := range w.told {
		if w.told[i].m.ID == id {
			return &w.told[i]
		}
	}
	return nil
}

func (w *world) laterWrites(x *told) []told {
	var ts []told
	for i := range w.told {
		if y := &w.told[i]; y.m.User == x.m.User && y.m.ID > x.m.ID {
			ts = append(ts, *y)
		}
	}
	return ts
}

// base is the instant from which a promise made at from counts for a service; ok is false while something is not over.
func (w *world) base(from memory.Instant, service string) (memory.Instant, bool) {
	ok := true
	for _, s := range w.spans {
		if !s.ours && s.service != service {
			continue
		}
		if s.quiet == (memory.Instant{}) {
			ok = false
		} else if s.quiet.After(from) || from == (memory.Instant{}) {
			from = s.quiet
		}
	}
	return from, ok
}

func (w *world) measurable(from, to memory.Instant) bool {
	return from.Boot == to.Boot && !(w.jump != (memory.Instant{}) && from.Sub(w.jump) < 0)
}

func (w *world) past(from memory.Instant, k *memory.Contract, at memory.Instant) bool {
	b, ok := w.base(from, k.Service)
	return ok && w.measurable(b, at) && at.Sub(b) > k.Settle
}

// owes answers "yes", "no" or "unclear".
func (w *world) owes(x *told, k *memory.Contract, at memory.Instant) string {
	if x.ack.Seen == (memory.Instant{}) || x.forgot != (memory.Instant{}) {
		return "no"
	}
	if k.KeepLast > 0 {
		n := 0
		for _, y := range w.laterWrites(x) {
			if !(y.settled != nil && y.settled.Outcome == memory.Rejected && y.ack.Seen == (memory.Instant{})) {
				n++
			}
		}
		if k.KeepUnit == "message" {
			n = 2*n + 1
			for _, f := range w.asked {
				for _, y := range w.told {
					if y.m.User == x.m.User && f.Read.Has(y.m.ID) && f.Ended.After(x.at) && (!y.gone || y.retired.After(f.Ended)) {
						n += 6
					}
				}
			}
		}
		if n >= k.KeepLast {
			return "no"
		}
	}
	if k.TTL > 0 {
		from := x.at
		for _, y := range w.laterWrites(x) {
			if k.TTLFrom == memory.TTLFromLastWrite && y.ack.Seen != (memory.Instant{}) && y.ack.Seen.Boot == from.Boot &&
				y.ack.Seen.Sub(from) <= k.TTL-k.Slack-k.Settle && y.at.After(from) {
				from = y.at
			}
		}
		if !w.measurable(from, at) {
			return "unclear"
		}
		if at.Sub(from) >= k.TTL-k.Slack {
			return "no"
		}
	}
	return "yes"
}

// reading is one reading of one memory in one view, as it was or as it was before.
type reading struct {
	i            int
	state        memory.State
	began, ended memory.Instant
	copies       int
	siblings     int
	ttl          int64
	strangers    bool
}

func (m *model) readings(i int, x *told, view string) []reading {
	var rs []reading
	var raw *memory.Observation
	for j := 0; j <= i; j++ {
		f, ok := m.facts[j].(fact.Sweep)
		if !ok || f.View != view || !f.Read.Has(x.m.ID) {
			continue
		}
		if y := m.worlds[j].of(x.m.ID); y == nil || y.gone {
			continue
		}
		r := reading{i: j, began: f.Began, ended: f.Ended}
		for k := range f.Observations {
			if f.Observations[k].Memory == x.m.ID {
				raw = &f.Observations[k]
				r.ttl = raw.TTL
			}
		}
		if raw == nil {
			continue
		}
		r.state, r.copies, r.strangers, r.siblings = raw.State, raw.Copies, len(raw.Strangers) > 0, raw.Siblings
		// Others of the user that this sweep found.
		n := 0
		for _, y := range m.worlds[j].told {
			if o := m.worlds[j].raw[y.m.ID.String()+" "+view]; y.m.User == x.m.User && f.Read.Has(y.m.ID) && !y.gone && (o.State == "present" || o.State == "altered") {
				n++
			}
		}
		r.siblings = max(r.siblings, n)
		if r.state == memory.Absent {
			y := m.worlds[j].of(x.m.ID)
			acked := y.ack.Seen != (memory.Instant{})
			if !trusted(f) || y.settled == nil || acked && f.Began.Boot == y.ack.Seen.Boot && f.Began.Sub(y.ack.Seen) <= 0 {
				r.state = memory.Unreadable
			}
		}
		rs = append(rs, r)
	}
	return rs
}

// sight is what all readings of one view come to.
type sight struct {
	name                      string
	k                         memory.Contract
	last                      *reading
	lastHere                  *reading
	absences                  []reading // since it was last there, while it was owed
	due, proof                *reading
	empty                     []reading
	late                      bool
	copies                    int
	came                      *reading // the first reading of the stretch in which it is there, after one without it
	altered, outlived, early  bool
	resurfaced, leaked, ackOK bool
}

func (m *model) see(i int, x *told, k memory.Contract, losses []lossAt) sight {
	s := sight{name: k.View, k: k}
	var stretch *reading
	apart, hadTTL := false, false
	var ttl *reading
	for _, r := range m.readings(i, x, k.View) {
		w := &m.worlds[r.i]
		y := w.of(x.m.ID)
		acked := y.ack.Seen != (memory.Instant{})
		if acked && !s.ackOK {
			// The promise begins: what was not there before says nothing.
			s.ackOK, s.absences, s.due, s.proof, s.empty = true, nil, nil, nil, nil
		}
		s.leaked = s.leaked || r.strangers
		s.last = &r
		switch r.state {
		case memory.Present, memory.Altered:
			if stretch == nil || apart {
				s.came = nil
				if apart {
					s.came = &r
				}
				stretch, apart = &r, false
			}
			s.lastHere = &r
			if r.ttl != 0 {
				hadTTL, ttl = true, &r
			}
			if !acked {
				continue
			}
			if s.proof != nil {
				for _, l := range losses {
					if l.i < r.i {
						s.resurfaced = s.resurfaced || l.last(losses, r.i).Class != memory.Unsure
					}
				}
			} else if len(s.absences) > 0 {
				s.late = true
			}
			s.absences, s.due, s.proof, s.empty = nil, nil, nil, nil
			s.altered = s.altered || r.state == memory.Altered && k.View != "answer"
			s.copies = max(s.copies, r.copies)
			if k.TTL > 0 {
				m.ttl(&s, w, y, r, stretch, hadTTL)
			}
			if y.forget != nil && y.forget.Outcome == memory.Acknowledged && w.past(y.forget.At, &k, r.began) {
				s.resurfaced = true
			}
		case memory.Absent:
			apart = true
			if !acked {
				continue
			}
			if !k.Durable && r.siblings == 0 {
				s.empty = append(s.empty, r)
				if s.proof == nil {
					s.absences, s.due = nil, nil
				}
				m.vanishedEarly(&s, w, y, r, ttl)
				continue
			}
			s.empty = nil
			if w.owes(y, &k, r.ended) != "yes" {
				continue
			}
			s.absences = append(s.absences, r)
			if w.past(y.ack.Seen, &k, r.began) {
				if s.due == nil {
					s.due = &r
				}
				if s.proof == nil && len(s.absences) > 1 && r.began.Sub(s.absences[0].ended) >= 0 {
					s.proof = &r
				}
			}
		}
	}
	return s
}

func (m *model) ttl(s *sight, w *world, y *told, r reading, stretch *reading, hadTTL bool) {
	k := &s.k
	ms := time.Duration(r.ttl) * time.Millisecond
	switch {
	case r.ttl < 0:
		s.outlived = true
	case r.ttl > 0:
		s.outlived = s.outlived || ms > k.TTL+k.Slack
		from := y.at
		for _, z := range w.laterWrites(y) {
			if k.TTLFrom == memory.TTLFromLastWrite && z.ack.Seen != (memory.Instant{}) && w.measurable(z.ack.Seen, r.began) &&
				r.began.Sub(z.ack.Seen) > k.Settle && len(w.meeting(z.at, r.ended)) == 0 {
				from = memory.Later(from, z.at)
			}
		}
		if w.measurable(from, r.ended) && r.ended.Sub(from)+ms < k.TTL-k.Slack {
			s.early = true
		}
	case !hadTTL:
		landed := stretch.ended
		for _, z := range w.laterWrites(y) {
			if k.TTLFrom != memory.TTLFromLastWrite {
				continue
			}
			if z.settled == nil {
				return
			}
			landed = memory.Later(landed, memory.Later(z.ack.Seen, z.settled.At).Add(k.Settle))
		}
		if w.measurable(landed, r.began) && r.began.Sub(landed) > k.TTL+k.Slack {
			s.outlived = true
		}
	}
}

// vanishedEarly: an emptied cache whose record had said that it had longer to live.
func (m *model) vanishedEarly(s *sight, w *world, y *told, r reading, ttl *reading) {
	k := &s.k
	if k.TTL <= 0 || ttl == nil || ttl.ttl < 0 || len(s.empty) < 2 || r.began.Before(s.empty[0].ended) {
		return
	}
	for _, z := range w.told {
		if z.m.User == y.m.User && (!z.at.Before(ttl.began) || (z.forgot != (memory.Instant{}) && !z.forgot.Before(ttl.began))) {
			return
		}
	}
	left := time.Duration(ttl.ttl)*time.Millisecond - k.Slack
	if w.past(y.ack.Seen, k, r.began) && w.owes(y, k, r.ended) == "yes" && w.measurable(ttl.began, r.ended) && r.ended.Sub(ttl.began) < left &&
		len(w.meeting(s.lastHere.began, s.empty[0].ended)) == 0 {
		s.early = true
	}
}

// meeting gives the troubles that meet (from, to].
func (w *world) meeting(from, to memory.Instant) []span {
	var in []span
	for _, s := range w.spans {
		if !s.from.After(to) && (s.to == (memory.Instant{}) || s.to.After(from)) {
			in = append(in, s)
		}
	}
	return in
}

type lossAt struct {
	i int
	o *opinion
}

// last gives the latest loss that was known before fact i.
func (lossAt) last(all []lossAt, i int) *opinion {
	var o *opinion
	for _, l := range all {
		if l.i < i {
			o = l.o
		}
	}
	return o
}

// missed reports whether a view that is evidence is proven to miss the memory.
func (m *model) missed(i int, x *told) bool {
	for _, k := range m.worlds[i].contracts.Contracts {
		if len(x.m.Views) > 0 && !slices.Contains(x.m.Views, k.View) || k.User && k.View != "page" && k.View != "answer" {
			continue
		}
		if m.see(i, x, k, m.losses[x.m.ID]).proof != nil {
			return true
		}
	}
	return false
}

// touched is the end of the last fault of ours, or of the last death of its service, that may have changed the view.
func (w *world) touched(k *memory.Contract) (since memory.Instant) {
	looked, behind := false, map[string]bool{}
	for _, o := range w.contracts.Contracts {
		looked = looked || o.User
		behind[o.Service] = true
	}
	for _, o := range w.contracts.Contracts {
		if o.User {
			behind[o.Service] = false
		}
	}
	for _, s := range w.spans {
		if s.service == k.Service || s.ours && (!looked || !behind[s.service]) {
			since = memory.Later(since, s.quiet)
		}
	}
	return since
}

// weigh gives where one memory stands by what is known at fact i.
func (m *model) weigh(i int, id memory.ID, now memory.Instant) weighed {
	w := &m.worlds[i]
	x := w.of(id)
	where, sights := map[string]string{}, map[string]sight{}
	o := weighed{where: where, sights: sights}
	acked := x.ack.Seen != (memory.Instant{})
	stores, shown, late := false, false, false
	defects := map[memory.Defect]bool{}
	for _, k := range w.contracts.Contracts {
		if len(x.m.Views) > 0 && !slices.Contains(x.m.Views, k.View) {
			for _, r := range m.readings(i, x, k.View) {
				if r.strangers {
					defects[memory.Leaked] = true
				}
			}
			continue
		}
		s := m.see(i, x, k, m.losses[id])
		sights[k.View] = s
		if s.leaked {
			defects[memory.Leaked] = true
		}
		since, over := w.base(memory.Instant{}, k.Service)
		fresh := s.last != nil && over && (since == (memory.Instant{}) || !s.last.began.Before(since))
		strictly := fresh
		if k.View != "answer" && !m.missed(i, x) {
			since = w.touched(&k)
			fresh = s.last != nil && over && (since == (memory.Instant{}) || !s.last.began.Before(since))
		}
		found := fresh && (s.last.state == memory.Present || s.last.state == memory.Altered)
		shown = shown || k.View == "page" && (found && (strictly || acked && w.owes(x, &k, now) != "no") || x.forgot != (memory.Instant{}) && s.proof == nil && s.last != nil &&
			(s.last.state == memory.Present || s.last.state == memory.Altered))
		// An absence that was read before the promise is no reading of it.
		switch owes := w.owes(x, &k, now); {
		case !acked:
			where[k.View] = "none"
		case s.proof != nil:
			where[k.View] = "missing"
		case owes == "no":
			where[k.View] = "none"
		case !fresh && k.View == "answer":
			where[k.View] = "none"
		case found:
			where[k.View] = "here"
		case fresh && s.last.state == memory.Absent && len(s.empty) > 0:
			where[k.View] = "none"
		default:
			where[k.View] = "gap"
		}
		stores = stores || !k.User && (found && where[k.View] == "here" ||
			where[k.View] == "none" && s.last != nil && (s.last.state == memory.Present || s.last.state == memory.Altered))
		if acked {
			for d, is := range map[memory.Defect]bool{
				memory.AlteredText: s.altered, memory.Outlived: s.outlived, memory.Resurfaced: s.resurfaced,
				memory.Duplicated: k.View != "answer" && s.copies > max(1, k.Copies), memory.ExpiredEarly: s.early,
			} {
				if is {
					defects[d] = true
				}
			}
			late = late || s.late && where[k.View] != "none"
		}
	}
	// What is missing here is to be read again when the memory has come to a store meanwhile.
	for view, s := range sights {
		for _, other := range sights {
			if where[view] == "missing" && view != "answer" && !other.k.User && other.k.Durable && other.came != nil && other.last != nil &&
				(other.last.state == memory.Present || other.last.state == memory.Altered) && other.came.began.Sub(s.last.ended) > 0 {
				where[view] = "gap"
			}
		}
	}
	for view, s := range sights {
		if s.k.TTL > 0 && where[view] == "missing" && len(w.meeting(s.window(x))) == 0 {
			defects[memory.ExpiredEarly] = true
		}
	}
	for d := range defects {
		o.Defects = append(o.Defects, d)
	}
	sort.Slice(o.Defects, func(a, b int) bool { return o.Defects[a] < o.Defects[b] })
	o.Kind = kindOf(w, where, acked, stores, shown, late)
	for _, k := range w.contracts.Contracts {
		if where[k.View] == "missing" {
			o.Missing = append(o.Missing, k.View)
		}
	}
	return o
}

// judge gives the opinion of one memory by what is known at fact i.
func (m *model) judge(i int, id memory.ID, now memory.Instant) *opinion {
	w := &m.worlds[i]
	x := w.of(id)
	weighed := m.weigh(i, id, now)
	o := &weighed.opinion
	if log := m.losses[id]; o.Kind == memory.Unverified && len(log) > 0 {
		old, still := *log[len(log)-1].o, true
		for _, view := range old.Missing {
			still = still && slices.Contains(o.Missing, view)
		}
		if still {
			old.Defects = o.Defects
			return &old
		}
	}
	if o.Kind == memory.Unverified && x.gone {
		o.Kind = memory.Released
	}
	if !o.Kind.Loss() && o.Kind != memory.Volatile && o.Kind != memory.Unverified {
		o.Missing = nil
	}
	if o.Kind.Loss() {
		m.explain(o, i, x, weighed.sights)
	}
	return o
}

// window is (from, to] in which the view came to miss the memory.
func (s *sight) window(x *told) (from, to memory.Instant) {
	if s.lastHere == nil {
		return x.at, s.due.ended
	}
	return memory.Later(x.at, s.lastHere.began), s.absences[0].ended
}

// kindOf is the table of oracle.md §4, over sets of views.
func kindOf(w *world, where map[string]string, acked, stores, shown, late bool) memory.Kind {
	count := func(what string, which func(k *memory.Contract) bool) int {
		n := 0
		for i := range w.contracts.Contracts {
			if k := &w.contracts.Contracts[i]; where[k.View] == what && which(k) {
				n++
			}
		}
		return n
	}
	any := func(*memory.Contract) bool { return true }
	durable := func(k *memory.Contract) bool { return !k.User && k.Durable }
	cached := func(k *memory.Contract) bool { return !k.User && !k.Durable }
	if !acked {
		return memory.Indeterminate
	}
	if count("here", any)+count("missing", any)+count("gap", any) == 0 {
		return memory.Released
	}
	missingStores := count("missing", durable) + count("missing", cached)
	everyStoreMisses := missingStores > 0 && count("here", durable)+count("gap", durable) == 0
	page, hasPage := where["page"]
	if everyStoreMisses {
		switch {
		case shown, !hasPage && count("here", cached) > 0:
			return memory.Volatile
		case hasPage && page != "gap":
			return memory.Lost
		case !hasPage && count("gap", cached) == 0:
			return memory.Lost
		}
	}
	owingStores := missingStores + count("here", durable) + count("gap", durable)
	if owingStores == 0 && page == "missing" && !stores && count("gap", cached) == 0 {
		return memory.Lost
	}
	if missingStores > 0 && count("here", durable) > 0 {
		return memory.Torn
	}
	if missingStores == 0 {
		if page == "missing" && stores {
			return memory.Hidden
		}
		if where["answer"] == "missing" && (stores || shown || count("gap", any) == 0) {
			return memory.Hidden
		}
	}
	if count("gap", any) > 0 {
		return memory.Unverified
	}
	if late {
		return memory.Late
	}
	return memory.Kept
}

// explain adds class and cause.
func (m *model) explain(o *opinion, i int, x *told, sights map[string]sight) {
	w := &m.worlds[i]
	ours, foreign := map[int64]span{}, 0
	services := map[string]bool{}
	detected := memory.Instant{}
	storesMissing, storesExcused, pageExcused, pageMissing := 0, 0, false, false
	for _, view := range o.Missing {
		s := sights[view]
		detected = memory.Later(detected, s.proof.ended)
		from, to := s.window(x)
		excused := false
		for _, t := range w.meeting(from, to) {
			services[t.service] = true
			if !t.ours {
				foreign++
				continue
			}
			ours[t.id] = t
			if p := s.k.MayLose; p != nil && t.service == s.k.Service && slices.Contains(p.On, t.kind) {
				struck := t.done
				if struck == (memory.Instant{}) {
					struck = t.to
				}
				if before := struck == (memory.Instant{}) || !x.ack.NotSeen.After(struck); before &&
					(!w.measurable(x.ack.Seen, t.from) || t.from.Sub(x.ack.Seen) <= p.Window) {
					excused = true
				}
			}
		}
		if !s.k.User {
			storesMissing++
			if excused {
				storesExcused++
			}
		}
		if view == "page" {
			pageMissing, pageExcused = true, excused
		}
	}
	switch {
	case len(ours)+foreign == 0:
		o.Fault = "none"
	case len(ours) == 0:
		o.Fault = "foreign"
	case len(ours) == 1 && foreign == 0:
		for _, t := range ours {
			o.Fault = t.kind
		}
	default:
		o.Fault = "several"
	}
	var names []string
	for name := range services {
		names = append(names, name)
	}
	sort.Strings(names)
	o.Service = strings.Join(names, "+")
	if o.Fault == "none" {
		for _, users := range []bool{true, false} { // the last word is a store's
			for i := len(o.Missing) - 1; i >= 0; i-- {
				if k := sights[o.Missing[i]].k; k.User == users {
					o.Service = k.Service
				}
			}
		}
	}
	told := false
	for _, at := range x.reports {
		told = told || at.Sub(x.ack.NotSeen) >= 0 && at.Sub(detected) <= 0
	}
	switch {
	case o.Kind == memory.Hidden && !pageMissing && !m.forgetful(x.m.Cycle, i):
		o.Class = memory.Unsure
	case o.Kind != memory.Hidden && (storesMissing > 0 && storesExcused == storesMissing || storesMissing == 0 && pageExcused):
		o.Class = memory.Permitted
	case told:
		o.Class = memory.Reported
	default:
		o.Class = memory.Silent
	}
}
