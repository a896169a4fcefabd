package viewtest

import (
	"errors"
	"os"
	"sync"
	"testing"

	"amnesia/pkg/view/viewtest/servers"
)

// Server takes what a function of servers gives. Where the program is missing the test is skipped; in CI it fails.
func Server(t testing.TB, s *servers.Server, err error) *servers.Server {
	t.Helper()
	switch {
	case err == nil:
		return s
	case errors.Is(err, servers.ErrMissing) && os.Getenv("CI") != "true":
		t.Skip(err)
	default:
		t.Fatal(err)
	}
	return nil
}

// Shared is one server for all tests of a package. It starts when the first test asks for it.
type Shared struct {
	start func() (*servers.Server, error)

	once   sync.Once
	server *servers.Server
	err    error
}

// NewShared takes a function of servers.
func NewShared(start func() (*servers.Server, error)) *Shared { return &Shared{start: start} }

// Server gives it, on the terms of Server.
func (s *Shared) Server(t testing.TB) *servers.Server {
	t.Helper()
	s.once.Do(func() { s.server, s.err = s.start() })
	return Server(t, s.server, s.err)
}

// Main is for TestMain: it runs the tests, ends the server and exits.
func (s *Shared) Main(m *testing.M) {
	code := m.Run()
	if s.server != nil {
		_ = s.server.Close()
	}
	os.Exit(code)
}

// Freeze freezes a server; it must be thawed.
func Freeze(t testing.TB, s *servers.Server) (thaw func()) {
	t.Helper()
	thawed, err := s.Freeze()
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := thawed(); err != nil {
			t.Error(err)
		}
	}
}
