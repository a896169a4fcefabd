package redis_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// server is a real Redis on a free port, with its data in a folder of the test's. It keeps an append-only file, so that
// it may be killed and started again.
type server struct {
	addr string
	dir  string
	cmd  *exec.Cmd
}

// startServer starts one; it ends with the test. Where Redis is not installed the test is skipped, in CI it fails.
func startServer(t testing.TB) *server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("no redis-server: %v", err)
		}
		t.Skip("no redis-server — fix: apt-get install redis-server")
	}
	logging.Disable() // of the app's own client
	s := &server{addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(freePort(t))), dir: t.TempDir()}
	t.Cleanup(s.kill)
	s.start(t)
	return s
}

func (s *server) start(t testing.TB) {
	t.Helper()
	_, port, _ := net.SplitHostPort(s.addr)
	log := filepath.Join(s.dir, "redis.log")
	s.cmd = exec.Command("redis-server", "--bind", "127.0.0.1", "--port", port, "--dir", s.dir, "--logfile", log,
		"--databases", "1000", "--appendonly", "yes", "--appendfsync", "no", "--save", "")
	// Whatever becomes of the test, the server does not outlive it.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	check(t, s.cmd.Start())
	client := s.client(t, 0)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for client.Ping(ctx).Err() != nil {
		if ctx.Err() != nil {
			said, _ := os.ReadFile(log)
			t.Fatalf("redis-server does not answer:\n%s", said)
		}
	}
}

func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait() // says that it was killed
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func (s *server) url(db int) string { return fmt.Sprintf("redis://%s/%d", s.addr, db) }

// client is the app's own connection.
func (s *server) client(t testing.TB, db int) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: s.addr, DB: db, DisableIdentity: true, Protocol: 2, DialerRetries: 1})
	t.Cleanup(func() { c.Close() })
	return c
}

// freeze stops the process, as an overloaded machine does: it takes connections and does not answer.
func (s *server) freeze(t testing.TB) (thaw func()) {
	t.Helper()
	check(t, s.cmd.Process.Signal(syscall.SIGSTOP))
	return func() { check(t, s.cmd.Process.Signal(syscall.SIGCONT)) }
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
