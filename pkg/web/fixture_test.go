package web

import (
	"context"
	"fmt"
	"io/fs"
	"sync"
	"testing/fstest"
	"time"

	"amnesia/chaos"
	"amnesia/pkg/fact"
	"amnesia/pkg/incident"
	"amnesia/pkg/memory"
	"amnesia/pkg/report"
)

// hostile is what a target, or a person, may say to break out of a page, of an attribute, of a script, of a line.
const hostile = "</td></script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">\" onmouseover=\"document.title='owned'\" '{{.}}\u202e\x1b[31m"

// shelf are books with something of everything; what others said in them is hostile.
type shelf struct {
	mu       sync.Mutex
	live     Live
	changing chan struct{}
	looks    int
	err      error // of everything
	pictures fstest.MapFS
}

func moment(ms int64) memory.Instant {
	return memory.Instant{Mono: ms * 1e6, Wall: 1_796_098_800_000_000_000 + ms*1e6, Boot: "b"}
}

func newShelf() *shelf {
	s := &shelf{changing: make(chan struct{}), pictures: fstest.MapFS{
		"20261201T041930.000Z-u2.png": {Data: []byte("\x89PNG\r\n\x1a\n")},
		"20261201T041931.000Z-u1.png": {Data: []byte("\x89PNG\r\n\x1a\n")}, "20261201T041931.000Z-u1.html": {Data: []byte("<script>alert(1)</script>")},
		"20261201T041931.000Z-u1.zip": {Data: []byte("PK")}, "amnesia.yaml": {Data: []byte("secret")}}}
	s.live = Live{At: moment(500).Time().UTC(), Version: "v1.0.0", Run: "r1" + hostile, Target: "http://app:8080", Ledger: "amnesia.db", Config: []string{"staging.yaml"}, Armed: false,
		Held: []Held{{Reason: chaos.ReasonPaused, Why: "a release" + hostile}}, Next: moment(60_000).Time().UTC(),
		Cycle: &Cycle{N: 42, Phase: fact.PhaseTraffic, Since: moment(400).Time().UTC()}, Asked: &Ask{Kind: "kill", Service: "redis" + hostile}, Incidents: 2,
		Counts: Counts{Cycles: 41, Begun: 1640, Acknowledged: 1602, Rejected: 12, Unknown: 26, Outcomes: map[fact.CycleOutcome]int{fact.CycleClean: 30, fact.CycleLosses: 9, fact.CycleInconclusive: 2},
			Losses: map[memory.Class]int{memory.Silent: 17, memory.Reported: 2}, Defects: map[memory.Defect]int{memory.Duplicated: 3}}}
	s.live.Last, _ = s.Cycles(context.Background(), 43, 60)
	s.live.Fault = &s.live.Last[0].Injections[0]
	return s
}

// change changes what goes on.
func (s *shelf) change(fn func(*Live)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn(&s.live)
	close(s.changing)
	s.changing = make(chan struct{})
}

func (s *shelf) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changing
}

func (s *shelf) Live(context.Context) (Live, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks++
	return s.live, s.err
}

// looked says how often Live was asked for.
func (s *shelf) looked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.looks
}

// Cycles: there are 120, of which every fifth lost something.
func (s *shelf) Cycles(_ context.Context, before, limit int) (all []incident.Cycle, err error) {
	if before == 0 {
		before = 121
	}
	for n := min(before-1, 120); n > 0 && len(all) < limit; n-- {
		inj := fact.Injection{ID: int64(n), Kind: "kill", Service: "redis", Cycle: n}
		c := incident.Cycles{}
		for _, f := range []fact.Fact{fact.Cycle{Run: "r1", N: n, Control: n%10 == 0, Phase: fact.PhaseTraffic, At: moment(int64(n))},
			fact.Step{Injection: int64(n), Name: fact.StepPlanned, Plan: &inj, At: moment(1)}, fact.Step{Injection: int64(n), Name: fact.StepFiring, At: moment(2)},
			fact.Step{Injection: int64(n), Name: fact.StepInjected, Detail: hostile, At: moment(3)}, fact.Step{Injection: int64(n), Name: fact.StepRecovered, At: moment(4)},
			fact.Step{Injection: int64(n), Name: fact.StepClosed, At: moment(5)}} {
			c.Apply(fact.Entry{Fact: f})
		}
		for k := range 40 {
			id := memory.ID(40*n + k)
			c.Apply(fact.Entry{Fact: fact.Begun{Memory: memory.Memory{ID: id, Cycle: n}}})
			c.Apply(fact.Entry{Fact: fact.Settled{Memory: id, Outcome: map[bool]memory.Outcome{true: memory.Rejected, false: memory.Acknowledged}[k%(7+n%5) == 0]}})
		}
		outcome := fact.CycleClean
		if n%5 == 0 {
			outcome = fact.CycleLosses
			for k := range n%4 + 1 {
				c.Apply(fact.Entry{Fact: fact.Judged{Cycle: n, Verdict: lost(memory.ID(40*n + k + 1))}})
			}
		}
		if n != 42 {
			c.Apply(fact.Entry{Fact: fact.Cycle{Run: "r1", N: n, Control: n%10 == 0, Phase: fact.PhaseClosed, Outcome: outcome, Reason: "it is so" + hostile, At: moment(9000)}})
		}
		all = append(all, c.All()...)
	}
	return all, s.err
}

