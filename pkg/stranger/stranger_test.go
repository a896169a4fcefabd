package stranger

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"text/template"
	"time"

	"go.uber.org/zap"

	"amnesia/chaos/process"
	"amnesia/pkg/app"
	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
	"amnesia/pkg/session/browser"
)

//go:embed stranger.yaml
var configuration string

// places are the views of the app's two stores.
var places = []string{"journal", "feed"}

// Case is the app with a flaw or without one, and what provokes it.
type Case struct {
	Name, Flaw      string
	Style, Match    string // verbatim and exact, or gist and token
	Driver          string
	Faults          []string // lines of the configuration; without any every cycle is a control
	Forget          float64
	Lag, Settle     time.Duration
	Feed, KeepLast  int    // how many notes of a person the feed keeps, and shall keep; 0: all
	MayLose         string // a kind of fault that excuses losses
	Users, Memories int
	Cycles          int
	Shows           string // the verdict, class or defect for which the case counts
	All             bool   // every memory shows it
}

const seeds = 3

// Faults, aimed at the moments at which something is under way.
const (
	kill     = "{kind: kill, service: jotter, after: acknowledged, delay: 0ms..30ms}"
	killTold = "{kind: kill, service: jotter, after: told, delay: 0ms..5ms}"
	restart  = "{kind: restart, service: jotter, after: acknowledged, delay: 0ms..100ms, grace: 10s}"
	recreate = "{kind: recreate, service: jotter, after: acknowledged, delay: 0ms..100ms, grace: 10s}"
	wipe     = "{kind: wipe, service: jotter, volume: cache, after: acknowledged, delay: 0ms..100ms, grace: 10s}"
	pause    = "{kind: pause, service: jotter, after: acknowledged, delay: 0ms..100ms, hold: 20ms..200ms}"
	longer   = "{kind: pause, service: jotter, after: told, delay: 0ms..40ms, hold: 500ms..900ms}"
)

func cases() []Case {
	list := []Case{
		{Name: "healthy", Faults: []string{kill, killTold, restart, recreate, wipe, pause}, Shows: "kept"},
		{Name: "healthy, by the gist", Style: "gist", Faults: []string{kill, restart, recreate}, Shows: "kept"},
		{Name: "healthy, with deletions", Forget: 0.4, Faults: []string{kill, wipe}, Shows: "released"},
		{Name: "lazy feed", Flaw: "lazy-feed", Faults: []string{kill, restart}, Lag: 700 * time.Millisecond, Settle: 5 * time.Second, Shows: "late"},
		{Name: "hasty", Flaw: "hasty", Faults: []string{kill, restart}, Lag: 900 * time.Millisecond, Settle: 2500 * time.Millisecond, Shows: "lost"},
		{Name: "hasty, by the gist", Flaw: "hasty", Style: "gist", Faults: []string{kill}, Lag: 900 * time.Millisecond, Settle: 2500 * time.Millisecond, Shows: "lost"},
		{Name: "feed in memory", Flaw: "feed-in-memory", Faults: []string{restart}, Shows: "torn"},
		{Name: "feed not rebuilt", Flaw: "feed-not-rebuilt", Faults: []string{recreate, kill}, Shows: "torn"},
		{Name: "journal in the cache", Flaw: "journal-in-cache", Faults: []string{recreate, wipe, kill}, Shows: "lost"},
		{Name: "field mix-up", Flaw: "field-mixup", Faults: []string{kill}, Shows: "hidden"},
		{Name: "open door", Flaw: "open-door", Faults: []string{kill}, Shows: "leaked", All: true},
		{Name: "undead", Flaw: "undead", Forget: 0.4, Faults: []string{restart}, Cycles: 6, Shows: "resurfaced"},
		{Name: "stutter", Flaw: "stutter", Faults: []string{longer}, Shows: "duplicated"},
		{Name: "overwrite, by the gist", Flaw: "overwrite", Style: "gist", Shows: "lost"},

		{Name: "gist that nobody knows of", Style: "gist", Match: "exact", Faults: []string{kill}, Shows: "altered"},
		{Name: "short feed", Feed: 8, KeepLast: 8, Faults: []string{kill, recreate}, Shows: "kept"},
		{Name: "too short a feed", Feed: 5, KeepLast: 8, Faults: []string{kill}, Shows: "torn"},
		{Name: "hoarding", Flaw: "hoarding", Shows: "volatile"},
		{Name: "hoarding, and hurt", Flaw: "hoarding", Faults: []string{kill, restart}, Shows: "lost"},
		{Name: "sorry", Flaw: "sorry", Faults: []string{kill}, Lag: 300 * time.Millisecond, Settle: 2500 * time.Millisecond, Shows: "reported"},
		{Name: "hasty, and excused", Flaw: "hasty", MayLose: "kill", Faults: []string{kill, restart}, Lag: 900 * time.Millisecond, Settle: 2500 * time.Millisecond, Shows: "permitted"},

		{Name: "healthy, in a browser", Driver: "browser", Style: "gist", Faults: []string{kill}, Shows: "kept"},
		{Name: "field mix-up, in a browser", Driver: "browser", Flaw: "field-mixup", Faults: []string{kill}, Shows: "hidden"},
		{Name: "feed in memory, in a browser", Driver: "browser", Flaw: "feed-in-memory", Faults: []string{restart}, Shows: "torn"},
	}
	for i := range list {
		c := &list[i]
		c.Style, c.Driver, c.Match = cmp.Or(c.Style, "verbatim"), cmp.Or(c.Driver, "http"), cmp.Or(c.Match, map[string]string{"gist": "token"}[c.Style], "exact")
		c.Lag, c.Settle = cmp.Or(c.Lag, 200*time.Millisecond), cmp.Or(c.Settle, 700*time.Millisecond)
		c.Cycles, c.Users, c.Memories = cmp.Or(c.Cycles, max(len(c.Faults)+2, 4)), 3, 5
		if c.Driver == "browser" { // with more than a page of six for each user all the same
			c.Cycles, c.Users, c.Memories = 3, 2, 5
		}
	}
	return list
}

