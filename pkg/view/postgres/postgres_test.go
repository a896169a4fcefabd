package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"amnesia/pkg/clock"
	"amnesia/pkg/memory"
	"amnesia/pkg/view"
	"amnesia/pkg/view/postgres"
	"amnesia/pkg/view/viewtest"
	"amnesia/pkg/view/viewtest/servers"
)

const (
	schema  = "CREATE TABLE chat_memory (id bigserial PRIMARY KEY, user_id text NOT NULL, content text)"
	perUser = "SELECT content FROM chat_memory WHERE user_id = $1"
	listed  = "SELECT user_id AS owner, content FROM chat_memory WHERE user_id = ANY($1)"
	all     = "SELECT id, user_id AS owner, content FROM chat_memory"
)

// store is one schema of a real server, seen by the view through a proxy, as a role that may only read.
type store struct {
	*server
	*viewtest.Proxy
	name, query string
	app         *pgx.Conn
}

func newStore(t testing.TB, query string) *store {
	s := theServer(t)
	name, app := s.schema(t)
	exec1(t, app, "DO $$ BEGIN CREATE ROLE amnesia LOGIN PASSWORD '"+servers.Password+"'; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
	exec1(t, app, schema)
	exec1(t, app, "GRANT CONNECT ON DATABASE postgres TO amnesia")
	exec1(t, app, "GRANT USAGE ON SCHEMA "+name+" TO amnesia")
	exec1(t, app, "GRANT SELECT ON chat_memory TO amnesia")
	return &store{server: s, Proxy: viewtest.NewProxy(t, s.Addr), name: name, query: query, app: app}
}

func (s *store) dsn() string {
	return s.server.dsn("amnesia", s.Proxy.Addr().String(), s.name)
}

func (s *store) Open(t *testing.T) view.View { return s.open(t, s.query) }

func (s *store) open(t testing.TB, query string) view.View {
	return open(t, postgres.Config{Name: "postgres", DSN: s.dsn(), Query: query, Clock: clock.System()})
}

func open(t testing.TB, cfg postgres.Config) view.View {
	t.Helper()
	v, err := postgres.New(cfg)
	check(t, err)
	return v
}

func (s *store) Put(t *testing.T, user string, texts ...string) {
	exec1(t, s.app, "INSERT INTO chat_memory (user_id, content) SELECT $1, unnest($2::text[])", user, texts)
}

func (s *store) Delete(t *testing.T, user, text string) {
	exec1(t, s.app, "DELETE FROM chat_memory WHERE user_id = $1 AND content = $2", user, text)
}

func (s *store) Break(t *testing.T, how viewtest.Trouble) (mend func()) {
	switch how {
	case viewtest.Hang:
		exec1(t, s.app, "BEGIN")
		exec1(t, s.app, "LOCK TABLE chat_memory IN ACCESS EXCLUSIVE MODE")
		return func() { exec1(t, s.app, "ROLLBACK") }
	case viewtest.Refuse:
		exec1(t, s.app, "REVOKE SELECT ON chat_memory FROM amnesia")
		return func() { exec1(t, s.app, "GRANT SELECT ON chat_memory TO amnesia") }
	case viewtest.Vanish:
		exec1(t, s.app, "ALTER TABLE chat_memory RENAME TO gone")
		return func() { exec1(t, s.app, "ALTER TABLE gone RENAME TO chat_memory") }
	case viewtest.Garbage:
		s.Garble()
	case viewtest.Cut:
		s.Mend()
		find(t, s.Open(t), viewtest.Memories(1, 1, 1))
		s.Cut(s.Said() * 6 / 10)
	default:
		t.Fatalf("cannot break by %s", how)
	}
	return s.Mend
}

func find(t *testing.T, v view.View, ms []memory.Memory) []memory.Observation {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	out, err := v.Find(ctx, ms)
	check(t, err)
	return out
}

func TestConformance(t *testing.T) {
	theServer(t)
	for name, query := range map[string]string{"per user": perUser, "a list of users": listed, "whole": all} {
		t.Run(name, func(t *testing.T) {
			viewtest.Run(t, viewtest.Harness{
				New:      func(t *testing.T) viewtest.Store { return newStore(t, query) },
				Troubles: []viewtest.Trouble{viewtest.Hang, viewtest.Refuse, viewtest.Vanish, viewtest.Garbage, viewtest.Cut},
			})
		})
	}
}

var ann = []memory.Memory{
	{ID: 1, User: "ann", Token: "tok1xyz", Text: "code tok1xyz"},
	{ID: 2, User: "ann", Token: "tok2xyz", Text: "code tok2xyz"},
}

// TestErrors: what cannot be read is unreadable, with the reason, what was there instead, and what to do.
func TestErrors(t *testing.T) {
	s := newStore(t, perUser)
	exec1(t, s.app, "CREATE TABLE other (n int)")
	// Rights that it should not have, and that it does not use.
	exec1(t, s.app, "GRANT INSERT ON chat_memory TO amnesia")
	exec1(t, s.app, "GRANT UPDATE ON SEQUENCE chat_memory_id_seq TO amnesia")
	for _, c := range []struct {
		name, query string
		rig         bool
		want        []string
	}{
		{"no such table", "SELECT content FROM memories WHERE user_id = $1", false, []string{`relation "memories" does not exist`, ".chat_memory (", "check the view's query"}},
		{"no such column", "SELECT contents FROM chat_memory WHERE user_id = $1", false, []string{`column "contents" does not exist`, "Perhaps you meant", "check the view's query"}},
		{"syntax", "SELEKT $1", false, []string{"syntax error", "check the view's query"}},
		{"not allowed", "SELECT n::text FROM other WHERE $1 <> ''", true, []string{"permission denied for table other", "grant the view's role"}},
		{"no text", "SELECT user_id AS owner FROM chat_memory WHERE user_id = $1", false, []string{"select the column that holds the text"}},
		{"no owner", "SELECT content FROM chat_memory", false, []string{"select the user AS owner"}},
		{"no owner of a list", "SELECT content FROM chat_memory WHERE user_id = ANY($1)", false, []string{"select the user AS owner"}},
		{"a sign that is no parameter", "SELECT content /* $1 */ FROM chat_memory WHERE content <> '$1'", false, []string{"select the user AS owner"}},
		{"no such number", "SELECT content FROM chat_memory WHERE id = $1", false, []string{"invalid input syntax for type bigint", "cast the user"}},
		{"writing", "INSERT INTO chat_memory (user_id, content) VALUES ($1, '') RETURNING content", false, []string{"read-only transaction", "only reads"}},
		{"writing by a function", "SELECT setval('chat_memory_id_seq', 1)::text WHERE $1 <> ''", false, []string{"read-only transaction", "only reads"}},
	} {
		o := find(t, s.open(t, c.query), ann)[0]
		if o.State != memory.Unreadable || o.Rig != c.rig {
			t.Errorf("%s: %+v, want unreadable, rig %t", c.name, o, c.rig)
		}
		for _, want := range append(c.want, " — fix: ") {
			if !strings.Contains(o.Detail, want) {
				t.Errorf("%s: %q, want %q", c.name, o.Detail, want)
			}
		}
	}
}

// TestSecret: whatever is wrong with a DSN, its password is in no error.
func TestSecret(t *testing.T) {
	s := theServer(t)
	for name, dsn := range map[string]string{
		"wrong password": "postgres://app:hunter2@" + s.Addr + "/postgres",
		"keywords":       "host=127.0.0.1 port=1 user=app password=hunter2 dbname=postgres",
		"nobody there":   "postgres://app:hunter2@127.0.0.1:1/postgres",
		"no such host":   "postgres://app:hunter2@nowhere.invalid/postgres",
		"no port":        "postgres://app:hunter2@127.0.0.1:port/postgres",
		"no URL":         "postgres://app:hunter2@%zz",
		"no keywords":    "password=hunter2 hunter2",
	} {
		v, err := postgres.New(postgres.Config{Name: "postgres", DSN: dsn, Query: perUser, Clock: clock.System()})
		said := fmt.Sprint(err)
		if err == nil {
			o := find(t, v, ann)[0]
			if said = o.Detail; o.State != memory.Unreadable || !o.Rig {
				t.Errorf("%s: %+v", name, o)
			}
		} else if !strings.Contains(said, "dsn: it is no address") {
			t.Errorf("%s: %s", name, said)
		}
		if strings.Contains(said, "hunter2") {
			t.Errorf("%s: the password is in %q", name, said)
		}
	}
}

// TestInstead: of what is not there, it says what is there instead.
func TestInstead(t *testing.T) {
	s := newStore(t, perUser)
	s.Put(t, "Ann", ann[0].Text)
	exec1(t, s.app, "ANALYZE")
	for _, c := range []struct{ query, want string }{
		{perUser, "the query gives no row for the user ann; the database postgres has about: " + s.name + ".chat_memory ("},
		{listed, "the query gives no row; the database postgres has about: " + s.name + ".chat_memory ("},
		{"SELECT content FROM chat_memory WHERE lower(user_id) = $1 AND id < 0", "the query gives no row for the user ann; the database"},
		{"SELECT 'hello' FROM chat_memory WHERE lower(user_id) = $1", `the query gives 1 rows, the first: "hello"`},
	} {
		if o := find(t, s.open(t, c.query), ann)[0]; o.State != memory.Absent || !strings.Contains(o.Detail, c.want) {
			t.Errorf("%s: %s, %q, want absent with %q", c.query, o.State, o.Detail, c.want)
		}
	}
}

// TestColumns: rows with one key are one copy, an owner that is named counts, and any type can be read.
func TestColumns(t *testing.T) {
	s := newStore(t, perUser)
	s.Put(t, "ann", ann[0].Text, ann[0].Text)
	if o := find(t, s.open(t, "SELECT 7 AS id, content FROM chat_memory WHERE user_id = $1"), ann)[0]; o.Copies != 1 {
		t.Errorf("%+v, want one copy", o)
	}
	if o := find(t, s.open(t, `SELECT 'bob' AS "Owner", content FROM chat_memory`), ann)[0]; o.State != memory.Absent || !slices.Equal(o.Strangers, []string{"bob"}) {
		t.Errorf("%+v, want absent, and bob a stranger", o)
	}
	for _, value := range []string{"content::bytea::text::bytea", "jsonb_build_object('text', content)", "ARRAY[content]", "content::varchar(100)"} {
		state := memory.Altered
		if strings.Contains(value, "varchar") {
			state = memory.Present
		}
		if strings.Contains(value, "bytea") { // written in hexadecimal
			state = memory.Absent
		}
		if o := find(t, s.open(t, "SELECT "+value+" FROM chat_memory WHERE user_id = $1"), ann)[0]; o.State != state {
			t.Errorf("%s: %+v, want %s", value, o, state)
		}
	}
}

// TestQueries: what New takes for a query.
func TestQueries(t *testing.T) {
	for query, want := range map[string]string{
		"":                                 "query: missing",
		" -- nothing":                      "query: missing",
		"SELECT c FROM m WHERE u = $2":     "the parameter $2",
		perUser + " AND run = $2":          "the parameter $2",
		"SELECT c, '$2' FROM m WHERE u=$1": "",
	} {
		_, err := postgres.New(postgres.Config{DSN: "postgres://h/d", Query: query})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", query, err, want)
		}
	}
}

