package soak

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"amnesia/chaos"
	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
	"amnesia/pkg/session"
)

// An account is left before it would hold too much, by what it was told and not by how many cycles there were.
func TestAccountsTakeTurns(t *testing.T) {
	l := &Loop{Users: 2, Memories: 2, PerAccount: 5, told: map[string]int{}, turn: make([]int, 2),
		Accounts: func(n int) session.User { return session.User{N: n, Name: fmt.Sprint("u", n)} }}
	names := func(told int) []string {
		var got []string
		for range 5 {
			for n := range l.Users {
				u := l.account(n).Name
				l.told[u] += told
				got = append(got, u)
			}
		}
		return got
	}
	if got, want := names(0), []string{"u0", "u1", "u0", "u1", "u0", "u1", "u0", "u1", "u0", "u1"}; !slices.Equal(got, want) {
		t.Errorf("untold accounts are left: %v", got)
	}
	if got, want := names(2), []string{"u0", "u1", "u0", "u1", "u2", "u3", "u2", "u3", "u4", "u5"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	l.PerAccount = 0
	if got, want := names(100), []string{"u4", "u5", "u4", "u5", "u4", "u5", "u4", "u5", "u4", "u5"}; !slices.Equal(got, want) {
		t.Errorf("without a bound: %v", got)
	}
}

// ticking gives every reading an instant of its own.
type ticking struct {
	mu  sync.Mutex
	now memory.Instant
}

func (c *ticking) Now() memory.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(time.Millisecond)
	return c.now
}

// engine has one service, whose process can be replaced.
type engine struct {
	chaos.Engine
	mu sync.Mutex
	id string
}

func (e *engine) Services() []chaos.Service { return []chaos.Service{{Name: "app"}} }
func (e *engine) Instances(context.Context, string) ([]fact.Instance, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return []fact.Instance{{ID: e.id}}, nil
}

func (e *engine) replace(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.id = id
}

// blind sees no memory at all.
type blind struct {
	clock memory.Clock
	then  func()
}

func (blind) Name() string { return "blind" }
func (blind) Close() error { return nil }
func (b blind) Find(_ context.Context, ms []memory.Memory) ([]memory.Observation, error) {
	obs := make([]memory.Observation, len(ms))
	for i, m := range ms {
		obs[i] = memory.Observation{Memory: m.ID, State: memory.Absent, Began: b.clock.Now(), Ended: b.clock.Now()}
	}
	if b.then != nil {
		b.then()
	}
	return obs, nil
}

type books struct {
	Ledger
	sweeps []fact.Sweep
}

func (b *books) NextSweep() int64 { return int64(len(b.sweeps)) }
func (b *books) Append(_ context.Context, facts ...fact.Fact) error {
	for _, f := range facts {
		b.sweeps = append(b.sweeps, f.(fact.Sweep))
	}
	return nil
}

func sweeping(e *engine, views ...blind) (*Loop, *books) {
	c, b := &ticking{now: noon.now}, &books{}
	l := &Loop{Clock: c, Engine: e, Prober: chaos.NewProber(c, 0), Ledger: b}
	for i, v := range views {
		v.clock = c
		l.Looks = append(l.Looks, Look{View: v, Timeout: time.Minute, Contract: memory.Contract{View: fmt.Sprint("v", i), Service: "app"}})
	}
	return l, b
}

// A user's memories are looked for together, in as few reads as can be.
func TestPartsEndWithAUser(t *testing.T) {
	ms := func(users string) (ms []memory.Memory) {
		for i, u := range users {
			ms = append(ms, memory.Memory{ID: memory.ID(i), User: string(u)})
		}
		return ms
	}
	for users, want := range map[string]string{
		"": "", "a": "a", "abab": "aabb", "abcabc": "aabb cc", "aaaaaa": "aaaaaa", "aaaaaab": "aaaaaa b", "abbbbbb": "a bbbbbb", "abbbccc": "abbb ccc",
	} {
		var got []string
		for part := range parts(ms(users), 4) {
			s := ""
			for i, m := range part {
				s += m.User
				if i > 0 && m.User == part[i-1].User && m.ID < part[i-1].ID {
					t.Errorf("%s: out of order", users)
				}
			}
			got = append(got, s)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", users, got, want)
		}
	}
}

var (
	told  = []memory.Memory{{ID: 1, Views: []string{"v0", "v1"}}}
	due   = func(Look) []memory.Memory { return told }
	ready = func() error { return nil }
)

// One reading of health precedes every read of a round, and one follows them all.
func TestOneProofForViewsReadTogether(t *testing.T) {
	l, b := sweeping(&engine{id: "a"}, blind{}, blind{})
	if err := l.sweep(t.Context(), 1, false, ready, due); err != nil || len(b.sweeps) != 2 {
		t.Fatalf("%d sweeps, %v", len(b.sweeps), err)
	}
	for _, s := range b.sweeps {
		if !s.Before.At.Before(s.Began) || !s.Ended.Before(s.After.At) {
			t.Errorf("%s was read from %v to %v, its service before and after at %v and %v", s.View, s.Began, s.Ended, s.Before.At, s.After.At)
		}
		if s.Observations[0].State != memory.Absent {
			t.Errorf("%+v", s.Observations)
		}
	}
}

// Whoever is replaced during the read of one view proves no absence in the other either.
func TestAReplacedServiceProvesNoAbsence(t *testing.T) {
	e := &engine{id: "a"}
	l, b := sweeping(e, blind{}, blind{then: func() { e.replace("b") }})
	if err := l.sweep(t.Context(), 1, false, ready, due); err != nil {
		t.Fatal(err)
	}
	for _, s := range b.sweeps {
		if s.Observations[0].State != memory.Unreadable {
			t.Errorf("%+v", s)
		}
	}
}

// The reading that ended the recovery stands for one sweep only, and for what happened since: a process that was
// replaced between the two proves no absence.
func TestTheRecoveryIsTheFirstProof(t *testing.T) {
	l, b := sweeping(&engine{id: "b"}, blind{})
	l.recovered = []fact.Health{{Service: "app", Healthy: true, Instances: []fact.Instance{{ID: "a"}}}}
	for range 2 {
		if err := l.sweep(t.Context(), 1, false, ready, due); err != nil {
			t.Fatal(err)
		}
	}
	if got := []memory.State{b.sweeps[0].Observations[0].State, b.sweeps[1].Observations[0].State}; !slices.Equal(got, []memory.State{memory.Unreadable, memory.Absent}) {
		t.Errorf("got %v", got)
	}
}

// Nothing is recorded of a sweep when what precedes it cannot be.
func TestASweepIsRecordedAfterWhatPrecedesIt(t *testing.T) {
	l, b := sweeping(&engine{id: "a"}, blind{})
	full := errors.New("the disk is full")
	if err := l.sweep(t.Context(), 1, false, func() error { return full }, due); !errors.Is(err, full) || len(b.sweeps) != 0 {
		t.Errorf("%d sweeps, %v", len(b.sweeps), err)
	}
}
