// Package postgres is the view of what the target keeps in PostgreSQL, by a query of the user's: one for all users at
// once, or one for each, many in one exchange.
//
// It only reads: each query runs in a READ ONLY transaction under a statement_timeout, and sees what was committed when
// it began. A role of its own with these rights is enough:
//
//	CREATE ROLE amnesia LOGIN PASSWORD '…';
//	GRANT CONNECT ON DATABASE chat TO amnesia;
//	GRANT USAGE ON SCHEMA public TO amnesia;
//	GRANT SELECT ON chat_memory TO amnesia;
//
// It knows nothing of the app's schema.
package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"amnesia/pkg/memory"
	"amnesia/pkg/view"
)

// Config says what to read.
type Config struct {
	Name string
	// DSN is a URL (postgres://user:password@host:5432/database) or libpq's keywords; what it leaves out comes from
	// where libpq takes it too. It never appears in an error; its host, port, user and database may.
	DSN string
	// Query gives the records. With = $1 it is run for each user, as in
	// SELECT content FROM chat_memory WHERE user_id = $1. With = ANY($1) it is run once for a list of all users, and
	// without a parameter once for everybody; it must then name the owner of each record. Of its columns the one called
	// owner is the record's owner, the one called id its key (two rows with one key are one copy), and the first other
	// one its text.
	Query string
	Match view.Match
	// Timeout bounds one Find, waiting for locks included; default 30s.
	Timeout time.Duration
	Clock   memory.Clock
}

// View is the view of one query.
type View struct {
	cfg   Config
	conn  *pgconn.Config
	mode  mode
	where string // host, port and database

	mu    sync.Mutex
	spare *pgconn.PgConn // of a Find that has just ended
	end   *time.Timer    // of spare
}

// mode is how a query takes the users.
type mode int

const (
	each  mode = iota // one at a time
	list              // all in one parameter
	whole             // not at all
)

// literal is what may hold a parameter's sign without being one: strings, quoted names and comments.
var (
	literal   = regexp.MustCompile(`(?s)'(?:[^']|'')*'|"[^"]*"|--[^\n]*|/\*.*?\*/|\$\$.*?\$\$`)
	parameter = regexp.MustCompile(`\$[0-9]+`)
	inList    = regexp.MustCompile(`(?i)\b(any|all|some|unnest)\s*\(\s*\$1\b`)
)

