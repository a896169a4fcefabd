//go:build unix

package rig_test

import (
	"context"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"amnesia/pkg/clock"
	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

// reading gives whether a fact is a reading of the view that came to nothing.
func unreadable(view string) func(fact.Fact) bool {
	return func(f fact.Fact) bool {
		s, ok := f.(fact.Sweep)
		return ok && s.View == view && len(s.Observations) > 0 &&
			!slices.ContainsFunc(s.Observations, func(o memory.Observation) bool { return o.State != memory.Unreadable })
	}
}

// TestStore breaks the way to a store. The target needs it not, and goes on.
func TestStore(t *testing.T) {
	for name, spoil := range map[string]func(*rig){
		"accepts and never answers":  func(r *rig) { r.store.Hang() },
		"answers later than we wait": func(r *rig) { r.store.Slow(3 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, setup{Faults: true})
			from := len(r.seen())
			spoil(r)
			r.fact("the view cannot be read", from, unreadable("vectors"))
			c := r.inconclusive(from)
			if !strings.Contains(c.Reason, "vectors") {
				t.Errorf("cycle %d is inconclusive: %s", c.N, c.Reason)
			}
			r.store.Mend()
			r.conclusive()
		})
	}
	t.Run("answers slowly", func(t *testing.T) {
		t.Parallel()
		r := start(t, setup{})
		from := len(r.seen())
		r.store.Slow(150 * time.Millisecond)
		r.conclusive()
		for _, f := range r.seen()[from:] {
			if s, ok := f.(fact.Sweep); ok && unreadable("vectors")(f) {
				t.Errorf("it was not waited for: %s", s.Error)
			}
		}
	})
}

// TestPage breaks the way between the users and the page.
func TestPage(t *testing.T) {
	for name, spoil := range map[string]func(*rig){
		"never loads": func(r *rig) { r.page.Hang() },
		"breaks off":  func(r *rig) { r.page.Cut(0) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, setup{Faults: true})
			from := len(r.seen())
			spoil(r)
			r.fact("a session fails", from, failedSession)
			r.fact("the page cannot be read", from, unreadable("page"))
			r.page.Mend()
			r.conclusive()
		})
	}
}

func failedSession(f fact.Fact) bool {
	s, ok := f.(fact.Session)
	return ok && s.Outcome != "ok"
}

// jumping is a clock whose wall can be set.
type jumping struct {
	memory.Clock
	mu sync.Mutex
	by time.Duration
}

func (j *jumping) Now() memory.Instant {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := j.Clock.Now()
	now.Wall += int64(j.by)
	return now
}

func (j *jumping) set(by time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.by = by
}

func TestWallClockJumps(t *testing.T) {
	t.Parallel()
	c := &jumping{Clock: clock.System()}
	r := start(t, setup{Faults: true, Clock: c})
	for _, by := range []time.Duration{26 * time.Hour, -26 * time.Hour} {
		from := len(r.seen())
		c.set(by)
		gap := r.fact("the jump is recorded", from, func(f fact.Fact) bool { g, ok := f.(fact.Gap); return ok && g.Of == "clock" }).(fact.Gap)
		if moved := time.Duration(gap.To.Wall-gap.From.Wall) - gap.To.Sub(gap.From); moved.Abs() < 25*time.Hour {
			t.Errorf("the gap is %+v", gap)
		}
		r.conclusive()
	}
}

// TestFloodOfLines has a service write 10,000 lines a second, one in ten with a token that the users were just told of.
func TestFloodOfLines(t *testing.T) {
	t.Parallel()
	r := start(t, setup{Faults: true, Noisy: true})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	lost := r.fact("lines are lost, and counted", 0, func(f fact.Fact) bool { g, ok := f.(fact.Gap); return ok && g.Of == "logs" && g.Lost > 0 }).(fact.Gap)
	r.conclusive()
	r.conclusive()
	runtime.GC()
	runtime.ReadMemStats(&after)
	t.Logf("%d lines were lost within %s; the heap went from %d to %d KiB", lost.Lost, lost.To.Sub(lost.From), before.HeapAlloc>>10, after.HeapAlloc>>10)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 64<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
}

// names is what every name is asked of that is in no file of the machine's.
var names *nameServer

// serveNames starts it, for the life of the process: who resolves is the whole process's, and a dial that a test has left
// behind may ask at any time.
func serveNames() (*nameServer, error) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	n := &nameServer{conn: conn}
	go n.serve()
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: n.dial}
	return n, nil
}

// nameServer knows all names, until it forgets them.
type nameServer struct {
	conn net.PacketConn
	mu   sync.Mutex
	gone bool
}

func (n *nameServer) forget(gone bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.gone = gone
}

func (n *nameServer) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "udp", n.conn.LocalAddr().String())
}

// serve answers 127.0.0.1 to every question for an IPv4 address, or that there is no such name (RFC 1035).
func (n *nameServer) serve() {
	buf := make([]byte, 1500)
	for {
		size, from, err := n.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buf[:size]) != nil || len(m.Questions) == 0 {
			continue
		}
		m.Response, m.Authoritative, m.Additionals = true, true, nil
		n.mu.Lock()
		gone := n.gone
		n.mu.Unlock()
		if gone {
			m.RCode = dnsmessage.RCodeNameError
		} else if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
			m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 0},
				Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}}}
		}
		if answer, err := m.Pack(); err == nil {
			_, _ = n.conn.WriteTo(answer, from)
		}
	}
}

// TestHostNameGone takes the target's host name out of the name server.
func TestHostNameGone(t *testing.T) {
	r := start(t, setup{Host: "app.rig.test", Faults: true})
	from := len(r.seen())
	names.forget(true)
	r.fact("a session fails", from, failedSession)
	r.fact("the page cannot be read", from, unreadable("page"))
	names.forget(false)
	r.conclusive()
}
