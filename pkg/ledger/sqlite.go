package ledger

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// conn is one connection, used by one goroutine at a time. It stands on the driver and not on database/sql, whose
// conversions and locks cost a fifth of the time of both the writer and the reader.
type conn struct {
	driver.Conn
	kept []*stmt
}

// connect opens path with the given URI parameters.
func connect(ctx context.Context, path string, params ...string) (*conn, error) {
	escaped := strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(path)
	params = append(params, "_pragma=busy_timeout(5000)", "_pragma=trusted_schema(0)")
	c, err := sqlite.NewConnector("file:" + escaped + "?" + strings.Join(params, "&"))
	if err != nil {
		return nil, err
	}
	d, err := c.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: d}, nil
}

// Close also closes what prepare gave: SQLite keeps a file open for as long as a statement of it lives.
func (c *conn) Close() error {
	var err error
	for _, s := range c.kept {
		err = errors.Join(err, s.Close())
	}
	return errors.Join(err, c.Conn.Close())
}

// exec runs SQL without parameters: one statement or several.
func (c *conn) exec(ctx context.Context, query string) error {
	_, err := c.Conn.(driver.ExecerContext).ExecContext(ctx, query, nil)
	return err
}

// number runs a query that gives one integer; NULL is 0.
func (c *conn) number(ctx context.Context, query string) (int64, error) {
	var n int64
	err := c.each(ctx, query, func(r *rows) error { n = r.int(0); return nil })
	return n, err
}

// each runs a query and calls fn on each of its rows.
func (c *conn) each(ctx context.Context, query string, fn func(*rows) error) error {
	s, err := c.compile(query)
	if err != nil {
		return err
	}
	defer s.Close()
	r, err := s.query(ctx)
	if err != nil {
		return err
	}
	defer r.close()
	for r.next() {
		if err := fn(r); err != nil {
			return err
		}
	}
	return r.err
}

// prepare gives a statement that lives as long as the connection.
func (c *conn) prepare(query string) (*stmt, error) {
	s, err := c.compile(query)
	if err == nil {
		c.kept = append(c.kept, s)
	}
	return s, err
}

func (c *conn) compile(query string) (*stmt, error) {
	s, err := c.Conn.Prepare(query)
	if err != nil {
		return nil, err
	}
	return &stmt{Stmt: s}, nil
}

// stmt is a prepared statement.
type stmt struct {
	driver.Stmt
	args []driver.NamedValue
}

func (s *stmt) bind(args []any) {
	for _, a := range args {
		s.args = append(s.args, driver.NamedValue{Ordinal: len(s.args) + 1, Value: a})
	}
}

// exec takes int64, string and nil.
func (s *stmt) exec(ctx context.Context, args ...any) error {
	s.bind(args)
	_, err := s.Stmt.(driver.StmtExecContext).ExecContext(ctx, s.args)
	s.args = s.args[:0]
	return err
}

// inserter puts rows into one table, several with one statement, which is where most of an insert's time goes.
type inserter struct {
	conn      *conn
	into      string
	columns   int
	waiting   []driver.NamedValue // up to perInsert rows
	one, many *stmt               // nil until first needed
}

const perInsert = 16

func (c *conn) inserter(table string, columns int) *inserter {
	return &inserter{conn: c, into: "INSERT INTO " + table + " VALUES ", columns: columns}
}

// add takes a row of int64, string and nil. It is in the table after flush.
func (in *inserter) add(ctx context.Context, row ...any) error {
	for _, v := range row {
		in.waiting = append(in.waiting, driver.NamedValue{Ordinal: len(in.waiting) + 1, Value: v})
	}
	if len(in.waiting) < in.columns*perInsert {
		return nil
	}
	defer in.drop()
	return in.insert(ctx, &in.many, perInsert, in.waiting)
}

func (in *inserter) flush(ctx context.Context) error {
	defer in.drop()
	for rest := in.waiting; len(rest) > 0; rest = rest[in.columns:] {
		row := rest[:in.columns]
		for i := range row {
			row[i].Ordinal = i + 1
		}
		if err := in.insert(ctx, &in.one, 1, row); err != nil {
			return err
		}
	}
	return nil
}

func (in *inserter) insert(ctx context.Context, s **stmt, rows int, args []driver.NamedValue) (err error) {
	if *s == nil {
		row := "(?" + strings.Repeat(",?", in.columns-1) + ")"
		if *s, err = in.conn.prepare(in.into + row + strings.Repeat(","+row, rows-1)); err != nil {
			return err
		}
	}
	_, err = (*s).Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
	return err
}

// drop forgets the rows that wait.
func (in *inserter) drop() { in.waiting = in.waiting[:0] }

func (s *stmt) query(ctx context.Context, args ...any) (*rows, error) {
	s.bind(args)
	r, err := s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, s.args)
	s.args = s.args[:0]
	if err != nil {
		return nil, err
	}
	return &rows{r: r, cols: make([]driver.Value, len(r.Columns()))}, nil
}

// rows is a cursor. Its typed columns take NULL for the zero value; a value of another type is a damaged file.
type rows struct {
	r    driver.Rows
	cols []driver.Value
	err  error
	done bool
}

// next moves to the next row. After false, err says whether that was the end or trouble.
func (r *rows) next() bool {
	if r.done || r.err != nil {
		return false
	}
	if err := r.r.Next(r.cols); err != nil {
		r.done = true
		if !errors.Is(err, io.EOF) {
			r.err = err
		}
		return false
	}
	return true
}

func (r *rows) close() { _ = r.r.Close() } // a read has nothing to lose here; what failed is in err

func (r *rows) int(i int) int64 {
	switch v := r.cols[i].(type) {
	case int64:
		return v
	case nil:
	default:
		r.wrong(i)
	}
	return 0
}

func (r *rows) string(i int) string {
	switch v := r.cols[i].(type) {
	case string:
		return v
	case nil:
	default:
		r.wrong(i)
	}
	return ""
}

func (r *rows) wrong(i int) {
	if r.err == nil {
		r.err = fmt.Errorf("column %q holds a %T: %w", r.r.Columns()[i], r.cols[i], errDamaged)
	}
}

// code gives the primary result code of SQLite in err, or 0.
func code(err error) int {
	if e := (*sqlite.Error)(nil); errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}

// Temporary reports whether err, of an append, says that the file cannot be written now and may be later: its disk is
// full or gives errors, or another program holds it. Nothing of that append is recorded, and it may be tried again.
func Temporary(err error) bool {
	switch code(err) {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN,
		sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM:
		return true
	}
	return false
}

// hint says what a person can do about an error of SQLite.
func hint(err error) string {
	switch code(err) {
	case sqlite3.SQLITE_FULL:
		return "make room on its disk; recording goes on by itself"
	case sqlite3.SQLITE_IOERR:
		return "look for trouble with its disk (dmesg) and for room on it"
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM:
		return "check that the file and its folder exist and may be read and written by this user"
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return "end the other program (such as sqlite3) that holds it open for writing"
	case sqlite3.SQLITE_NOTADB:
		return "give the path of an Amnesia ledger; this file is none"
	case sqlite3.SQLITE_CONSTRAINT:
		return "give each memory a number of its own, from NextMemory"
	}
	return "keep a copy of the file and start with a new path"
}
