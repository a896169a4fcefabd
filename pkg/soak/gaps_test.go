package soak

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"amnesia/chaos"
	system "amnesia/pkg/clock"
	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

// set is a clock that a test sets.
type set struct{ memory.Instant }

func (s *set) Now() memory.Instant { return s.Instant }

// waits is a clock one of whose readings comes late, as on a busy machine.
type waits struct {
	set
	once bool
}

func (w *waits) Now() memory.Instant {
	if w.once {
		w.once = false
		late := w.Instant
		late.Mono += int64(time.Minute)
		return late
	}
	return w.Instant
}

func TestClocksThatMoveApart(t *testing.T) {
	const second = int64(time.Second)
	for name, c := range map[string]struct {
		mono, wall, awake int64 // in the second between two looks
		want              bool
	}{
		"all well":           {second, second, second, false},
		"slewed":             {second, second + second/2000, second, false},
		"set forward":        {second, 3601 * second, second, true},
		"set back":           {second, -10 * second, second, true},
		"slept":              {61 * second, 61 * second, second, true},
		"a late tick":        {30 * second, 30 * second, 30 * second, false},
		"late and set right": {30 * second, 32 * second, 30 * second, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &set{memory.Instant{Mono: 5 * second, Wall: 1000 * second, Boot: "b"}}
			up := time.Duration(0)
			w := gaps{clock: s, awake: func() time.Duration { return up }, dropped: func() int64 { return 0 }}
			if found := w.look(); len(found) > 0 {
				t.Fatalf("the first look found %v", found)
			}
			before := s.Instant
			s.Mono, s.Wall, up = s.Mono+c.mono, s.Wall+c.wall, up+time.Duration(c.awake)
			found := w.look()
			if (len(found) > 0) != c.want {
				t.Fatalf("found %v", found)
			}
			if c.want && found[0] != (fact.Gap{Of: "clock", From: before, To: s.Instant}) {
				t.Errorf("found %+v", found[0])
			}
			s.Mono, s.Wall, up = s.Mono+second, s.Wall+second, up+time.Second
			if again := w.look(); len(again) > 0 {
				t.Errorf("found it again: %v", again)
			}
		})
	}
	late := &waits{set: set{memory.Instant{Mono: second, Wall: second}}}
	w := gaps{clock: late, awake: func() time.Duration { return 0 }, dropped: func() int64 { return 0 }}
	w.look()
	late.once = true
	if found := w.look(); len(found) > 0 {
		t.Errorf("a reading that came late is a jump: %v", found)
	}
}

func TestLostLinesAreCountedOnce(t *testing.T) {
	s := &set{memory.Instant{Mono: 1, Wall: 1}}
	up, lost := time.Duration(0), int64(0)
	w := gaps{clock: s, awake: func() time.Duration { return up }, dropped: func() int64 { return lost }}
	w.look()
	var total int64
	var gaps int
	pass := func(more int64) {
		s.Instant, up, lost = s.Add(time.Second), up+time.Second, lost+more
		for _, f := range w.look() {
			total, gaps = total+f.(fact.Gap).Lost, gaps+1
		}
	}
	for range 25 {
		pass(10)
	}
	if gaps != 2 {
		t.Errorf("%d gaps in 25 seconds of loss, want one in ten", gaps)
	}
	pass(0)
	pass(0)
	if total != 250 || gaps != 3 {
		t.Errorf("%d lines in %d gaps", total, gaps)
	}
	pass(5)
	for _, f := range w.flush() {
		total += f.(fact.Gap).Lost
	}
	if total != 255 || len(w.flush()) > 0 {
		t.Errorf("%d lines at the end", total)
	}
}

// stuck is a ledger that does not answer until it is let go.
type stuck struct {
	*record
	free chan struct{}
}

func (s *stuck) Append(ctx context.Context, facts ...fact.Fact) error {
	<-s.free
	return s.record.Append(ctx, facts...)
}

// Lines that come faster than they can be recorded hold nobody up: they are dropped, and counted.
func TestAFloodOfLinesBlocksNobody(t *testing.T) {
	ledger := &stuck{&record{docket: NewDocket()}, make(chan struct{})}
	l := &Loop{Ledger: ledger, Clock: system.System(), Log: zap.NewNop(), tokens: map[string]memory.ID{"amnabc1": 7}}
	lines := make(chan chaos.Line)
	var following sync.WaitGroup
	following.Go(func() { l.followLogs(t.Context(), lines) })
	const flood = 50_000
	at := time.Unix(1_000_000, 0)
	for n := range flood { // it would hang here
		line := chaos.Line{Service: "app", At: at.Add(time.Duration(n) * 100 * time.Microsecond), Text: fmt.Sprint("a line of noise ", n)}
		switch n % 10 {
		case 0:
			line.Text = "ERROR " + line.Text
		case 1:
			line.Text = "saved amnabc1 " + line.Text
		}
		lines <- line
	}
	close(ledger.free)
	close(lines)
	following.Wait()
	kept, errs := 0, 0
	for _, f := range ledger.facts {
		if f.(fact.Log).Memory == 7 {
			kept++
		} else {
			errs++
		}
	}
	// Five seconds' worth by their stamps: of 5,000 lines of ours and as many errors, so many may be kept.
	if most := 5 * (tokensPerSecond + errorsPerSecond); kept+errs < linesWaiting || kept+errs > most || errs > 5*errorsPerSecond {
		t.Errorf("%d lines of ours are kept, and %d errors", kept, errs)
	}
	if lost := int(l.unkept.Load()); lost+kept+errs != flood/10+5*errorsPerSecond {
		t.Errorf("%d lines are counted as lost, %d of ours were kept, and %d errors", lost, kept, errs)
	}
}
