package chatapp

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// dialect is what SQLite and PostgreSQL say differently.
type dialect struct {
	name     string
	schema   string
	numbered bool   // parameters are $1, $2, … and not ?
	elements string // a query of the texts in the JSON array that is its parameter
	position string // the function that says where a text holds another, from 1
	serial   bool   // one writer at a time waits in the app and not in the database's polling
}

// sqliteDialect is that of chat.db. The table chat_memory is what others may read, in read-only mode, while the app
// runs; user_id is the account's name. created_at is RFC 3339 in UTC.
func sqliteDialect() dialect {
	return dialect{name: "SQLite", elements: "SELECT value FROM json_each(?)", position: "instr", serial: true, schema: `
CREATE TABLE IF NOT EXISTS chat_memory (
	id TEXT PRIMARY KEY, user_id TEXT NOT NULL, content TEXT NOT NULL, summary TEXT NOT NULL, created_at TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS chat_memory_user ON chat_memory (user_id, id);
CREATE TABLE IF NOT EXISTS question (
	id TEXT PRIMARY KEY, user_id TEXT NOT NULL, content TEXT NOT NULL, answer TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS question_user ON question (user_id, id);
CREATE TABLE IF NOT EXISTS account (name TEXT PRIMARY KEY, salt BLOB NOT NULL, hash BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS setting (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;`}
}

// database is SQLite's file or a PostgreSQL server: the home of memories, and of accounts and questions.
type database struct {
	sql *sql.DB
	dialect
	writing sync.Mutex // held by a writer, where the dialect is serial
}

// bind writes the parameters of a statement, question marks, as the dialect has them.
func (d dialect) bind(statement string) string {
	if !d.numbered {
		return statement
	}
	var out strings.Builder
	for n, piece := range strings.Split(statement, "?") {
		if n > 0 {
			out.WriteString("$" + strconv.Itoa(n))
		}
		out.WriteString(piece)
	}
	return out.String()
}

// openDatabase opens or creates chat.db in dir. In WAL mode with synchronous=FULL a commit is on disk when it returns
// (sqlite.org/pragma.html#pragma_synchronous).
func openDatabase(ctx context.Context, dir string, synced bool) (*database, error) {
	synchronous := "FULL"
	if !synced {
		synchronous = "OFF"
	}
	address := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(filepath.Join(dir, "chat.db")), RawQuery: url.Values{
		"_pragma": {"busy_timeout(500)", "journal_mode(WAL)", "synchronous(" + synchronous + ")"},
		"_txlock": {"immediate"},
	}.Encode()}
	db, err := sql.Open("sqlite", address.String())
	if err != nil {
		return nil, fmt.Errorf("opening the database: %w", err)
	}
	conns := max(2, runtime.GOMAXPROCS(0)) // each new one reads the schema; more could not run at once
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	d := &database{sql: db, dialect: sqliteDialect()}
	if _, err := db.ExecContext(ctx, d.schema); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the database in %s: %w — fix: make CHATAPP_DATA a directory that can be written", dir, err), db.Close())
	}
	return d, nil
}

func (d *database) Name() string { return DatabaseStore }

