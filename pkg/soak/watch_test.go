package soak

import (
	"testing"
	"time"

	"amnesia/chaos"
	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

func TestLogLevel(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{`{"level":"error","msg":"x"}`, "error"},
		{`{"severity":"CRITICAL","message":"x"}`, "error"},
		{`{"lvl":"warning"}`, "warn"},
		{`{"level":"info","msg":"an ERROR that is none"}`, "info"},
		{`{"level":`, ""},
		{"2026-11-30 ERROR: could not save", "error"},
		{"2026-11-30 02:00:00.123 UTC [71] FATAL:  terminating connection", "error"},
		{"[WARN] slow", "warn"},
		{"INFO no ERROR here", "info"},
		{"errors are counted elsewhere", ""},
		{"", ""},
	} {
		if got := logLevel(c.line); got != c.want {
			t.Errorf("logLevel(%q) = %q, want %q", c.line, got, c.want)
		}
	}
}

func TestTokenIn(t *testing.T) {
	l := &Loop{tokens: map[string]memory.ID{"amnabc1": 7}}
	for line, want := range map[string]memory.ID{
		`{"msg":"could not save \"My code is amnabc1.\""}`: 7,
		"AMNABC1":                       0, // tokens are lower case
		"xamnabc1":                      0, // a part of a longer word is another word
		"user=amnabc1":                  7,
		`{"msg":"my code:\namnabc1"}`:   7,
		`{"msg":"\u0022amnabc1\u0022"}`: 7,
		`C:\\namnabc1`:                  0, // an escaped backslash, and then a word
		"":                              0,
	} {
		if got := l.tokenIn(line); got != want {
			t.Errorf("tokenIn(%q) = %v, want %v", line, got, want)
		}
	}
}

func TestCauseOfADeath(t *testing.T) {
	now := time.Now()
	one, other := fact.Instance{ID: "1"}, fact.Instance{ID: "2"}
	for _, c := range []struct {
		name string
		exit int
		oom  chaos.Event
		want string
	}{
		{"out of memory", 137, chaos.Event{Instance: one, At: now.Add(-time.Second)}, "oom"},
		{"told in the other order", 137, chaos.Event{Instance: one, At: now.Add(time.Millisecond)}, "oom"},
		{"an earlier life ran out of memory", 137, chaos.Event{Instance: other, At: now}, "external"},
		{"a child ran out of memory long ago", 137, chaos.Event{Instance: one, At: now.Add(-time.Hour)}, "external"},
		{"a stray kill", 137, chaos.Event{}, "external"},
		{"a stray kill of a process", -9, chaos.Event{}, "external"},
		{"its own end", 1, chaos.Event{}, "exit"},
		{"a child ran out of memory, and it ended by itself", 1, chaos.Event{Instance: one, At: now}, "exit"},
	} {
		if got := cause(chaos.Event{Kind: "die", Exit: c.exit, Instance: one, At: now}, c.oom); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestUnproven: an absence proves nothing unless the service was well, and the same, on both sides of the read.
func TestUnproven(t *testing.T) {
	well := func(pid string) *fact.Health {
		return &fact.Health{Service: "app", Healthy: true, Instances: []fact.Instance{{ID: pid}}}
	}
	ill := &fact.Health{Service: "app", Detail: "refused"}
	for _, c := range []struct {
		name          string
		before, after *fact.Health
		proven        bool
	}{
		{"well and the same", well("1"), well("1"), true},
		{"no service behind the view", nil, nil, true},
		{"ill before", ill, well("1"), false},
		{"ill after", well("1"), ill, false},
		{"replaced meanwhile", well("1"), well("2"), false},
	} {
		if why := unproven(c.before, c.after); (why == "") != c.proven {
			t.Errorf("%s: %q", c.name, why)
		}
	}
}
