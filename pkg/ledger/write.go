package ledger

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

// prepared is a fact that can be written: checked, and encoded as far as that needs no database.
type prepared struct {
	fact    fact.Fact // as it will be read back, but for a sweep's reduction
	generic generic   // of a fact without a table of its own
}

// prepare refuses what could not be given back. It runs in the goroutine of the caller, to leave less to the committer.
func prepare(facts []fact.Fact) ([]prepared, error) {
	list := make([]prepared, len(facts))
	for i, f := range facts {
		p := prepared{fact: f}
		var err error
		switch f := f.(type) {
		case fact.Begun:
			if f.Memory.ID < 1 {
				err = fmt.Errorf("memory numbers start at 1, this one is %d", f.Memory.ID)
			}
		case fact.Settled, fact.Judged:
		case fact.Sweep:
			p.fact, err = prepareSweep(f)
		default:
			if p.generic, err = encodeGeneric(f); err == nil {
				// What JSON changes (invalid UTF-8, spaces in raw JSON) must change for Tap as well.
				p.fact, err = decodeGeneric(p.generic.kind, []byte(p.generic.body))
			}
		}
		if err != nil {
			return nil, fmt.Errorf("fact %d of %d (%T): %w", i+1, len(facts), f, err)
		}
		list[i] = p
	}
	return list, nil
}

// prepareSweep copies the observations, ordered by memory: the caller keeps its own.
func prepareSweep(s fact.Sweep) (fact.Sweep, error) {
	if err := checkSet(s.Read); err != nil {
		return s, err
	}
	s.Observations = slices.Clone(s.Observations)
	slices.SortStableFunc(s.Observations, func(a, b memory.Observation) int { return cmp.Compare(a.Memory, b.Memory) })
	last := memory.ID(0)
	for i := range s.Observations {
		o := &s.Observations[i]
		switch {
		case o.Memory < 1:
			return s, fmt.Errorf("memory numbers start at 1, one observed is %d", o.Memory)
		case o.Memory == last:
			return s, fmt.Errorf("%s is observed twice in one sweep", o.Memory)
		case o.View != s.View:
			return s, fmt.Errorf("%s is observed in the view %q, the sweep is of %q", o.Memory, o.View, s.View)
		}
		last = o.Memory
	}
	return s, nil
}

// writer holds the statements and what must be known to write. Only the committer uses it.
type writer struct {
	*conn
	seq   int64 // the last one that is durable
	names names
	cache *cache

	begin, commit       *stmt
	dropImage, addImage *stmt

	memory, settled, level, sweep, observation, judged, generic *inserter
}

func newWriter(ctx context.Context, c *conn) (*writer, error) {
	w := &writer{conn: c, cache: newCache()}
	for s, query := range map[**stmt]string{
		&w.begin: "BEGIN IMMEDIATE", &w.commit: "COMMIT",
		&w.dropImage: "DELETE FROM image WHERE name = ?", &w.addImage: "INSERT INTO image VALUES (?,?,?,?,?,?,?)",
		&w.names.find: "SELECT id FROM name WHERE text = ?", &w.names.add: "INSERT INTO name VALUES (?,?)",
	} {
		var err error
		if *s, err = c.prepare(query); err != nil {
			return nil, err
		}
	}
	w.memory, w.settled, w.level = c.inserter("memory", 13), c.inserter("settled", 9), c.inserter("level", 9)
	w.sweep, w.observation = c.inserter("sweep", 21), c.inserter("observation", 17)
	w.judged, w.generic = c.inserter("judged", 19), c.inserter("fact", 5)
	var err error
	if w.seq, err = lastSeq(ctx, c); err != nil {
		return nil, err
	}
	return w, w.names.reset(ctx, c)
}

func (w *writer) inserters() []*inserter {
	return []*inserter{w.memory, w.settled, w.level, w.sweep, w.observation, w.judged, w.generic}
}

// write records the facts of all requests in one transaction, and gives their entries. After an error nothing of them
// is recorded.
func (w *writer) write(ctx context.Context, batch []*request) ([]fact.Entry, error) {
	entries, err := w.transact(ctx, batch)
	if err == nil {
		w.seq += int64(len(entries))
		return entries, nil
	}
	_ = w.exec(ctx, "ROLLBACK") // some errors have rolled back already, and then this one says so
	for _, in := range w.inserters() {
		in.drop()
	}
	for _, e := range entries {
		if s, ok := e.Fact.(fact.Sweep); ok {
			w.cache.undo(&s)
		}
	}
	return nil, errors.Join(err, w.names.reset(ctx, w.conn))
}

// transact gives the entries that it came to, also with an error.
func (w *writer) transact(ctx context.Context, batch []*request) ([]fact.Entry, error) {
	if err := w.begin.exec(ctx); err != nil {
		return nil, err
	}
	entries := make([]fact.Entry, 0, len(batch))
	for _, r := range batch {
		for i := range r.facts {
			seq := w.seq + int64(len(entries)) + 1
			f, err := w.put(ctx, seq, &r.facts[i])
			entries = append(entries, fact.Entry{Seq: seq, Fact: f})
			if err != nil {
				return entries, err
			}
		}
	}
	for _, in := range w.inserters() {
		if err := in.flush(ctx); err != nil {
			return entries, err
		}
	}
	return entries, w.commit.exec(ctx)
}