// write runs fn in a transaction and commits.
func (d *database) write(ctx context.Context, fn func(tx *sql.Tx) error) error {
	if d.serial {
		d.writing.Lock()
		defer d.writing.Unlock()
	}
	tx, err := d.sql.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func (d *database) Save(ctx context.Context, ms ...Memory) (stored []Memory, err error) {
	err = d.write(ctx, func(tx *sql.Tx) error {
		for _, m := range ms {
			res, err := tx.ExecContext(ctx, d.bind(`INSERT INTO chat_memory (id, user_id, content, summary, created_at) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`),
				m.ID, m.User, m.Text, m.Summary, m.At.UTC().Format(time.RFC3339Nano))
			if err != nil {
				return err
			}
			if n, err := res.RowsAffected(); err != nil {
				return err
			} else if n == 1 {
				stored = append(stored, m)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("saving to the database: %w", err)
	}
	return stored, nil
}

func (d *database) Delete(ctx context.Context, ms ...Memory) (deleted []string, err error) {
	list, err := json.Marshal(idsOf(ms))
	if err != nil {
		return nil, err
	}
	err = d.write(ctx, func(tx *sql.Tx) error {
		deleted, err = query(ctx, tx, d.bind(`DELETE FROM chat_memory WHERE id IN (`+d.elements+`) RETURNING id`), []any{string(list)}, scanID)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("deleting from the database: %w", err)
	}
	return deleted, nil
}

// where renders the exact conditions of q.
func (q Query) where() (clause string, args []any) {
	clause = " WHERE true"
	for _, c := range []struct{ text, value string }{{" AND user_id = ?", q.User}, {" AND id = ?", q.ID}, {" AND id < ?", q.Before}} {
		if c.value != "" {
			clause += c.text
			args = append(args, c.value)
		}
	}
	return clause, args
}

// newest renders the conditions, the order and, where SQL can do it, the limit.
func (q Query) newest() (clause string, args []any) {
	clause, args = q.where()
	clause += " ORDER BY id DESC"
	if q.Limit > 0 && q.Like == "" {
		clause += " LIMIT ?"
		args = append(args, q.Limit)
	}
	return clause, args
}

func (d *database) Find(ctx context.Context, q Query) ([]Memory, error) {
	clause, args := q.newest()
	ms, err := query(ctx, d.sql, d.bind(`SELECT id, user_id, content, summary, created_at FROM chat_memory`+clause), args, func(scan func(...any) error) (m Memory, err error) {
		var at string
		if err := scan(&m.ID, &m.User, &m.Text, &m.Summary, &at); err != nil {
			return m, err
		}
		m.At, err = time.Parse(time.RFC3339Nano, at)
		return m, err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the database: %w", err)
	}
	return q.pick(bare(ms)), nil
}

func (d *database) Close() error {
	if err := d.sql.Close(); err != nil {
		return fmt.Errorf("closing the database: %w", err)
	}
	return nil
}

// querier is a database or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// query collects the rows.
func query[T any](ctx context.Context, db querier, text string, args []any, row func(scan func(...any) error) (T, error)) ([]T, error) {
	rows, err := db.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []T
	for rows.Next() {
		v, err := row(rows.Scan)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, rows.Err()
}

// ask keeps a question with its answer.
func (d *database) ask(ctx context.Context, user string, e exchange) error {
	err := d.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, d.bind(`INSERT INTO question (id, user_id, content, answer) VALUES (?, ?, ?, ?)`), e.ID, user, e.Text, e.Answer)
		return err
	})
	if err != nil {
		return fmt.Errorf("saving a question: %w", err)
	}
	return nil
}

// questions gives questions, newest first.
func (d *database) questions(ctx context.Context, q Query) ([]exchange, error) {
	clause, args := q.newest()
	es, err := query(ctx, d.sql, d.bind(`SELECT id, content, answer FROM question`+clause), args, func(scan func(...any) error) (e exchange, err error) {
		err = scan(&e.ID, &e.Text, &e.Answer)
		return e, err
	})
	if err != nil {
		return nil, fmt.Errorf("reading questions: %w", err)
	}
	return es, nil
}

// unask removes the questions that q selects, and those of its user whose answers repeat one of the memories, and gives
// their ids.
func (d *database) unask(ctx context.Context, q Query, ms []Memory) (gone []string, err error) {
	err = d.write(ctx, func(tx *sql.Tx) error {
		clause, args := q.where()
		if gone, err = query(ctx, tx, d.bind(`DELETE FROM question`+clause+` RETURNING id`), args, scanID); err != nil {
			return err
		}
		for _, m := range ms {
			ids, err := query(ctx, tx, d.bind(`DELETE FROM question WHERE user_id = ? AND `+d.position+`(answer, ?) > 0 RETURNING id`), []any{q.User, m.Text}, scanID)
			if err != nil {
				return err
			}
			gone = append(gone, ids...)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("deleting questions: %w", err)
	}
	return gone, nil
}

func scanID(scan func(...any) error) (id string, err error) {
	err = scan(&id)
	return id, err
}
