package sqlite_test

import (
	"bytes"
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"amnesia/pkg/clock"
	"amnesia/pkg/memory"
	"amnesia/pkg/view"
	"amnesia/pkg/view/sqlite"
	"amnesia/pkg/view/viewtest"
)

const (
	schema  = "CREATE TABLE chat_memory (id INTEGER PRIMARY KEY, user_id TEXT NOT NULL, content TEXT)"
	perUser = "SELECT content FROM chat_memory WHERE user_id = $1"
	whole   = "SELECT id, user_id AS owner, content FROM chat_memory"
)

// store is a database file that an app writes.
type store struct {
	path    string
	journal string
	query   string
	// brief: the app is there only while it writes, so that a WAL is gone again when the view reads.
	brief bool
	app   *sql.DB
}

func newStore(t *testing.T, journal, query string, brief bool) *store {
	// The name holds what a URI would take for its own.
	s := &store{path: filepath.Join(t.TempDir(), "app 100%?#.db"), journal: journal, query: query, brief: brief}
	s.start(t)
	s.exec(t, schema)
	s.rest(t)
	t.Cleanup(func() { s.stop(t) })
	return s
}

func (s *store) start(t testing.TB) {
	if s.app != nil {
		return
	}
	app, err := sql.Open("sqlite", "file:"+strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23", " ", "%20").Replace(s.path)+"?_pragma=busy_timeout(5000)&_pragma=synchronous(OFF)&_pragma=journal_mode("+s.journal+")")
	if err != nil {
		t.Fatal(err)
	}
	app.SetMaxOpenConns(1)
	s.app = app
}

func (s *store) stop(t testing.TB) {
	if s.app != nil {
		if err := s.app.Close(); err != nil {
			t.Fatal(err)
		}
		s.app = nil
	}
}

func (s *store) rest(t testing.TB) {
	if s.brief {
		s.stop(t)
	}
}

func (s *store) exec(t testing.TB, query string, args ...any) {
	t.Helper()
	if _, err := s.app.Exec(query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func (s *store) Open(*testing.T) view.View {
	return sqlite.New(sqlite.Config{Name: "sqlite", Path: s.path, Query: s.query, Clock: clock.System()})
}

func (s *store) Put(t *testing.T, user string, texts ...string) {
	s.start(t)
	tx, err := s.app.Begin()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range texts {
		if _, err := tx.Exec("INSERT INTO chat_memory (user_id, content) VALUES (?, ?)", user, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	s.rest(t)
}

func (s *store) Delete(t *testing.T, user, text string) {
	s.start(t)
	s.exec(t, "DELETE FROM chat_memory WHERE user_id = ? AND content = ?", user, text)
	s.rest(t)
}

func (s *store) Break(t *testing.T, how viewtest.Trouble) (mend func()) {
	switch how {
	case viewtest.Hang:
		s.start(t)
		s.exec(t, "BEGIN EXCLUSIVE")
		return func() { s.exec(t, "ROLLBACK"); s.rest(t) }
	case viewtest.Refuse:
		s.start(t)
		s.exec(t, "ALTER TABLE chat_memory RENAME TO gone")
		s.rest(t)
		return func() { s.start(t); s.exec(t, "ALTER TABLE gone RENAME TO chat_memory"); s.rest(t) }
	}
	s.stop(t)
	whole := must(os.ReadFile(s.path))
	mend = func() { check(t, os.WriteFile(s.path, whole, 0o600)) }
	switch how {
	case viewtest.Vanish:
		check(t, os.Remove(s.path))
	case viewtest.Garbage:
		check(t, os.WriteFile(s.path, bytes.Repeat([]byte("no database\n"), 1000), 0o600))
	case viewtest.Cut:
		const page = 4096
		damaged := bytes.Clone(whole)
		at := len(damaged) / page * 6 / 10 * page
		copy(damaged[at:at+page], bytes.Repeat([]byte{0xff}, page))
		check(t, os.WriteFile(s.path, damaged, 0o600))
	default:
		t.Fatalf("cannot break by %s", how)
	}
	return mend
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestConformance(t *testing.T) {
	for _, c := range []struct {
		name, journal, query string
		brief                bool
	}{
		{"a running app in WAL mode", "WAL", perUser, false},
		{"an ended app in WAL mode", "WAL", perUser, true},
		{"a running app in rollback mode", "DELETE", perUser, false},
		{"an ended app in rollback mode", "DELETE", perUser, true},
		{"all users at once", "WAL", whole, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			troubles := []viewtest.Trouble{viewtest.Refuse, viewtest.Vanish, viewtest.Garbage, viewtest.Cut}
			if c.journal != "WAL" { // in WAL mode a writer does not lock readers out
				troubles = append(troubles, viewtest.Hang)
			}
			viewtest.Run(t, viewtest.Harness{
				New:      func(t *testing.T) viewtest.Store { return newStore(t, c.journal, c.query, c.brief) },
				Troubles: troubles,
			})
		})
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct{ name, query, want string }{
		{"no such table", "SELECT content FROM nowhere WHERE user_id = ?", "no such table: nowhere"},
		{"syntax", "SELEKT 1 WHERE ?", "syntax error"},
		{"no text", "SELECT user_id AS owner FROM chat_memory WHERE user_id = ?", "select the column that holds the text"},
		{"no owner", "SELECT content FROM chat_memory", "add WHERE user_id = $1"},
		{"a question mark that is no parameter", "SELECT content /* ? */ FROM chat_memory WHERE content <> '?'", "add WHERE user_id = $1"},
		{"writing", "DELETE FROM chat_memory WHERE user_id = ? RETURNING content", "readonly"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStore(t, "WAL", c.query, false)
			v := s.Open(t)
			defer v.Close()
			out, err := v.Find(t.Context(), memories(1))
			if err != nil {
				t.Fatal(err)
			}
			if out[0].State != memory.Unreadable || !strings.Contains(out[0].Detail, c.want) || !strings.Contains(out[0].Detail, " — fix: ") {
				t.Errorf("%s: %q, want unreadable with %q and a fix", out[0].State, out[0].Detail, c.want)
			}
		})
	}
}

// TestLocked: a lock that outlasts the time-out is our trouble, and the reason is named.
func TestLocked(t *testing.T) {
	s := newStore(t, "DELETE", perUser, false)
	v := sqlite.New(sqlite.Config{Name: "sqlite", Path: s.path, Query: perUser, Clock: clock.System(), Timeout: 100 * time.Millisecond})
	defer v.Close()
	mend := s.Break(t, viewtest.Hang)
	_, err := v.Find(t.Context(), memories(1))
	if err == nil || !strings.Contains(err.Error(), "locked or slow for 100ms") {
		t.Errorf("Find says %v", err)
	}
	mend()
}

// TestColumns: rows with one key are one copy, and an owner that is named counts.
func TestColumns(t *testing.T) {
	ms := memories(2)
	s := newStore(t, "WAL", "SELECT 7 AS id, content FROM chat_memory WHERE user_id = ?", false)
	s.Put(t, "ann", ms[0].Text, ms[0].Text)
	v := s.Open(t)
	defer v.Close()
	out, err := v.Find(t.Context(), ms)
	if err != nil || out[0].Copies != 1 {
		t.Errorf("%v, %v, want one copy", out, err)
	}
	s.query = "SELECT 'bob' AS Owner, content FROM chat_memory"
	v2 := s.Open(t)
	defer v2.Close()
	out, err = v2.Find(t.Context(), ms)
	if err != nil || out[0].State != memory.Absent || !slices.Equal(out[0].Strangers, []string{"bob"}) {
		t.Errorf("%v, %v, want absent, and bob a stranger", out, err)
	}
}

func BenchmarkFind(b *testing.B) {
	ms := viewtest.Memories(1, 1000, 100)
	dir := b.TempDir()
	s := &store{path: filepath.Join(dir, "app.db"), journal: "WAL"}
	s.start(b)
	s.exec(b, schema)
	s.exec(b, "CREATE INDEX by_user ON chat_memory (user_id)")
	tx := must(s.app.Begin())
	for _, m := range ms {
		must(tx.Exec("INSERT INTO chat_memory (user_id, content) VALUES (?, ?)", m.User, m.Text))
	}
	check(b, tx.Commit())
	defer s.stop(b)
	b.Run("raw", func(b *testing.B) {
		for b.Loop() {
			rows := must(s.app.Query(whole))
			var id, user, text string
			for rows.Next() {
				check(b, rows.Scan(&id, &user, &text))
			}
			check(b, rows.Close())
		}
	})
	for name, query := range map[string]string{"whole": whole, "per user": perUser} {
		b.Run(name, func(b *testing.B) {
			v := sqlite.New(sqlite.Config{Name: "sqlite", Path: s.path, Query: query, Clock: clock.System()})
			defer v.Close()
			for b.Loop() {
				out, err := v.Find(context.Background(), ms)
				if err != nil || out[len(out)-1].State != memory.Present {
					b.Fatalf("%v, %v", out[len(out)-1], err)
				}
			}
		})
	}
}
