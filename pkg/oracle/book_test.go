package oracle

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

// gate reads the services of the stack before the fault.
func (p *tape) gate(cycle int, at float64, healthy bool) {
	p.add(fact.Gate{Cycle: cycle, At: p.at(at), Services: []fact.Health{*p.health("app", "a", at, healthy), *p.health("db", "a", at, healthy)}})
}

// steps takes a kill of app at 3 through stations.
func (p *tape) steps(names ...fact.StepName) {
	inj := fact.Injection{ID: 1, Cycle: 1, Kind: "kill", Service: "app"}
	for i, name := range names {
		p.add(fact.Step{Injection: 1, Name: name, Plan: &inj, At: p.at(3 + float64(i)/10)})
	}
}

// TestCycle has one case for each sentence of §7.
func TestCycle(t *testing.T) {
	for _, tt := range []struct {
		name    string
		control bool
		tape    func(p *tape)
		outcome fact.CycleOutcome
		reason  string
	}{
		{"clean", false, func(p *tape) {
			p.gate(1, 0.5, true)
			p.tell(1, 1)
			p.fault(1, "kill", "app", 3, 4)
			p.phase(1, false, fact.PhaseSettle, 5)
			p.all(present, 6)
		}, fact.CycleClean, ""},
		{"a clean control", true, func(p *tape) {
			p.gate(1, 0.5, true)
			p.tell(1, 1)
			p.phase(1, true, fact.PhaseSettle, 5)
			p.all(present, 6)
		}, fact.CycleClean, ""},
		{"not enough acknowledged memories before the fault", false, func(p *tape) {
			p.gate(1, 0.5, true)
			p.fault(1, "kill", "app", 1, 2)
			p.tell(1, 3)
			p.phase(1, false, fact.PhaseSettle, 5)
			p.all(present, 6)
		}, fact.CycleInconclusive, "acknowledged memories were at stake"},
		{"a memory that its user deletes is not at stake", false, func(p *tape) {
			p.gate(1, 0.5, true)
			p.tell(1, 1)
			p.forget(1, 2.5, memory.Acknowledged)
			p.fault(1, "kill", "app", 4, 5)
			p.phase(1, false, fact.PhaseSettle, 5)
			p.all(absent, 30)
		}, fact.CycleInconclusive, "at stake"},
		{"health gate not green before", false, func(p *tape) {
			p.gate(1, 0.5, false)
			p.phase(1, false, fact.PhaseSettle, 5)
		}, fact.CycleInconclusive, "not healthy before the fault"},
		{"a must view is not readable", false, func(p *tape) {
			p.gate(1, 0.5, true)
			p.tell(1, 1)
			p.fault(1, "kill", "app", 3, 4)
			p.phase(1, false, fact.PhaseSettle, 5)
			p.all(present, 6)
			p.read("vec", unreadable, 7)
		}, fact.CycleInconclusive, "vec could not be read"},
		{"a must view was not read", false, func(p *tape) {
			p.gate(1, 0.5, true)
			p.tell(1, 1)
			p.fault(1, "kill", "app", 3, 4)
			p.phase(1, false, fact.PhaseSettle, 5)
			p.read("db", present, 6)
		}, fact.CycleInconclusive, "has not been read yet"},
		{"the fault is not proven", false, func(p *tape) {
			p.gate(1, 0.5, true)
			p.tell(1, 1)
			p.fault(1, "kill", "app", 3, 0)
			p.add(fact.Step{Injection: 1, Name: fact.StepFailed, Detail: "the pid is the same", After: []fact.Health{*p.health("app", "a", 4, true)}, At: p.at(4)})
			p.add(fact.Step{Injection: 1, Name: fact.StepReverted, At: p.at(4)})
			p.add(fact.Step{Injection: 1, Name: fact.StepClosed, At: p.at(4)})
			p.phase(1, false, fact.PhaseSettle, 5)
			p.all(present, 6)
		}, fact.CycleInconclusive, "not proven: the pid is the same"},
		{"the engine could not be asked after the fault", false, func(p *tape) {
			p.gate(1, 0.5, true)
			p.tell(1, 1)
			p.fault(1, "kill", "app", 3, 0)
			unread := *p.health("app", "", 4, false)
			unread.Unread = true
			p.add(fact.Step{Injection: 1, Name: fact.StepFailed, Detail: "the engine does not answer", After: []fact.Health{unread}, At: p.at(4)})
			p.add(fact.Gate{Cycle: 1, Services: []fact.Health{unread}, At: p.at(4)})
			p.phase(1, false, fact.PhaseSettle, 5)
		}, fact.CycleInconclusive, "not proven: the engine does not answer"},
		{"the fault was refused", false, func(p *tape) {
			p.gate(1, 0.5, true)
			p.tell(1, 1)
			inj := fact.Injection{ID: 1, Cycle: 1, Kind: "kill", Service: "app"}
			p.add(fact.Step{Injection: 1, Name: fact.StepPlanned, Plan: &inj, At: p.at(1)})
			p.add(fact.Step{Injection: 1, Name: fact.StepRefused, Detail: "outside the hours", At: p.at(1)})
			p.phase(1, false, fact.PhaseSettle, 5)
			p.all(present, 6)
		}, fact.CycleInconclusive, "refused: outside the hours"},
		{"the fault was only announced", false, func(p *tape) {
			p.gate(1, 0.5, true)
			p.tell(1, 1)
			inj := fact.Injection{ID: 1, Cycle: 1, Kind: "kill", Service: "app", DryRun: true}
			p.add(fact.Step{Injection: 1, Name: fact.StepPlanned, Plan: &inj, At: p.at(1)})
			p.add(fact.Step{Injection: 1, Name: fact.StepClosed, At: p.at(3)})
			p.phase(1, false, fact.PhaseSettle, 5)
			p.all(present, 6)
		}, fact.CycleInconclusive, "dry run"},
		{"ended before its sweeps", false, func(p *tape) {
			p.gate(1, 0.5, true)
			p.tell(1, 1)
			p.fault(1, "kill", "app", 3, 4)
		}, fact.CycleInconclusive, "before its sweeps"},
		{"unrecovered is a finding about the target", false, func(p *tape) {
			p.gate(1, 0.5, true)
			p.tell(1, 1)
			p.fault(1, "kill", "app", 3, 0)
			p.add(fact.Step{Injection: 1, Name: fact.StepFailed, Detail: "deadline", After: []fact.Health{*p.health("app", "b", 60, false)}, At: p.at(60)})
			p.add(fact.Step{Injection: 1, Name: fact.StepReverted, At: p.at(60)})
			p.add(fact.Step{Injection: 1, Name: fact.StepClosed, At: p.at(60)})
			p.phase(1, false, fact.PhaseSettle, 61)
			p.all(unreadable, 62)
		}, fact.CycleUnrecovered, "app was not healthy again after kill of app"},
		{"never hiding a proven loss", false, func(p *tape) {
			p.gate(1, 0.5, false)
			p.tell(1, 1)
			p.fault(1, "kill", "app", 3, 4)
			p.phase(1, false, fact.PhaseSettle, 5)
			p.all(absent, 6, 20)
		}, fact.CycleLosses, "m1: The user saw it acknowledged"},
		{"a permitted, unsure or observed loss is none that counts", false, func(p *tape) {
			p.gate(1, 0.5, true)
			p.tell(1, 1)
			p.begin(2, 1)
			p.settle(2, memory.Rejected, 2)
			p.fault(1, "kill", "app", 3, 4)
			p.phase(1, false, fact.PhaseSettle, 5)
			p.all(present, 6)
			p.add(p.swept("page", 7, obs(2, present)))
			for _, view := range []string{"db", "vec", "redis", "page"} {
				p.add(p.swept(view, 20, obs(2, absent)))
				p.add(p.swept(view, 21, obs(2, absent)))
			}
		}, fact.CycleClean, ""},
		{"a defect", false, func(p *tape) {
			p.gate(1, 0.5, true)
			p.tell(1, 1)
			p.fault(1, "kill", "app", 3, 4)
			p.phase(1, false, fact.PhaseSettle, 5)
			p.all(altered, 6)
		}, fact.CycleDefects, "One defect was found"},
		{"a defect is not hidden by a gate that was not green", false, func(p *tape) {
			p.gate(1, 0.5, false)
			p.tell(1, 1)
			p.fault(1, "kill", "app", 3, 4)
			p.phase(1, false, fact.PhaseSettle, 5)
			p.all(altered, 6)
		}, fact.CycleDefects, "One defect was found"},
		{"an unknown write is not at stake", false, func(p *tape) {
			p.gate(1, 0.5, true)
			p.begin(1, 1)
			p.settle(1, memory.Unknown, 2)
			p.fault(1, "kill", "app", 3, 4)
			p.phase(1, false, fact.PhaseSettle, 5)
			p.all(absent, 30)
		}, fact.CycleInconclusive, "at stake"},
		{"no fault was planned", false, func(p *tape) {
			p.gate(1, 0.5, true)
			p.tell(1, 1)
			p.phase(1, false, fact.PhaseSettle, 5)
			p.all(present, 6)
		}, fact.CycleInconclusive, "No fault was planned"},
		{"the fault did not fire", false, func(p *tape) {
			p.gate(1, 0.5, true)
			p.tell(1, 1)
			p.steps(fact.StepPlanned)
			p.phase(1, false, fact.PhaseSettle, 5)
			p.all(present, 6)
		}, fact.CycleInconclusive, "did not fire"},
		{"the fault fired, and nothing proves it", false, func(p *tape) {
			p.gate(1, 0.5, true)
			p.tell(1, 1)
			p.steps(fact.StepPlanned, fact.StepFiring, fact.StepInjected, fact.StepRecovered, fact.StepClosed)
			p.phase(1, false, fact.PhaseSettle, 5)
			p.all(present, 6)
		}, fact.CycleInconclusive, "The fault is not proven."},
		{"no gate was read before the fault", false, func(p *tape) {
			p.tell(1, 1)
			p.steps(fact.StepPlanned, fact.StepFiring, fact.StepInjected, fact.StepProven, fact.StepRecovered, fact.StepClosed)
			p.phase(1, false, fact.PhaseSettle, 5)
			p.all(present, 6)
		}, fact.CycleInconclusive, "not seen healthy before the fault"},
		{"the fault's own gate was red", false, func(p *tape) {
			p.gate(1, 0.5, true)
			p.tell(1, 1)
			p.add(fact.Step{Injection: 1, Name: fact.StepGated, Before: []fact.Health{*p.health("app", "a", 2.5, false)}, At: p.at(2.5)})
			p.steps(fact.StepPlanned, fact.StepFiring, fact.StepInjected, fact.StepProven, fact.StepRecovered, fact.StepClosed)
			p.phase(1, false, fact.PhaseSettle, 5)
			p.all(present, 6)
		}, fact.CycleInconclusive, "not seen healthy before the fault"},
		{"unrecovered by the gate after the fault", false, func(p *tape) {
			p.gate(1, 0.5, true)
			p.tell(1, 1)
			p.fault(1, "kill", "app", 3, 4)
			p.gate(1, 5, false)
			p.phase(1, false, fact.PhaseSettle, 6)
			p.all(present, 7)
		}, fact.CycleUnrecovered, "not healthy again after the fault"},
		{"not unrecovered when it was ill and is well", false, func(p *tape) {
			p.gate(1, 0.5, true)
			p.tell(1, 1)
			p.steps(fact.StepPlanned, fact.StepFiring, fact.StepInjected)
			p.gate(1, 5, false)
			p.gate(1, 6, true)
			p.phase(1, false, fact.PhaseSettle, 7)
			p.all(present, 8)
		}, fact.CycleInconclusive, "The fault is not proven."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newTape(stack()...)
			p.phase(1, tt.control, fact.PhaseTraffic, 0.1)
			tt.tape(p)
			now := p.at(p.end + 0.1)
			r := p.book.Cycle(1, now)
			if r.Outcome != tt.outcome || !strings.Contains(r.Reason, tt.reason) || (tt.reason == "") != (r.Reason == "") {
				t.Errorf("%s (%s), want %s (… %s …)", r.Outcome, r.Reason, tt.outcome, tt.reason)
			}
			p.add(fact.Cycle{N: 1, Control: tt.control, Phase: fact.PhaseClosed, Outcome: r.Outcome, Reason: r.Reason, At: now})
			p.cycle = 2
			p.fault(9, "kill", "app", p.end+1, 0) // what comes later changes nothing
			want := r
			want.Closed = true
			if diff := cmp.Diff(want, p.book.Cycle(1, p.at(p.end+100))); diff != "" {
				t.Errorf("closing the cycle changed it (-open +closed):\n%s", diff)
			}
		})
	}
}

