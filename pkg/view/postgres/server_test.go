package postgres_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"amnesia/pkg/view/viewtest"
	"amnesia/pkg/view/viewtest/servers"
)

// server is a real PostgreSQL. All tests use one, each with a schema of its own.
type server struct{ *servers.Server }

var schemas atomic.Int64 // made so far

var shared = viewtest.NewShared(servers.Postgres)

func TestMain(m *testing.M) { shared.Main(m) }

func theServer(t testing.TB) *server {
	t.Helper()
	return &server{shared.Server(t)}
}

// dsn leads to a schema of the one database.
func (s *server) dsn(user, addr, schema string) string {
	return fmt.Sprintf("postgres://%s:%s@%s/postgres?sslmode=disable&search_path=%s", user, servers.Password, addr, schema)
}

// schema makes an empty schema, and gives its name and the app's connection to it.
func (s *server) schema(t testing.TB) (string, *pgx.Conn) {
	t.Helper()
	name := fmt.Sprintf("chat%d", schemas.Add(1))
	conn, err := pgx.Connect(context.Background(), s.dsn("app", s.Addr, name))
	check(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	exec1(t, conn, "CREATE SCHEMA "+name)
	return name, conn
}

func exec1(t testing.TB, conn *pgx.Conn, query string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(context.Background(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
