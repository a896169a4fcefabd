package incident_test

import (
	"slices"
	"testing"
	"time"

	"amnesia/pkg/fact"
	"amnesia/pkg/incident"
	"amnesia/pkg/memory"
)

func judged(id memory.ID, cycle int, at int64, v memory.Verdict) fact.Entry {
	v.Memory = id
	return fact.Entry{Fact: fact.Judged{Verdict: v, Cycle: cycle, At: memory.Instant{Mono: at, Wall: at, Boot: "b"}}}
}

func TestLossesOfOneFingerprintAreOneIncident(t *testing.T) {
	gone := memory.Verdict{Kind: memory.Lost, Class: memory.Silent, Fault: "kill", Service: "redis", Missing: []string{"redis", "page"}}
	other := gone
	other.Fault = "wipe"
	leaked := memory.Verdict{Kind: memory.Kept, Defects: []memory.Defect{memory.Leaked}}
	permitted := gone
	permitted.Class = memory.Permitted
	observed := gone
	observed.Level = memory.LevelObserved
	l := incident.NewLog([]incident.Known{{Fingerprint: "silent/wipe/redis/page+redis", Until: time.Unix(0, 500), Reason: "ticket 7"}})
	for _, e := range []fact.Entry{
		judged(1, 1, 100, gone),
		judged(2, 1, 110, gone),
		judged(2, 2, 120, gone), // judged again: still the same loss
		judged(3, 2, 130, gone),
		judged(4, 2, 140, other),
		judged(5, 3, 150, leaked),
		judged(6, 3, 160, permitted),
		judged(8, 3, 165, observed),
		judged(7, 3, 170, memory.Verdict{Kind: memory.Kept}),
		{Fact: fact.Frozen{Incident: "silent/kill/redis/page+redis", Cycle: 1}},
	} {
		l.Apply(e)
	}
	all := l.All(memory.Instant{Wall: 400})
	var got []string
	for _, i := range all {
		got = append(got, i.Fingerprint)
	}
	if want := []string{"leaked/-/-/-", "silent/wipe/redis/page+redis", "silent/kill/redis/page+redis"}; !slices.Equal(got, want) {
		t.Fatalf("incidents %q, want %q", got, want)
	}
	i := all[2]
	if i.Found != 3 || i.Cycles != 2 || len(i.Members) != 3 || len(i.Evidence) != 1 || i.First.Wall != 100 || i.Last.Wall != 130 || i.Class != "silent" ||
		i.Fault != "kill" || i.Service != "redis" || !slices.Equal(i.Views, []string{"page", "redis"}) || i.Known != nil {
		t.Errorf("the incident: %+v", i)
	}
	if k := all[1].Known; k == nil || k.Reason != "ticket 7" {
		t.Errorf("the known one is not muted: %+v", k)
	}
	if i, ok := l.Get("silent/wipe/redis/page+redis", memory.Instant{Wall: 500}); !ok || i.Known != nil {
		t.Errorf("muted past its date: %+v", i)
	}
}

func TestALongIncidentKeepsTheFirstAndTheNewest(t *testing.T) {
	l := incident.NewLog(nil)
	for id := memory.ID(1); id <= 1000; id++ {
		exposure := time.Duration((id+500)%1000+1) * time.Millisecond // the extremes are in the middle, which is not kept
		l.Apply(judged(id, int(id), int64(id), memory.Verdict{Kind: memory.Lost, Class: memory.Reported, Fault: "none", Exposure: &exposure}))
		l.Apply(fact.Entry{Fact: fact.Frozen{Incident: "reported/none/-/-", Cycle: int(id)}})
		l.Apply(fact.Entry{Fact: fact.Retired{Memories: memory.SetOf(id)}})
	}
	i, ok := l.Get("reported/none/-/-", memory.Instant{})
	if !ok || i.Found != 1000 || i.Cycles != 1000 || len(i.Members) != 200 {
		t.Fatalf("the incident has %d memories of %d cycles and keeps %d", i.Found, i.Cycles, len(i.Members))
	}
	if !i.Truncated || *i.ExposureMin != time.Millisecond || *i.ExposureMax != time.Second {
		t.Errorf("all of it is kept: %v; %s to %s", !i.Truncated, i.ExposureMin, i.ExposureMax)
	}
	if first, last := i.Members[0].Verdict.Memory, i.Members[199].Verdict.Memory; first != 1 || last != 1000 {
		t.Errorf("it keeps %s to %s", first, last)
	}
	if n := len(i.Evidence); n != 5 || i.Evidence[0].Cycle != 1 || i.Evidence[1].Cycle != 997 || i.Evidence[4].Cycle != 1000 {
		t.Errorf("it keeps the evidence of %d cycles: %+v", n, i.Evidence)
	}
}
