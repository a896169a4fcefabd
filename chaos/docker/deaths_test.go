package docker

import (
	"testing"
	"time"

	"amnesia/pkg/fact"
)

func TestAStartIsOursForEveryFollowerAndHoweverLate(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	life := func(n int) fact.Instance {
		return fact.Instance{ID: "c", Started: start.Add(time.Duration(n) * time.Second).Format(time.RFC3339Nano)}
	}
	at := func(n int) time.Time { return start.Add(time.Duration(n)*time.Second + time.Millisecond) }
	d := newDeaths()
	d.seen(life(0)) // somebody else's
	d.asked(life(0))
	d.starting("c")
	d.seen(life(0)) // a look before it has started
	d.seen(life(1))
	d.settled("c")
	d.seen(life(2)) // by the restart policy, before the event of ours came
	d.starting("c")
	d.settled("c") // it was running already
	d.seen(life(3))
	for follower := range 2 {
		for n, want := range []bool{false, true, false, false} {
			who, ours, _ := d.at("c", at(n))
			if who != life(n) || ours != want {
				t.Errorf("follower %d, start %d: %v, ours %v; want ours %v", follower, n, who, ours, want)
			}
		}
	}
	if _, _, ended := d.at("c", at(0)); !ended {
		t.Error("a death that we asked for is not ours")
	}
}
