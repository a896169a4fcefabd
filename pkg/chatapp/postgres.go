package chatapp

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

// postgresDialect has the same tables as SQLite's chat.db.
func postgresDialect() dialect {
	return dialect{name: "PostgreSQL", numbered: true, elements: "SELECT json_array_elements_text(?::json)", position: "strpos", schema: `
CREATE TABLE IF NOT EXISTS chat_memory (
	id TEXT COLLATE "C" PRIMARY KEY, user_id TEXT NOT NULL, content TEXT NOT NULL, summary TEXT NOT NULL, created_at TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS chat_memory_user ON chat_memory (user_id, id);
CREATE TABLE IF NOT EXISTS question (
	id TEXT COLLATE "C" PRIMARY KEY, user_id TEXT NOT NULL, content TEXT NOT NULL, answer TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS question_user ON question (user_id, id);
CREATE TABLE IF NOT EXISTS account (name TEXT PRIMARY KEY, salt BYTEA NOT NULL, hash BYTEA NOT NULL);
CREATE TABLE IF NOT EXISTS setting (name TEXT PRIMARY KEY, value BYTEA NOT NULL);`}
}

// openPostgres makes the tables where they are missing. With PostgreSQL's own settings a commit is on disk when it
// returns (fsync and synchronous_commit are on).
func openPostgres(ctx context.Context, dsn string) (*database, error) {
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return nil, fmt.Errorf("opening PostgreSQL: %w", err)
	}
	db.SetMaxOpenConns(16)
	db.SetMaxIdleConns(16)
	db.SetConnMaxIdleTime(time.Minute)
	d := &database{sql: db, dialect: postgresDialect()}
	if _, err := db.ExecContext(ctx, d.schema); err != nil {
		return nil, errors.Join(fmt.Errorf("making the tables in PostgreSQL: %w — fix: let CHATAPP_POSTGRES_DSN name a database that may be written", err), db.Close())
	}
	return d, nil
}
