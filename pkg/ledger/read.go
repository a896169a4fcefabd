package ledger

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

// errDamaged marks content that this package never wrote.
var errDamaged = errors.New("the file is damaged")

// window is how many seqs are read under one snapshot. A reader that is slow to take them pins no more of the WAL than
// what is written meanwhile.
const window = 8192

// source is one table that holds facts.
type source struct {
	query string // with the two bounds of the window, exclusive and inclusive; seq first
	parts string // the rows that belong to a fact's row, with the same bounds; also seq first
	make  func(*reader, *rows, *rows) fact.Fact
}

// within bounds a source's rows by their seq.
const within = " WHERE seq > ? AND seq <= ? ORDER BY seq"

const judgedQuery = "SELECT * FROM judged" + within

func sources() []source {
	return []source{
		{"SELECT * FROM memory" + within, "", (*reader).begun},
		{"SELECT * FROM settled" + within, "SELECT * FROM level" + within + ", n", (*reader).settled},
		{"SELECT * FROM sweep" + within, "SELECT * FROM observation" + within + ", first", (*reader).sweep},
		{judgedQuery, "", (*reader).judged},
		{"SELECT seq, kind, body FROM fact" + within, "", (*reader).generic},
	}
}

// lookSources are those that the cache of looks is rebuilt from.
func lookSources() []source {
	return []source{
		sources()[2],
		{"SELECT seq, kind, body FROM fact WHERE seq > ? AND seq <= ? AND kind = '" + kindRetired + "' ORDER BY seq", "",
			(*reader).generic},
	}
}

func lastSeq(ctx context.Context, c *conn) (int64, error) {
	return c.number(ctx, `SELECT max(seq) FROM (SELECT max(seq) AS seq FROM memory UNION ALL SELECT max(seq) FROM settled
		UNION ALL SELECT max(seq) FROM sweep UNION ALL SELECT max(seq) FROM judged UNION ALL SELECT max(seq) FROM fact)`)
}

// Facts streams the facts whose seq is greater than after and that were durable when the reading began, in the order of
// their seq and in constant memory. It may be left at any time, and facts may be appended meanwhile. Facts share the
// lists that repeat (due views, for example): do not change them. An error ends the stream.
func (l *Ledger) Facts(ctx context.Context, after int64) iter.Seq2[fact.Entry, error] {
	return func(yield func(fact.Entry, error) bool) {
		wanted := true
		err := l.reading(ctx, func(c *conn) error {
			return stream(ctx, c, sources(), after, func(e fact.Entry) bool {
				wanted = yield(e, nil)
				return wanted
			})
		})
		if err != nil && wanted {
			yield(fact.Entry{}, l.wrap("reading", err))
		}
	}
}

// reader turns rows into facts. It keeps the first error.
type reader struct {
	ctx   context.Context
	names *dictionary
	err   error
}

// stream merges sources by seq, which together have every one. It ends early, without an error, when yield returns false.
func stream(ctx context.Context, c *conn, from []source, after int64, yield func(fact.Entry) bool) error {
	last, err := lastSeq(ctx, c)
	if err != nil {
		return err
	}
	m, err := newMerge(ctx, c, from)
	if err != nil {
		return err
	}
	for after = max(after, 0); after < last; {
		end := min(last-after, window) + after
		more := true
		err := m.run(after, end, func(e fact.Entry) bool {
			if after++; e.Seq != after {
				m.fail(fmt.Errorf("fact %d is missing: %w", after, errDamaged))
				return false
			}
			more = yield(e)
			return more
		})
		if err = errors.Join(err, m.err); err != nil || !more {
			return err
		}
		if after < end {
			return fmt.Errorf("fact %d is missing: %w", after+1, errDamaged)
		}
	}
	return nil
}

// merge reads several sources in the order of seq.
type merge struct {
	reader
	cursors []*cursor
}

