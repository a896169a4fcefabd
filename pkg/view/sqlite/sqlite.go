// Package sqlite is the view of a SQLite database file that the target writes. It reads the file itself, beside the
// app, whether the app runs or is dead, in rollback mode and in WAL mode, and never creates or alters a file of the
// app's.
//
// It knows nothing of the app's schema: a query of the user's gives the records.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"amnesia/pkg/memory"
	"amnesia/pkg/view"
)

// Config says what to read.
type Config struct {
	Name string
	Path string
	// Query gives the records. With a parameter (?, ?1, $1) it is run once for each user, as in
	// SELECT content FROM chat_memory WHERE user_id = $1. Without one it is run once for all users and must then name
	// the owner of each record. Of its columns the one called owner is the record's owner, the one called id its key
	// (two rows with one key are one copy), and the first other one its text.
	Query string
	Match view.Match
	// Timeout bounds one Find, waiting for locks included; default 30s.
	Timeout time.Duration
	Clock   memory.Clock
}

// View is the view of one database file.
type View struct {
	cfg     Config
	perUser bool
	probe   probe
}

// literal is what may hold a parameter's sign without being one: strings, quoted names and comments.
var (
	literal   = regexp.MustCompile("(?s)'[^']*'|\"[^\"]*\"|`[^`]*`|\\[[^\\]]*\\]|--[^\n]*|/\\*.*?\\*/")
	parameter = regexp.MustCompile(`\?|\$\w`)
)

// New makes the view; the file is first opened by Find.
func New(cfg Config) *View {
	if cfg.Timeout <= 0 {
		cfg.Timeout = 30 * time.Second
	}
	return &View{cfg: cfg, perUser: parameter.MatchString(literal.ReplaceAllString(cfg.Query, " "))}
}

// Name is the name in the configuration.
func (v *View) Name() string { return v.cfg.Name }

// Close ends the view.
func (v *View) Close() error { return v.probe.Close() }

// errMoved says that the app changed the file's ways (started, ended, checkpointed) under a read that could not take
// part in its locking: what was read counts for nothing, and the next attempt will see the new ways.
var errMoved = errors.New("the app started or ended while its file was being read")

// Find reads the file through a connection of its own: an older one could hold an old snapshot, or a file that has been
// replaced since.
func (v *View) Find(ctx context.Context, ms []memory.Memory) ([]memory.Observation, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, v.cfg.Timeout,
		fmt.Errorf("%s was locked or slow for %s", v.cfg.Path, v.cfg.Timeout))
	defer cancel()
	const pause = 10 * time.Millisecond
	for attempt := 0; ; attempt++ {
		out, err := v.find(ctx, ms, attempt)
		if !errors.Is(err, errMoved) {
			return out, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

func (v *View) find(ctx context.Context, ms []memory.Memory, attempt int) ([]memory.Observation, error) {
	way, err := v.probe.look(v.cfg.Path, attempt)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", v.cfg.Path, err)
	}
	db, err := sql.Open("sqlite", way.dsn(v.cfg.Timeout))
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", v.cfg.Path, err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)

	// The first read of a connection finds out whether this is a readable database at all.
	var version int
	if err := db.QueryRowContext(ctx, "PRAGMA schema_version").Scan(&version); err != nil {
		if isMoved(err, attempt) || v.probe.moved(way, attempt) {
			return nil, errMoved
		}
		return nil, v.explain(ctx, err)
	}
	var moved atomic.Bool
	m := view.NewMatcher(ms, view.Options{View: v.cfg.Name, Clock: v.cfg.Clock, Match: v.cfg.Match, Rig: isRig})
	read := func(ctx context.Context, r *view.Reading) error {
		err := v.read(ctx, db, r)
		if err != nil && (isMoved(err, attempt) || v.probe.moved(way, attempt)) {
			moved.Store(true)
		}
		return err
	}
	if v.perUser {
		m.Each(ctx, 1, read)
	} else {
		m.All(ctx, read)
	}
	if moved.Load() || way.still != nil && v.probe.moved(way, attempt) {
		return nil, errMoved
	}
	return m.Observations(ctx), nil
}

// read runs the query once, in a snapshot of its own.
func (v *View) read(ctx context.Context, db *sql.DB, r *view.Reading) error {
	var args []any
	if v.perUser {
		args = []any{r.User()}
	}
	rows, err := db.QueryContext(ctx, v.cfg.Query, args...)
	if err != nil {
		return v.explain(ctx, err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return v.explain(ctx, err)
	}
	var owner, key, text sql.NullString
	var other any
	into := make([]any, len(names))
	hasOwner, hasText := false, false
	for i, name := range names {
		switch name = strings.ToLower(name); {
		case name == "owner":
			into[i], hasOwner = &owner, true
		case name == "id":
			into[i] = &key
		case !hasText:
			into[i], hasText = &text, true
		default:
			into[i] = &other
		}
	}
	if !hasText {
		return fmt.Errorf("the query gives %s and no text — fix: select the column that holds the text too", strings.Join(names, ", "))
	}
	if !v.perUser && !hasOwner {
		return errors.New("the query tells the users' records apart neither by a parameter nor by a column — fix: add WHERE user_id = $1, or select the user AS owner")
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return v.explain(ctx, err)
		}
		r.Record(view.Record{Key: key.String, Owner: owner.String, Text: text.String})
	}
	return v.explain(ctx, rows.Err())
}

// explain says what went wrong, and what to do where that is known.
func (v *View) explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("read %s: %w", v.cfg.Path, context.Cause(ctx))
	}
	fix := ""
	switch code(err) & 0xff {
	case lib.SQLITE_ERROR:
		fix = " — fix: check the view's query against the app's schema"
	case lib.SQLITE_READONLY:
		fix = " — fix: start the app: it died within a transaction, and only it may roll that back"
	case lib.SQLITE_NOTADB:
		fix = " — fix: check the view's path"
	}
	return fmt.Errorf("read %s: %w%s", v.cfg.Path, err, fix)
}

func code(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code()
	}
	return 0
}

// isMoved tells the errors that a WAL gives while its app starts or ends: its index cannot be used as it stands, since
// nobody keeps it or its keeper is just recovering it; or a file was there when we looked and gone when SQLite did. The
// last can also be there to stay, so it is not tried for ever.
func isMoved(err error, attempt int) bool {
	c := code(err)
	return c == lib.SQLITE_READONLY_CANTINIT || c == lib.SQLITE_READONLY_RECOVERY ||
		c&0xff == lib.SQLITE_CANTOPEN && attempt < tries
}

func isRig(err error) bool {
	switch code(err) & 0xff {
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_INTERRUPT:
		return true
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