func TestCycleTakesOverDoubt(t *testing.T) {
	p := newTape(stack()...)
	p.phase(1, true, fact.PhaseTraffic, 0.1)
	p.tell(1, 1)
	p.phase(1, true, fact.PhaseSettle, 5)
	p.all(present, 6)
	p.add(fact.Cycle{N: 1, Control: true, Phase: fact.PhaseClosed, Outcome: fact.CycleInconclusive, Reason: "told to stop", At: p.at(7)})
	if r := p.book.Cycle(1, p.at(8)); r.Outcome != fact.CycleInconclusive || r.Reason != "told to stop" {
		t.Errorf("%s (%s), want the doubt that was recorded", r.Outcome, r.Reason)
	}
}

func TestEnoughIsAParameter(t *testing.T) {
	p := newTape(stack()...)
	p.book.Context().Enough = 2
	p.phase(1, false, fact.PhaseTraffic, 0.1)
	p.gate(1, 0.5, true)
	p.tell(1, 1)
	p.fault(1, "kill", "app", 3, 4)
	p.phase(1, false, fact.PhaseSettle, 5)
	p.all(present, 6)
	if r := p.book.Cycle(1, p.at(7)); r.Outcome != fact.CycleInconclusive || r.Stake != 1 {
		t.Errorf("%s with %d at stake, want inconclusive with 1", r.Outcome, r.Stake)
	}
}

