package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"amnesia/pkg/view"
)

// Place is a column that holds something that was looked for.
type Place struct {
	Table  string // with its schema, unless that is the search path's, quoted where it must be
	Column string
	Exact  bool // the value is the text, and nothing else
	// Query reads the texts of many users, as Config.Query; empty where no way from the record to its user was found.
	Query string
}

// column is one column of a table that may hold texts.
type column struct{ schema, table, name, kind string }

func (c column) of(o column) bool { return c.schema == o.schema && c.table == o.table }

const (
	mostColumns = 2_000
	mostHops    = 3 // of foreign keys, from a text to its user
)

// Locate finds the columns of the database whose values hold a mark, those that hold the whole text first, and the way
// from each to the user's name: in a column of the same table, or along foreign keys. It reads, in a transaction that can
// do nothing else. dsn is as in Config.
func Locate(ctx context.Context, dsn, user, text, mark string) (places []Place, err error) {
	conf, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, errors.New("it is no address of a database") // its own words may hold the password
	}
	conf.ConnectTimeout = 10 * time.Second
	conn, err := pgx.ConnectConfig(ctx, conf)
	if err != nil {
		return nil, fmt.Errorf("ask PostgreSQL at %s:%d: %w", conf.Host, conf.Port, err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{AccessMode: pgx.ReadOnly})
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // nothing was written
	if _, err := tx.Exec(ctx, "SET LOCAL statement_timeout = '5s'"); err != nil {
		return nil, err
	}
	l := &locator{tx: tx, user: user, text: text, mark: mark}
	if places, err = l.places(ctx); err != nil {
		return nil, fmt.Errorf("look through the tables of PostgreSQL at %s:%d: %w", conf.Host, conf.Port, err)
	}
	return places, nil
}

type locator struct {
	tx               pgx.Tx
	user, text, mark string
	columns          []column
	links            []link
	home             string // the schema that needs no name
}

// link is a foreign key of one column.
type link struct{ from, to column }

func (l *locator) places(ctx context.Context) (places []Place, err error) {
	if err := l.tx.QueryRow(ctx, "SELECT coalesce(current_schema(), 'public')").Scan(&l.home); err != nil {
		return nil, err
	}
	if err := l.schema(ctx); err != nil {
		return nil, err
	}
	for _, c := range l.columns {
		if !textual(c.kind) {
			continue
		}
		var found string
		err := l.try(ctx, fmt.Sprintf("SELECT %s::text FROM %s WHERE position($1 in %[1]s::text) > 0 LIMIT 1", quote(c.name), l.table(c)), &found, l.mark)
		if errors.Is(err, pgx.ErrNoRows) {
			continue
		}
		if err != nil && ctx.Err() != nil {
			return nil, err
		}
		if err != nil {
			continue // it may not be read, or not in time
		}
		p := Place{Table: l.table(c), Column: c.name, Exact: view.Same(l.text, found)}
		if p.Query, err = l.query(ctx, c); err != nil {
			return nil, err
		}
		places = append(places, p)
	}
	rank := func(p Place) int { // the first is the best
		n := 0
		if p.Query == "" {
			n += 2
		}
		if !p.Exact {
			n++
		}
		return n
	}
	slices.SortStableFunc(places, func(a, b Place) int { return cmp.Compare(rank(a), rank(b)) })
	return places, nil
}

// schema reads which columns there are, and the foreign keys between them.
func (l *locator) schema(ctx context.Context) error {
	rows, err := l.tx.Query(ctx, `SELECT table_schema, table_name, column_name, data_type FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
		WHERE table_type = 'BASE TABLE' AND table_schema NOT IN ('pg_catalog', 'information_schema') ORDER BY table_schema, table_name, ordinal_position LIMIT $1`, mostColumns)
	if err != nil {
		return err
	}
	l.columns, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (c column, err error) {
		return c, r.Scan(&c.schema, &c.table, &c.name, &c.kind)
	})
	if err != nil {
		return err
	}
	rows, err = l.tx.Query(ctx, `SELECT n.nspname, t.relname, a.attname, m.nspname, u.relname, b.attname FROM pg_constraint c
		JOIN pg_class t ON t.oid = c.conrelid JOIN pg_namespace n ON n.oid = t.relnamespace JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = c.conkey[1]
		JOIN pg_class u ON u.oid = c.confrelid JOIN pg_namespace m ON m.oid = u.relnamespace JOIN pg_attribute b ON b.attrelid = u.oid AND b.attnum = c.confkey[1]
		WHERE c.contype = 'f' AND cardinality(c.conkey) = 1 ORDER BY 1, 2, 3`)
	if err != nil {
		return err
	}
	l.links, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (k link, err error) {
		return k, r.Scan(&k.from.schema, &k.from.table, &k.from.name, &k.to.schema, &k.to.table, &k.to.name)
	})
	return err
}

