package ledger_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"amnesia/pkg/fact"
	"amnesia/pkg/ledger"
	"amnesia/pkg/memory"
)

func at(n int64) memory.Instant {
	return memory.Instant{Mono: n * 1e6, Wall: 1_700_000_000_000_000_000 + n*1e6, Boot: "boot-1"}
}

func open(t testing.TB, path string, o ledger.Options) *ledger.Ledger {
	t.Helper()
	l, err := ledger.Open(context.Background(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return l
}

func entries(t testing.TB, l *ledger.Ledger, after int64) []fact.Entry {
	t.Helper()
	var list []fact.Entry
	for e, err := range l.Facts(context.Background(), after) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}

func diff(want, got []fact.Entry) string { return cmp.Diff(want, got, cmpopts.EquateEmpty()) }

// one has one fact of each kind, with every field set.
func one() []fact.Fact {
	exposure := 41 * time.Millisecond
	health := fact.Health{Service: "redis", Healthy: true, Instances: []fact.Instance{{ID: "abc", Started: "now", Restarts: 2}},
		Detail: "ok", At: at(50)}
	plan := fact.Injection{ID: 7, Cycle: 3, Kind: "wipe", Service: "redis", Services: []string{"redis"}, Instances: "all",
		Volume: "/data", After: "acknowledged", Nth: 2, Delay: 1, Hold: 2, Grace: 3, DryRun: true, Undo: json.RawMessage(`{"id":"abc"}`)}
	return []fact.Fact{
		fact.Run{ID: "r1", Seed: 1<<64 - 1, Version: "v1", Target: "sample", Driver: "http", Config: []string{"a.yaml", "b c.yaml"}, At: at(1)},
		fact.Contracts{Version: 1, Contracts: []memory.Contract{{View: "redis", Service: "redis", Settle: time.Second}},
			Levels: []string{"shown", "settled"}, CountsFrom: "settled", At: at(2)},
		fact.Cycle{Run: "r1", N: 3, Control: true, Phase: fact.PhaseClosed, Outcome: fact.CycleClean, Reason: "none", At: at(3)},
		fact.Begun{Memory: memory.Memory{ID: 5, Run: "r1", Cycle: 3, User: "ann", Text: "my 'cat' is\x00 tok", Token: "tok",
			Question: "what?", Payload: memory.PayloadMarkup, Views: []string{"redis", `odd,\name`}}, At: at(4)},
		fact.Settled{Memory: 5, Outcome: memory.Acknowledged, Levels: []memory.Level{
			{Name: "shown", NotSeen: at(5), Seen: at(6)}, {Name: "settled", NotSeen: at(6), Seen: at(8)}},
			Cause: "none", Detail: "saw it", At: at(9)},
		fact.ForgetBegun{Memory: 5, At: at(10)},
		fact.ForgetSettled{Memory: 5, Outcome: memory.Unknown, Detail: "?", At: at(11)},
		fact.Told{Memory: 5, By: "log", Detail: "d", At: at(12)},
		fact.Step{Injection: 7, Name: fact.StepFiring, Plan: &plan, Before: []fact.Health{health}, After: []fact.Health{health},
			Detail: "d", At: at(13)},
		fact.Gate{Cycle: 3, Services: []fact.Health{health}, At: at(14)},
		fact.Death{Service: "redis", Instance: health.Instances[0], Cause: "oom", Detail: "d", NotBefore: at(1), At: at(15), Healthy: at(16)},
		fact.Log{Service: "redis", Level: "error", Line: "tok <lost> & \"gone\"", Memory: 5, At: at(17)},
		fact.Session{User: "ann", Driver: "http", Outcome: "ok", Detail: "d", Files: []string{"a.png"}, Began: at(1), Ended: at(18)},
		fact.Gap{Of: "clock", From: at(1), To: at(19)},
		fact.Sweep{ID: 9, Cycle: 3, View: "redis", Began: at(20), Ended: at(30), Before: &health, After: &health, Complete: true,
			Error: "slow", Read: memory.SetOf(1, 2, 3, 5), Observations: []memory.Observation{
				{Memory: 1, View: "redis", State: memory.Present, Copies: 1, TTL: 5, Siblings: 3, Began: at(21), Ended: at(22)},
				{Memory: 2, View: "redis", State: memory.Present, Copies: 1, TTL: 5, Siblings: 3, Began: at(21), Ended: at(22)},
				{Memory: 5, View: "redis", State: memory.Unreadable, Strangers: []string{"bob", "eve"}, TTL: -1, Rig: true,
					Detail: "429", Began: at(21), Ended: memory.Instant{Mono: 1, Wall: 2, Boot: "boot-2"}},
			}},
		fact.Judged{Verdict: memory.Verdict{Memory: 5, Kind: memory.Lost, Defects: []memory.Defect{memory.Leaked, memory.Outlived},
			Class: memory.Silent, Level: "settled", Fault: "wipe", Service: "redis", Suspects: []int64{7, 8}, Exposure: &exposure,
			During: true, Missing: []string{"redis"}, Found: []string{"page"}, Lateness: 4, Recovered: true, Open: true,
			Because: "it is gone"}, Cycle: 3, At: at(40)},
		fact.Retired{Memories: memory.SetOf(1, 2), At: at(41)},
		fact.Pause{On: true, Reason: "a release", At: at(42)},
		fact.Frozen{Incident: "silent/kill/redis/redis", Cycle: 3, Injection: 7, Memories: memory.SetOf(5),
			Services: []fact.ServiceState{{Service: "redis", Instance: health.Instances[0], Name: "stack-redis-1", Image: "redis:8", State: "exited",
				Exit: 137, RestartPolicy: "always", Command: []string{"redis-server"}, Findings: []string{"no AOF"},
				Mounts: []fact.Mount{{Kind: "volume", Source: "v", Path: "/data", ReadOnly: true}}}},
			Logs: []fact.Log{{Service: "redis", Line: "ready", At: at(20)}}, Cut: 3,
			Events:   []fact.ServiceEvent{{Service: "redis", Kind: "die", Exit: 137, Ours: true, Instance: health.Instances[0], At: time.Unix(7, 0).UTC()}},
			Pictures: []fact.Picture{{File: "a.png", Kind: "screenshot", When: "after", Memory: 5, User: "ann", At: at(21)}}, At: at(43)},
		fact.Muting{Known: []fact.Known{{Fingerprint: "silent/kill/redis/redis", Until: time.Unix(9, 0).UTC(), Reason: "ticket 7"}}, At: at(44)},
	}
}

func TestEveryKindComesBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a #1?.db")
	var tapped []fact.Entry
	l := open(t, path, ledger.Options{Tap: func(e []fact.Entry) { tapped = append(tapped, e...) }})
	facts := one()
	if err := l.Append(context.Background(), facts...); err != nil {
		t.Fatal(err)
	}
	var want []fact.Entry
	for i, f := range facts {
		want = append(want, fact.Entry{Seq: int64(i) + 1, Fact: f})
	}
	if d := diff(want, entries(t, l, 0)); d != "" {
		t.Errorf("read (-appended +read):\n%s", d)
	}
	if d := diff(want, tapped); d != "" {
		t.Errorf("tapped (-appended +tapped):\n%s", d)
	}
	if d := diff(want[5:], entries(t, l, 5)); d != "" {
		t.Errorf("read after 5 (-appended +read):\n%s", d)
	}
	ro, err := ledger.OpenReadOnly(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	if d := diff(want, entries(t, ro, 0)); d != "" {
		t.Errorf("read beside the daemon (-appended +read):\n%s", d)
	}
	if err := ro.Append(context.Background(), facts[0]); err == nil {
		t.Error("a ledger for reading took an append")
	}
	if got := []int64{int64(l.NextMemory()), l.NextInjection(), l.NextSweep(), int64(l.NextCycle())}; !cmp.Equal(got, []int64{6, 8, 10, 4}) {
		t.Errorf("next memory, injection, sweep, cycle are %v", got)
	}
}