// TestTimeout: a server that does not answer, or that is kept from answering, is our trouble.
func TestTimeout(t *testing.T) {
	s := newStore(t, perUser)
	for name, hang := range map[string]func() func(){
		"locked": func() func() { return s.Break(t, viewtest.Hang) },
		"frozen": func() func() { return viewtest.Freeze(t, s.Server) },
	} {
		mend := hang()
		v := open(t, postgres.Config{Name: "postgres", DSN: s.dsn(), Query: perUser, Timeout: 200 * time.Millisecond, Clock: clock.System()})
		began := time.Now()
		for _, o := range find(t, v, ann) {
			if o.State != memory.Unreadable || !o.Rig {
				t.Errorf("%s: %+v", name, o)
			}
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s: it took %s", name, took)
		}
		mend()
	}
}

// TestAtOnce: a Find that follows another at once reads through its connection, unless that one is gone, and a
// connection that nobody takes over ends by itself.
func TestAtOnce(t *testing.T) {
	s := newStore(t, perUser)
	v := s.open(t, "SELECT pg_backend_pid()::text, $1")
	through := func() string {
		t.Helper()
		o := find(t, v, ann)[0]
		_, pid, ok := strings.Cut(o.Detail, "the query gives 1 rows, the first: ")
		if o.State != memory.Absent || !ok {
			t.Fatalf("%+v", o)
		}
		return strings.Trim(pid, `"`)
	}
	until := func(what string, done func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !done(); {
			if time.Now().After(deadline) {
				t.Fatal(what)
			}
		}
	}
	there := func(pid string) (n int) {
		check(t, s.app.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE pid = $1::int", pid).Scan(&n))
		return n
	}
	until("no connection is used twice", func() bool { first := through(); return first == through() })
	pid := through()
	exec1(t, s.app, "SELECT pg_terminate_backend($1::int)", pid)
	until("the connection is not ended", func() bool { return there(pid) == 0 })
	pid = through() // which fails when it reads where nobody is
	until("the connection stays", func() bool { return there(pid) == 0 })
	pid = through()
	check(t, v.Close())
	until("the connection survives the view", func() bool { return there(pid) == 0 })
}

// TestOwnTransactions: each exchange sees what was committed before it began, so that a memory told during a Find is
// not missed by a read that began after it.
func TestOwnTransactions(t *testing.T) {
	s := newStore(t, perUser)
	ms := viewtest.Memories(1, 600, 1)
	last := ms[len(ms)-1]
	c := &startled{Clock: clock.System(), at: 515, do: func() { s.Put(t, last.User, last.Text) }}
	v := open(t, postgres.Config{Name: "postgres", DSN: s.dsn(), Query: perUser, Clock: c})
	if o := find(t, v, ms)[len(ms)-1]; o.State != memory.Present {
		t.Errorf("%+v", o)
	}
}

// startled is a clock that does something at a look.
type startled struct {
	memory.Clock
	n, at int
	do    func()
}

func (s *startled) Now() memory.Instant {
	if s.n++; s.n == s.at {
		s.do()
	}
	return s.Clock.Now()
}

func BenchmarkFind(b *testing.B) {
	s := newStore(b, perUser)
	ms := viewtest.Memories(1, 1000, 100)
	var users []string
	for _, m := range ms[:1000] {
		users = append(users, m.User)
	}
	_, err := s.app.CopyFrom(context.Background(), pgx.Identifier{"chat_memory"}, []string{"user_id", "content"},
		pgx.CopyFromSlice(len(ms), func(i int) ([]any, error) { return []any{ms[i].User, ms[i].Text}, nil }))
	check(b, err)
	exec1(b, s.app, "CREATE INDEX by_user ON chat_memory (user_id)")
	exec1(b, s.app, "VACUUM ANALYZE chat_memory")
	for _, c := range []struct {
		name, query string
		args        []any
	}{{"whole", all, nil}, {"a list of users", listed, []any{users}}, {"per user", perUser, []any{users}}} {
		// The raw client's bulk read of the same rows.
		b.Run(c.name+"/raw", func(b *testing.B) {
			query := c.query
			if query == perUser {
				query = listed
			}
			for b.Loop() {
				rows, err := s.app.Query(context.Background(), query, c.args...)
				check(b, err)
				n := 0
				for ; rows.Next(); n++ {
					_, err := rows.Values()
					check(b, err)
				}
				if n != len(ms) || rows.Err() != nil {
					b.Fatalf("%d rows, %v", n, rows.Err())
				}
			}
		})
		b.Run(c.name+"/view", func(b *testing.B) {
			v := open(b, postgres.Config{Name: "postgres", DSN: s.server.dsn("amnesia", s.server.Addr, s.name), Query: c.query, Clock: clock.System()})
			for b.Loop() {
				out, err := v.Find(context.Background(), ms)
				if err != nil || out[0].State != memory.Present || out[len(out)-1].State != memory.Present {
					b.Fatalf("%v, %v", out[len(out)-1], err)
				}
			}
		})
	}
}