// put writes one fact and gives it as it will be read back, also with an error.
func (w *writer) put(ctx context.Context, seq int64, p *prepared) (fact.Fact, error) {
	n := &encoder{ctx: ctx, names: &w.names}
	switch f := p.fact.(type) {
	case fact.Begun:
		m := &f.Memory
		args := []any{seq, int64(m.ID), n.id(m.Run), int64(m.Cycle), n.id(m.User), n.id(string(m.Payload)),
			n.list(m.Views), m.Token, m.Text, text(m.Question), f.At.Mono, f.At.Wall, n.id(f.At.Boot)}
		return p.fact, n.add(w.memory, args)
	case fact.Settled:
		args := []any{seq, int64(f.Memory), n.id(string(f.Outcome)), n.id(f.Cause), text(f.Detail),
			int64(len(f.Levels)), f.At.Mono, f.At.Wall, n.id(f.At.Boot)}
		for i := range f.Levels {
			l := &f.Levels[i]
			level := []any{seq, int64(i), n.id(l.Name), l.NotSeen.Mono, l.NotSeen.Wall, n.id(l.NotSeen.Boot),
				l.Seen.Mono, l.Seen.Wall, n.id(l.Seen.Boot)}
			if err := n.add(w.level, level); err != nil {
				return f, err
			}
		}
		return p.fact, n.add(w.settled, args)
	case fact.Sweep:
		w.cache.reduce(&f)
		return f, w.putSweep(ctx, seq, &f, n)
	case fact.Judged:
		v := &f.Verdict
		args := []any{seq, int64(v.Memory), int64(f.Cycle), n.id(string(v.Kind)), n.list(plain(v.Defects)),
			n.id(string(v.Class)), n.id(v.Level), n.id(v.Fault), n.id(v.Service), nil, nil, int64(v.Lateness),
			flags(v.During, v.Recovered, v.Open), n.list(v.Missing), n.list(v.Found), text(v.Because),
			f.At.Mono, f.At.Wall, n.id(f.At.Boot)}
		if len(v.Suspects) > 0 {
			args[9] = n.id(encodeNumbers(v.Suspects))
		}
		if v.Exposure != nil {
			args[10] = int64(*v.Exposure)
		}
		return p.fact, n.add(w.judged, args)
	case fact.Retired:
		w.cache.forget(f.Memories) // also when the write fails: to forget is safe
	}
	g := &p.generic
	return p.fact, w.generic.add(ctx, seq, g.kind, g.ref, g.wall, g.body)
}

// maxRun bounds the members of one observation row, so that a damaged file cannot ask a reader for the memory of a
// run without end.
const maxRun = 1 << 16

func (w *writer) putSweep(ctx context.Context, seq int64, s *fact.Sweep, n *encoder) error {
	args := []any{seq, s.ID, int64(s.Cycle), n.id(s.View), flags(s.Complete),
		s.Began.Mono, s.Began.Wall, n.id(s.Began.Boot), s.Ended.Mono, s.Ended.Wall, n.id(s.Ended.Boot),
		nil, nil, nil, nil, nil, nil, nil, nil, text(s.Error), s.Read.String()}
	for i, h := range []*fact.Health{s.Before, s.After} {
		if h == nil {
			continue
		}
		// Who answers changes seldom and is stored once; when it answered is new each time.
		who := *h
		who.At = memory.Instant{}
		body, err := json.Marshal(who)
		if err != nil {
			return err
		}
		copy(args[11+4*i:], []any{n.id(string(body)), h.At.Mono, h.At.Wall, n.id(h.At.Boot)})
	}
	if err := n.add(w.sweep, args); err != nil {
		return err
	}
	for rest := s.Observations; len(rest) > 0; {
		o := &rest[0]
		run := 1
		for run < len(rest) && run < maxRun && alike(o, &rest[run], run) {
			run++
		}
		args := []any{seq, int64(o.Memory), int64(o.Memory) + int64(run) - 1, n.id(string(o.State)), int64(o.Copies),
			int64(o.Siblings), o.TTL, n.list(o.Strangers), flags(o.Rig), text(o.Detail),
			o.Began.Mono, o.Began.Wall, n.id(o.Began.Boot), o.Ended.Mono, o.Ended.Wall, n.id(o.Ended.Boot), int64(o.Records)}
		if err := n.add(w.observation, args); err != nil {
			return err
		}
		rest = rest[run:]
	}
	return nil
}

// alike reports whether b, the n-th after a, differs from a in its memory alone, which is n further.
func alike(a, b *memory.Observation, n int) bool {
	return b.Memory == a.Memory+memory.ID(n) && b.State == a.State && b.Copies == a.Copies &&
		b.Siblings == a.Siblings && b.TTL == a.TTL && b.Rig == a.Rig && b.Detail == a.Detail && b.Records == a.Records && b.Began == a.Began &&
		b.Ended == a.Ended && slices.Equal(b.Strangers, a.Strangers)
}

func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func flags(bits ...bool) int64 {
	n := int64(0)
	for i, b := range bits {
		if b {
			n |= 1 << i
		}
	}
	return n
}

func plain(defects []memory.Defect) []string {
	list := make([]string, len(defects))
	for i, d := range defects {
		list[i] = string(d)
	}
	return list
}
