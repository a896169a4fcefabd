package redis_test

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"amnesia/pkg/view/viewtest"
	"amnesia/pkg/view/viewtest/servers"
)

// server is a real Redis, with the app's ways to it.
type server struct{ *servers.Server }

// startServer starts one; it ends with the test.
func startServer(t testing.TB) *server {
	t.Helper()
	logging.Disable() // of the app's own client
	s, err := servers.Redis()
	s = viewtest.Server(t, s, err)
	t.Cleanup(func() { check(t, s.Close()) })
	return &server{s}
}

func (s *server) url(db int) string { return fmt.Sprintf("%s/%d", s.URL, db) }

// client is the app's own connection.
func (s *server) client(t testing.TB, db int) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: s.Addr, DB: db, DisableIdentity: true, Protocol: 2, DialerRetries: 1})
	t.Cleanup(func() { c.Close() })
	return c
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
