package incident

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"amnesia/pkg/discover"
	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

// bubble is the clock of a synctest bubble.
type bubble struct{}

func (bubble) Now() memory.Instant {
	now := time.Now().UnixNano()
	return memory.Instant{Mono: now, Wall: now, Boot: "b"}
}

// frozenCase is a freezer that has seen one fault of redis, which is behind the view redis.
func frozenCase() *Freezer {
	z := &Freezer{Clock: bubble{}, Log: zap.NewNop(), Redact: func(s string) string { return strings.ReplaceAll(s, "sesame", "[redacted]") }}
	plan := fact.Injection{ID: 7, Cycle: 3, Kind: "kill", Service: "redis", Services: []string{"redis"}}
	now := z.Clock.Now()
	z.Tap([]fact.Entry{
		{Fact: fact.Contracts{Contracts: []memory.Contract{{View: "redis", Service: "redis"}, {View: "page", Service: "app"}}}},
		{Fact: fact.Cycle{N: 3, Phase: fact.PhaseTraffic, At: now}},
		{Fact: fact.Step{Injection: 7, Name: fact.StepPlanned, Plan: &plan, At: now}},
		{Fact: fact.Step{Injection: 7, Name: fact.StepFiring, At: now}},
	})
	return z
}

func lostTo(id memory.ID, view string) fact.Judged {
	return fact.Judged{Cycle: 3, Verdict: memory.Verdict{Memory: id, Kind: memory.Lost, Class: memory.Silent, Fault: "kill", Service: "redis", Missing: []string{view},
		Suspects: []int64{7}}}
}

func untold(id memory.ID) memory.Memory { return memory.Memory{ID: id} }

func (z *Freezer) frozenOf(ctx context.Context, judged ...fact.Judged) []fact.Frozen {
	all := z.Freeze(ctx, 3, judged, untold)
	var entries []fact.Entry
	for _, j := range judged {
		entries = append(entries, fact.Entry{Fact: j})
	}
	for _, f := range all {
		entries = append(entries, fact.Entry{Fact: f})
	}
	z.Tap(entries)
	return all
}

// TestFreezeHoldsWhatMatters: of a flood of lines the errors, those about what was lost and those near the fault are kept,
// of the engine's events the newest, and no secret.
func TestFreezeHoldsWhatMatters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := frozenCase()
		z.Describe = func(_ context.Context, services ...string) (states []fact.ServiceState, err error) {
			for _, s := range services {
				states = append(states, fact.ServiceState{Service: s, Command: []string{"redis-server", "--requirepass", "hunter2"}})
			}
			return states, nil
		}
		fault := z.Clock.Now()
		z.Diagnose = func(context.Context) ([]discover.Finding, error) {
			return []discover.Finding{
				{Service: "redis", What: "there is no AOF", Faults: []string{"kill"}},
				{Service: "redis", What: "there is no volume", Faults: []string{"recreate"}},
				{Service: "app", What: "it is another", Faults: []string{"kill"}},
			}, nil
		}
		line := func(after time.Duration, level, text string, id memory.ID) {
			z.Line(fact.Log{Service: "redis", Level: level, Line: text, Memory: id, At: fault.Add(after)})
		}
		line(time.Second, "", "near "+strings.Repeat("x", longestLine-5-len(" open se"))+" open sesame, which the cut goes through", 0)
		for i := range 3000 {
			line(11*time.Second+time.Duration(i)*time.Millisecond, "", fmt.Sprintf("flood %d", i), 0)
			z.Event(fact.ServiceEvent{Service: "redis", Kind: "healthy", At: fault.Add(time.Duration(i) * time.Millisecond).Time()})
		}
		line(5*time.Minute, "error", "late error", 0)
		line(5*time.Minute, "", "late, of m1", 1)
		line(5*time.Minute, "", "late, of m2", 2)
		z.Line(fact.Log{Service: "app", Line: "of another service", At: fault})

		all := z.frozenOf(t.Context(), lostTo(1, "redis"))
		if len(all) != 1 {
			t.Fatalf("frozen is %+v", all)
		}
		f := all[0]
		if f.Incident != "silent/kill/redis/redis" || f.Injection != 7 || f.Cycle != 3 || !f.Memories.Has(1) || f.Memories.Len() != 1 {
			t.Errorf("it is of %s, injection %d, cycle %d, memories %v", f.Incident, f.Injection, f.Cycle, f.Memories)
		}
		size := 0
		var lines []string
		for _, l := range f.Logs {
			size += len(l.Line)
			lines = append(lines, l.Line)
		}
		if size > frozenText || f.Cut+len(f.Logs) != 3004 || f.Cut == 0 || len(f.Events) != frozenEvents {
			t.Errorf("%d bytes in %d lines, %d cut; %d events", size, len(f.Logs), f.Cut, len(f.Events))
		}
		if at := f.Events[frozenEvents-1].At; !at.Equal(fault.Add(2999 * time.Millisecond).Time()) {
			t.Errorf("the last event is of %s", at)
		}
		for _, want := range []string{"late error", "late, of m1", "flood 0"} {
			if !slices.Contains(lines, want) {
				t.Errorf("%q is not among the lines", want)
			}
		}
		for _, no := range []string{"late, of m2", "of another service", "flood 2999"} {
			if slices.Contains(lines, no) {
				t.Errorf("%q is among the lines", no)
			}
		}
		if !strings.HasPrefix(lines[0], "near ") || !strings.HasSuffix(lines[0], "…") || strings.Contains(lines[0], "open se") {
			t.Errorf("the first line ends in %q", lines[0][max(0, len(lines[0])-30):])
		}
		if len(f.Services) != 1 || !slices.Equal(f.Services[0].Command, []string{"redis-server", "--requirepass", hidden}) ||
			len(f.Services[0].Findings) != 1 || !strings.HasPrefix(f.Services[0].Findings[0], "there is no AOF") {
			t.Errorf("the services are %+v", f.Services)
		}
	})
}

