package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"amnesia/pkg/view"
)

// users runs the query for each of some users, in one exchange.
func (s *sweep) users(ctx context.Context, rs []*view.Reading) error {
	args := make([][][]byte, len(rs))
	for i, r := range rs {
		args[i] = [][]byte{[]byte(r.User())}
	}
	return s.exchange(ctx, args, func(i int, rows *pgconn.ResultReader) error {
		err := s.read(rs[i], rows)
		if err == nil {
			rs[i].End(context.Cause(ctx))
		}
		return err
	})
}

// all runs the query once.
func (s *sweep) all(ctx context.Context, r *view.Reading) error {
	args := [][][]byte{nil}
	if s.mode == list {
		args[0] = [][]byte{array(r.Users())}
	}
	return s.exchange(ctx, args, func(_ int, rows *pgconn.ResultReader) error { return s.read(r, rows) })
}

// array writes a list of texts as PostgreSQL reads an array of any type
// (https://www.postgresql.org/docs/current/arrays.html#ARRAYS-IO).
func array(texts []string) []byte {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	out := []byte{'{'}
	for i, text := range texts {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, '"'), escape.Replace(text)...), '"')
	}
	return append(out, '}')
}

// exchange runs the query once for each of the argument lists, in one transaction and one round trip, and hands the
// rows of each out as they come. Values travel as text both ways, so that any type can be asked for and read.
func (s *sweep) exchange(ctx context.Context, args [][][]byte, read func(i int, rows *pgconn.ResultReader) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.connect(ctx); err != nil {
		return s.explain(ctx, err)
	}
	batch := &pgconn.Batch{}
	// Read committed: each query sees what was committed before it began.
	before := []string{"BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY",
		fmt.Sprintf("SET LOCAL statement_timeout = %d", s.cfg.Timeout.Milliseconds())}
	for _, query := range before {
		batch.ExecParams(query, nil, nil, nil, nil)
	}
	for _, values := range args {
		batch.ExecParams(s.cfg.Query, values, nil, nil, nil)
	}
	batch.ExecParams("COMMIT", nil, nil, nil, nil)
	results := s.open.ExecBatch(ctx, batch)
	var err error
	for i := -len(before); i < len(args) && err == nil && results.NextResult(); i++ {
		if i >= 0 {
			err = read(i, results.ResultReader())
		}
	}
	if e := results.Close(); err == nil {
		err = e
	}
	if err != nil && s.open.TxStatus() != idle {
		// A connection that fails here is not used again.
		_ = s.open.ExecParams(ctx, "ROLLBACK", nil, nil, nil, nil).Read().Err
	}
	return s.explain(ctx, err)
}

// read takes the rows as they come.
func (s *sweep) read(r *view.Reading, rows *pgconn.ResultReader) error {
	owner, key, text := -1, -1, -1
	var names []string
	for i, f := range rows.FieldDescriptions() {
		names = append(names, f.Name)
		switch name := strings.ToLower(f.Name); {
		case name == "owner":
			owner = i
		case name == "id":
			key = i
		case text < 0:
			text = i
		}
	}
	n := 0
	var first []byte
	for rows.NextRow() {
		if text < 0 || s.mode != each && owner < 0 {
			continue
		}
		values := rows.Values()
		rec := view.Bytes{Text: values[text]}
		if owner >= 0 {
			rec.Owner = values[owner]
		}
		if key >= 0 {
			rec.Key = values[key]
		}
		const most = 80 // bytes of the first that help a person
		if n++; n == 1 {
			first = slices.Clone(rec.Text[:min(most, len(rec.Text))])
		}
		r.RecordBytes(rec)
	}
	switch _, err := rows.Close(); {
	case err != nil:
		return err
	case text < 0:
		return &contentError{fmt.Sprintf("the query gives %s and no text — fix: select the column that holds the text too", strings.Join(names, ", "))}
	case s.mode != each && owner < 0:
		return &contentError{"the query does not tell the users' records apart — fix: select the user AS owner, or add WHERE user_id = $1"}
	}
	if s.rows += n; n == 0 {
		s.empty = append(s.empty, r)
	} else if r.Missing() > 0 {
		r.Note(fmt.Sprintf("the query gives %d rows, the first: %q", n, first))
	}
	return nil
}

// instead says of a query that gave nothing for anybody what there is.
func (s *sweep) instead(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	there := ""
	if len(s.empty) > 0 && s.rows == 0 && ctx.Err() == nil {
		there = s.tables(ctx)
	}
	for _, r := range s.empty {
		of := ""
		if s.mode == each {
			of = " for the user " + r.User()
		}
		r.Note(fmt.Sprintf("the query gives no row%s%s", of, there))
	}
}

// tables says which tables the database has, those first that need no schema before their name, then the fullest;
// empty when it cannot be asked.
func (s *sweep) tables(ctx context.Context) string {
	if s.open == nil || s.open.IsClosed() {
		return ""
	}
	result := s.open.ExecParams(ctx, `SELECT format('%I.%I (%s rows)', schemaname, relname, n_live_tup) FROM pg_stat_user_tables
		ORDER BY schemaname = ANY (current_schemas(false)) DESC, n_live_tup DESC, relname LIMIT 5`, nil, nil, nil, nil).Read()
	switch {
	case result.Err != nil:
		return ""
	case len(result.Rows) == 0:
		return "; the database " + s.conn.Database + " has no tables"
	}
	names := make([]string, len(result.Rows))
	for i, row := range result.Rows {
		names[i] = string(row[0])
	}
	return "; the database " + s.conn.Database + " has about: " + strings.Join(names, ", ")
}