func lost(id memory.ID) memory.Verdict {
	exposure := 41 * time.Millisecond
	return memory.Verdict{Memory: id, Kind: memory.Lost, Class: memory.Silent, Level: "shown", Fault: "kill", Service: "redis", Suspects: []int64{7}, Exposure: &exposure,
		Missing: []string{"page", "redis"}, Found: []string{"postgres"}, Because: "It was acknowledged 41 ms before the kill of redis, and page and redis miss it." + hostile}
}

func (s *shelf) Memories(_ context.Context, q Search) (all []Memory, err error) {
	if q.Before == 0 {
		q.Before = 1001
	}
	kinds := memory.Kinds[:]
	for id := q.Before - 1; id > 0 && len(all) < q.Limit; id-- {
		m := Memory{ID: id, Cycle: int(id)/40 + 1, User: fmt.Sprintf("amnesia-r1-%d", id%8), Token: fmt.Sprintf("k%05dz", id), Text: "My cat is called Felix " + hostile,
			Payload: memory.PayloadMarkup, Begun: moment(int64(id)).Time().UTC(), Outcome: memory.Acknowledged, Verdict: kinds[int(id)%len(kinds)]}
		if m.Verdict.Loss() {
			m.Class, m.Missing, m.Fault, m.Service, m.Defects = memory.Silent, []string{"page"}, "kill", "redis", []memory.Defect{memory.Duplicated}
		}
		if (q.User == "" || m.User == q.User) && (q.Verdict == "" || m.Verdict == q.Verdict) && (q.Token == "" || len(m.Token) >= len(q.Token) && m.Token[:len(q.Token)] == q.Token) {
			all = append(all, m)
		}
	}
	return all, s.err
}

func (s *shelf) Memory(_ context.Context, id memory.ID) (*incident.Story, error) {
	if s.err != nil {
		return nil, s.err
	}
	if id > 100_000 {
		return nil, fmt.Errorf("%w: %s — fix: see /memories", incident.ErrNoMemory, id)
	}
	v := lost(id)
	inj := fact.Injection{ID: 7, Cycle: 3, Kind: "kill", Service: "redis"}
	see := func(view string, state memory.State, at int64) fact.Fact {
		return fact.Sweep{View: view, Complete: true, Read: memory.SetOf(id), Began: moment(at), Ended: moment(at + 1), Observations: []memory.Observation{
			{Memory: id, View: view, State: state, Began: moment(at), Ended: moment(at + 1), Detail: map[bool]string{true: "it timed out " + hostile}[state == memory.Unreadable]}}}
	}
	facts := []fact.Fact{
		fact.Begun{Memory: memory.Memory{ID: id, Cycle: 3, User: "amnesia-r1-1", Token: "k00042z", Text: "My cat is called Felix " + hostile, Payload: memory.PayloadMarkup,
			Views: []string{"page", "redis", "postgres"}}, At: moment(0)},
		fact.Step{Injection: 7, Name: fact.StepPlanned, Plan: &inj, At: moment(0)},
		fact.Settled{Memory: id, Outcome: memory.Acknowledged, Levels: []memory.Level{{Name: "shown", NotSeen: moment(900), Seen: moment(910)}}, At: moment(910)},
		fact.Step{Injection: 7, Name: fact.StepFiring, At: moment(951)}, fact.Step{Injection: 7, Name: fact.StepInjected, Fired: moment(951), At: moment(960)},
		fact.Step{Injection: 7, Name: fact.StepRecovered, At: moment(3100)},
		fact.Log{Service: "redis", Level: "error", Line: "lost " + hostile, Memory: id, At: moment(1000)},
		see("redis", memory.Unreadable, 2000), see("redis", memory.Absent, 4000), see("page", memory.Absent, 4300), see("postgres", memory.Present, 4100), see("redis", memory.Absent, 9000),
		fact.Judged{Cycle: 3, Verdict: v, At: moment(11_000)},
		frozen(3),
	}
	spans := incident.Spans{}
	for _, f := range facts {
		spans.Apply(fact.Entry{Fact: f})
	}
	t := incident.NewTeller(memory.Memory{ID: id}, v, spans)
	for _, f := range facts {
		t.Apply(fact.Entry{Fact: f})
	}
	return t.Story(moment(12_000)), nil
}