// try runs a query for one text within a savepoint, so that one that fails does not end the transaction.
func (l *locator) try(ctx context.Context, query string, into *string, args ...any) error {
	point, err := l.tx.Begin(ctx)
	if err != nil {
		return err
	}
	err = point.QueryRow(ctx, query, args...).Scan(into)
	return errors.Join(err, point.Rollback(ctx))
}

// way is a table on the way from a text to its user, and how it is reached.
type way struct {
	at    column // of which the name does not count
	joins string
	n     int
}

// query finds the nearest column that names the user, and writes the query along the way to it.
func (l *locator) query(ctx context.Context, c column) (string, error) {
	ways := []way{{at: c, joins: l.table(c) + " AS t0"}}
	for len(ways) > 0 {
		w := ways[0]
		ways = ways[1:]
		for _, u := range l.columns {
			if !u.of(w.at) || !textual(u.kind) && u.kind != "uuid" || u == c {
				continue
			}
			owner := fmt.Sprintf("t%d.%s", w.n, quote(u.name))
			var found string
			err := l.try(ctx, fmt.Sprintf("SELECT %s::text FROM %s WHERE position($1 in t0.%s::text) > 0 AND %[1]s::text = $2 LIMIT 1", owner, w.joins, quote(c.name)), &found, l.mark, l.user)
			if ctx.Err() != nil {
				return "", err
			}
			if err == nil {
				return l.write(w, owner, u.kind, c), nil
			}
		}
		for _, k := range l.links {
			if k.from.of(w.at) && w.n < mostHops {
				n := w.n + 1
				ways = append(ways, way{at: k.to, n: n, joins: fmt.Sprintf("%s JOIN %s AS t%d ON t%[3]d.%s = t%d.%s", w.joins, l.table(k.to), n, quote(k.to.name), w.n, quote(k.from.name))})
			}
		}
	}
	return "", nil
}

func (l *locator) write(w way, owner, kind string, c column) string {
	if w.n == 0 { // names need no table
		name := strings.TrimPrefix(owner, "t0.")
		return fmt.Sprintf("SELECT %s AS owner, %s FROM %s WHERE %s = ANY($1)", name, quote(c.name), l.table(c), cast(name, kind))
	}
	return fmt.Sprintf("SELECT %s AS owner, t0.%s FROM %s WHERE %s = ANY($1)", owner, quote(c.name), w.joins, cast(owner, kind))
}

// cast makes a name comparable with a list of texts.
func cast(name, kind string) string {
	if kind == "text" || kind == "character varying" {
		return name
	}
	return name + "::text"
}

func textual(kind string) bool {
	return slices.Contains([]string{"text", "character varying", "character", "json", "jsonb", "USER-DEFINED", "ARRAY"}, kind)
}

func (l *locator) table(c column) string {
	if c.schema == l.home {
		return quote(c.table)
	}
	return quote(c.schema) + "." + quote(c.table)
}

// quote writes a name as SQL has it, without quotes where it is plain and no word of the language that people use for
// tables (https://www.postgresql.org/docs/current/sql-keywords-appendix.html).
func quote(name string) string {
	reserved := []string{"user", "order", "group", "table", "column", "default", "end", "from", "to", "select", "check", "all", "desc", "limit", "offset", "references", "when", "where", "window", "primary"}
	plain := name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == "" && (name[0] < '0' || name[0] > '9')
	if plain && !slices.Contains(reserved, name) {
		return name
	}
	return pgx.Identifier{name}.Sanitize()
}
