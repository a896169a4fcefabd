package metrics

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"amnesia/chaos"
	"amnesia/pkg/fact"
	"amnesia/pkg/image"
	"amnesia/pkg/memory"
)

var setup = Setup{
	Build: BuildInfo{"1.2.3", "abc"}, Driver: "http", Services: []string{"app", "redis"}, Views: []string{"page", "notes"},
	Faults: []Fault{{chaos.Kill, "app"}, {chaos.Wipe, "redis"}, {chaos.CrashAll, ""}}, Levels: []string{"shown", "settled"},
	BrowserRestarts: []string{"browser_died", "age"},
}

func made(t *testing.T) (*Metrics, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	m, err := New(reg, setup)
	if err != nil {
		t.Fatal(err)
	}
	return m, reg
}

// at is an instant some seconds into one boot.
func at(s float64) memory.Instant {
	return memory.Instant{Mono: int64(s * 1e9), Wall: int64((1_700_000_000 + s) * 1e9), Boot: "b"}
}

func entries(facts ...fact.Fact) []fact.Entry {
	out := make([]fact.Entry, len(facts))
	for i, f := range facts {
		out[i] = fact.Entry{Seq: int64(i + 1), Fact: f}
	}
	return out
}

// expect compares all series, by name{label values}: those that are not named must be 0. Histograms have n and sum.
func expect(t *testing.T, reg prometheus.Gatherer, want map[string]float64) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetValue())
			}
			name := strings.TrimPrefix(f.GetName(), "amnesia_") + "{" + strings.Join(labels, ",") + "}"
			switch {
			case m.Counter != nil:
				got[name] = m.Counter.GetValue()
			case m.Gauge != nil:
				got[name] = m.Gauge.GetValue()
			case m.Histogram != nil:
				got[name+" n"] = float64(m.Histogram.GetSampleCount())
				got[name+" sum"] = m.Histogram.GetSampleSum()
			}
		}
	}
	for name, v := range want {
		if d := got[name] - v; d < -1e-6 || d > 1e-6 {
			t.Errorf("%s is %v, want %v", name, got[name], v)
		}
	}
	for name, v := range got {
		if _, ok := want[name]; !ok && v != 0 && !strings.HasPrefix(name, "build_info") {
			t.Errorf("%s is %v, and nothing was to be there", name, v)
		}
	}
}

