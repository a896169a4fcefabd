package chatapp

import (
	"net"
	"net/http"
	"sync"
)

// silent are the connections on which nothing was asked yet: browsers open some ahead of need. A server that stops waits
// up to five seconds for each (http.Server.Shutdown), which here would be longer than a restart takes; so they are closed.
type silent struct {
	mu      sync.Mutex
	stopped bool
	conns   map[net.Conn]bool
}

// watch makes the server keep count of them, and close them when it stops.
func (s *silent) watch(server *http.Server) {
	s.conns = map[net.Conn]bool{}
	server.ConnState = s.state
	server.RegisterOnShutdown(s.close)
}

func (s *silent) state(c net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case state != http.StateNew:
		delete(s.conns, c)
	case s.stopped:
		c.Close()
	default:
		s.conns[c] = true
	}
}

func (s *silent) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	for c := range s.conns {
		c.Close()
	}
}