func TestMain(m *testing.M) {
	process.GuardianMain() // does not return in the guardian that the process engine starts
	flag.Parse()
	// Runs wait far more than they compute.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// TestStranger runs every case with every seed.
func TestStranger(t *testing.T) {
	dir, err := os.MkdirTemp("", "amnesia-stranger-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("ledgers and witnesses are kept in %s", dir)
		} else if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	b := &bench{dir: dir, program: filepath.Join(dir, "jotter"), browserDir: os.Getenv("AMNESIA_BROWSER_DIR"), pairs: map[[2]string]int{}, spared: map[string]int{}}
	if out, err := exec.Command("go", "build", "-o", b.program, "./app").CombinedOutput(); err != nil {
		t.Fatalf("building the app: %v\n%s", err, out)
	}
	t.Run("cases", func(t *testing.T) {
		for _, c := range cases() {
			for seed := uint64(1); seed <= seeds; seed++ {
				t.Run(fmt.Sprintf("%s/seed %d", c.Name, seed), func(t *testing.T) {
					t.Parallel()
					b.run(t, c, seed)
				})
			}
		}
	})
	b.report(t)
}

// bench runs cases and adds up what came of them.
type bench struct {
	dir, program, browserDir string

	mu                 sync.Mutex
	port               int
	pairs              map[[2]string]int // said and right
	spared             map[string]int    // by case that was run: memories that do not show what the case is for
	runs, memories     int
	raced              int
	said, right, agree int // alarms
}

func (b *bench) run(t *testing.T, c Case, seed uint64) {
	if c.Driver == "browser" {
		if _, err := browser.Find(browser.InstallOptions{Dir: b.browserDir}); err != nil && os.Getenv("CI") == "true" {
			t.Fatal(err)
		} else if err != nil {
			t.Skip(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	dir := filepath.Join(b.dir, strings.NewReplacer(" ", "-", ",", "").Replace(c.Name)+fmt.Sprintf("-%d", seed))
	entries, heard, err := b.soak(ctx, c, seed, dir)
	if err != nil {
		t.Fatalf("%s, seed %d: %v; %s", c.Name, seed, err, dir)
	}
	p := recall(entries)
	if p.trouble != nil {
		t.Fatalf("%s, seed %d: %v; %s", c.Name, seed, p.trouble, dir)
	}
	shown := 0
	for _, id := range slices.Sorted(maps.Keys(p.of)) {
		k := p.of[id]
		for _, told := range heard {
			if strings.Contains(told.text, k.memory.Token) {
				k.tellers = append(k.tellers, told)
			}
		}
		if k.settled.Outcome == memory.Acknowledged && !slices.ContainsFunc(k.tellers, func(t *telling) bool { return t.said }) {
			t.Errorf("%s, seed %d: the user saw that %s is kept, and the app did not say so; %s", c.Name, seed, id, dir)
		}
		is, must := said(k.said), p.right(&c, k, either)
		if is.String() != must.String() {
			t.Errorf("%s, seed %d: %s (%s): said %q (%s), right is %q; amnesia why %s --ledger %s",
				c.Name, seed, id, k.memory.Token, is, k.said.Because, must, id, filepath.Join(dir, "amnesia.db"))
		}
		if must.has(c.Shows) {
			shown++
		}
		b.add(is, must, p.right(&c, k, away).String() != p.right(&c, k, there).String())
	}
	if shown == 0 {
		t.Errorf("%s, seed %d: of %d memories none is %s: the case does not count; %s", c.Name, seed, len(p.of), c.Shows, dir)
	}
	b.mu.Lock()
	b.runs++
	b.spared[c.Name] += len(p.of) - shown
	b.mu.Unlock()
}

// control reports whether any alarm is a false one.
func (c *Case) control() bool {
	return slices.Contains([]memory.Kind{memory.Kept, memory.Late, memory.Released}, memory.Kind(c.Shows))
}

func (b *bench) add(is, must words, raced bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.memories++
	b.pairs[[2]string{is.String(), must.String()}]++
	for _, n := range []struct {
		to  *int
		yes bool
	}{{&b.raced, raced}, {&b.said, is.alarm()}, {&b.right, must.alarm()}, {&b.agree, is.alarm() && is.String() == must.String()}} {
		if n.yes {
			*n.to++
		}
	}
}

// report prints the table, and holds precision and recall to 1.
func (b *bench) report(t *testing.T) {
	var out bytes.Buffer
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "said\tright\tmemories")
	for _, p := range slices.SortedFunc(maps.Keys(b.pairs), func(x, y [2]string) int { return slices.Compare(x[:], y[:]) }) {
		fmt.Fprintf(w, "%s\t%s\t%d\n", p[0], p[1], b.pairs[p])
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	precision, recall := share(b.agree, b.said), share(b.agree, b.right)
	t.Logf("\n%sstranger: %d cases, precision %.3f, recall %.3f (%d runs, seeds 1 to %d, %d memories, %d of them hang on a race)",
		out.String(), len(cases()), precision, recall, b.runs, seeds, b.memories, b.raced)
	if precision != 1 || recall != 1 {
		t.Errorf("precision %.3f, recall %.3f", precision, recall)
	}
	for _, c := range cases() {
		if n, run := b.spared[c.Name]; run && n == 0 && !c.All && !c.control() {
			t.Errorf("%s: every memory is %s, with every seed: none is left to be told apart", c.Name, c.Shows)
		}
	}
	// A bench that takes the daemon at its word compares nothing.
	if b.raced*20 > b.memories {
		t.Errorf("the right verdict of %d among %d memories hangs on a race", b.raced, b.memories)
	}
}

func share(part, whole int) float64 {
	if whole == 0 {
		return 1
	}
	return float64(part) / float64(whole)
}

// soak runs the daemon. What the witness wrote is read before the daemon lets go of the app.
func (b *bench) soak(ctx context.Context, c Case, seed uint64, dir string) (entries []fact.Entry, s story, err error) {
	path, err := b.configure(ctx, c, dir)
	if err != nil {
		return nil, nil, err
	}
	cfg, err := app.LoadConfig([]string{path}, func(name string) string {
		return map[string]string{"JOTTER_OPERATOR": "the operator's secret"}[name]
	})
	if err != nil {
		return nil, nil, err
	}
	var mu sync.Mutex
	daemon, err := app.New(ctx, cfg, app.Options{Seed: seed, Cycles: c.Cycles, BrowserDir: b.browserDir, Log: zap.NewNop(), Tap: func(es []fact.Entry) {
		mu.Lock()
		defer mu.Unlock()
		entries = append(entries, es...)
	}})
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, daemon.Close()) }()
	if err := daemon.Run(ctx); err != nil {
		return nil, nil, err
	}
	if ctx.Err() != nil {
		return nil, nil, fmt.Errorf("the run was cut off: %w", context.Cause(ctx))
	}
	s, err = listen(filepath.Join(dir, "witness.tsv"))
	mu.Lock()
	defer mu.Unlock()
	return slices.Clone(entries), s, err
}

func (b *bench) configure(ctx context.Context, c Case, dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", err
	}
	addr, err := b.address(ctx)
	if err != nil {
		return "", err
	}
	t, err := template.New("stranger.yaml").Delims("<<", ">>").Funcs(template.FuncMap{"text": func(parts ...string) (string, error) {
		q, err := json.Marshal(strings.Join(parts, ""))
		return string(q), err
	}}).Parse(configuration)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	if err := t.Execute(&out, map[string]any{"Case": c, "Addr": addr, "Program": b.program, "Dir": dir, "Places": places}); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "amnesia.yaml")
	return path, os.WriteFile(path, out.Bytes(), 0o640)
}

// Below the ports that systems give to outgoing connections, and away from those of the zoo: one that is free while its
// app is down must not be taken.
const (
	firstPort = 12000
	ports     = 7000
)

func (b *bench) address(ctx context.Context) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.port == 0 {
		b.port = os.Getpid() * 97 % ports // away from those of another process
	}
	for range ports {
		b.port = (b.port + 1) % ports
		addr := fmt.Sprintf("127.0.0.1:%d", firstPort+b.port)
		if ln, err := new(net.ListenConfig).Listen(ctx, "tcp", addr); err == nil {
			return addr, ln.Close()
		}
	}
	return "", errors.New("no port is free on 127.0.0.1")
}