func TestLint(t *testing.T) {
	_, reg := made(t)
	problems, err := testutil.GatherAndLint(reg)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestNamesAndLabels holds the contract with alerts and dashboards, and that every series is there from the start.
func TestNamesAndLabels(t *testing.T) {
	_, reg := made(t)
	want := map[string]struct {
		labels string
		series int
	}{
		"amnesia_build_info":                        {"goversion,revision,version", 1},
		"amnesia_memory_writes_total":               {"outcome", 3},
		"amnesia_memories":                          {"verdict", 9},
		"amnesia_memory_losses_total":               {"class,fault,level,service,verdict", 9 * 3 * (1 + 3 + 4)},
		"amnesia_memory_defects_total":              {"defect", 6},
		"amnesia_memory_known_total":                {"class,fault,service", 8*3 + 6},
		"amnesia_memory_recoveries_total":           {"view", 2},
		"amnesia_memory_visible_seconds":            {"view", 2},
		"amnesia_loss_exposure_seconds":             {"fault,service", 3},
		"amnesia_loss_detection_seconds":            {"", 1},
		"amnesia_cycles_total":                      {"control,outcome", 10},
		"amnesia_cycle_duration_seconds":            {"phase", 4},
		"amnesia_faults_total":                      {"kind,outcome,service", 15},
		"amnesia_faults_active":                     {"kind,service", 3},
		"amnesia_fault_refusals_total":              {"reason", len(chaos.Reasons())},
		"amnesia_fault_recovery_seconds":            {"kind,service", 3},
		"amnesia_next_fault_timestamp_seconds":      {"", 1},
		"amnesia_paused":                            {"reason", 3},
		"amnesia_foreign_deaths_total":              {"cause,service", 6},
		"amnesia_oracle_selftest_failures_total":    {"", 1},
		"amnesia_oracle_selftest_timestamp_seconds": {"", 1},
		"amnesia_sessions_total":                    {"driver,outcome", 4},
		"amnesia_session_duration_seconds":          {"driver", 1},
		"amnesia_sweeps_total":                      {"result,view", 6},
		"amnesia_sweep_duration_seconds":            {"view", 2},
		"amnesia_last_sweep_timestamp_seconds":      {"view", 2},
		"amnesia_ledger_append_seconds":             {"", 1},
		"amnesia_ledger_size_bytes":                 {"", 1},
		"amnesia_ledger_errors_total":               {"", 1},
		"amnesia_browser_restarts_total":            {"reason", 2},
		"amnesia_browser_resident_memory_bytes":     {"", 1},
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		w, ok := want[f.GetName()]
		if !ok {
			t.Errorf("%s is not in the contract", f.GetName())
			continue
		}
		delete(want, f.GetName())
		var labels []string
		for _, l := range f.Metric[0].Label {
			labels = append(labels, l.GetName())
		}
		if got := strings.Join(labels, ","); got != w.labels || len(f.Metric) != w.series {
			t.Errorf("%s{%s} has %d series; want {%s} and %d", f.GetName(), got, len(f.Metric), w.labels, w.series)
		}
	}
	for name := range want {
		t.Errorf("%s is not there from the start", name)
	}
}

// story is a cycle in which a kill loses one memory of two.
func story() []fact.Entry {
	exposure := 40 * time.Millisecond
	lost := memory.Verdict{Memory: 2, Kind: memory.Lost, Class: memory.Silent, Level: "settled", Fault: chaos.Kill, Service: "app",
		Suspects: []int64{7}, Exposure: &exposure, Defects: []memory.Defect{memory.Leaked}}
	inj := fact.Injection{ID: 7, Kind: chaos.Kill, Service: "app"}
	healthy := []fact.Health{{Service: "app", Healthy: true}}
	return entries(
		fact.Cycle{Run: "r", N: 3, Phase: fact.PhaseTraffic, At: at(0)},
		fact.Step{Injection: 7, Name: fact.StepPlanned, Plan: &inj, At: at(0)},
		fact.Begun{Memory: memory.Memory{ID: 1}, At: at(1)},
		fact.Settled{Memory: 1, Outcome: memory.Acknowledged, Levels: []memory.Level{{Name: "shown", Seen: at(1.5)}, {Name: "settled", Seen: at(2)}}, At: at(2.1)},
		fact.Settled{Memory: 2, Outcome: memory.Acknowledged, At: at(3)},
		fact.Settled{Memory: 3, Outcome: memory.Unknown, At: at(3)},
		fact.Step{Injection: 7, Name: fact.StepFiring, Plan: &inj, At: at(3.03)},
		fact.Step{Injection: 7, Name: fact.StepInjected, Fired: at(3.04), At: at(3.1)},
		fact.Step{Injection: 7, Name: fact.StepRecovered, After: healthy, At: at(4.04)},
		fact.Step{Injection: 7, Name: fact.StepClosed, At: at(4.1)},
		fact.Session{User: "u", Driver: "http", Outcome: "ok", Began: at(0), Ended: at(4)},
		fact.Cycle{Run: "r", N: 3, Phase: fact.PhaseRecovery, At: at(4)},
		fact.Cycle{Run: "r", N: 3, Phase: fact.PhaseSettle, At: at(5)},
		fact.Sweep{View: "notes", Began: at(5), Ended: at(6), Complete: true, Observations: []memory.Observation{
			{Memory: 1, View: "notes", State: memory.Present, Ended: at(6)},
			{Memory: 2, View: "notes", State: memory.Absent, Ended: at(6)},
			{Memory: 3, View: "notes", State: memory.Present, Ended: at(6)}}},
		fact.Sweep{View: "notes", Began: at(6), Ended: at(7), Complete: true, Observations: []memory.Observation{
			{Memory: 1, View: "notes", State: memory.Present, Ended: at(7)}}},
		fact.Sweep{View: "page", Began: at(6), Ended: at(7), Error: "no browser"},
		fact.Cycle{Run: "r", N: 3, Phase: fact.PhaseJudge, At: at(7)},
		fact.Judged{Verdict: memory.Verdict{Memory: 1, Kind: memory.Late}, Cycle: 3, At: at(8)},
		fact.Judged{Verdict: memory.Verdict{Memory: 1, Kind: memory.Kept}, Cycle: 3, At: at(8)},
		fact.Judged{Verdict: lost, Cycle: 3, At: at(8.04)},
		fact.Judged{Verdict: lost, Cycle: 3, At: at(9)}, // again: counted once
		fact.Judged{Verdict: memory.Verdict{Memory: 3, Kind: memory.Indeterminate, Recovered: true, Found: []string{"notes"}}, Cycle: 3, At: at(9)},
		fact.Cycle{Run: "r", N: 3, Phase: fact.PhaseClosed, Outcome: fact.CycleLosses, At: at(9)},
		fact.Death{Service: "redis", Instance: fact.Instance{ID: "9"}, Cause: "oom", At: at(10)},
		fact.Death{Service: "redis", Instance: fact.Instance{ID: "9"}, Cause: "oom", At: at(10), Healthy: at(11)},
	)
}

var afterStory = map[string]float64{
	"memory_writes_total{acknowledged}": 2, "memory_writes_total{unknown}": 1,
	"memories{kept}": 1, "memories{lost}": 1, "memories{indeterminate}": 1,
	"memory_losses_total{silent,kill,settled,app,lost}": 1, "memory_defects_total{leaked}": 1, "memory_recoveries_total{notes}": 1,
	"memory_visible_seconds{notes} n": 1, "memory_visible_seconds{notes} sum": 4,
	"loss_exposure_seconds{kill,app} n": 1, "loss_exposure_seconds{kill,app} sum": .04,
	"loss_detection_seconds{} n": 1, "loss_detection_seconds{} sum": 5,
	"cycles_total{false,losses}":        1,
	"cycle_duration_seconds{traffic} n": 1, "cycle_duration_seconds{traffic} sum": 4,
	"cycle_duration_seconds{recovery} n": 1, "cycle_duration_seconds{recovery} sum": 1,
	"cycle_duration_seconds{settle} n": 1, "cycle_duration_seconds{settle} sum": 2,
	"cycle_duration_seconds{judge} n": 1, "cycle_duration_seconds{judge} sum": 2,
	"faults_total{kill,injected,app}":    1,
	"fault_recovery_seconds{kill,app} n": 1, "fault_recovery_seconds{kill,app} sum": 1,
	"foreign_deaths_total{oom,redis}": 1,
	"sessions_total{http,ok}":         1, "session_duration_seconds{http} n": 1, "session_duration_seconds{http} sum": 4,
	"sweeps_total{complete,notes}": 2, "sweeps_total{unreadable,page}": 1,
	"sweep_duration_seconds{notes} n": 2, "sweep_duration_seconds{notes} sum": 2,
	"sweep_duration_seconds{page} n": 1, "sweep_duration_seconds{page} sum": 1,
	"last_sweep_timestamp_seconds{notes}": 1_700_000_007,
}

func TestStory(t *testing.T) {
	m, reg := made(t)
	m.Tap(story())
	expect(t, reg, afterStory)
}

// TestRestart cuts the story at every place: a new daemon is given what was made of the facts before the cut, and taps the rest.
func TestRestart(t *testing.T) {
	facts := story()
	for cut := range facts {
		m, reg := made(t)
		restart(t, m, facts[:cut])
		m.Tap(facts[cut:])
		if expect(t, reg, afterStory); t.Failed() {
			t.Fatalf("when cut after %d facts", cut)
		}
	}
}

// restart gives a daemon what another one made of facts.
func restart(t *testing.T, m *Metrics, facts []fact.Entry) {
	t.Helper()
	before, _ := made(t)
	before.Tap(facts)
	var b bytes.Buffer
	err := before.Lend(func(state any) error { return image.Encode(&b, state, math.MaxInt64) })
	if err == nil {
		err = m.Lend(func(state any) error { return image.Decode(b.Bytes(), state) })
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestLossesCountOnceInEachCounter(t *testing.T) {
	judged := func(v memory.Verdict) fact.Judged {
		v.Memory = 5
		v.Level = "settled"
		return fact.Judged{Verdict: v, At: at(1)}
	}
	m, reg := made(t)
	m.Tap(entries(
		judged(memory.Verdict{Kind: memory.Hidden, Class: memory.Unsure, Fault: memory.FaultNone, Service: "app"}),
		judged(memory.Verdict{Kind: memory.Kept, Defects: []memory.Defect{memory.Resurfaced}}),
		// What was only unsure is silent now: it has to be heard of.
		judged(memory.Verdict{Kind: memory.Hidden, Class: memory.Silent, Fault: memory.FaultNone, Service: "app"}),
		judged(memory.Verdict{Kind: memory.Kept, Defects: []memory.Defect{memory.Resurfaced}}),
		judged(memory.Verdict{Kind: memory.Hidden, Class: memory.Silent, Fault: memory.FaultForeign, Service: "redis"}),
		judged(memory.Verdict{Kind: memory.Torn, Class: memory.Permitted, Fault: memory.FaultSeveral, Service: "app+redis"}),
		judged(memory.Verdict{Kind: memory.Lost, Class: memory.Silent, Fault: chaos.CrashAll, Service: "app+redis"}),
		judged(memory.Verdict{Kind: memory.Lost, Class: memory.Reported, Fault: chaos.CrashAll, Service: "app", Open: true}),
	))
	expect(t, reg, map[string]float64{
		"memories{lost}": 1, "memory_defects_total{resurfaced}": 1,
		"memory_losses_total{unsure,none,settled,app,hidden}":         1,
		"memory_losses_total{silent,none,settled,app,hidden}":         1,
		"memory_losses_total{permitted,several,settled,several,torn}": 1,
		"memory_losses_total{silent,crash_all,settled,all,lost}":      1,
	})
	if n := testutil.CollectAndCount(m.losses); n != 9*3*8 {
		t.Errorf("%d series of losses: one was not there from the start", n)
	}
}

// TestKnown: what was muted when it was found is counted apart, and stays there when its date has passed, also by a daemon
// that was started since; what is found later, or by another name, is news.
func TestKnown(t *testing.T) {
	judged := func(s float64, id memory.ID, missing ...string) fact.Judged {
		return fact.Judged{At: at(s), Verdict: memory.Verdict{Memory: id, Kind: memory.Lost, Class: memory.Silent, Level: "settled", Fault: chaos.Kill,
			Service: "app", Missing: missing, Defects: []memory.Defect{memory.Leaked}}}
	}
	until := at(10).Time()
	facts := entries(
		judged(0, 1, "page"),
		fact.Muting{Known: []fact.Known{{Fingerprint: "silent/kill/app/page", Until: until}, {Fingerprint: "leaked/-/-/-", Until: until}}, At: at(1)},
		judged(2, 1, "page"), // it was counted before it was known
		judged(3, 2, "page"),
		judged(4, 2, "page"),
		judged(5, 3, "page"),
		judged(6, 3, "page", "notes"),
		judged(11, 2, "page"),
		judged(12, 4, "page"),
		fact.Muting{At: at(13)},
		judged(14, 5, "page"),
	)
	want := map[string]float64{
		"memories{lost}": 5, "memory_known_total{silent,kill,app}": 2, "memory_known_total{leaked,,}": 2,
		"memory_losses_total{silent,kill,settled,app,lost}": 4, "memory_defects_total{leaked}": 3,
	}
	for cut := range facts {
		m, reg := made(t)
		restart(t, m, facts[:cut])
		m.Tap(facts[cut:])
		if expect(t, reg, want); t.Failed() {
			t.Fatalf("when cut after %d facts", cut)
		}
	}
	if m, _ := made(t); testutil.CollectAndCount(m.known) != 8*3+6 {
		t.Error("not every series of what is known is there from the start")
	}
}

func TestInjectionsEnd(t *testing.T) {
	unhealthy := []fact.Health{{Service: "app"}}
	healthy := []fact.Health{{Service: "app", Healthy: true}}
	refusal := &chaos.Refusal{Kind: chaos.Kill, Service: "app", Reason: chaos.ReasonTooSoon, Why: "the last fault was 1s ago"}
	for name, c := range map[string]struct {
		dry   bool
		steps []fact.Step
		want  map[string]float64
	}{
		"dry run":    {dry: true, steps: []fact.Step{{Name: fact.StepClosed}}, want: map[string]float64{"faults_total{kill,dry_run,app}": 1}},
		"called off": {steps: []fact.Step{{Name: fact.StepGated}, {Name: fact.StepClosed}}},
		"refused": {steps: []fact.Step{{Name: fact.StepRefused, Detail: refusal.Error()}},
			want: map[string]float64{"faults_total{kill,refused,app}": 1, "fault_refusals_total{too_soon}": 1}},
		"under way": {steps: []fact.Step{{Name: fact.StepFiring, At: at(1)}, {Name: fact.StepInjected, At: at(1)}},
			want: map[string]float64{"faults_active{kill,app}": 1}},
		"failed and undone": {steps: []fact.Step{{Name: fact.StepFiring, At: at(1)}, {Name: fact.StepFailed}, {Name: fact.StepReverted},
			{Name: fact.StepRecovered, After: healthy, At: at(2)}, {Name: fact.StepClosed}},
			want: map[string]float64{"faults_total{kill,failed,app}": 1}},
		"never healthy again": {steps: []fact.Step{{Name: fact.StepFiring, At: at(1)}, {Name: fact.StepInjected, At: at(1)},
			{Name: fact.StepFailed, After: unhealthy}, {Name: fact.StepReverted}, {Name: fact.StepClosed}},
			want: map[string]float64{"faults_total{kill,unrecovered,app}": 1}},
		"undone by a later daemon": {steps: []fact.Step{{Name: fact.StepFiring, At: at(1)}, {Name: fact.StepReverted}, {Name: fact.StepClosed}},
			want: map[string]float64{"faults_total{kill,failed,app}": 1}},
		"a hold is no recovery": {steps: []fact.Step{{Name: fact.StepFiring, At: at(1)}, {Name: fact.StepRecovered, After: healthy, At: at(7)}, {Name: fact.StepClosed}},
			want: map[string]float64{"faults_total{kill,injected,app}": 1, "fault_recovery_seconds{kill,app} n": 1, "fault_recovery_seconds{kill,app} sum": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			m, reg := made(t)
			plan := &fact.Injection{ID: 1, Kind: chaos.Kill, Service: "app", DryRun: c.dry, Hold: 5 * time.Second}
			facts := []fact.Fact{fact.Step{Injection: 1, Name: fact.StepPlanned, Plan: plan}}
			for _, s := range c.steps {
				s.Injection = 1
				facts = append(facts, s)
			}
			m.Tap(entries(facts...))
			expect(t, reg, c.want)
		})
	}
}

// TestServicesThatEndedWithTheirDaemon: how long no daemon lived is not how long the target took to recover.
func TestServicesThatEndedWithTheirDaemon(t *testing.T) {
	m, reg := made(t)
	for _, s := range chaos.Restarted(1, []string{"app", "redis"}, at(1), at(90), []fact.Health{{Service: "app", Healthy: true, At: at(100)}}) {
		m.Tap(entries(s))
	}
	m.Tap(entries(fact.Judged{Verdict: memory.Verdict{Memory: 5, Level: "settled", Kind: memory.Lost, Class: memory.Silent,
		Fault: chaos.DaemonRestart, Service: "app+redis"}, At: at(101)}))
	expect(t, reg, map[string]float64{
		"faults_total{daemon_restart,injected,all}": 1, "memories{lost}": 1,
		"memory_losses_total{silent,daemon_restart,settled,all,lost}": 1,
	})
}

// TestEveryReasonIsFound reads each reason back out of the words of a refusal, which are all that the ledger has.
func TestEveryReasonIsFound(t *testing.T) {
	for _, r := range chaos.Reasons() {
		if got := chaos.ReasonOf((&chaos.Refusal{Kind: chaos.Wipe, Service: "redis", Reason: r, Why: "refused (paused)"}).Error()); got != r {
			t.Errorf("%s is read as %q", r, got)
		}
	}
}

// TestClocksThatCannotBeCompared: a duration over a reboot is none.
func TestClocksThatCannotBeCompared(t *testing.T) {
	later := at(9)
	later.Boot = "another"
	m, reg := made(t)
	m.Tap(entries(fact.Session{Driver: "http", Outcome: "aborted", Began: at(1), Ended: later}))
	expect(t, reg, map[string]float64{"sessions_total{http,aborted}": 1})
}

func TestRetiredAreForgottenButCounted(t *testing.T) {
	m, reg := made(t)
	m.Tap(story())
	m.Tap(entries(fact.Retired{Memories: memory.SetOf(1, 2, 3)}))
	expect(t, reg, afterStory)
	if n := len(m.fold.verdicts) + len(m.fold.acknowledged) + len(m.fold.seen); n != 0 {
		t.Errorf("%d things are still held of retired memories", n)
	}
}

func TestGauges(t *testing.T) {
	m, reg := made(t)
	m.Paused(chaos.ReasonHalted)
	m.NextFault(time.Unix(1_700_000_000, 5e8))
	m.LedgerSize(4096)
	m.LedgerAppend(2*time.Millisecond, nil)
	m.LedgerAppend(time.Second, errors.New("disk full"))
	m.Engine("kill", 20*time.Millisecond, nil)
	m.Engine("kill", time.Second, errors.New("no answer"))
	m.Engine("start", time.Second, fmt.Errorf("told to stop: %w", context.Canceled))
	m.SelfTested(at(5), nil)
	m.SelfTested(at(9), errors.New("blind")) // is counted, and is none that was passed
	m.Browser(map[string]int{"browser_died": 2}, 1e6)
	m.Browser(map[string]int{"browser_died": 3}, 2e6)
	expect(t, reg, map[string]float64{"paused{halted}": 1, "next_fault_timestamp_seconds{}": 1_700_000_000.5, "ledger_size_bytes{}": 4096,
		"ledger_append_seconds{} n": 1, "ledger_append_seconds{} sum": .002, "ledger_errors_total{}": 1,
		"engine_request_seconds{kill} n": 2, "engine_request_seconds{kill} sum": 1.02, "engine_request_seconds{start} n": 1,
		"engine_request_seconds{start} sum": 1, "engine_errors_total{kill}": 1,
		"oracle_selftest_failures_total{}": 1, "oracle_selftest_timestamp_seconds{}": 1_700_000_005, "browser_restarts_total{browser_died}": 3,
		"browser_resident_memory_bytes{}": 2_000_000})
	m.Paused()
	m.NextFault(time.Time{})
	if a, b := testutil.ToFloat64(m.paused.WithLabelValues("halted")), testutil.ToFloat64(m.nextFault); a != 0 || b != 0 {
		t.Errorf("paused %v, next fault %v", a, b)
	}
}

// TestScrape reads the losses as Prometheus does: their exemplar leads to the memory and the cycle, no label does.
func TestScrape(t *testing.T) {
	m, reg := made(t)
	m.Tap(story())
	srv := httptest.NewServer(promhttp.HandlerFor(reg, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	defer srv.Close()
	req, err := http.NewRequestWithContext(t.Context(), "GET", srv.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	r, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(body), `{memory="m2",cycle="3"}`, `{cycle="3",memory="m2"}`) // in either order
	for _, want := range []string{
		`amnesia_memory_losses_total{class="silent",fault="kill",level="settled",service="app",verdict="lost"} 1.0 # {cycle="3",memory="m2"} 1.0`,
		`amnesia_memory_defects_total{defect="leaked"} 1.0 # {cycle="3",memory="m2"} 1.0`,
		`amnesia_loss_exposure_seconds_bucket{fault="kill",service="app",le="0.05"} 1 # {cycle="3",memory="m2"} 0.04`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the scrape has no\n%s", want)
		}
	}
}

func TestRegisteredTwice(t *testing.T) {
	_, reg := made(t)
	if _, err := New(reg, setup); err == nil || !strings.Contains(fmt.Sprint(err), "registering the metrics") {
		t.Errorf("a second set on one registry: %v", err)
	}
}

// TestConcurrently is for the race detector: facts come by the ledger, the rest from anywhere, and a scrape at any time.
func TestConcurrently(t *testing.T) {
	m, reg := made(t)
	done := make(chan struct{}, 3)
	go func() { m.Tap(story()); done <- struct{}{} }()
	go func() { m.Paused(chaos.ReasonPaused); m.LedgerAppend(1, nil); done <- struct{}{} }()
	go func() {
		if _, err := reg.Gather(); err != nil {
			t.Error(err)
		}
		done <- struct{}{}
	}()
	for range 3 {
		<-done
	}
}
