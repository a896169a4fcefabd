package ledger

import (
	"context"
	"fmt"
	"strings"
)

// Newest is the format of a ledger that is written today.
var Newest = newestVersion

// Older writes the rows of the ledger at from into a new one at to, in an older format that has room for them.
func Older(ctx context.Context, from, to string, version int64) error {
	c, err := connect(ctx, to)
	if err != nil {
		return err
	}
	defer c.Close()
	for v := int64(1); v <= version; v++ {
		sql, err := migrations.ReadFile(fmt.Sprintf("migrations/%04d.sql", v))
		if err != nil {
			return err
		}
		if err := c.exec(ctx, string(sql)); err != nil {
			return err
		}
	}
	if err := c.exec(ctx, fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d; ATTACH '%s' AS today",
		applicationID, version, strings.ReplaceAll(from, "'", "''"))); err != nil {
		return err
	}
	columns := map[string][]string{} // by table
	if err := c.each(ctx, "SELECT t.name, c.name FROM sqlite_master t, pragma_table_info(t.name) c WHERE t.type = 'table'", func(r *rows) error {
		columns[r.string(0)] = append(columns[r.string(0)], r.string(1))
		return nil
	}); err != nil {
		return err
	}
	for table, names := range columns {
		list := strings.Join(names, ", ")
		if err := c.exec(ctx, fmt.Sprintf("INSERT OR IGNORE INTO main.%s (%s) SELECT %s FROM today.%s", table, list, list, table)); err != nil {
			return err
		}
	}
	return nil
}

// LimitPages makes the file full at n pages; 0: as it stands. No append may be under way.
func (l *Ledger) LimitPages(ctx context.Context, n int64) error {
	if n == 0 {
		var err error
		if n, err = l.writer.number(ctx, "PRAGMA page_count"); err != nil {
			return err
		}
	}
	return l.writer.conn.exec(ctx, fmt.Sprintf("PRAGMA max_page_count = %d", n))
}

// Exec runs SQL on the file at path, past the ledger.
func Exec(ctx context.Context, path, query string) error {
	c, err := connect(ctx, path)
	if err != nil {
		return err
	}
	defer c.Close()
	return c.exec(ctx, query)
}

// Rows gives the rows of a query as text.
func (l *Ledger) Rows(ctx context.Context, query string) ([]string, error) {
	var list []string
	err := l.query(ctx, query, func(r *rows) error { list = append(list, fmt.Sprint(r.cols)); return nil })
	return list, err
}

// Hasty has appends return before they are durable: for tests of what is written, not of whether it stays.
func (l *Ledger) Hasty(ctx context.Context) error {
	return l.writer.conn.exec(ctx, "PRAGMA synchronous = OFF")
}

// Waiting counts the appends that no transaction has taken yet.
func (l *Ledger) Waiting() int {
	l.queue.mu.Lock()
	defer l.queue.mu.Unlock()
	return len(l.queue.waiting)
}

// Writer gives a number that the writing connection's PRAGMA gives. No append may be under way.
func (l *Ledger) Writer(ctx context.Context, pragma string) (int64, error) {
	return l.writer.number(ctx, "PRAGMA "+pragma)
}

// Cached counts what the cache of looks holds. No append may be under way.
func (l *Ledger) Cached() int {
	n := len(l.writer.cache.index)
	for _, pages := range l.writer.cache.views {
		n += len(pages)
	}
	return n
}

// Plan says how SQLite goes about a search.
func (l *Ledger) Plan(ctx context.Context, s Search) (plan []string, err error) {
	err = l.reading(ctx, func(c *conn) error {
		query, args, err := s.query(ctx, c)
		if err != nil {
			return err
		}
		stmt, err := c.prepare("EXPLAIN QUERY PLAN " + query)
		if err != nil {
			return err
		}
		r, err := stmt.query(ctx, args...)
		if err != nil {
			return err
		}
		defer r.close()
		for r.next() {
			plan = append(plan, r.string(3))
		}
		return r.err
	})
	return plan, err
}

// Forge changes the image of a name, and gives it the fingerprint that goes with it.
func Forge(ctx context.Context, path, name, set string) error {
	c, err := connect(ctx, path)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.exec(ctx, "UPDATE image SET "+set+" WHERE name = '"+name+"'"); err != nil {
		return err
	}
	var i picture
	err = c.each(ctx, "SELECT seq, last, program, boot, body FROM image WHERE name = '"+name+"'", func(r *rows) error {
		i = picture{name: name, seq: r.int(0), last: r.blob(1), program: r.blob(2), boot: r.string(3), body: r.blob(4)}
		return nil
	})
	if err != nil {
		return err
	}
	return c.exec(ctx, fmt.Sprintf("UPDATE image SET sum = x'%x' WHERE name = '%s'", i.sum(), name))
}
