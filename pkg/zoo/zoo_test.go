package zoo_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"amnesia/chaos/process"
	"amnesia/pkg/session/browser"
	"amnesia/pkg/zoo"
)

var (
	whole  = flag.Bool("whole", false, "the long form: ten seeds for each case, 500 faults on a healthy target, and zoo.json at the repository's root")
	record = flag.Bool("record", false, "record a history for each case that has none in testdata")
)

// last is the line that the whole zoo ends with.
var last string

func TestMain(m *testing.M) {
	process.GuardianMain() // does not return in the guardian that the process engine starts
	flag.Parse()
	// Runs wait far more than they compute.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	dir, err := os.MkdirTemp("", "amnesia-zoo-")
	if err != nil {
		panic(err)
	}
	shared = sync.OnceValues(func() (*zoo.Zoo, error) { return build(dir) })
	code := m.Run()
	if code != 0 {
		fmt.Printf("ledgers and truth logs are kept in %s\n", dir)
	} else if err := os.RemoveAll(dir); err != nil {
		panic(err)
	}
	if last != "" && code != 0 {
		last += ", and something failed: see above"
	}
	if last != "" {
		fmt.Println(last)
	}
	os.Exit(code)
}

// shared is the one zoo of all tests: it hands out the ports.
var shared func() (*zoo.Zoo, error)

func bench(t *testing.T) *zoo.Zoo {
	t.Helper()
	z, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// build builds the sample target, without the race detector, and gives a zoo around it.
func build(dir string) (*zoo.Zoo, error) {
	program := filepath.Join(dir, "zoo-sample")
	if out, err := exec.Command("go", "build", "-o", program, "amnesia/cmd/chatapp").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building the sample target: %w\n%s", err, out)
	}
	return &zoo.Zoo{Chatapp: program, Dir: dir, BrowserDir: os.Getenv("AMNESIA_BROWSER_DIR"), Log: zap.NewNop()}, nil
}

// seeds is with how many each case is run.
func seeds(c zoo.Case) uint64 {
	switch {
	case *whole && c.Driver == "http":
		return 10
	case *whole:
		return 3
	case c.Driver == "browser":
		return 1
	}
	return 3
}

// board is what many runs at once came to, and in the long form tells a person how far they are.
type board struct {
	mu      sync.Mutex
	tally   zoo.Tally
	results []zoo.Result
	left    int
	running []string
}

func (b *board) begin(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running = append(b.running, name)
}

func (b *board) end(name string, r zoo.Result, took time.Duration, failed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tally.Add(r)
	b.results = append(b.results, r)
	b.left--
	b.running = slices.DeleteFunc(b.running, func(s string) bool { return s == name })
	if !*whole {
		return
	}
	word := "right"
	if failed {
		word = "WRONG"
	}
	fmt.Printf("%s %s: %d memories in %.1fs; %d runs left; running: %s\n", name, word, len(r.Memories), took.Seconds(), b.left, strings.Join(b.running, ", "))
}

// run runs a case with each seed.
func (b *board) run(t *testing.T, z *zoo.Zoo, c zoo.Case) {
	for seed := uint64(1); seed <= seeds(c); seed++ {
		name := fmt.Sprintf("%s/%d", strings.ReplaceAll(c.Name, " ", "-"), seed)
		b.left++
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			b.begin(name)
			began := time.Now()
			r, err := z.Run(ctx, c, seed)
			b.end(name, r, time.Since(began), err != nil || len(r.Wrong()) > 0)
			missing(t, err)
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

// missing skips what this machine lacks a part for; not so in CI, nor when the whole zoo is asked for.
func missing(t *testing.T, err error) {
	t.Helper()
	if lacks := new(*zoo.Missing); errors.As(err, lacks) && os.Getenv("CI") != "true" && !*whole {
		t.Skip(err)
	}
}

// report prints the table when every run is done, and holds precision and recall to 1.
func (b *board) report(t *testing.T) {
	t.Helper()
	var out strings.Builder
	if err := b.tally.Write(&out); err != nil {
		t.Fatal(err)
	}
	if *whole {
		fmt.Print("\n" + out.String())
		last = b.tally.String()
		b.save(t)
	} else {
		t.Logf("\n%s%s", out.String(), &b.tally)
	}
	if b.tally.Precision() != 1 || b.tally.Recall() != 1 {
		t.Errorf("precision %.3f, recall %.3f", b.tally.Precision(), b.tally.Recall())
	}
	// A bench that takes the daemon at its word compares nothing.
	if b.tally.Raced*20 > b.tally.Memories {
		t.Errorf("the right verdict of %d among %d memories hangs on a race", b.tally.Raced, b.tally.Memories)
	}
}

// save writes zoo.json.
func (b *board) save(t *testing.T) {
	t.Helper()
	slices.SortFunc(b.results, func(a, c zoo.Result) int { return cmp.Or(cmp.Compare(a.Case, c.Case), cmp.Compare(a.Seed, c.Seed)) })
	f, err := os.Create(filepath.Join("..", "..", "zoo.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(zoo.WriteJSON(f, b.results), f.Close()); err != nil {
		t.Error(err)
	}
}

func TestZoo(t *testing.T) {
	t.Parallel()
	z := bench(t)
	var b board
	t.Run("cases", func(t *testing.T) {
		for _, c := range zoo.Cases() {
			if c.Driver == "browser" && !browses(t) {
				continue
			}
			b.run(t, z, c)
		}
	})
	b.report(t)
}

// browses reports whether there is a browser. Without one a case is left out, visibly; not so in CI, nor when the whole
// zoo is asked for.
func browses(t *testing.T) bool {
	t.Helper()
	_, err := browser.Find(browser.InstallOptions{Dir: os.Getenv("AMNESIA_BROWSER_DIR")})
	if err == nil {
		return true
	}
	if os.Getenv("CI") == "true" || *whole {
		t.Fatal(err)
	}
	t.Run("in-a-browser", func(t *testing.T) { t.Skip(err) })
	return false
}
