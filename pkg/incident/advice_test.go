package incident

import (
	"strings"
	"testing"

	"amnesia/chaos"
	"amnesia/pkg/discover"
	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

// TestAGuessGivesWayToAFinding: where a service is found to lose what it has confirmed, that is no fault of who acknowledged.
func TestAGuessGivesWayToAFinding(t *testing.T) {
	f := frozen()
	for _, explains := range []bool{false, true} {
		f.Services[0].Explains = explains
		s, err := Tell(t.Context(), append(lost(), f), "m1")
		if err != nil {
			t.Fatal(err)
		}
		all := strings.Join(s.Advice, "\n")
		if guess := strings.Contains(all, "acknowledged before it was safe"); guess == explains || !strings.Contains(all, "its data lies in memory") {
			t.Errorf("a finding that explains it: %v; the advice is %q", explains, s.Advice)
		}
	}
	for fault, stays := range map[string]bool{"wipe": true, memory.FaultForeign: true, "kill": false, "crash_all": false} {
		v := memory.Verdict{Kind: memory.Lost, Fault: fault, Service: "redis", Missing: []string{"redis"}}
		if got := advice(v, true); (len(got) == 1) != stays {
			t.Errorf("%s, explained: %q", fault, got)
		}
	}
}

// TestWhatExplainsALoss: a finding that the very fault that hit the service loses what is in it, and no warning.
func TestWhatExplainsALoss(t *testing.T) {
	loses := discover.Finding{Severity: discover.Loses, Service: "redis", Faults: []string{chaos.Kill}}
	with := func(change func(*discover.Finding)) discover.Finding { d := loses; change(&d); return d }
	hit := &finding{suspects: []*injection{{plan: chaos.Injection{Kind: chaos.Kill, Service: "redis"}}}}
	beside := &finding{suspects: []*injection{{plan: chaos.Injection{Kind: chaos.Kill, Service: "app"}}}}
	for _, c := range []struct {
		d    discover.Finding
		f    *finding
		want bool
	}{
		{loses, hit, true}, {loses, beside, false}, {loses, &finding{}, false},
		{with(func(d *discover.Finding) { d.Severity = discover.Warning }), hit, false},
		{with(func(d *discover.Finding) { d.Faults = []string{discover.NoFault} }), hit, false},
		{with(func(d *discover.Finding) { d.Service = "db" }), hit, false},
	} {
		if _, got := sentences([]discover.Finding{c.d}, fact.ServiceState{Service: "redis"}, c.f); got != c.want {
			t.Errorf("%+v explains it: %v, want %v", c.d, got, c.want)
		}
	}
}

func TestWhoseDoing(t *testing.T) {
	for want, e := range map[string]fact.ServiceEvent{"by us": {Kind: "start", Ours: true}, "not by us": {Kind: "die"}, "": {Kind: "healthy"}} {
		if got := By(e); got != want {
			t.Errorf("%+v is %q", e, got)
		}
	}
	if got := By(fact.ServiceEvent{Kind: "oom"}); got != "" {
		t.Errorf("want of memory is %q", got)
	}
}
