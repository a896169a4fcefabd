package incident

import (
	"slices"
	"strings"
	"testing"
	"time"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

// lostAfter gives memories, each lost so many milliseconds after its acknowledgement.
func lostAfter(all ...int) (ms []Member) {
	for n, after := range all {
		d := time.Duration(after) * time.Millisecond
		ms = append(ms, Member{Cycle: n + 1, Verdict: memory.Verdict{Memory: memory.ID(n + 1), Exposure: &d, Suspects: []int64{int64(n) + 7}}})
	}
	return ms
}

func TestSentence(t *testing.T) {
	for _, tc := range []struct {
		i    Incident
		want string
	}{
		{Incident{Class: "silent", Fault: "kill", Service: "redis", Found: 12, Members: lostAfter(1, 41, 900)},
			"12 memories that users were told are saved were lost silently: SIGKILL of redis, 41ms after the acknowledgement (median)."},
		{Incident{Class: "silent", Fault: "wipe", Service: "app", Found: 1, Members: lostAfter(5)},
			"1 memory that users were told is saved was lost silently: wipe of app, 5ms after the acknowledgement."},
		{Incident{Class: "reported", Fault: memory.FaultForeign, Service: "app", Found: 2},
			"2 memories that users were told are saved were lost, which was reported: app died, and not by us."},
		{Incident{Class: "silent", Fault: memory.FaultNone, Service: "redis", Found: 2},
			"2 memories that users were told are saved were lost silently: without any fault, in redis."},
		{Incident{Class: "unsure", Fault: "kill", Service: "app", Found: 1},
			"1 memory was missing from the assistant's answers alone, which may have been bad answers: SIGKILL of app."},
		{Incident{Class: "leaked", Found: 3}, "3 memories were shown to another user."},
		{Incident{Class: "duplicated", Found: 1}, "1 memory was stored more than once."},
	} {
		if got := tc.i.Sentence(); got != tc.want {
			t.Errorf("got  %s\nwant %s", got, tc.want)
		}
	}
}

// Every class and every defect has its place, its words and its advice.
func TestNothingIsWithoutWords(t *testing.T) {
	for _, c := range memory.Classes {
		if c != memory.Permitted && !slices.Contains(weight, string(c)) {
			t.Errorf("%s has no weight", c)
		}
	}
	for _, d := range memory.Defects {
		if !slices.Contains(weight, string(d)) || defects[d] == "" || !strings.Contains(defectAdvice[d], " — fix: ") {
			t.Errorf("%s lacks a weight, words or advice", d)
		}
	}
	for _, fault := range []string{"kill", "restart", "pause", "recreate", "wipe", "partition", "crash_all", "daemon_restart", memory.FaultNone, memory.FaultForeign, memory.FaultSeveral} {
		for _, kind := range []memory.Kind{memory.Lost, memory.Torn, memory.Hidden} {
			v := memory.Verdict{Kind: kind, Fault: fault, Service: "redis", Missing: []string{"redis", "page"}, Found: []string{"postgres"}}
			if got := Advice(v); len(got) != 1 || !strings.Contains(got[0], " — fix: ") || kind != memory.Hidden && strings.Contains(got[0], "page") {
				t.Errorf("%s by %s: %q", kind, fault, got)
			}
		}
	}
}

func TestWorse(t *testing.T) {
	all := []Incident{
		{Fingerprint: "muted", Class: "silent", Found: 99, Known: &Known{}},
		{Fingerprint: "duplicated", Class: "duplicated", Found: 50},
		{Fingerprint: "few", Class: "silent", Found: 1},
		{Fingerprint: "leaked", Class: "leaked", Found: 1},
		{Fingerprint: "many", Class: "silent", Found: 9},
	}
	slices.SortFunc(all, Worse)
	var got []string
	for _, i := range all {
		got = append(got, i.Fingerprint)
	}
	if want := []string{"many", "few", "leaked", "duplicated", "muted"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCommandsAreSafeInAShell(t *testing.T) {
	if got, want := Replay("a b'$(x).db", []string{"amnesia.yaml"}, 7), `amnesia replay 'a b'\''$(x).db' --cycle 7 --armed`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for want, config := range map[string][]string{
		"":                              nil, // of a ledger that does not say
		" -c 'it'\\''s.yaml' -c b.yaml": {"it's.yaml", "b.yaml"},
		" -c amnesia.yaml -c b.yaml":    {"amnesia.yaml", "b.yaml"},
	} {
		if got, want := Replay("amnesia.db", config, 7), "amnesia replay amnesia.db --cycle 7 --armed"+want; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got, want := Why("run/amnesia.db", 42), "amnesia why m42 --ledger run/amnesia.db"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// frozen is the evidence of the lost memory of these tests.
func frozen() fact.Frozen {
	return fact.Frozen{Incident: "silent/kill/app/database+page", Cycle: 2, Injection: 1, Memories: memory.SetOf(1), At: at(1300),
		Services: []fact.ServiceState{{Service: "app", Instance: fact.Instance{ID: "11", Started: "11", Restarts: 1}, Name: "stack-app-1", Image: "chatapp:1", State: "running",
			RestartPolicy: "always", Command: []string{"chatapp", "--\x1b[2J"}, Mounts: []fact.Mount{{Kind: "tmpfs", Path: "/data"}},
			Findings: []string{"its data lies in memory: a stop loses all — fix: mount a volume at /data"}}},
		Logs: []fact.Log{
			{Service: "app", Level: "info", Line: "long before", At: at(-20000)},
			{Service: "app", Level: "info", Line: "flushing 3 messages", At: at(48)},
			{Service: "app", Level: "error", Line: `{"level":"error","msg":"queue dropped \u001b[31m"}`, At: at(51)}, // is a fact by itself too
			{Service: "app", Level: "info", Line: "saved amnabc later", Memory: 1, At: at(9000)},
		},
		Events: []fact.ServiceEvent{{Service: "app", Kind: "die", Exit: 137, Ours: true, At: at(52).Time()}, {Service: "app", Kind: "start", Ours: true, At: at(70).Time()},
			{Service: "app", Kind: "oom", At: at(60000).Time()}},
		Folder: "/evidence", Pictures: []fact.Picture{{File: "gone.png", Kind: "screenshot", When: "before"}, {File: "there.png", Kind: "screenshot", When: "after"}}}
}

// TestStoryWithEvidence: what was frozen is told with the rest, each line once, and says first what to do.
func TestStoryWithEvidence(t *testing.T) {
	s, err := Tell(t.Context(), append(lost(), frozen()), "m1")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := s.Write(&b, "amnesia.db", func(file string) (string, bool) { return file, file == "/evidence/there.png" }); err != nil {
		t.Fatal(err)
	}
	golden(t, "frozen.txt", b.String())
}

// TestStoryOfALaterMemory: what was frozen of another one of the incident says what the services are, and no more.
func TestStoryOfALaterMemory(t *testing.T) {
	f := frozen()
	f.Memories = memory.SetOf(9)
	s, err := Tell(t.Context(), append(lost(), f), "m1")
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Services) != 1 || !strings.HasPrefix(s.Advice[0], "app: its data lies in memory") || len(s.Pictures) != 0 || slices.ContainsFunc(s.Events, func(e Event) bool { return e.What == "engine" }) {
		t.Errorf("services %v, advice %q, pictures %v, events %v", s.Services, s.Advice, s.Pictures, s.Events)
	}
	f.Incident = "silent/kill/other/page"
	if s, err = Tell(t.Context(), append(lost(), f), "m1"); err != nil || len(s.Services) != 0 {
		t.Errorf("another incident: %v, %v", s.Services, err)
	}
}