// TestFreezeIsBounded: an incident that grows is frozen at once a few times and then once an hour, of many incidents only so
// many, whoever does not answer is not waited for, and where nothing is found nobody is asked.
func TestFreezeIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := frozenCase()
		asked := 0
		z.Describe = func(ctx context.Context, _ ...string) ([]fact.ServiceState, error) {
			asked++
			<-ctx.Done()
			return nil, ctx.Err()
		}
		began := time.Now()
		kept := fact.Judged{Verdict: memory.Verdict{Memory: 1, Kind: memory.Kept}}
		permitted := lostTo(2, "redis")
		permitted.Verdict.Class = memory.Permitted
		if all := z.frozenOf(t.Context(), kept, permitted); all != nil || asked != 0 || time.Since(began) != 0 {
			t.Errorf("of nothing frozen is %+v; asked %d times, in %s", all, asked, time.Since(began))
		}
		if all := z.frozenOf(t.Context(), lostTo(3, "redis")); len(all) != 1 || time.Since(began) != freezeWithin {
			t.Errorf("without an answer frozen is %+v, after %s", all, time.Since(began))
		}
		if all := z.frozenOf(t.Context(), lostTo(3, "redis")); all != nil {
			t.Errorf("of what was found before frozen is %+v", all)
		}
		z.Describe = nil
		id := memory.ID(10)
		grow := func() int {
			id++
			return len(z.frozenOf(t.Context(), lostTo(id, "redis")))
		}
		var got []int
		for range firstFreezes {
			got = append(got, grow())
		}
		time.Sleep(freezeEvery - time.Minute)
		got = append(got, grow())
		time.Sleep(time.Minute)
		got = append(got, grow(), grow())
		if want := []int{1, 1, 1, 1, 0, 0, 1, 0}; !slices.Equal(got, want) {
			t.Errorf("an incident that grows is frozen %v times, want %v", got, want)
		}
		var many []fact.Judged
		for i := range memory.ID(2 * freezesAtOnce) {
			many = append(many, lostTo(100+i, fmt.Sprintf("view%d", i)))
		}
		many = append(many, lostTo(200, "view5"))
		if all := z.frozenOf(t.Context(), many...); len(all) != freezesAtOnce || all[0].Incident != "silent/kill/redis/view5" || all[0].Memories.Len() != 2 {
			t.Errorf("of many incidents %d are frozen, the first is %+v", len(all), all[0])
		}
	})
}

// TestTracesLeavePicturesAlone: however many sessions a user had under fire, the page that misses a memory is pictured, and
// what comes to nothing is gone with the cycle.
func TestTracesLeavePicturesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := frozenCase()
		z.Dir, z.Owes = t.TempDir(), func(memory.ID, memory.Instant) bool { return true }
		file := func(name string) string {
			path := filepath.Join(z.Dir, name)
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Error(err)
			}
			return path
		}
		for n := range 2 * missesPictured {
			z.Traced("ann", file(fmt.Sprintf("%d.zip", n)))
		}
		taken := ""
		z.Missed("ann", []memory.ID{1}, func(name string) []string {
			taken = name
			return []string{file(name + ".png")}
		})
		if taken != "cycle3-ann-after" {
			t.Errorf("the picture is %q", taken)
		}
		z.Tap([]fact.Entry{{Fact: fact.Cycle{N: 3, Phase: fact.PhaseClosed}}})
		if left, err := os.ReadDir(z.Dir); err != nil || len(left) > 0 {
			t.Errorf("left are %v (%v)", left, err)
		}
	})
}

// TestHideSecrets: what may be a secret in a command line is hidden, however it is given, and nothing else.
func TestHideSecrets(t *testing.T) {
	for _, c := range []struct{ command, want []string }{
		{[]string{"redis-server", "--requirepass", "hunter2", "--appendonly", "no"}, []string{"redis-server", "--requirepass", "***", "--appendonly", "no"}},
		{[]string{"app", "--api-key=hunter2", "--port=80"}, []string{"app", "--api-key=***", "--port=80"}},
		{[]string{"sh", "-c", `export PASSWORD="hunter 2"; exec app --token hunter2 --dir /data`}, []string{"sh", "-c", `export PASSWORD=***; exec app --token *** --dir /data`}},
		{[]string{"app", "postgres://app:hunter2@db:5432/chat"}, []string{"app", "postgres://app:***@db:5432/chat"}},
		{[]string{"app", "--config", `{"password": "hunter2", "port": 80}`}, []string{"app", "--config", `{"password": ***, "port": 80}`}},
		{[]string{"postgres", "-c", "fsync=off"}, []string{"postgres", "-c", "fsync=off"}},
	} {
		if got := hideSecrets(c.command); !slices.Equal(got, c.want) {
			t.Errorf("%q becomes %q, want %q", c.command, got, c.want)
		}
	}
}
