package app

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"amnesia/chaos"
	"amnesia/pkg/config"
	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
	"amnesia/pkg/report"
)

// TestFits: what the configuration does not allow is refused with what to do, whatever the ledger says.
func TestFits(t *testing.T) {
	cfg := func() *config.Config {
		return &config.Config{Armed: true, Target: config.Target{Services: []config.Service{{Name: "app"}, {Name: "redis"}}},
			Sessions: config.Sessions{Users: 2, Memories: 3},
			Faults: []config.Fault{{Kind: chaos.Kill, Service: "app"}, {Kind: chaos.Wipe, Service: "redis", Volume: "/data"},
				{Kind: chaos.CrashAll}}}
	}
	for name, c := range map[string]struct {
		plan   fact.Injection
		change func(*config.Config)
		fix    string // empty: it fits
	}{
		"a kill":                  {plan: fact.Injection{Kind: chaos.Kill, Service: "app", After: "acknowledged", Nth: 6}},
		"a kill by time":          {plan: fact.Injection{Kind: chaos.Kill, Service: "app", Delay: time.Hour}},
		"a wipe":                  {plan: fact.Injection{Kind: chaos.Wipe, Service: "redis", Volume: "/data"}},
		"a crash of all":          {plan: fact.Injection{Kind: chaos.CrashAll, Services: []string{"app", "redis"}}},
		"a service that is gone":  {plan: fact.Injection{Kind: chaos.Kill, Service: "chroma"}, fix: "add it to target.services"},
		"one of all is gone":      {plan: fact.Injection{Kind: chaos.CrashAll, Services: []string{"app", "chroma"}}, fix: "add it to target.services"},
		"another service":         {plan: fact.Injection{Kind: chaos.Kill, Service: "redis"}, fix: "add {kind: kill, service: redis} to faults"},
		"another kind":            {plan: fact.Injection{Kind: chaos.Restart, Service: "app"}, fix: "add {kind: restart, service: app} to faults"},
		"another volume":          {plan: fact.Injection{Kind: chaos.Wipe, Service: "redis", Volume: "/etc"}, fix: "add {kind: wipe, service: redis, volume: /etc} to faults"},
		"left to a supervisor":    {plan: fact.Injection{Kind: chaos.Kill, Service: "app", Supervised: true}, fix: "add {kind: kill, service: app, supervised: true} to faults"},
		"no crash of all allowed": {plan: fact.Injection{Kind: chaos.CrashAll, Services: []string{"app"}}, change: func(c *config.Config) { c.Faults = c.Faults[:2] }, fix: "add {kind: crash_all} to faults"},
		"a point too far":         {plan: fact.Injection{Kind: chaos.Kill, Service: "app", After: "acknowledged", Nth: 7}, fix: "raise sessions.users or sessions.memories"},
		"not armed":               {plan: fact.Injection{Kind: chaos.Kill, Service: "app"}, change: func(c *config.Config) { c.Armed = false }, fix: "give --armed, or set armed: true"},
	} {
		with := cfg()
		if c.change != nil {
			c.change(with)
		}
		err := fits(c.plan, with)
		if c.fix == "" && err != nil || c.fix != "" && (err == nil || !strings.HasSuffix(strings.Split(err.Error(), ", or give the conf")[0], " — fix: "+c.fix)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestReplaysOverwriteNothing: replays never write into a file that is there.
func TestReplaysOverwriteNothing(t *testing.T) {
	from := filepath.Join(t.TempDir(), "a.b.db")
	o := ReplayOptions{From: from, Cycle: 7}
	for _, want := range []string{"a.b-replay-7.db", "a.b-replay-7-2.db", "a.b-replay-7-3.db"} {
		path, err := o.ledger()
		if err != nil || filepath.Base(path) != want {
			t.Fatalf("%s, %v, want %s", path, err, want)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o.Ledger = filepath.Join(filepath.Dir(from), "a.b-replay-7.db")
	if _, err := o.ledger(); err == nil {
		t.Error("a ledger that is there was taken")
	}
}

// replays makes the facts of cycles, in each of which one memory is told and, unless it is a control, the process killed.
type replays struct {
	*tally
	now memory.Instant
	seq int64
	n   int
	// kills so far: each gives the process another start time.
	kills int
}

func (r *replays) at() memory.Instant {
	r.now = r.now.Add(time.Millisecond)
	return r.now
}

func (r *replays) fact(fs ...fact.Fact) {
	for _, f := range fs {
		r.seq++
		r.take(fact.Entry{Seq: r.seq, Fact: f})
	}
}

// cycle is one whole cycle, after which the page shows the memories there. A refused fault proves nothing.
func (r *replays) cycle(control, refused bool, there ...memory.ID) {
	r.n++
	c := fact.Cycle{Run: "r", N: r.n, Control: control, Phase: fact.PhaseTraffic, At: r.at()}
	health := func() []fact.Health {
		return []fact.Health{{Service: "app", Healthy: true, Instances: []fact.Instance{{ID: "1", Started: string(rune('a' + r.kills))}}, At: r.at()}}
	}
	before := health()
	id := memory.ID(r.n)
	r.fact(c, fact.Gate{Cycle: r.n, Services: before, At: r.at()},
		fact.Begun{Memory: memory.Memory{ID: id, Cycle: r.n, User: "u", Views: []string{"page"}}, At: r.at()})
	at := r.at()
	r.fact(fact.Settled{Memory: id, Outcome: memory.Acknowledged, Levels: []memory.Level{{Name: "shown", NotSeen: at, Seen: at}}, At: r.at()})
	inj := fact.Injection{ID: int64(r.n), Cycle: r.n, Kind: chaos.Kill, Service: "app", Instances: chaos.All}
	step := func(name fact.StepName, more fact.Step) {
		more.Injection, more.Name, more.At = inj.ID, name, r.at()
		r.fact(more)
	}
	switch {
	case control:
	case refused:
		step(fact.StepPlanned, fact.Step{Plan: &inj})
		step(fact.StepRefused, fact.Step{Detail: "too many in an hour"})
	default:
		step(fact.StepPlanned, fact.Step{Plan: &inj})
		step(fact.StepGated, fact.Step{Before: before})
		step(fact.StepFiring, fact.Step{Plan: &inj})
		step(fact.StepInjected, fact.Step{Fired: r.at()})
		r.kills++
		step(fact.StepProven, fact.Step{})
		step(fact.StepRecovered, fact.Step{After: health()})
		step(fact.StepClosed, fact.Step{})
	}
	c.Phase, c.At = fact.PhaseSettle, r.at()
	r.fact(c)
	for range 2 {
		s := fact.Sweep{Cycle: r.n, View: "page", Began: r.at(), Complete: true}
		for id := range memory.ID(r.n) {
			id++
			o := memory.Observation{Memory: id, View: "page", State: memory.Absent, Began: r.at(), Ended: r.at()}
			if slices.Contains(there, id) {
				o.State = memory.Present
			}
			s.Observations = append(s.Observations, o)
		}
		s.Read, s.Ended = memory.Set{{First: 1, Last: memory.ID(r.n)}}, r.at()
		r.fact(s)
	}
	c.Phase, c.At = fact.PhaseClosed, r.at()
	r.fact(c)
}

// TestTally: a loss is of the replay whose fault took it; what proves nothing is no trial; a control is none.
func TestTally(t *testing.T) {
	r := &replays{tally: newTally(), now: memory.Instant{Mono: 1e9, Wall: 1e18, Boot: "b"}}
	r.book.Context().Enough = 1
	r.fact(fact.Contracts{Version: 1, Contracts: []memory.Contract{{View: "page", Service: "app", User: true, Durable: true}},
		Levels: []string{"shown"}, CountsFrom: "shown", At: r.at()})
	r.cycle(true, false, 1)
	r.cycle(false, false, 1)          // loses 2, which was told in it
	r.cycle(false, false, 1, 3)       // loses nothing
	r.cycle(false, true, 1, 3, 4)     // no fault
	r.cycle(false, false, 3, 4, 5)    // loses 1, which was told in the control
	r.cycle(false, false, 3, 4, 5, 6) // loses nothing
	r.cycle(false, false, 3, 4, 5, 6) // loses 7
	r.cycle(true, false, 3, 4, 5, 6)  // loses 8 in a control
	got := Replayed{Times: 6}
	r.count(&got)
	if got.Played != 6 || got.Lost.Times != 3 || got.Lost.Of != 5 || got.Lost.Share != 0.6 {
		t.Errorf("played %d, lost in %s; %+v", got.Played, got.Lost.words(), got.Cycles)
	}
	if len(got.Showed) != 1 {
		for _, s := range got.Showed {
			t.Errorf("%s %s %s %s: %v", s.What, s.Class, s.Fault, s.Service, s.Memories)
		}
		t.FailNow()
	}
	s := got.Showed[0]
	if s.What != string(memory.Lost) || s.Fault != chaos.Kill || s.Service != "app" || s.Class != string(memory.Silent) || s.Share != got.Lost {
		t.Errorf("showed %+v", s)
	}
	if diff := cmp.Diff([]string{"m1", "m2", "m7"}, s.Memories); diff != "" {
		t.Error(diff)
	}
}

// TestShareInWords holds the words, and the interval (Wilson).
func TestShareInWords(t *testing.T) {
	ten := &tally{}
	seven := cycles{}
	for n := range 10 {
		ten.replays = append(ten.replays, n)
		seven[n] = n < 7
	}
	if got, want := ten.share(seven, cycles{}).words(), "7 of 10 (70 %, 95 %: 40 to 89 %)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := (&tally{}).share(cycles{}, cycles{}); got.words() != "0 of 0" || got.High != 1 {
		t.Errorf("of none: %+v", got)
	}
}

// TestReplayedNames holds the names of the JSON, which only grow.
func TestReplayedNames(t *testing.T) {
	r := Replayed{Plan: planned(fact.Injection{Kind: chaos.Wipe, Service: "redis", Services: []string{"redis"}, Volume: "/data", Instances: "all",
		After: "acknowledged", Nth: 2, Delay: 1500 * time.Microsecond, Hold: time.Second, Grace: 2 * time.Second}),
		Showed: []Showed{{Fault: "wipe", Memories: []string{"m1"}}}, Cycles: []ReplayCycle{{Cycle: 2}}, Summary: report.Summary{}}
	var b bytes.Buffer
	if err := writeJSON(&b, r); err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(b.String(), "  \"summary\": ")
	want, err := os.ReadFile("testdata/replay.json")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), head); diff != "" {
		t.Errorf("(-want, +got):\n%s", diff)
	}
}
