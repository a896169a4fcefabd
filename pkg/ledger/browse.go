package ledger

import (
	"context"
	"fmt"
	"iter"
	"math"
	"strings"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

// Search says which memories are looked for; what is empty does not matter.
type Search struct {
	User    string      // whole
	Token   string      // or how it begins
	Verdict memory.Kind // the last one on record
	Before  memory.ID   // only smaller numbers: the last of the page before
	Limit   int
}

// Row is a memory as a list shows it.
type Row struct {
	ID      memory.ID
	Cycle   int
	User    string
	Token   string
	Text    string
	Payload memory.Payload
	Begun   int64          // by the wall clock, in nanoseconds since 1970
	Outcome memory.Outcome // empty: still under way
	Verdict memory.Kind    // the last one on record; empty: none yet
	Class   memory.Class
	Defects []memory.Defect
	Missing []string
	Fault   string
	Service string
}

// Memories gives the memories that are looked for, the newest first. However many there are, it goes by an index.
func (l *Ledger) Memories(ctx context.Context, s Search) (all []Row, err error) {
	err = l.reading(ctx, func(c *conn) error {
		names, err := newDictionary(c)
		if err != nil {
			return err
		}
		rd := &reader{ctx: ctx, names: names}
		query, args, err := s.query(ctx, c)
		if err != nil || query == "" {
			return err
		}
		stmt, err := c.prepare(query)
		if err != nil {
			return err
		}
		r, err := stmt.query(ctx, args...)
		if err != nil {
			return err
		}
		defer r.close()
		for r.next() && rd.err == nil {
			row := Row{
				ID: memory.ID(r.int(0)), Cycle: int(r.int(1)), User: rd.name(r, 2), Token: r.string(3), Text: r.string(4),
				Payload: memory.Payload(rd.name(r, 5)), Begun: r.int(6), Outcome: memory.Outcome(rd.name(r, 7)),
				Verdict: memory.Kind(rd.name(r, 8)), Class: memory.Class(rd.name(r, 9)),
				Missing: rd.list(r, 11), Fault: rd.name(r, 12), Service: rd.name(r, 13),
			}
			for _, d := range rd.list(r, 10) {
				row.Defects = append(row.Defects, memory.Defect(d))
			}
			all = append(all, row)
		}
		if rd.err != nil {
			return rd.err
		}
		return r.err
	})
	if err != nil {
		return nil, l.wrap("reading", err)
	}
	return all, nil
}

// few is up to how many memories that are alike are gathered and put in order. Where more are, they come in order already,
// by an index, and the first ones end the search.
const few = 1000

// query gives what finds them; nothing when a name is nowhere in the ledger. Of what is asked for, what the fewest have leads,
// and all else is held against the memories that it gives. A plus before a column keeps SQLite from another index than that.
func (s Search) query(ctx context.Context, c *conn) (query string, args []any, err error) {
	number := func(query string, args ...any) (int64, error) {
		find, err := c.prepare(query)
		if err != nil {
			return 0, err
		}
		r, err := find.query(ctx, args...)
		if err != nil {
			return 0, err
		}
		defer r.close()
		if !r.next() {
			return -1, r.err
		}
		return r.int(0), nil
	}
	var user, verdict int64
	lead, least := "", int64(math.MaxInt64)
	asked := func(what, where string, args ...any) error {
		table, _, _ := strings.Cut(where, ".")
		n, err := number(fmt.Sprintf("SELECT count(*) FROM (SELECT 1 FROM %s WHERE %s LIMIT %d)", table, where, few+1), args...)
		if n < least && (what != "token" || n <= few) {
			lead, least = what, n
		}
		return err
	}
	if s.User != "" {
		if user, err = number("SELECT id FROM name WHERE text = ?", s.User); err != nil || user < 0 {
			return "", nil, err
		}
		if err := asked("user", "memory.user = ?", user); err != nil {
			return "", nil, err
		}
	}
	if s.Verdict != "" {
		if verdict, err = number("SELECT id FROM name WHERE text = ?", string(s.Verdict)); err != nil || verdict < 0 {
			return "", nil, err
		}
		if err := asked("verdict", "judged.verdict = ?", verdict); err != nil {
			return "", nil, err
		}
	}
	after := s.Token + "\U0010ffff" // every token that begins so lies between it and this
	if s.Token != "" {
		if err := asked("token", "memory.token >= ? AND token < ?", s.Token, after); err != nil {
			return "", nil, err
		}
	}
	var where []string
	by := func(what, condition string, values ...any) {
		if what != lead {
			condition = "+" + strings.ReplaceAll(condition, " AND ", " AND +")
		}
		where, args = append(where, condition), append(args, values...)
	}
	if s.User != "" {
		by("user", "m.user = ?", user)
	}
	if s.Verdict != "" {
		by("verdict", "j.verdict = ?", verdict)
	}
	if s.Token != "" {
		by("token", "m.token >= ? AND m.token < ?", s.Token, after)
	}
	from, order := "memory m LEFT JOIN judged j ON j.seq = (SELECT max(seq) FROM judged WHERE memory = m.id)", "m.id"
	switch lead {
	case "verdict":
		from, order = "judged j CROSS JOIN memory m ON m.id = j.memory AND j.seq = (SELECT max(seq) FROM judged WHERE memory = j.memory)", "j.memory"
	case "token":
		order = "+m.id"
	}
	before := int64(math.MaxInt64)
	if s.Before > 0 {
		before = int64(s.Before)
	}
	where, args = append(where, order+" < ?"), append(args, before, int64(s.Limit))
	return `SELECT m.id, m.cycle, m.user, m.token, m.text, m.payload, m.at_wall, s.outcome, j.verdict, j.class, j.defects,
		j.missing, j.fault, j.service FROM ` + from + ` LEFT JOIN settled s ON s.memory = m.id
		WHERE ` + strings.Join(where, " AND ") + ` ORDER BY ` + order + ` DESC LIMIT ?`, args, nil
}

// About streams, of the facts from the cycle in which a memory was told to its retirement, those that its story is made
// of: its own, the sweeps with only its observations, injections, deaths, and the log lines that name it or are errors.
// There are none for a memory that was never begun.
func (l *Ledger) About(ctx context.Context, id memory.ID) iter.Seq2[fact.Entry, error] {
	return l.some(ctx, func(c *conn) (from []source, after, last int64, err error) {
		const within = " AND seq > ? AND seq <= ? ORDER BY seq"
		if after, err = c.number(ctx, fmt.Sprintf(`SELECT min(f.seq) - 1 FROM fact f, memory m WHERE m.id = %d
			AND f.kind = '`+kindCycle+`' AND f.ref = m.cycle`, id)); err != nil {
			return nil, 0, 0, err
		}
		begun, err := c.number(ctx, fmt.Sprintf("SELECT seq FROM memory WHERE id = %d", id))
		if err != nil || begun == 0 {
			return nil, 0, 0, err
		}
		after = min(after, begun-1)
		if after < 0 { // told in no cycle
			after = begun - 1
		}
		if last, err = retirement(ctx, c, id, begun); err != nil {
			return nil, 0, 0, err
		}
		own := func(table, column string) string {
			return fmt.Sprintf("SELECT * FROM %s WHERE %s = %d", table, column, id)
		}
		return []source{
			{own("memory", "id") + within, "", (*reader).begun},
			{own("settled", "memory") + within, fmt.Sprintf("SELECT * FROM level WHERE seq IN (SELECT seq FROM settled WHERE memory = %d)", id) + within + ", n", (*reader).settled},
			{sources()[2].query, fmt.Sprintf("SELECT * FROM observation WHERE first <= %d AND last >= %[1]d", id) + within + ", first", (*reader).sweep},
			{own("judged", "memory") + within, "", (*reader).judged},
			{fmt.Sprintf(`SELECT seq, kind, body FROM fact NOT INDEXED WHERE (kind IN ('%s', '%s', '%s')
				OR kind IN ('%s', '%s', '%s', '%s') AND ref = %d OR kind = '%[7]s' AND json_extract(body, '$.level') = 'error')`,
				kindStep, kindDeath, kindFrozen, kindForgetBegun, kindForgetSettled, kindTold, kindLog, id) + within, "", (*reader).generic},
		}, after, last, nil
	})
}

// retirement gives the seq at which a memory was retired, or the last of all.
func retirement(ctx context.Context, c *conn, id memory.ID, begun int64) (int64, error) {
	last, err := lastSeq(ctx, c)
	if err != nil {
		return 0, err
	}
	found := false
	err = c.each(ctx, fmt.Sprintf("SELECT seq, body FROM fact WHERE kind = '%s' AND seq > %d ORDER BY seq", kindRetired, begun), func(r *rows) error {
		if found {
			return nil
		}
		f, err := decode[fact.Retired]([]byte(r.string(1)))
		if err == nil && f.(fact.Retired).Memories.Has(id) {
			found, last = true, r.int(0)
		}
		return err
	})
	return last, err
}

// CycleFacts streams, of the cycles with a number below before (0: of all), the newest ones, at most so many, what a list
// of cycles needs: their phases, injections, losses and defects whole; of what was told its number, cycle and outcome.
func (l *Ledger) CycleFacts(ctx context.Context, before, limit int) iter.Seq2[fact.Entry, error] {
	return l.some(ctx, func(c *conn) (from []source, after, last int64, err error) {
		upper := ""
		if before > 0 {
			upper = fmt.Sprintf(" AND ref < %d", before)
		}
		first, newest := int64(0), int64(0)
		err = c.each(ctx, fmt.Sprintf("SELECT DISTINCT ref FROM fact WHERE kind = '%s'%s ORDER BY ref DESC LIMIT %d", kindCycle, upper, limit), func(r *rows) error {
			first = r.int(0)
			newest = max(newest, first)
			return nil
		})
		if err != nil || first == 0 {
			return nil, 0, 0, err
		}
		if after, err = c.number(ctx, fmt.Sprintf("SELECT min(seq) - 1 FROM fact WHERE kind = '%s' AND ref = %d", kindCycle, first)); err != nil {
			return nil, 0, 0, err
		}
		// A cycle that a later daemon saw through goes on behind the next one.
		if last, err = c.number(ctx, fmt.Sprintf("SELECT max(seq) FROM fact WHERE kind = '%s' AND ref BETWEEN %d AND %d", kindCycle, first, newest)); err != nil {
			return nil, 0, 0, err
		}
		next, err := c.number(ctx, fmt.Sprintf("SELECT min(seq) - 1 FROM fact WHERE kind = '%s' AND ref > %d", kindCycle, newest))
		if err != nil {
			return nil, 0, 0, err
		}
		if next <= 0 {
			if next, err = lastSeq(ctx, c); err != nil {
				return nil, 0, 0, err
			}
		}
		return []source{
			{"SELECT seq, id, cycle FROM memory" + within, "", func(_ *reader, r, _ *rows) fact.Fact {
				return fact.Begun{Memory: memory.Memory{ID: memory.ID(r.int(1)), Cycle: int(r.int(2))}}
			}},
			{"SELECT seq, memory, outcome FROM settled" + within, "", func(rd *reader, r, _ *rows) fact.Fact {
				return fact.Settled{Memory: memory.ID(r.int(1)), Outcome: memory.Outcome(rd.name(r, 2))}
			}},
			{`SELECT * FROM judged WHERE (verdict IN (SELECT id FROM name WHERE text IN ('lost', 'torn', 'hidden')) OR defects IS NOT NULL)
				AND seq > ? AND seq <= ? ORDER BY seq`, "", (*reader).judged},
			{fmt.Sprintf("SELECT seq, kind, body FROM fact NOT INDEXED WHERE kind IN ('%s', '%s') AND seq > ? AND seq <= ? ORDER BY seq", kindCycle, kindStep), "", (*reader).generic},
		}, after, max(last, next), nil
	})
}

// some streams the facts of sources that need not be complete, between two seqs, under one snapshot.
func (l *Ledger) some(ctx context.Context, which func(*conn) (from []source, after, last int64, err error)) iter.Seq2[fact.Entry, error] {
	return func(yield func(fact.Entry, error) bool) {
		wanted := true
		err := l.reading(ctx, func(c *conn) error {
			from, after, last, err := which(c)
			if err != nil || from == nil {
				return err
			}
			m, err := newMerge(ctx, c, from)
			if err != nil {
				return err
			}
			err = m.run(after, last, func(e fact.Entry) bool {
				wanted = yield(e, nil)
				return wanted
			})
			if err == nil {
				err = m.err
			}
			return err
		})
		if err != nil && wanted {
			yield(fact.Entry{}, l.wrap("reading", err))
		}
	}
}
