package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"amnesia/pkg/terminal"
)

// How /api/v1/events keeps those who follow. What it sends is always the whole of what goes on now, so that who misses one
// misses nothing, and nothing waits for who is slow.
const (
	mostFollowers = 64
	eventEvery    = 250 * time.Millisecond // at most so often
	heartbeat     = 15 * time.Second
	eventTimeout  = 10 * time.Second // for whoever takes it; then it is dropped
)

// events sends what goes on now, and again whenever it has changed, as server-sent events.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	if s.followers.Add(1) > mostFollowers {
		s.followers.Add(-1)
		s.fail(w, http.StatusServiceUnavailable, fmt.Errorf("%d follow already — fix: close some, or ask for /api/v1/status now and then", mostFollowers))
		return
	}
	defer s.followers.Add(-1)
	c := http.NewResponseController(w)
	// The server's time-outs are for answers that end. A connection without deadlines, as in tests, needs none taken away.
	if err := c.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // for a proxy before it
	if r.Method == http.MethodHead {
		return
	}
	within := func() bool { // what is written next is to be taken in time
		err := c.SetWriteDeadline(time.Now().Add(s.eventTimeout))
		return err == nil || errors.Is(err, http.ErrNotSupported)
	}
	send := func(format string, args ...any) bool {
		if !within() {
			return false
		}
		_, err := fmt.Fprintf(w, format, args...)
		return err == nil && c.Flush() == nil
	}
	defer within() // the end of the answer is written after this: the time of the last event may be over
	beat := time.NewTicker(s.heartbeat)
	defer beat.Stop()
	for {
		changed := s.cfg.Books.Changed() // before it is looked at: what changes meanwhile is not missed
		live, err := s.cfg.Books.Live(r.Context())
		if err != nil {
			return // who follows comes again, and is told why not
		}
		text, err := json.Marshal(live)
		if err != nil || !send("event: live\ndata: %s\n\n", terminal.JSON(text)) {
			return
		}
		soonest := time.After(eventEvery)
		for waiting := true; waiting; {
			select {
			case <-changed:
				waiting = false
			case <-beat.C:
				if !send(": still here\n\n") {
					return
				}
			case <-r.Context().Done():
				return
			case <-s.ending:
				return
			}
		}
		select {
		case <-soonest:
		case <-r.Context().Done():
			return
		case <-s.ending:
			return
		}
	}
}
