package chroma_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	api "github.com/amikos-tech/chroma-go/pkg/api/v2"
	"github.com/amikos-tech/chroma-go/pkg/embeddings"
)

// server is a real Chroma on a free port, with its data in a folder of the tests'. All tests use one, each with
// collections of its own.
type server struct {
	addr    string
	dir     string
	program []string
	cmd     *exec.Cmd
	n       int // collections made
}

var shared = sync.OnceValues(startServer)

var asked bool // whether any test wanted the server

func TestMain(m *testing.M) {
	code := m.Run()
	if asked {
		if s, err := shared(); err == nil {
			s.kill()
			_ = os.RemoveAll(s.dir)
		}
	}
	os.Exit(code)
}

// theServer gives the server; where none can be had the test is skipped, in CI it fails.
func theServer(t testing.TB) *server {
	t.Helper()
	asked = true
	s, err := shared()
	switch {
	case err == nil:
		return s
	case os.Getenv("CI") == "true":
		t.Fatal(err)
	default:
		t.Skip(err)
	}
	return nil
}

func startServer() (*server, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	get := exec.Command("testdata/server", filepath.Join(cache, "amnesia", "chroma"))
	var said strings.Builder
	get.Stderr = &said
	program, err := get.Output()
	if err != nil {
		return nil, fmt.Errorf("no Chroma server: %w: %s", err, strings.TrimSpace(said.String()))
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{addr: l.Addr().String(), program: strings.Split(strings.TrimSpace(string(program)), "\n")}
	l.Close()
	if s.dir, err = os.MkdirTemp("", "chroma-test-"); err != nil {
		return nil, err
	}
	return s, s.start()
}

func (s *server) start() error {
	host, port, _ := net.SplitHostPort(s.addr)
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	s.cmd = exec.Command(s.program[0], append(s.program[1:], "run", "--host", host, "--port", port, "--path", filepath.Join(s.dir, "data"))...)
	s.cmd.Stdout, s.cmd.Stderr, s.cmd.Dir = log, log, s.dir
	// Whatever becomes of the test, the server does not outlive it.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	for {
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.addr+"/api/v2/heartbeat", nil)
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			resp.Body.Close()
			return nil
		}
		if ctx.Err() != nil {
			said, _ := os.ReadFile(log.Name())
			return fmt.Errorf("Chroma does not answer: %w\n%s", err, said)
		}
	}
}

func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait() // says that it was killed
}

// freeze stops the process, as an overloaded machine does: it takes connections and does not answer.
func (s *server) freeze(t testing.TB) (thaw func()) {
	t.Helper()
	check(t, s.cmd.Process.Signal(syscall.SIGSTOP))
	return func() { check(t, s.cmd.Process.Signal(syscall.SIGCONT)) }
}

// collection makes an empty one, and gives the app's hold of it.
func (s *server) collection(t testing.TB, opts ...api.ClientOption) api.Collection {
	t.Helper()
	client, err := api.NewHTTPClient(append([]api.ClientOption{api.WithBaseURL("http://" + s.addr),
		api.WithHTTPClient(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}})}, opts...)...)
	check(t, err)
	t.Cleanup(func() { _ = client.Close() })
	s.n++
	c, err := client.CreateCollection(context.Background(), fmt.Sprintf("memories%d", s.n),
		api.WithEmbeddingFunctionCreate(embeddings.NewConsistentHashEmbeddingFunction()))
	check(t, err)
	return c
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