func copies(id memory.ID, n int) memory.Observation {
	o := obs(id, present)
	o.Copies = n
	return o
}

func TestCalibration(t *testing.T) {
	p := newTape(store("db"), store("vec"), look("page"))
	p.phase(1, true, fact.PhaseTraffic, 0.1)
	for id := memory.ID(1); id <= 4; id++ {
		p.tell(id, 1)
	}
	p.phase(1, true, fact.PhaseSettle, 5)
	p.add(p.swept("db", 6, copies(1, 2), copies(2, 2), copies(3, 3), copies(4, 2)))
	vec := p.swept("vec", 13, obs(1, absent), obs(2, absent), obs(3, absent), obs(4, absent))
	for i := range vec.Observations {
		vec.Observations[i].Detail = "1,204 records, none with a token of ours"
	}
	p.add(vec)
	p.add(p.swept("page", 6, copies(1, 1), copies(2, 1), copies(3, 1), copies(4, 1)))
	if got := p.book.Misconfigured(); got != nil {
		t.Errorf("before the control is closed: %v", got)
	}
	p.phase(1, true, fact.PhaseClosed, 14)
	wantTrouble := []ViewTrouble{{View: "vec", Acknowledged: 4, Instead: "1,204 records, none with a token of ours"}}
	if diff := cmp.Diff(wantTrouble, p.book.Misconfigured()); diff != "" {
		t.Errorf("misconfigured (-want +got):\n%s", diff)
	}
	want := []Calibration{
		{View: "db", Memories: 4, Copies: 2, Appeared: 4100 * time.Millisecond},
		{View: "page", Memories: 4, Copies: 1, Appeared: 4100 * time.Millisecond},
	}
	if diff := cmp.Diff(want, p.book.Calibrated()); diff != "" {
		t.Errorf("calibrated (-want +got):\n%s", diff)
	}
	for id, dup := range map[memory.ID]bool{1: false, 3: true} {
		if v, _ := p.book.Verdict(id, p.at(15)); (len(v.Defects) > 0) != dup {
			t.Errorf("%s: %v, want duplicated %v", id, v.Defects, dup)
		}
	}
	p.tell(5, 15)
	p.add(p.swept("db", 17, copies(5, 4)))
	if v, _ := p.book.Verdict(5, p.at(18)); len(v.Defects) != 1 {
		t.Errorf("four copies where one write makes two: %v", v.Defects)
	}
}