func newMerge(ctx context.Context, c *conn, from []source) (*merge, error) {
	m := &merge{reader: reader{ctx: ctx}, cursors: make([]*cursor, len(from))}
	var err error
	if m.names, err = newDictionary(c); err != nil {
		return nil, err
	}
	for i, s := range from {
		if m.cursors[i], err = newCursor(c, s); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// run yields the facts with after < seq <= last, until yield returns false.
func (m *merge) run(after, last int64, yield func(fact.Entry) bool) error {
	defer func() {
		for _, c := range m.cursors {
			c.end()
		}
	}()
	for _, c := range m.cursors {
		if err := c.begin(m.ctx, after, last); err != nil {
			return err
		}
	}
	for n := 0; ; n++ {
		if n%256 == 0 && m.ctx.Err() != nil {
			return m.ctx.Err()
		}
		next := m.cursors[0]
		for _, c := range m.cursors[1:] {
			if c.seq < next.seq {
				next = c
			}
		}
		if next.seq == math.MaxInt64 {
			return m.complete()
		}
		e := fact.Entry{Seq: next.seq, Fact: next.source.make(&m.reader, next.rows, next.parts)}
		if err := errors.Join(m.err, next.rows.err); err != nil {
			return fmt.Errorf("fact %d: %w", e.Seq, err)
		}
		if !yield(e) {
			return nil
		}
		if err := next.advance(); err != nil {
			return err
		}
	}
}

// complete reports parts that belong to no fact.
func (m *merge) complete() error {
	for _, c := range m.cursors {
		if c.parts != nil && c.parts.err == nil && !c.parts.done {
			return fmt.Errorf("fact %d has parts and no row of its own: %w", c.parts.int(0), errDamaged)
		}
	}
	return nil
}

// cursor is a place in one source.
type cursor struct {
	source
	queryStmt, partsStmt *stmt
	rows, parts          *rows
	seq                  int64 // of the row the cursor is on; MaxInt64 at the end
}

func newCursor(c *conn, s source) (*cursor, error) {
	cur := &cursor{source: s}
	var err error
	if cur.queryStmt, err = c.prepare(s.query); err == nil && s.parts != "" {
		cur.partsStmt, err = c.prepare(s.parts)
	}
	return cur, err
}

func (c *cursor) begin(ctx context.Context, after, last int64) (err error) {
	if c.rows, err = c.queryStmt.query(ctx, after, last); err != nil {
		return err
	}
	if c.partsStmt != nil {
		if c.parts, err = c.partsStmt.query(ctx, after, last); err != nil {
			return err
		}
		c.parts.next()
	}
	return c.advance()
}

func (c *cursor) advance() error {
	c.seq = math.MaxInt64
	if c.rows.next() {
		c.seq = c.rows.int(0)
	}
	return c.rows.err
}

func (c *cursor) end() {
	for _, r := range []*rows{c.rows, c.parts} {
		if r != nil {
			r.close()
		}
	}
	c.rows, c.parts = nil, nil
}

func (rd *reader) fail(err error) {
	if rd.err == nil {
		rd.err = err
	}
}

func (rd *reader) name(r *rows, i int) string {
	text, err := rd.names.text(rd.ctx, r.int(i))
	if err != nil {
		rd.fail(err)
	}
	return text
}

func (rd *reader) list(r *rows, i int) []string {
	if r.cols[i] == nil {
		return nil
	}
	list, err := rd.names.list(rd.ctx, r.int(i))
	if err != nil {
		rd.fail(err)
	}
	return list
}

func (rd *reader) instant(r *rows, i int) memory.Instant {
	return memory.Instant{Mono: r.int(i), Wall: r.int(i + 1), Boot: rd.name(r, i+2)}
}

func (rd *reader) begun(r, _ *rows) fact.Fact {
	return fact.Begun{
		Memory: memory.Memory{
			ID: memory.ID(r.int(1)), Run: rd.name(r, 2), Cycle: int(r.int(3)), User: rd.name(r, 4),
			Payload: memory.Payload(rd.name(r, 5)), Views: rd.list(r, 6), Token: r.string(7), Text: r.string(8),
			Question: r.string(9),
		},
		At: rd.instant(r, 10),
	}
}

func (rd *reader) settled(r, parts *rows) fact.Fact {
	f := fact.Settled{
		Memory: memory.ID(r.int(1)), Outcome: memory.Outcome(rd.name(r, 2)), Cause: rd.name(r, 3), Detail: r.string(4),
		At: rd.instant(r, 6),
	}
	n := r.int(5)
	if n > 0 && n <= window {
		f.Levels = make([]memory.Level, 0, n)
	}
	rd.eachPart(r, parts, func() {
		f.Levels = append(f.Levels, memory.Level{
			Name: rd.name(parts, 2), NotSeen: rd.instant(parts, 3), Seen: rd.instant(parts, 6),
		})
	})
	if int64(len(f.Levels)) != n {
		rd.fail(fmt.Errorf("%d of %d levels: %w", len(f.Levels), n, errDamaged))
	}
	return f
}

// eachPart visits the parts of the fact that r is on.
func (rd *reader) eachPart(r, parts *rows, fn func()) {
	for !parts.done && parts.err == nil && rd.err == nil && parts.int(0) <= r.int(0) {
		if parts.int(0) < r.int(0) {
			rd.fail(fmt.Errorf("fact %d has parts and no row of its own: %w", parts.int(0), errDamaged))
			return
		}
		fn()
		parts.next()
	}
	if parts.err != nil {
		rd.fail(parts.err)
	}
}

func (rd *reader) sweep(r, parts *rows) fact.Fact {
	f := fact.Sweep{
		ID: r.int(1), Cycle: int(r.int(2)), View: rd.name(r, 3), Complete: r.int(4) != 0, Began: rd.instant(r, 5),
		Ended: rd.instant(r, 8), Before: rd.health(r, 11), After: rd.health(r, 15), Error: r.string(19),
	}
	var err error
	if f.Read, err = parseSet(r.string(20)); err != nil {
		rd.fail(err)
	}
	rd.eachPart(r, parts, func() {
		o := memory.Observation{
			Memory: memory.ID(parts.int(1)), View: f.View, State: memory.State(rd.name(parts, 3)),
			Copies: int(parts.int(4)), Siblings: int(parts.int(5)), TTL: parts.int(6), Strangers: rd.list(parts, 7),
			Rig: parts.int(8) != 0, Detail: parts.string(9), Began: rd.instant(parts, 10), Ended: rd.instant(parts, 13),
			Records: int(parts.int(16)),
		}
		run := parts.int(2) - int64(o.Memory)
		if run < 0 || run >= maxRun {
			rd.fail(fmt.Errorf("a run of %d observations: %w", run, errDamaged))
			return
		}
		for ; run >= 0; run-- {
			f.Observations = append(f.Observations, o)
			o.Memory++
		}
	})
	return f
}

func (rd *reader) health(r *rows, i int) *fact.Health {
	if r.cols[i] == nil {
		return nil
	}
	h, err := rd.names.health(rd.ctx, r.int(i))
	if err != nil {
		rd.fail(err)
	}
	h.At = rd.instant(r, i+1)
	return &h
}

func (rd *reader) judged(r, _ *rows) fact.Fact {
	flags := r.int(12)
	f := fact.Judged{
		Verdict: memory.Verdict{
			Memory: memory.ID(r.int(1)), Kind: memory.Kind(rd.name(r, 3)), Class: memory.Class(rd.name(r, 5)),
			Level: rd.name(r, 6), Fault: rd.name(r, 7), Service: rd.name(r, 8), Lateness: time.Duration(r.int(11)),
			During: flags&1 != 0, Recovered: flags&2 != 0, Open: flags&4 != 0, Missing: rd.list(r, 13),
			Found: rd.list(r, 14), Because: r.string(15),
		},
		Cycle: int(r.int(2)), At: rd.instant(r, 16),
	}
	for _, d := range rd.list(r, 4) {
		f.Verdict.Defects = append(f.Verdict.Defects, memory.Defect(d))
	}
	if suspects := rd.list(r, 9); suspects != nil {
		var err error
		if f.Verdict.Suspects, err = decodeNumbers(suspects); err != nil {
			rd.fail(err)
		}
	}
	if r.cols[10] != nil {
		d := time.Duration(r.int(10))
		f.Verdict.Exposure = &d
	}
	return f
}

func (rd *reader) generic(r, _ *rows) fact.Fact {
	f, err := decodeGeneric(r.string(1), []byte(r.string(2)))
	if err != nil {
		rd.fail(err)
	}
	return f
}