// New makes the view, or says what is wrong with its DSN or query; the database is first asked by Find.
func New(cfg Config) (*View, error) {
	if cfg.Timeout <= 0 {
		cfg.Timeout = 30 * time.Second
	}
	v := &View{cfg: cfg}
	var errs []error
	conn, err := pgconn.ParseConfig(cfg.DSN)
	if err != nil {
		// Its own words may hold the password.
		errs = append(errs, errors.New("dsn: it is no address of a database — fix: write it as postgres://user:password@host:5432/database"))
	} else {
		conn.ConnectTimeout = cfg.Timeout
		v.conn = conn
		v.where = net.JoinHostPort(conn.Host, strconv.Itoa(int(conn.Port))) + "/" + conn.Database
	}
	query := literal.ReplaceAllString(cfg.Query, " ")
	switch found := parameter.FindAllString(query, -1); {
	case strings.TrimSpace(query) == "":
		errs = append(errs, errors.New("query: missing — fix: write it as in SELECT content FROM chat_memory WHERE user_id = $1"))
	case len(found) == 0:
		v.mode = whole
	case inList.MatchString(query):
		v.mode = list
	}
	for _, p := range parameter.FindAllString(query, -1) {
		if p != "$1" {
			errs = append(errs, fmt.Errorf("query: it has the parameter %s — fix: use $1 alone, for the user", p))
			break
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return v, nil
}

// Name is the name in the configuration.
func (v *View) Name() string { return v.cfg.Name }

// Close ends the view.
func (v *View) Close() error {
	v.leave(v.take())
	return nil
}

// Find reads through a connection of its own, or that of a Find that ended just now, since a new one costs as much as
// some thousand records. An older one could be that of a process that has been replaced since.
func (v *View) Find(ctx context.Context, ms []memory.Memory) ([]memory.Observation, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, v.cfg.Timeout, fmt.Errorf("no whole answer within %s", v.cfg.Timeout))
	defer cancel()
	m := view.NewMatcher(ms, view.Options{View: v.cfg.Name, Clock: v.cfg.Clock, Match: v.cfg.Match, Rig: isRig})
	s := &sweep{View: v}
	defer s.close()
	if v.mode == each {
		const together = 256 // users in one exchange
		m.Batches(ctx, 1, together, s.users)
	} else {
		m.All(ctx, s.all)
	}
	s.instead(ctx)
	return m.Observations(ctx), nil
}

// atOnce is how long after a Find its connection waits for the next one: longer than between the parts of a sweep, and
// much shorter than any fault takes.
const atOnce = 100 * time.Millisecond

// take gives the spare connection, if there is one.
func (v *View) take() *pgconn.PgConn {
	v.mu.Lock()
	defer v.mu.Unlock()
	spare := v.spare
	if spare != nil {
		v.spare = nil
		v.end.Stop()
	}
	return spare
}

// keep makes a connection the spare one.
func (v *View) keep(c *pgconn.PgConn) {
	v.leave(v.take())
	v.mu.Lock()
	defer v.mu.Unlock()
	v.spare, v.end = c, time.AfterFunc(atOnce, func() { v.leave(v.take()) })
}

// leave says goodbye, and does not wait for the answer.
func (v *View) leave(c *pgconn.PgConn) {
	if c == nil {
		return
	}
	if left, err := c.Hijack(); err == nil { // one that has failed is closed already
		left.Frontend.Send(&pgproto3.Terminate{})
		_ = left.Conn.SetDeadline(time.Now().Add(time.Second))
		_ = left.Frontend.Flush() // nothing was written that could be lost
		_ = left.Conn.Close()
	}
}

// sweep is one Find. It has one connection, which one query uses at a time.
type sweep struct {
	*View
	mu    sync.Mutex
	open  *pgconn.PgConn
	rows  int
	empty []*view.Reading
}

// connect opens the connection when there is none.
func (s *sweep) connect(ctx context.Context) error {
	if s.open == nil {
		if s.open = s.take(); s.open != nil && s.open.Ping(ctx) != nil {
			_ = s.open.Close(ctx) // its process is gone
			s.open = nil
		}
	}
	if s.open != nil && !s.open.IsClosed() {
		return nil
	}
	open, err := pgconn.ConnectConfig(ctx, s.conn.Copy())
	if err == nil {
		s.open = open
	}
	return err
}

// close leaves the connection for a Find that begins at once, if it is well.
func (s *sweep) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open != nil && !s.open.IsBusy() && s.open.TxStatus() == idle {
		s.keep(s.open)
	} else {
		s.leave(s.open)
	}
}

// explain says what was being done, and what to do where that is known.
func (s *sweep) explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	var (
		reply   *pgconn.PgError
		content *contentError
		hint    string
	)
	switch {
	case errors.As(err, &content):
		return err
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case errors.As(err, &reply):
		if reply.Hint != "" {
			hint = " (" + reply.Hint + ")"
		}
		if reply.Code == undefinedTable {
			hint += s.tables(ctx)
		}
		if fix := fixes[cmp.Or(known(reply.Code), reply.Code[:2])]; fix != "" {
			hint += " — fix: " + fix
		}
	}
	return fmt.Errorf("query PostgreSQL at %s: %w%s", s.where, err, hint)
}

// idle is the status of a connection outside of any transaction.
const idle = 'I'

// The codes are PostgreSQL's (https://www.postgresql.org/docs/current/errcodes-appendix.html).
const (
	undefinedTable = "42P01"
	noPrivilege    = "42501"
	canceled       = "57014"
)

// fixes are by code or class.
var fixes = map[string]string{
	noPrivilege: "grant the view's role SELECT on what the query reads",
	canceled:    "see what holds a lock, or make the query faster: an index on the user",
	"42":        "check the view's query against the app's schema",
	"22":        "cast the user to the column's type in the view's query",
	"25":        "write a query that only reads",
	"28":        "check the user and password in the view's dsn",
	"3D":        "check the database in the view's dsn",
}

func known(code string) string {
	if _, ok := fixes[code]; ok {
		return code
	}
	return ""
}

// contentError is an answer that cannot be what the view is about.
type contentError struct{ what string }

func (e *contentError) Error() string { return e.what }

// isRig: no connection, no whole answer in time, or one that refuses the probe and not the user.
func isRig(err error) bool {
	var reply *pgconn.PgError
	if errors.As(err, &reply) {
		return reply.Code == noPrivilege || reply.Code == canceled || strings.HasPrefix(reply.Code, "28")
	}
	var content *contentError
	return !errors.As(err, &content)
}
