package postgres_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// server is a real PostgreSQL on a free port, with its data in a folder of the tests'. All tests use one, each with a
// schema of its own.
type server struct {
	addr  string
	dir   string
	creds *syscall.Credential // of the user it runs as; nil: ours
	cmd   *exec.Cmd
	n     int // schemas made
}

const password = "sesame-open"

var shared = sync.OnceValues(startServer)

func TestMain(m *testing.M) {
	code := m.Run()
	if s, err := shared(); err == nil {
		s.stop()
	}
	os.Exit(code)
}

// theServer gives the server; where PostgreSQL is not installed the test is skipped, in CI it fails.
func theServer(t testing.TB) *server {
	t.Helper()
	s, err := shared()
	switch {
	case err == nil:
		return s
	case os.Getenv("CI") == "true" || program("initdb") != "":
		t.Fatal(err)
	default:
		t.Skip(err)
	}
	return nil
}

// program finds a program of PostgreSQL's, which Debian keeps out of PATH; the newest when there are several.
func program(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if len(found) == 0 {
		return ""
	}
	return slices.Max(found)
}

func startServer() (*server, error) {
	if program("initdb") == "" {
		return nil, fmt.Errorf("no PostgreSQL — fix: apt-get install postgresql")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{addr: l.Addr().String()}
	l.Close()
	// Not a folder of a test's: those are closed to the user as which the server runs.
	if s.dir, err = os.MkdirTemp("", "postgres-test-"); err != nil {
		return nil, err
	}
	if os.Getuid() == 0 { // as which PostgreSQL refuses to run
		if s.creds, err = unprivileged(s.dir); err != nil {
			return nil, err
		}
	}
	if err := s.start(); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// unprivileged gives the folder to a user who is not root.
func unprivileged(dir string) (*syscall.Credential, error) {
	who, err := user.Lookup("postgres")
	if err != nil {
		if who, err = user.Lookup("nobody"); err != nil {
			return nil, err
		}
	}
	uid, _ := strconv.Atoi(who.Uid)
	gid, _ := strconv.Atoi(who.Gid)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(dir, uid, gid)
}

func (s *server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(program(name), args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.creds}
	return cmd
}

func (s *server) start() error {
	secret := filepath.Join(s.dir, "password")
	if err := os.WriteFile(secret, []byte(password), 0o644); err != nil { // in a folder that nobody else enters
		return err
	}
	data := filepath.Join(s.dir, "data")
	if out, err := s.command("initdb", "-D", data, "-U", "app", "-A", "scram-sha-256", "--pwfile", secret, "-E", "UTF8", "--no-sync").CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	_, port, _ := net.SplitHostPort(s.addr)
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	s.cmd = s.command("postgres", "-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off")
	s.cmd.Stdout, s.cmd.Stderr = log, log
	// Whatever becomes of the test, the server does not outlive it.
	s.cmd.SysProcAttr.Pdeathsig = syscall.SIGQUIT
	if err := s.cmd.Start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, s.dsn("app", s.addr, "public"))
		if err == nil {
			return conn.Close(ctx)
		}
		if ctx.Err() != nil {
			said, _ := os.ReadFile(log.Name())
			return fmt.Errorf("PostgreSQL does not answer: %w\n%s", err, said)
		}
	}
}

func (s *server) stop() {
	if s.cmd != nil && s.cmd.Process != nil {
		_ = s.cmd.Process.Signal(syscall.SIGQUIT)
		_ = s.cmd.Wait() // says by which signal it ended
	}
	_ = os.RemoveAll(s.dir)
}

// dsn leads to a schema of the one database.
func (s *server) dsn(user, addr, schema string) string {
	return fmt.Sprintf("postgres://%s:%s@%s/postgres?sslmode=disable&search_path=%s", user, password, addr, schema)
}

// schema makes an empty schema, and gives its name and the app's connection to it.
func (s *server) schema(t testing.TB) (string, *pgx.Conn) {
	t.Helper()
	s.n++
	name := fmt.Sprintf("chat%d", s.n)
	conn, err := pgx.Connect(context.Background(), s.dsn("app", s.addr, name))
	check(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	exec1(t, conn, "CREATE SCHEMA "+name)
	return name, conn
}

// freeze stops the process that takes connections, as an overloaded machine does.
func (s *server) freeze(t testing.TB) (thaw func()) {
	t.Helper()
	check(t, s.cmd.Process.Signal(syscall.SIGSTOP))
	return func() { check(t, s.cmd.Process.Signal(syscall.SIGCONT)) }
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