func frozen(cycle int) fact.Frozen {
	return fact.Frozen{Incident: "silent/kill/redis/page+redis", Cycle: cycle, Injection: 7, Memories: memory.Set{{First: 1, Last: 100_000}}, Cut: 3, Folder: "/var/lib/amnesia/evidence", At: moment(12_000),
		Services: []fact.ServiceState{{Service: "redis", Name: "memory-stack-redis-1", Image: "redis:8" + hostile, State: "running", RestartPolicy: "always",
			Command: []string{"redis-server", "--save", "60 1"}, Instance: fact.Instance{ID: "abc", Started: "x", Restarts: 2},
			Findings: []string{"it has no append-only file: what came since the last snapshot is lost when it dies — fix: start it with --appendonly yes --appendfsync always"},
			Mounts:   []fact.Mount{{Kind: "volume", Source: "redis-data", Path: "/data"}}}, {Service: "app", Name: "memory-stack-app-1", State: "running"}},
		Logs:   []fact.Log{{Service: "redis", Line: "1:M * Ready to accept connections tcp", At: moment(10)}, {Service: "app", Level: "error", Line: "connection reset " + hostile, At: moment(960)}},
		Events: []fact.ServiceEvent{{Service: "redis", Kind: "die", Exit: 137, Ours: true, At: moment(952).Time()}, {Service: "redis", Kind: "start", At: moment(1500).Time()}},
		Pictures: []fact.Picture{{File: "20261201T041930.000Z-u2.png", Kind: "screenshot", When: "before", User: "amnesia-r1-2" + hostile, At: moment(900)},
			{File: "20261201T041931.000Z-u1.png", Kind: "screenshot", When: "after", User: "amnesia-r1-1", At: moment(9000)},
			{File: "20261201T041931.000Z-u1.zip", Kind: "trace", When: "after", User: "amnesia-r1-1", At: moment(9000)}}}
}

func (s *shelf) Incidents(context.Context) ([]incident.Incident, error) {
	l := incident.NewLog([]incident.Known{{Fingerprint: "leaked/-/-/-", Until: moment(1e9).Time(), Reason: "the demo account is shared " + hostile}})
	odd := lost(2)
	odd.Service = "a/b?c#d<e>%2F.."
	leak := memory.Verdict{Memory: 3, Kind: memory.Kept, Defects: []memory.Defect{memory.Leaked}, Because: "It was shown to eve."}
	for i, v := range []memory.Verdict{lost(41), lost(42), odd, leak} {
		l.Apply(fact.Entry{Fact: fact.Judged{Cycle: i + 1, Verdict: v, At: moment(11_000 + int64(i))}})
	}
	for n := range 3 {
		l.Apply(fact.Entry{Fact: frozen(n + 1)})
	}
	return l.All(moment(20_000)), s.err
}

func (s *shelf) Incident(ctx context.Context, fingerprint string) (incident.Incident, bool, error) {
	all, err := s.Incidents(ctx)
	for _, i := range all {
		if i.Fingerprint == fingerprint {
			return i, true, err
		}
	}
	return incident.Incident{}, false, err
}

func (s *shelf) Faults(context.Context) (Faults, error) {
	high := 320.5
	return Faults{Armed: true, Faults: []Fault{
		{Kind: "kill", Service: "redis", Injected: 31, Lost: 17, Declared: []Declared{{Weight: 4, When: "0s to 2s after “acknowledged”"}}, Window: &report.Window{MS: 250, Low: 187, High: &high},
			Curve: []report.Point{{UptoMS: 1, Lost: 9, Kept: 0, P: 1, Low: 0.7, High: 1}, {UptoMS: 64, Lost: 5, Kept: 1, P: 0.83, Low: 0.44, High: 0.97},
				{UptoMS: 256, Lost: 3, Kept: 4, P: 0.43, Low: 0.16, High: 0.75}, {UptoMS: 2048, Lost: 0, Kept: 19, P: 0, Low: 0, High: 0.17}}},
		{Kind: "wipe", Service: "redis" + hostile, Declared: []Declared{{Weight: 1, When: "0s to 2s after “acknowledged”", How: "empties /data"}}},
		{Kind: "daemon_restart", Service: "app", Injected: 1, Declared: []Declared{}}},
		Refusals: []Refusals{{Kind: "kill", Service: "db", Reason: chaos.ReasonTooSoon, Times: 3, Last: moment(7).Time().UTC(), Why: "kill of db refused (too_soon): " + hostile}}}, s.err
}

func (s *shelf) Evidence(name string) (fs.File, error) { return s.pictures.Open(name) }
