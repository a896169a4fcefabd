package zoo_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"amnesia/chaos"
	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
	"amnesia/pkg/report"
	"amnesia/pkg/zoo"
)

// soak runs a case once and gives what its ledger says.
func soak(t *testing.T, z *zoo.Zoo, c zoo.Case, seed uint64, within time.Duration) (zoo.Soaked, report.Summary) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	j, err := z.Soak(ctx, c, seed)
	if err != nil {
		t.Fatalf("%s, seed %d: %v; %s", c.Name, seed, err, j.Ledger)
	}
	for _, f := range j.Trouble {
		t.Fatalf("%s, seed %d: the run tells nothing: %+v; %s", c.Name, seed, f, j.Ledger)
	}
	return j, report.Summarize(j.Book, j.Now)
}

// TestWindow holds the window that is found, after at most 60 injections, to what the target is known to have: its queue
// is drained every 250 ms. Where the machine is too busy for that, the truth log says how long writes took instead, and how
// late their confirmations were seen: by so much the window that a user can see is shorter. It runs alone, so that the
// target keeps its time.
func TestWindow(t *testing.T) {
	const most, within = 60, 0.2
	z, c := bench(t), zoo.Window()
	// A right interval misses one time in 20: only a second miss is a mistake.
	for seed := uint64(1); ; seed++ {
		j, s := soak(t, z, c, seed, 4*time.Minute)
		curves := j.Book.Curves(j.Now)
		if len(curves) != 1 || len(s.Faults) != 1 || s.Faults[0].Injected > most || s.Faults[0].Injected < most*3/4 {
			t.Fatalf("seed %d: %d curves; faults %+v; want one of at most %d", seed, len(curves), s.Faults, most)
		}
		w, shortest, longest := curves[0].Window(), c.Drain-j.Lag, max(c.Drain, j.Unsaved)
		line := fmt.Sprintf("window, seed %d: a queue drained every %v (the longest wait was %v, and 9 of 10 confirmations were seen within %v); after %d injections and %d memories it is %v (95 %%: %v to %v); %.0fs",
			seed, c.Drain, j.Unsaved.Round(time.Millisecond), ms(j.Lag), s.Faults[0].Injected, len(curves[0].Trials), ms(w.At), ms(w.Low), ms(w.High), j.Took.Seconds())
		if t.Log(line); *whole {
			fmt.Println(line)
		}
		if float64(w.At) < (1-within)*float64(shortest) || float64(w.At) > (1+within)*float64(longest) {
			t.Errorf("seed %d: the window is %v, want %v to %v within %.0f %%", seed, w.At, shortest, longest, 100*within)
		}
		switch inside := w.Low <= longest && shortest <= w.High; {
		case inside || t.Failed():
			return
		case seed == 2:
			t.Errorf("%v to %v has nothing of %v to %v, for the second time", w.Low, w.High, shortest, longest)
			return
		}
	}
}

func ms(d time.Duration) time.Duration { return d.Round(time.Millisecond / 10) }

// TestEndurance holds that whatever strikes a healthy target, however often, nothing is said to be wrong with it.
func TestEndurance(t *testing.T) {
	if !*whole {
		t.Skip("part of the long form: make zoo")
	}
	t.Parallel()
	const least = 500
	j, s := soak(t, bench(t), zoo.Endurance(), 1, 14*time.Minute)
	injected, kinds := 0, []string{}
	for _, f := range s.Faults {
		injected += f.Injected
		kinds = append(kinds, fmt.Sprintf("%s %d (%d unknown)", f.Kind, f.Injected, j.Unknown[f.Kind]))
	}
	for _, kind := range []string{chaos.Kill, chaos.Restart, chaos.Pause, chaos.Recreate, chaos.Wipe, chaos.CrashAll} {
		if j.Unknown[kind] == 0 {
			t.Errorf("no write is unknown in a cycle with a %s", kind)
		}
	}
	lost, wrong := 0, 0
	for _, class := range memory.Classes {
		lost += s.Losses[class]
	}
	for _, d := range memory.Defects {
		wrong += s.Defects[d]
	}
	fmt.Printf("endurance, seed 1: %d injections on a healthy target: %s; %d cycles clean, %d inconclusive, %d unrecovered; %d writes acknowledged, %d rejected, %d unknown; %d losses, %d defects; %.0fs\n",
		injected, strings.Join(kinds, ", "), s.Cycles.Clean, s.Cycles.Inconclusive, s.Cycles.Unrecovered,
		s.Writes.Acknowledged, s.Writes.Rejected, s.Writes.Unknown, lost, wrong, j.Took.Seconds())
	if injected < least || lost > 0 || wrong > 0 || s.Cycles.Unrecovered > 0 || s.Outcome != fact.CycleClean && s.Outcome != fact.CycleInconclusive {
		t.Errorf("want at least %d injections, no loss, no defect and every recovery; found %+v", least, s.Found)
	}
}
