package zoo_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"amnesia/chaos/process"
	"amnesia/pkg/session/browser"
	"amnesia/pkg/zoo"
)

func TestMain(m *testing.M) {
	process.GuardianMain() // does not return in the guardian that the process engine starts
	flag.Parse()
	// Runs wait far more than they compute.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// eight are the switches that are held to ten seeds; the other cases to three.
var eight = []string{"ack-early", "buffered", "ephemeral-volume", "dual-write-gap", "ui-field", "leak", "local-echo", "slow-index", "healthy"}

// bench builds the sample target, without the race detector, and gives a zoo around it.
func bench(t *testing.T) *zoo.Zoo {
	t.Helper()
	program := filepath.Join(t.TempDir(), "zoo-sample")
	if out, err := exec.Command("go", "build", "-o", program, "amnesia/cmd/chatapp").CombinedOutput(); err != nil {
		t.Fatalf("building the sample target: %v\n%s", err, out)
	}
	dir, err := os.MkdirTemp("", "amnesia-zoo-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("ledgers and truth logs are kept in %s", dir)
		} else if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return &zoo.Zoo{Chatapp: program, Dir: dir, BrowserDir: os.Getenv("AMNESIA_BROWSER_DIR"), Log: zap.NewNop()}
}

// run runs a case with each seed, and adds what came of it to the tally.
func run(t *testing.T, z *zoo.Zoo, c zoo.Case, seeds int, tally *locked) {
	for seed := uint64(1); seed <= uint64(seeds); seed++ {
		t.Run(fmt.Sprintf("%s/%d", strings.ReplaceAll(c.Name, " ", "-"), seed), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			r, err := z.Run(ctx, c, seed)
			var missing *zoo.Missing
			if errors.As(err, &missing) && os.Getenv("CI") != "true" {
				t.Skip(err)
			}
			tally.add(r)
			if err != nil {
				t.Errorf("%s, seed %d: %v; %s", c.Name, seed, err, r.Dir)
			}
			for _, m := range r.Wrong() {
				t.Errorf("%s, seed %d: %s (%s): said %q, right is %q; amnesia why %s --ledger %s",
					c.Name, seed, m.Memory.ID, m.Memory.Token, m.Said, m.Right, m.Memory.ID, r.Ledger())
			}
		})
	}
}

// locked is a tally for several runs at once.
type locked struct {
	mu sync.Mutex
	zoo.Tally
}

func (l *locked) add(r zoo.Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Add(r)
}

// report prints the table when every run is done, and holds precision and recall to 1.
func (l *locked) report(t *testing.T) {
	t.Helper()
	var out strings.Builder
	if err := l.Write(&out); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + out.String())
	if l.Precision() != 1 || l.Recall() != 1 {
		t.Errorf("precision %.3f, recall %.3f", l.Precision(), l.Recall())
	}
	// A bench that takes the daemon at its word compares nothing.
	if l.Raced*20 > l.Memories {
		t.Errorf("the right verdict of %d among %d memories hangs on a race", l.Raced, l.Memories)
	}
}

func TestZoo(t *testing.T) {
	z := bench(t)
	var tally locked
	t.Run("cases", func(t *testing.T) {
		for _, c := range zoo.Cases() {
			seeds := 3
			for _, name := range eight {
				if c.Bugs == name || c.Name == name {
					seeds = 10
				}
			}
			if testing.Short() {
				seeds = min(seeds, 3)
			}
			run(t, z, c, seeds, &tally)
		}
	})
	tally.report(t)
}

// TestBrowser plays local-echo in a real browser, whose storage shows what no store has: only a fresh one tells. Where the
// browser is missing it is skipped, but not in CI.
func TestBrowser(t *testing.T) {
	if _, err := browser.Find(browser.InstallOptions{Dir: os.Getenv("AMNESIA_BROWSER_DIR")}); err != nil && os.Getenv("CI") == "true" {
		t.Fatal(err)
	} else if err != nil {
		t.Skip(err)
	}
	z := bench(t)
	var tally locked
	t.Run("cases", func(t *testing.T) {
		for _, c := range zoo.Cases() {
			if c.Name == "local-echo" {
				c.Name, c.Driver, c.Users, c.Cycles = "local-echo in a browser", "browser", 2, 3
				run(t, z, c, 2, &tally)
			}
		}
	})
	tally.report(t)
}