// A view that has shown nothing yet is asked again as long as it may still, also when no verdict waits for it; and what was
// not asked after that time is no trouble.
func TestCalibrationWaitsForWhatMayComeYet(t *testing.T) {
	control := func() *tape {
		p := newTape(stack()...)
		p.phase(1, true, fact.PhaseTraffic, 0.1)
		p.tell(1, 1)
		p.phase(1, true, fact.PhaseSettle, 5)
		for view, s := range map[string]memory.State{"db": present, "vec": present, "page": present, "redis": absent} {
			p.read(view, s, 6)
		}
		return p
	}
	p := control()
	if open := p.book.Open(p.at(6.5)); len(open) != 1 || !slices.Equal(open["redis"], []memory.ID{1}) {
		t.Errorf("open: %v", open)
	}
	p.phase(1, true, fact.PhaseClosed, 7)
	if got := p.book.Misconfigured(); got != nil {
		t.Errorf("read too early: %v", got)
	}
	p = control()
	p.read("redis", absent, 13)
	if open := p.book.Open(p.at(14)); len(open) != 0 {
		t.Errorf("open after its time: %v", open)
	}
	p.phase(1, true, fact.PhaseClosed, 15)
	if got := p.book.Misconfigured(); len(got) != 1 || got[0].View != "redis" {
		t.Errorf("read in time: %v", got)
	}
	p = control()
	p.read("redis", present, 8)
	if open := p.book.Open(p.at(9)); len(open) != 0 {
		t.Errorf("open although it was seen: %v", open)
	}
}

// A page that shows as many messages as were told, none of them with what a store has, is a finding; one that shows fewer
// looks in the wrong place, and so does every view where no store has anything.
func TestBlankPageIsNoWrongSelector(t *testing.T) {
	for _, c := range []struct {
		name    string
		records int
		stored  memory.State
		trouble string
	}{
		{"blank messages", 2, present, ""},
		{"too few", 1, present, "page"},
		{"none", 0, present, "page"},
		{"stored nowhere", 2, absent, "db page"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newTape(store("db"), look("page"))
			p.phase(1, true, fact.PhaseTraffic, 0.1)
			p.tell(1, 1)
			p.tell(2, 1)
			p.phase(1, true, fact.PhaseSettle, 5)
			for _, at := range []float64{13, 14} {
				p.add(p.swept("db", at, obs(1, c.stored), obs(2, c.stored)))
				page := p.swept("page", at, obs(1, absent), obs(2, absent))
				for i := range page.Observations {
					page.Observations[i].Records = c.records
				}
				p.add(page)
			}
			p.phase(1, true, fact.PhaseClosed, 15)
			var got []string
			for _, v := range p.book.Misconfigured() {
				got = append(got, v.View)
			}
			if strings.Join(got, " ") != c.trouble {
				t.Errorf("misconfigured: %v, want %q", got, c.trouble)
			}
		})
	}
}

// Every run calibrates: what an earlier one saw says nothing of how this one is configured.
func TestCalibrationOfEachRun(t *testing.T) {
	p := newTape(store("db"))
	for n, s := range []memory.State{present, absent} {
		from := 100 * float64(n)
		p.add(fact.Run{ID: fmt.Sprint(n), At: p.at(from)})
		p.phase(n+1, true, fact.PhaseTraffic, from+0.1)
		p.add(fact.Begun{Memory: memory.Memory{ID: memory.ID(n + 1), User: "ann", Cycle: n + 1}, At: p.at(from + 1)})
		p.settle(memory.ID(n+1), memory.Acknowledged, from+2)
		p.add(p.swept("db", from+20, obs(memory.ID(n+1), s)))
		p.phase(n+1, true, fact.PhaseClosed, from+21)
		if got := p.book.Misconfigured(); (len(got) > 0) != (s == absent) {
			t.Errorf("run %d: %v", n, got)
		}
	}
}

// A store that cuts long texts into pieces makes more records of them.
func TestCalibrationByPayload(t *testing.T) {
	p := newTape(store("db"))
	p.phase(1, true, fact.PhaseTraffic, 0.1)
	for id := memory.ID(1); id <= 5; id++ {
		payload := memory.PayloadShort
		if id == 5 {
			payload = memory.PayloadLong
		}
		p.add(fact.Begun{Memory: memory.Memory{ID: id, User: "ann", Cycle: 1, Payload: payload}, At: p.at(1)})
		p.settle(id, memory.Acknowledged, 2)
	}
	p.add(p.swept("db", 6, copies(1, 1), copies(2, 1), copies(3, 1), copies(4, 1), copies(5, 3)))
	p.phase(1, true, fact.PhaseClosed, 7)
	for id, v := range p.book.All(p.at(8)) {
		if len(v.Defects) > 0 {
			t.Errorf("%s: %v", id, v.Defects)
		}
	}
}

