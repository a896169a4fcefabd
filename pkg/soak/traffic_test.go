package soak

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	system "amnesia/pkg/clock"
	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
	"amnesia/pkg/session"
)

// hands give surfaces that see everything acknowledged at once, and whose traces are counted.
type hands struct{ traces atomic.Int32 }

func (*hands) Name() string { return "hands" }
func (h *hands) Open(context.Context, session.User) (session.Surface, error) {
	return &hand{traces: &h.traces}, nil
}
func (*hands) Close() error { return nil }

type hand struct {
	session.Surface // the rest is not used
	traces          *atomic.Int32
}

func (*hand) Fill(context.Context, string, string) error { return nil }
func (*hand) Await(context.Context, []session.Condition) (session.Sighting, error) {
	return session.Sighting{}, nil
}
func (h *hand) SaveTrace(context.Context, string) string { return fmt.Sprint(h.traces.Add(1), ".zip") }
func (*hand) Close() error                               { return nil }

// traced is a freezer that counts the traces that it is told of.
type traced struct{ n atomic.Int32 }

func (*traced) Line(fact.Log)               {}
func (*traced) Event(fact.ServiceEvent)     {}
func (*traced) Seen(string, session.Glance) {}
func (z *traced) Traced(_, file string)     { z.n.Add(1) }
func (*traced) Freeze(context.Context, int, []fact.Judged, func(memory.ID) memory.Memory) []fact.Frozen {
	return nil
}

// However many sessions a fault strikes, some leave their trace and no more: in each cycle anew, and none without a fault.
func TestAFewStruckSessionsLeaveTheirTrace(t *testing.T) {
	h, z, c, r := &hands{}, &traced{}, system.System(), &record{docket: NewDocket()}
	player, err := session.NewPlayer(h, &session.Script{Tell: []session.Step{
		{Fill: &session.Fill{Selector: "#message", Text: "{{.Memory}}"}}, {Acknowledged: &session.Ack{Expect: session.Expect{Selector: "#done"}}}}}, session.Options{Clock: c})
	if err != nil {
		t.Fatal(err)
	}
	l := &Loop{Users: mostTraces + 5, Memories: 1, TrafficWithin: time.Minute, Player: player, Ledger: r, Docket: r.docket, Clock: c,
		Freezer: z, Log: zap.NewNop(),
		Accounts: func(n int) session.User { return session.User{N: n, Name: fmt.Sprint(n)} },
		Teller:   func(u session.User, k int) memory.Memory { return memory.Memory{Token: u.Name} },
		live:     map[memory.ID]memory.Memory{}, tokens: map[string]memory.ID{}, begun: map[memory.ID]memory.Instant{}, told: map[string]int{}}
	l.turn = make([]int, l.Users)
	for cycle, want := range []int32{0, mostTraces, 2 * mostTraces} {
		l.setFiring(cycle > 0)
		if err := l.traffic(t.Context(), cycle); err != nil {
			t.Fatal(err)
		}
		if n := z.n.Load(); n != want || h.traces.Load() != want {
			t.Errorf("after cycle %d, with %d users each, %d traces were saved and %d taken; want %d", cycle, l.Users, h.traces.Load(), n, want)
		}
	}
}
