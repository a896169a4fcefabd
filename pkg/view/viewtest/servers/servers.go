// Package servers starts real servers of the stores, on free ports of loopback and with their data in folders of their
// own, for tests and benchmarks. They are never shared with anybody and leave nothing behind.
//
// It knows nothing of what is kept in them.
package servers

import (
	"bufio"
	"context"
	_ "embed"
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
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// ErrMissing is the error of a server whose program is not installed.
var ErrMissing = errors.New("the server's program is not installed")

// Server is one. It may be killed, frozen and started again, and must be closed.
type Server struct {
	Addr string // host:port
	URL  string // as clients of its kind want it, with a user who may do everything

	command []string
	owner   *syscall.Credential // whom it runs as; nil: us
	end     syscall.Signal
	ready   func(context.Context) error
	dir     string
	cmd     *exec.Cmd
}

// Password is that of PostgreSQL's user app.
const Password = "sesame-open"

// Redis starts one that keeps an append-only file.
func Redis() (*Server, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("redis-server: %w — fix: apt-get install redis-server", ErrMissing)
	}
	s, err := prepare()
	if err != nil {
		return nil, err
	}
	s.URL, s.end, s.ready = "redis://"+s.Addr, syscall.SIGKILL, s.ping
	host, port, _ := net.SplitHostPort(s.Addr)
	s.command = []string{program, "--bind", host, "--port", port, "--dir", s.dir, "--databases", "1000",
		"--appendonly", "yes", "--appendfsync", "no", "--save", ""}
	return s.first(nil)
}

func (s *Server) ping(ctx context.Context) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.Addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && answer != "+PONG\r\n" {
		err = errors.New(answer)
	}
	return err
}

// Postgres starts one. It has the database postgres, whose owner is app.
func Postgres() (*Server, error) {
	initdb := newest("initdb")
	if initdb == "" {
		return nil, fmt.Errorf("PostgreSQL: %w — fix: apt-get install postgresql", ErrMissing)
	}
	s, err := prepare()
	if err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(s.Addr)
	data := filepath.Join(s.dir, "data")
	s.URL = fmt.Sprintf("postgres://app:%s@%s/postgres?sslmode=disable", Password, s.Addr)
	s.command = []string{filepath.Join(filepath.Dir(initdb), "postgres"), "-D", data, "-h", host, "-p", port, "-k", "", "-c", "fsync=off"}
	s.end = syscall.SIGQUIT // upon which it ends all of its processes at once
	s.ready = func(ctx context.Context) error {
		conn, err := pgconn.Connect(ctx, s.URL)
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	}
	return s.first(func() error {
		if os.Getuid() == 0 { // as which PostgreSQL refuses to run
			if err := s.disown(); err != nil {
				return err
			}
		}
		secret := filepath.Join(s.dir, "password")
		if err := os.WriteFile(secret, []byte(Password), 0o644); err != nil { // in a folder that nobody else enters
			return err
		}
		cmd := s.run(initdb, "-D", data, "-U", "app", "-A", "scram-sha-256", "--pwfile", secret, "-E", "UTF8", "--no-sync")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("initdb: %w\n%s", err, out)
		}
		return nil
	})
}

// newest finds a program of PostgreSQL's, which Debian keeps out of PATH.
func newest(program string) string {
	if path, err := exec.LookPath(program); err == nil {
		return path
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + program) // the pattern is sound
	if len(found) == 0 {
		return ""
	}
	return slices.Max(found)
}

// disown gives the server and its folder to a user who is not root.
func (s *Server) disown() error {
	who, err := user.Lookup("postgres")
	if err != nil {
		if who, err = user.Lookup("nobody"); err != nil {
			return err
		}
	}
	uid, _ := strconv.Atoi(who.Uid) // numbers, where there are credentials
	gid, _ := strconv.Atoi(who.Gid)
	s.owner = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return os.Chown(s.dir, uid, gid)
}

//go:embed chroma
var getChroma string

// Chroma starts one. Its program comes into the user's cache where it is not there yet.
func Chroma() (*Server, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	get := exec.Command("bash", "-c", getChroma, "chroma", filepath.Join(cache, "amnesia", "chroma"))
	var said strings.Builder
	get.Stderr = &said
	program, err := get.Output()
	if err != nil {
		return nil, fmt.Errorf("Chroma: %w: %w: %s", ErrMissing, err, strings.TrimSpace(said.String()))
	}
	s, err := prepare()
	if err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(s.Addr)
	s.URL, s.end = "http://"+s.Addr, syscall.SIGKILL
	s.command = append(strings.Split(strings.TrimSpace(string(program)), "\n"),
		"run", "--host", host, "--port", port, "--path", filepath.Join(s.dir, "data"))
	s.ready = func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/api/v2/heartbeat", nil)
		if err != nil {
			return err
		}
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}
	return s.first(nil)
}

// prepare finds a port and makes the folder. It is not one of a test's: those are closed to other users.
func prepare() (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer l.Close()
	dir, err := os.MkdirTemp("", "amnesia-server-")
	return &Server{Addr: l.Addr().String(), dir: dir}, err
}

// first makes what the server needs and starts it, or leaves nothing behind.
func (s *Server) first(make func() error) (*Server, error) {
	err := error(nil)
	if make != nil {
		err = make()
	}
	if err == nil {
		err = s.Start()
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Server) run(command ...string) *exec.Cmd {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	cmd.SysProcAttr = attributes(s.owner, s.end)
	return cmd
}

// Start starts it with the data that it has, and waits until it answers.
func (s *Server) Start() error {
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	s.cmd = s.run(s.command...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		if err = s.ready(ctx); err == nil {
			return nil
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			said, _ := os.ReadFile(log.Name())
			return fmt.Errorf("%s does not answer: %w\n%s", s.command[0], err, said)
		}
	}
}

// Kill kills it; its data stay.
func (s *Server) Kill() {
	if s.cmd != nil && s.cmd.Process != nil {
		_ = s.cmd.Process.Signal(s.end)
		_ = s.cmd.Wait() // says by which signal it ended
	}
}

// Freeze stops the process that takes connections, as an overloaded machine does, until it is thawed.
func (s *Server) Freeze() (thaw func() error, err error) {
	return func() error { return s.cmd.Process.Signal(syscall.SIGCONT) }, s.cmd.Process.Signal(syscall.SIGSTOP)
}

// Close kills it and removes its data.
func (s *Server) Close() error {
	s.Kill()
	return os.RemoveAll(s.dir)
}
