//go:build unix

package app

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"amnesia/chaos"
	"amnesia/pkg/fact"
	"amnesia/pkg/ledger"
	"amnesia/pkg/memory"
	"amnesia/pkg/oracle"
)

// lives is a target on which one daemon after another runs, on the same ledger.
type lives struct {
	dir, config, ledger, web string
	last                     map[string]float64 // counters, as they were seen last
	compared                 int
}

func newLives(t *testing.T, bugs string) *lives {
	t.Helper()
	l := &lives{dir: t.TempDir()}
	l.config, l.ledger = filepath.Join(l.dir, "amnesia.yaml"), filepath.Join(l.dir, "amnesia.db")
	v := demoVars{Driver: "http", Dir: l.dir, Bugs: bugs, Ledger: l.ledger}
	var err error
	if v.Self, err = os.Executable(); err != nil {
		t.Fatal(err)
	}
	for _, addr := range []*string{&v.Addr, &l.web} {
		if *addr, err = freeAddress(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	text, err := v.Config()
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte(`web: {listen: "127.0.0.1:0"}`), []byte("web: {listen: "+strconv.Quote(l.web)+"}"), 1)
	text = bytes.Replace(text, []byte("memories: 10"), []byte("memories: 4"), 1)
	// A late write is not to be later than it may be, however busy the machine is.
	text = bytes.ReplaceAll(text, []byte("settle: 500ms"), []byte("settle: 1500ms"))
	if err := os.WriteFile(l.config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return l
}

// rewrite puts new in the place of old, which the configuration must have.
func (l *lives) rewrite(t *testing.T, old, new string) {
	t.Helper()
	text, err := os.ReadFile(l.config)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(text, []byte(old)) {
		t.Fatalf("the configuration has no %s", old)
	}
	if err := os.WriteFile(l.config, bytes.ReplaceAll(text, []byte(old), []byte(new)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// losing has every fault kill the app right after its word, and the app so slow to keep it that also what a busy machine
// shows late is lost.
func (l *lives) losing(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(l.config)
	if err != nil {
		t.Fatal(err)
	}
	_, faults, _ := strings.Cut(string(text), "faults:")
	faults, _, _ = strings.Cut(faults, "limits:")
	l.rewrite(t, faults, " [{kind: kill, service: app, after: acknowledged, delay: 0ms..20ms}]\n")
	l.rewrite(t, "CHATAPP_DRAIN: 250ms", "CHATAPP_DRAIN: 1500ms")
	l.rewrite(t, "settle: 1500ms", "settle: 3s")
}

// live lets a daemon run until it has killed itself, or has closed its cycles.
func (l *lives) live(t *testing.T, seed uint64, cycles int, dieAt string, after time.Duration) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, self)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Env = append(os.Environ(), configKey+"="+l.config, cyclesKey+"="+strconv.Itoa(cycles), seedKey+"="+strconv.FormatUint(seed, 10),
		dieAtKey+"="+dieAt, dieIn+"="+after.String())
	cmd.WaitDelay = time.Second // the services that it leaves to its guardian have the pipe too
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var scraping sync.WaitGroup
	scraping.Go(func() { l.scrape(t, done) })
	err = cmd.Wait()
	close(done)
	scraping.Wait()
	killed := cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL && ctx.Err() == nil
	if dieAt == "" && err != nil || dieAt != "" && !killed {
		t.Fatalf("the daemon that was to die at %q after %s ended with %v:\n%s", dieAt, after, err, out.String())
	}
}

// scrape holds the counters to what they were, over all lives.
func (l *lives) scrape(t *testing.T, done <-chan struct{}) {
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	first := true
	for {
		if resp, err := client.Get("http://" + l.web + "/metrics"); err == nil {
			seen, complete := counters(resp)
			if complete {
				for name, was := range l.last {
					if is := seen[name]; is < was {
						t.Errorf("%s went back from %g to %g", name, was, is)
					}
				}
				if first && l.last != nil {
					l.compared++
				}
				first, l.last = false, seen
			}
		}
		select {
		case <-done:
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// counters reads those that tell of the soak; those that tell of the process begin anew with it, as Prometheus expects.
func counters(resp *http.Response) (seen map[string]float64, complete bool) {
	defer resp.Body.Close()
	seen = map[string]float64{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		i := strings.LastIndexByte(lines.Text(), ' ')
		if i < 0 || !strings.HasPrefix(lines.Text(), "amnesia_") {
			continue
		}
		name, value := lines.Text()[:i], lines.Text()[i+1:]
		family, _, _ := strings.Cut(name, "{")
		if !strings.HasSuffix(family, "_total") && !strings.HasSuffix(family, "_count") && !strings.HasSuffix(family, "_bucket") ||
			strings.HasPrefix(family, "amnesia_ledger_") || strings.HasPrefix(family, "amnesia_oracle_") || strings.HasPrefix(family, "amnesia_engine_") || strings.HasPrefix(family, "amnesia_evidence_") {
			continue
		}
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			seen[name] = n
		}
	}
	return seen, lines.Err() == nil && resp.StatusCode == http.StatusOK && len(seen) > 0
}

// TestALaterDaemonGoesOn: daemons die by SIGKILL at drawn points, some of them while a fault is firing. The next one sees
// the open cycle through before it begins another, sweeps the memories of all before it, and what it says of a memory is
// what the target's database holds.
func TestALaterDaemonGoesOn(t *testing.T) {
	for _, bugs := range []string{"", "ack-early"} {
		t.Run("bugs="+bugs, func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64N(1_000_000)
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 0))
			l := newLives(t, bugs)
			for life := range uint64(3) {
				after := time.Duration(rng.Int64N(int64(300 * time.Millisecond)))
				at := "firing"
				switch {
				case life == 1: // in a control, so that nothing but the death can take what is lost
					at, after = "acknowledged", 0
				case life > 1 && rng.IntN(3) > 0:
					at, after = strconv.Itoa(1+rng.IntN(120)), time.Duration(rng.IntN(2))*after
				}
				t.Logf("life %d dies %s after %s", life+1, after, at)
				l.live(t, seed+life, 0, at, after)
			}
			l.live(t, seed+10, 3, "", 0)
			if l.compared == 0 {
				t.Error("no counter was seen in two lives")
			}
			l.check(t, bugs != "")
		})
	}
}

func (l *lives) check(t *testing.T, buggy bool) {
	led, err := ledger.OpenReadOnly(t.Context(), l.ledger)
	if err != nil {
		t.Fatal(err)
	}
	defer led.Close()
	book := oracle.NewBook()
	var now memory.Instant
	var runs []string
	told := map[memory.ID]memory.Memory{}
	plans, settledBy := map[int64]fact.Injection{}, map[int]string{}
	open := map[int]fact.Phase{}
	swept := map[memory.ID]map[string]bool{} // in the last run, by view
	var closed []fact.Cycle
	for e, err := range led.Facts(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		book.Apply(e)
		now = memory.Later(now, fact.At(e.Fact))
		switch f := e.Fact.(type) {
		case fact.Run:
			runs = append(runs, f.ID)
			clear(swept)
		case fact.Begun:
			told[f.Memory.ID] = f.Memory
		case fact.Step:
			if f.Plan != nil {
				plans[f.Injection] = *f.Plan
			}
		case fact.Cycle:
			if _, begun := settledBy[f.N]; f.Phase == fact.PhaseTraffic && (begun || len(open) > 0) {
				t.Errorf("cycle %d begins while open are %v", f.N, open)
			}
			settledBy[f.N] = f.Run
			open[f.N] = f.Phase
			if f.Phase == fact.PhaseClosed {
				delete(open, f.N)
				closed = append(closed, f)
			}
		case fact.Sweep:
			for id := range told {
				if f.Complete && f.Read.Has(id) {
					if swept[id] == nil {
						swept[id] = map[string]bool{}
					}
					swept[id][f.View] = true
				}
			}
		}
	}
	if len(open) > 0 || len(closed) != closed[len(closed)-1].N {
		t.Errorf("open at the end are %v, closed %d", open, len(closed))
	}
	restarts := 0
	for _, p := range plans {
		if p.Kind == chaos.DaemonRestart {
			restarts++
		}
	}
	if restarts < len(runs)-1 {
		t.Errorf("%d runs, and %d times their services had ended with the one before", len(runs), restarts)
	}
	if left, err := led.Unsettled(t.Context()); err != nil || len(left) > 0 {
		t.Errorf("unsettled are %v, %v", left, err)
	}
	if left, err := led.OpenInjections(t.Context()); err != nil || len(left) > 0 {
		t.Errorf("open injections are %v, %v", left, err)
	}
	for _, c := range closed[len(closed)-3:] {
		if c.Run != runs[len(runs)-1] || c.Outcome == fact.CycleInconclusive || c.Outcome == fact.CycleUnrecovered {
			t.Errorf("cycle %d of the last run is %s: %s", c.N, c.Outcome, c.Reason)
		}
	}
	l.checkMemories(t, book, now, told, plans, swept, runs, buggy)
}

// checkMemories holds the verdicts to the database.
func (l *lives) checkMemories(t *testing.T, book *oracle.Book, now memory.Instant, told map[memory.ID]memory.Memory, plans map[int64]fact.Injection,
	swept map[memory.ID]map[string]bool, runs []string, buggy bool) {
	stored := l.stored(t)
	of := map[string]int{}
	losses := 0
	for id, v := range book.All(now) {
		m := told[id]
		of[m.Run]++
		for _, view := range m.Views {
			if !swept[id][view] {
				t.Errorf("%s of run %s was not read in %s by the last run", id, m.Run, view)
			}
		}
		if len(v.Defects) > 0 {
			t.Errorf("%s: %v", id, v.Defects)
		}
		h, _ := book.History(id)
		if h.Ack.Seen.IsZero() {
			if v.Kind != memory.Indeterminate {
				t.Errorf("%s was not acknowledged and is %s", id, v.Kind)
			}
			continue
		}
		here := strings.Contains(stored, m.Token)
		switch {
		case v.Kind == memory.Unverified:
			t.Errorf("%s is unverified: %s", id, v.Because)
		case v.Kind.Loss() == here:
			t.Errorf("%s is %s (%s), and that the database has it is %v", id, v.Kind, v.Because, here)
		case v.Kind.Loss():
			losses++
			ours := len(v.Suspects) > 0
			for _, s := range v.Suspects {
				ours = ours && plans[s].Kind != ""
				// What the second run told in its control, no fault can have taken but its daemon's end (if that came before the
				// late write), and that of the next, where that one died before it had looked twice.
				if m.Run == runs[1] && plans[s].Kind != chaos.DaemonRestart {
					t.Errorf("%s is laid to %s: %s", id, plans[s].Kind, v.Because)
				}
			}
			if !ours || v.Fault == memory.FaultForeign || v.Fault == memory.FaultNone {
				t.Errorf("%s is laid to %s, suspects %v: %s", id, v.Fault, v.Suspects, v.Because)
			}
		}
	}
	if of[runs[0]] == 0 {
		t.Error("the first run told nothing")
	}
	if buggy != (losses > 0) {
		t.Errorf("%d losses", losses)
	}
	t.Logf("%d memories, %d losses, %v by run", len(told), losses, slices.Sorted(func(yield func(int) bool) {
		for _, n := range of {
			if !yield(n) {
				return
			}
		}
	}))
}

// stored gives all that the database holds.
func (l *lives) stored(t *testing.T) string {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(l.dir, "data", "chat.db")+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), "SELECT content FROM chat_memory")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var all strings.Builder
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&all, text)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all.String()
}