// What a fault takes of a control's memories does not make the control's rate, what is gone without any fault does.
func TestControlRate(t *testing.T) {
	for _, faulty := range []bool{true, false} {
		p := newTape(store("db"))
		p.phase(1, true, fact.PhaseTraffic, 0.1)
		p.tell(1, 1)
		p.read("db", present, 6)
		p.phase(1, true, fact.PhaseClosed, 7)
		p.cycle = 2
		p.phase(2, !faulty, fact.PhaseTraffic, 8)
		if faulty {
			p.fault(1, "kill", "db", 9, 10)
		}
		p.read("db", absent, 30, 31)
		p.phase(2, !faulty, fact.PhaseClosed, 32)
		want := Rate{1, 1}
		if faulty {
			want.Lost = 0
		}
		if got := p.book.Totals(p.at(33)).Control; got != want {
			t.Errorf("with a fault %v: %+v, want %+v", faulty, got, want)
		}
	}
}

func TestTotals(t *testing.T) {
	p := newTape(stack()...)
	p.phase(1, false, fact.PhaseTraffic, 0.1)
	p.gate(1, 0.5, true)
	for id := memory.ID(1); id <= 3; id++ {
		p.tell(id, float64(id)/10)
	}
	p.begin(4, 1.5)
	p.fault(1, "kill", "app", 2, 4)
	p.settle(4, memory.Rejected, 4)
	p.begin(5, 4)
	p.phase(1, false, fact.PhaseSettle, 5)
	for _, at := range []float64{6, 20} {
		for _, view := range []string{"db", "vec", "redis", "page"} {
			p.add(p.swept(view, at, obs(1, absent), obs(2, absent), obs(3, present)))
		}
	}
	p.phase(1, false, fact.PhaseClosed, 21)
	check := func(when string, at float64, verdicts map[memory.Kind]int, defects map[memory.Defect]int) {
		t.Helper()
		want := Totals{
			Outcome:  fact.CycleLosses,
			Cycles:   map[CycleKey]int{{fact.CycleLosses, false}: 1},
			Read:     3,
			Unread:   2,
			Writes:   map[memory.Outcome]int{memory.Acknowledged: 3, memory.Rejected: 1, memory.Unknown: 1},
			Verdicts: verdicts, Defects: defects,
			Losses: map[memory.Class]int{memory.Silent: 2}, Observed: map[memory.Class]int{},
			Faults:    []FaultTotal{{FaultKey{"kill", "app"}, 1, 2}},
			Exposures: []time.Duration{800 * time.Millisecond, 900 * time.Millisecond},
			Curves:    []Curve{{FaultKey{"kill", "app"}, []Trial{{1, 700 * time.Millisecond, false}, {1, 800 * time.Millisecond, true}, {1, 900 * time.Millisecond, true}}}},
			Struck:    Rate{3, 2},
		}
		if diff := cmp.Diff(want, p.book.Totals(p.at(at))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	check("lost", 21, map[memory.Kind]int{memory.Lost: 2, memory.Kept: 1, memory.Indeterminate: 2}, map[memory.Defect]int{})

	// One comes back: it was lost all the same, once.
	for _, view := range []string{"db", "vec", "redis", "page"} {
		p.add(p.swept(view, 30, obs(1, present), obs(2, absent), obs(3, present)))
	}
	after := map[memory.Kind]int{memory.Lost: 1, memory.Kept: 2, memory.Indeterminate: 2}
	back := map[memory.Defect]int{memory.Resurfaced: 1}
	check("back", 31, after, back)

	// And retirement takes nothing away but the histories.
	verdicts := func(at float64) map[memory.ID]memory.Verdict {
		all := map[memory.ID]memory.Verdict{}
		for id, v := range p.book.All(p.at(at)) {
			v.Open, v.Missing, v.Found, v.Because = false, nil, nil, "" // which a retired one needs no more
			all[id] = v
		}
		return all
	}
	before := verdicts(31)
	p.add(fact.Retired{Memories: memory.Set{{First: 1, Last: 4}}, At: p.at(31)})
	check("retired", 32, after, back)
	if _, ok := p.book.History(1); ok {
		t.Error("the history of a retired memory is still there")
	}
	if diff := cmp.Diff(before, verdicts(32)); diff != "" {
		t.Errorf("after retirement (-before +after):\n%s", diff)
	}
	p.add(fact.Retired{Memories: memory.Set{{First: 1, Last: 5}}, At: p.at(33)})
	check("all retired", 34, after, back)
	if n := len(p.book.live) + len(p.book.ctx.users) + len(p.book.retired.wrong); n != 2 {
		t.Errorf("%d things are kept of memories that are retired, want the two that were lost", n)
	}
}

func TestRetiredUnverifiedIsReleased(t *testing.T) {
	p := newTape(stack()...)
	p.tell(1, 1)
	p.read("db", present, 3)
	p.add(fact.Retired{Memories: memory.SetOf(1), At: p.at(4)})
	if v := p.verdict(t); v.Kind != memory.Released || v.Open {
		t.Errorf("%s, open %v: nothing is asked of it any more", v.Kind, v.Open)
	}
}

func TestOpen(t *testing.T) {
	p := newTape(stack()...)
	p.tell(1, 1)
	p.tell(2, 1)
	for _, view := range []string{"db", "redis", "page"} {
		p.add(p.swept(view, 3, obs(1, present), obs(2, present)))
	}
	p.add(p.swept("vec", 3, obs(1, present), obs(2, absent)))
	want := map[string][]memory.ID{"vec": {2}}
	if diff := cmp.Diff(want, p.book.Open(p.at(4))); diff != "" {
		t.Errorf("all (-want +got):\n%s", diff)
	}
	if open := p.book.Open(p.at(4), 1); len(open) > 0 {
		t.Errorf("m1 is complete: %v", open)
	}
	p.add(p.swept("vec", 5, obs(2, present)))
	if open := p.book.Open(p.at(6)); len(open) > 0 {
		t.Errorf("all is there: %v", open)
	}
	v, _ := p.book.Verdict(2, p.at(6))
	if v.Kind != memory.Late || v.Lateness != 3100*time.Millisecond {
		t.Errorf("%s after %s, want late after 3.1s", v.Kind, v.Lateness)
	}
	// A deletion is looked at once more after its settle.
	p.forget(1, 6, memory.Acknowledged)
	if diff := cmp.Diff(map[string][]memory.ID{"db": {1}, "vec": {1}, "redis": {1}, "page": {1}}, p.book.Open(p.at(8))); diff != "" {
		t.Errorf("after a deletion (-want +got):\n%s", diff)
	}
	p.all(absent, 18)
	if open := p.book.Open(p.at(19)); len(open) > 0 {
		t.Errorf("the deletion has been looked at: %v", open)
	}
}

func TestExposure(t *testing.T) {
	p := newTape(stack()...)
	p.tell(1, 1)
	p.fault(7, "kill", "app", 2.25, 4)
	p.all(absent, 20, 40)
	v := p.verdict(t)
	if v.Exposure == nil || *v.Exposure != 250*time.Millisecond || v.During {
		t.Errorf("exposure %v, during %v", v.Exposure, v.During)
	}
	if diff := cmp.Diff([]int64{7}, v.Suspects); diff != "" {
		t.Errorf("suspects (-want +got):\n%s", diff)
	}
	const want = "The user saw it acknowledged (settled), and it is gone from db, vec and page; kill of app came 250ms after the acknowledgement; nobody was told."
	if v.Because != want {
		t.Errorf("because\n %s\nwant\n %s", v.Because, want)
	}
}

// An earlier daemon's writes in flight are unknown when the next one opens the ledger, and can be observed.
func TestAbandoned(t *testing.T) {
	p := newTape(stack()...)
	p.begin(1, 1)
	p.read("page", present, 2)
	if h, _ := p.book.History(1); h.acknowledged() {
		t.Error("a write in flight was taken for observed")
	}
	p.add(fact.Run{ID: "second", At: p.at(10)})
	p.read("page", present, 11)
	h, _ := p.book.History(1)
	if h.Outcome != memory.Unknown || h.Ack.Level != memory.LevelObserved {
		t.Errorf("outcome %s, level %s", h.Outcome, h.Ack.Level)
	}
}

// A soak reads the same for weeks; what is kept of a memory does not grow with it.
func TestConstantMemory(t *testing.T) {
	p := newTape(stack()...)
	p.tell(1, 1)
	for i := range 1000 {
		s := present
		if i%2 == 0 {
			s = unreadable
		}
		p.all(s, float64(10+i))
	}
	h, _ := p.book.History(1)
	for _, v := range h.Views {
		if n := len(v.Runs); n > storyMost {
			t.Errorf("%d runs of %s", n, v.Name)
		}
	}
	// Users, faults and deaths that no live memory needs are let go.
	for i := range 100 {
		at := float64(2000 + 10*i)
		p.fault(int64(i+1), "kill", "app", at+1, at+2)
		p.add(fact.Death{Service: "db", Instance: fact.Instance{ID: fmt.Sprint(i)}, NotBefore: p.at(at), At: p.at(at), Healthy: p.at(at + 1)})
		p.tell(memory.ID(i+2), at+5)
		p.add(fact.Retired{Memories: memory.SetOf(memory.ID(i + 1)), At: p.at(at + 8)})
	}
	c := p.book.Context()
	if n := len(c.struck) + len(c.faults) + len(c.deaths) + len(c.users["ann"].writes) + len(p.book.live); n > 10 {
		t.Errorf("%d injections, %d faults, %d deaths, %d writes, %d memories are kept", len(c.struck), len(c.faults), len(c.deaths), len(c.users["ann"].writes), len(p.book.live))
	}
}

func BenchmarkJudge(b *testing.B) {
	p := newTape(stack()...)
	const n = 10_000
	var rows []memory.Observation
	for id := memory.ID(1); id <= n; id++ {
		p.tell(id, 1)
		rows = append(rows, obs(id, present))
	}
	p.fault(1, "kill", "app", 3, 4)
	for _, view := range []string{"db", "vec", "redis", "page"} {
		p.add(p.swept(view, 6, rows...))
	}
	now := p.at(7)
	var hs []*History
	for id := memory.ID(1); id <= n; id++ {
		h, _ := p.book.History(id)
		hs = append(hs, h)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if v := Judge(hs[i%n], p.book.Context(), now); v.Kind != memory.Kept {
			b.Fatal(v)
		}
	}
}

func BenchmarkSweep(b *testing.B) {
	p := newTape(stack()...)
	const n = 10_000
	var rows []memory.Observation
	for id := memory.ID(1); id <= n; id++ {
		p.tell(id, 1)
		rows = append(rows, obs(id, present))
	}
	for _, view := range []string{"db", "vec", "redis", "page"} {
		p.add(p.swept(view, 6, rows...))
	}
	f := p.swept("db", 7)
	f.Read = memory.Set{{First: 1, Last: n}}
	b.ReportAllocs()
	for b.Loop() {
		p.add(f)
	}
}

// A store's absence of before and another one's presence of after it are of different times: a memory that came to both
// late is not torn in between, and one that came to one of them alone is torn once the other was read again.
func TestAMemoryThatComesLateIsNotTorn(t *testing.T) {
	for _, c := range []struct {
		vec  memory.State
		kind memory.Kind
	}{{present, memory.Kept}, {absent, memory.Torn}} {
		p := newTape(store("db"), store("vec"), look("page"))
		p.tell(1, 1)
		for _, at := range []float64{13, 14} {
			p.read("db", absent, at)
			p.read("vec", absent, at)
			p.read("page", present, at)
		}
		if v, _ := p.book.Verdict(1, p.at(14.5)); v.Kind != memory.Volatile {
			t.Fatalf("before it comes: %s, want volatile", v.Kind)
		}
		p.read("db", present, 15)
		v, _ := p.book.Verdict(1, p.at(15.5))
		if v.Kind != memory.Unverified {
			t.Errorf("when it has come to one store: %s, want unverified", v.Kind)
		}
		if open := p.book.Open(p.at(15.5)); len(open["vec"]) != 1 {
			t.Errorf("the other store is not asked again: %v", open)
		}
		p.read("vec", c.vec, 15.6)
		if v, _ := p.book.Verdict(1, p.at(16)); v.Kind != c.kind {
			t.Errorf("when the other store was read again (%s): %s (%s), want %s", c.vec, v.Kind, v.Because, c.kind)
		}
		if n := p.book.Totals(p.at(16)).Losses[memory.Silent]; (n > 0) != (c.kind == memory.Torn) {
			t.Errorf("%d losses are counted", n)
		}
	}
}

// A write that a fault took renewed nothing that would still be there: what was restored without it does not go early.
func TestALostWriteRenewsNothing(t *testing.T) {
	for _, faulty := range []bool{true, false} {
		k := store("redis")
		k.TTL, k.Slack, k.TTLFrom = 60*time.Second, time.Second, memory.TTLFromLastWrite
		p := newTape(k)
		p.tell(1, 1)
		p.tell(2, 20)
		at := 40.
		if faulty {
			p.fault(1, "kill", "redis", 32, 33)
		}
		left := obs(1, present)
		left.TTL = 22_000 // of the first write alone
		p.add(p.swept("redis", at, left, obs(2, absent)))
		p.add(p.swept("redis", at+10, obs(2, absent)))
		v, _ := p.book.Verdict(1, p.at(at+11))
		if early := slices.Contains(v.Defects, memory.ExpiredEarly); early == faulty {
			t.Errorf("with a fault %v: %s %v", faulty, v.Kind, v.Defects)
		}
	}
}

// What a closed cycle came to stays the same when its gates and injections are let go of.
func TestClosedCyclesStayAsTheyWere(t *testing.T) {
	p := newTape(stack()...)
	close := func(n int, at float64) {
		r := p.book.Cycle(n, p.at(at))
		p.add(fact.Cycle{N: n, Phase: fact.PhaseClosed, Outcome: r.Outcome, At: p.at(at)})
	}
	var was []CycleResult
	for n, c := range []struct{ healthy, fires, proven bool }{{false, false, false}, {true, false, false}, {true, true, false}, {true, true, true}} {
		n, at := n+1, float64(100*n)
		p.cycle = n
		p.phase(n, false, fact.PhaseTraffic, at+1)
		p.gate(n, at+2, c.healthy)
		p.tellIn(n, memory.ID(n), at+3)
		end := 0.
		if c.proven {
			end = at + 6
		}
		if c.fires {
			p.fault(int64(n), "kill", "app", at+5, end)
		}
		for _, view := range []string{"db", "vec", "redis", "page"} {
			p.add(p.swept(view, at+20, obs(memory.ID(n), present)))
		}
		p.phase(n, false, fact.PhaseSettle, at+30)
		close(n, at+40)
		was = append(was, p.book.Cycle(n, p.at(at+41)))
	}
	p.phase(5, false, fact.PhaseTraffic, 500)
	p.tellIn(5, 5, 501)
	p.add(fact.Retired{Memories: memory.SetOf(1, 2, 3, 4), At: p.at(510)})
	reasons := map[string]bool{}
	for n, want := range was {
		if got := p.book.Cycle(n+1, p.at(520)); got != want {
			t.Errorf("cycle %d was %+v and is %+v", n+1, want, got)
		}
		cy := p.book.cycles[n+1]
		if cy.before != nil || cy.after != nil || cy.injections != nil {
			t.Errorf("cycle %d keeps %+v", n+1, cy)
		}
		reasons[want.Reason] = true
	}
	if len(reasons) != 4 {
		t.Errorf("the reasons are not four: %v", reasons)
	}
}

// TestDue: what a sweep must read, view by view.
func TestDue(t *testing.T) {
	t.Parallel()
	expiring := cache("redis")
	expiring.TTL, expiring.TTLFrom = 100*time.Second, memory.TTLFromWrite
	last := store("vec")
	last.KeepLast, last.KeepUnit = 1, "memory"
	everywhere := []string{"db", "page", "redis", "vec"}
	for _, c := range []struct {
		name string
		ks   []memory.Contract
		tape func(*tape)
		want []string // views in which m1 is due

		unknown bool // nothing was confirmed: nothing can be open
	}{
		{"never read", nil, func(p *tape) {}, everywhere, false},
		{"read, and nothing happened", nil, func(p *tape) { p.all(present, 3) }, nil, false},
		{"known to be lost", nil, func(p *tape) { p.all(absent, 20, 40) }, nil, false},
		{"a fault on one store", nil, func(p *tape) {
			p.all(present, 3)
			p.fault(1, "kill", "db", 5, 6)
		}, everywhere, false},
		{"a fault on the application", nil, func(p *tape) {
			p.all(present, 3)
			p.fault(1, "kill", "app", 5, 6)
		}, everywhere, false},
		{"a fault that is not over", nil, func(p *tape) {
			p.fault(1, "kill", "db", 2, 0)
			p.all(present, 3)
		}, everywhere, false},
		{"a death that nobody planned", nil, func(p *tape) {
			p.all(present, 3)
			p.add(fact.Death{Service: "db", Cause: "oom", NotBefore: p.at(4), At: p.at(4), Healthy: p.at(5)})
		}, everywhere, false},
		{"a service that nobody brought back", nil, func(p *tape) {
			p.add(fact.Death{Service: "worker", Cause: "oom", NotBefore: p.at(2.5), At: p.at(2.5)})
			p.all(present, 3)
		}, everywhere, false},
		{"a view that could not be read", nil, func(p *tape) {
			p.all(present, 3)
			p.read("vec", memory.Unreadable, 5)
		}, []string{"vec"}, false},
		{"an absence that is not confirmed", nil, func(p *tape) {
			p.all(present, 3)
			p.read("vec", absent, 20)
		}, []string{"vec"}, false},
		{"a loss that the other views have not confirmed", nil, func(p *tape) {
			p.all(present, 3)
			p.fault(1, "wipe", "db", 5, 6)
			p.read("db", absent, 20, 40)
		}, []string{"page", "redis", "vec"}, false},
		{"a record that will expire", []memory.Contract{store("db"), expiring, look("page")}, func(p *tape) {
			for _, view := range []string{"db", "redis", "page"} {
				p.read(view, present, 3)
			}
		}, []string{"redis"}, false},
		{"a record that has expired and gone", []memory.Contract{store("db"), expiring, look("page")}, func(p *tape) {
			for _, view := range []string{"db", "redis", "page"} {
				p.read(view, present, 3)
			}
			p.read("redis", absent, 200)
		}, nil, false},
		{"a record that will be trimmed", []memory.Contract{store("db"), last, look("page")}, func(p *tape) {
			for _, view := range []string{"db", "vec", "page"} {
				p.read(view, present, 3)
			}
		}, []string{"vec"}, false},
		{"a deletion that has not been looked at", nil, func(p *tape) {
			p.all(present, 3)
			p.forget(1, 5, memory.Acknowledged)
		}, everywhere, false},
		{"never confirmed, and never read", nil, func(*tape) {}, everywhere, true},
		{"never confirmed, and a fault on one store", nil, func(p *tape) {
			p.all(absent, 3)
			p.fault(1, "kill", "db", 5, 6)
		}, everywhere, true},
		{"never confirmed, and a fault that is not over", nil, func(p *tape) {
			p.fault(1, "kill", "db", 2, 0)
			p.all(absent, 3)
		}, everywhere, true},
		{"never confirmed, and a service that nobody brought back", nil, func(p *tape) {
			p.add(fact.Death{Service: "worker", Cause: "oom", NotBefore: p.at(2.5), At: p.at(2.5)})
			p.all(absent, 3)
		}, everywhere, true},
		{"never confirmed, and a view that could not be read", nil, func(p *tape) {
			p.all(absent, 3)
			p.read("vec", memory.Unreadable, 5)
		}, []string{"vec"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			ks := c.ks
			if ks == nil {
				ks = stack()
			}
			p := newTape(ks...)
			if c.unknown {
				p.begin(1, 1)
				p.settle(1, memory.Unknown, 2)
			} else {
				p.tell(1, 1)
			}
			c.tape(p)
			var got []string
			for view, ids := range p.book.Due(p.at(p.end + 0.1)) {
				if slices.Equal(ids, []memory.ID{1}) {
					got = append(got, view)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, c.want) {
				t.Errorf("due in %q, want %q", got, c.want)
			}
		})
	}
}
