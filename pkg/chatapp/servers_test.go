package chatapp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

// server is a real server with its data in a folder of its own; it may be killed, frozen and started again.
type server struct {
	t       *testing.T
	command []string
	owner   *syscall.Credential // whom it runs as; nil: as the test
	ready   func(context.Context) error
	cmd     *exec.Cmd
	log     bytes.Buffer
}

func (s *server) start() {
	s.t.Helper()
	s.cmd = exec.Command(s.command[0], s.command[1:]...)
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	// A group of its own: PostgreSQL's processes are hurt together. Whatever becomes of the test, it does not outlive it.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: s.owner}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	for err := s.ready(ctx); err != nil; err = s.ready(ctx) {
		if ctx.Err() != nil {
			s.kill()
			s.t.Fatalf("%s does not answer: %v\n%s", s.command[0], err, &s.log)
		}
	}
}

func (s *server) signal(sig syscall.Signal) { _ = syscall.Kill(-s.cmd.Process.Pid, sig) }

func (s *server) kill() {
	s.signal(syscall.SIGKILL)
	_ = s.cmd.Wait() // says that it was killed
}

// program finds a server's program; where there is none the test is skipped, in CI it fails.
func program(t *testing.T, name, pkg string, elsewhere ...string) string {
	t.Helper()
	for _, pattern := range elsewhere {
		if found, _ := filepath.Glob(pattern); len(found) > 0 { // the pattern is sound
			return slices.Max(found)
		}
	}
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("no %s — fix: apt-get install %s", name, pkg)
	}
	t.Skipf("no %s — fix: apt-get install %s", name, pkg)
	return ""
}

// startRedis gives an address; appendonly is yes or no.
func startRedis(t *testing.T, appendonly string) (*server, string) {
	t.Helper()
	host, port, _ := net.SplitHostPort(freeAddress(t))
	address := fmt.Sprintf("redis://%s:%s/0", host, port)
	options, err := redis.ParseURL(address)
	if err != nil {
		t.Fatal(err)
	}
	options.DialerRetries = 1
	client := redis.NewClient(options)
	s := &server{t: t, ready: func(ctx context.Context) error { return client.Ping(ctx).Err() },
		command: []string{program(t, "redis-server", "redis-server"), "--bind", host, "--port", port, "--dir", t.TempDir(), "--appendonly", appendonly}}
	t.Cleanup(func() { client.Close(); s.kill() })
	s.start()
	return s, address
}

// startPostgres gives the DSN of an empty database.
func startPostgres(t *testing.T) (*server, string) {
	t.Helper()
	initdb := program(t, "initdb", "postgresql", "/usr/lib/postgresql/*/bin/initdb")
	host, port, _ := net.SplitHostPort(freeAddress(t))
	dir, err := os.MkdirTemp("", "chatapp-postgres-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	dsn := fmt.Sprintf("postgres://chat@%s:%s/postgres?sslmode=disable", host, port)
	s := &server{t: t, command: []string{filepath.Join(filepath.Dir(initdb), "postgres"), "-D", dir, "-h", host, "-p", port, "-k", dir},
		ready: func(ctx context.Context) error {
			conn, err := pgx.Connect(ctx, dsn)
			if err != nil {
				return err
			}
			return conn.Close(ctx)
		}}
	if os.Geteuid() == 0 { // which PostgreSQL refuses
		s.owner = account(t, "postgres")
		if err := os.Chown(dir, int(s.owner.Uid), int(s.owner.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	init := exec.Command(initdb, "-D", dir, "-U", "chat", "-A", "trust", "--no-sync", "--locale=C.UTF-8")
	init.SysProcAttr = &syscall.SysProcAttr{Credential: s.owner}
	init.Dir = dir
	if out, err := init.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	t.Cleanup(s.kill)
	s.start()
	return s, dsn
}

// startChroma gives the address of an empty server. The program is got as the view of Chroma gets it for its own tests.
func startChroma(t *testing.T) (*server, string) {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("../view/chroma/testdata/server", filepath.Join(cache, "amnesia", "chroma")).Output()
	if err != nil {
		why := err.Error()
		if e, ok := errors.AsType[*exec.ExitError](err); ok {
			why = string(e.Stderr)
		}
		if os.Getenv("CI") == "true" {
			t.Fatalf("no Chroma server: %s", why)
		}
		t.Skipf("no Chroma server: %s", why)
	}
	host, port, _ := net.SplitHostPort(freeAddress(t))
	address := "http://" + net.JoinHostPort(host, port)
	s := &server{t: t, command: append(strings.Split(strings.TrimSpace(string(out)), "\n"), "run", "--host", host, "--port", port, "--path", t.TempDir()),
		ready: func(ctx context.Context) error {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/api/v2/heartbeat", nil)
			if err != nil {
				return err
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				return err
			}
			return resp.Body.Close()
		}}
	t.Cleanup(s.kill)
	s.start()
	return s, address
}

func account(t *testing.T, name string) *syscall.Credential {
	t.Helper()
	u, err := user.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// dial gives a client of the server.
func dial(t *testing.T, address string) *redis.Client {
	t.Helper()
	options, err := redis.ParseURL(address)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	t.Cleanup(func() { client.Close() })
	return client
}

// list gives what another process reads in Redis of a user, and how long it lives there.
func list(t *testing.T, address, user string) (values []string, ttl time.Duration) {
	t.Helper()
	client := dial(t, address)
	values, err := client.LRange(t.Context(), "chat:memory:"+user, 0, -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	ttl, err = client.PTTL(t.Context(), "chat:memory:"+user).Result()
	if err != nil {
		t.Fatal(err)
	}
	return values, ttl
}
