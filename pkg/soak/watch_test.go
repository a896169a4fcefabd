package soak

import (
	"testing"

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
	for _, c := range []struct {
		event chaos.Event
		want  string
	}{
		{chaos.Event{Kind: "oom", Exit: 137}, "oom"},
		{chaos.Event{Kind: "die", Exit: 137}, "external"},
		{chaos.Event{Kind: "die", Exit: -9}, "external"},
		{chaos.Event{Kind: "die", Exit: 1}, "exit"},
	} {
		if got := cause(c.event); got != c.want {
			t.Errorf("cause(%+v) = %s, want %s", c.event, got, c.want)
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
