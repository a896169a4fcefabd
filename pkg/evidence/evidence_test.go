package evidence

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
	"amnesia/pkg/session"
)

// now is when the tests are.
var now = time.Date(2026, 11, 3, 12, 0, 0, 0, time.UTC)

type stopped struct{}

func (stopped) Now() memory.Instant { return memory.Instant{Wall: now.UnixNano()} }

// folder has files of 100 bytes, named by their age in hours; those of findings begin with f, of incidents with fi.
type folder struct {
	t     *testing.T
	dir   string
	paths map[string]string // by the short name
}

func newFolder(t *testing.T, k func(dir string) *Keeper, ages map[string]time.Duration) (*folder, *Keeper) {
	f := &folder{t, t.TempDir(), map[string]string{}}
	keeper := k(f.dir)
	for short, age := range ages {
		name := session.EvidenceName(memory.Instant{Wall: now.Add(-age).UnixNano()}, short) + ".png"
		f.paths[short] = filepath.Join(f.dir, name)
		f.write(f.paths[short])
		if strings.HasPrefix(short, "fi") {
			keeper.Tap([]fact.Entry{{Fact: fact.Frozen{Pictures: []fact.Picture{{File: name}}}}})
			continue
		}
		outcome := fact.CycleInconclusive
		if short[0] == 'f' {
			outcome = fact.CycleLosses
		}
		keeper.Tap([]fact.Entry{{Fact: fact.Cycle{Phase: fact.PhaseTraffic}},
			{Fact: fact.Session{Files: []string{f.paths[short]}}}, {Fact: fact.Cycle{Phase: fact.PhaseClosed, Outcome: outcome}}})
	}
	return f, keeper
}

func (f *folder) write(path string) {
	f.t.Helper()
	if err := os.WriteFile(path, make([]byte, 100), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

func (f *folder) left() (names []string) {
	for short, path := range f.paths {
		if _, err := os.Stat(path); err == nil {
			names = append(names, short)
		}
	}
	slices.Sort(names)
	return names
}

func TestLimits(t *testing.T) {
	ages := map[string]time.Duration{"a": time.Hour, "b": 2 * time.Hour, "c": 30 * time.Hour, "f1": 3 * time.Hour, "fi2": 40 * time.Hour, "f3": 200 * time.Hour}
	for name, c := range map[string]struct {
		limits Limits
		want   []string
	}{
		"all fits":                         {Limits{600, 1000 * time.Hour, 1000 * time.Hour}, []string{"a", "b", "c", "f1", "f3", "fi2"}},
		"findings are kept for longer":     {Limits{600, 24 * time.Hour, 100 * time.Hour}, []string{"a", "b", "f1", "fi2"}},
		"and not for ever":                 {Limits{600, time.Hour, 2 * time.Hour}, []string{"a"}},
		"the oldest goes first":            {Limits{599, 1000 * time.Hour, 1000 * time.Hour}, []string{"a", "b", "f1", "f3", "fi2"}},
		"findings go last":                 {Limits{300, 1000 * time.Hour, 1000 * time.Hour}, []string{"f1", "f3", "fi2"}},
		"and among them the oldest first":  {Limits{250, 1000 * time.Hour, 1000 * time.Hour}, []string{"f1", "fi2"}},
		"what is too old makes room first": {Limits{400, 24 * time.Hour, 100 * time.Hour}, []string{"a", "b", "f1", "fi2"}},
		"nothing fits":                     {Limits{99, 1000 * time.Hour, 1000 * time.Hour}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f, k := newFolder(t, func(dir string) *Keeper { return New(dir, c.limits, stopped{}, zaptest.NewLogger(t)) }, ages)
			n, err := k.Collect()
			if got := f.left(); err != nil || !slices.Equal(got, c.want) || n != len(ages)-len(c.want) {
				t.Errorf("removed %d (%v), left %v, want %v", n, err, got, c.want)
			}
		})
	}
}

// TestOnlyOurs: what is not evidence of ours, or not a file, stays, however old and large.
func TestOnlyOurs(t *testing.T) {
	f, k := newFolder(t, func(dir string) *Keeper { return New(dir, Limits{}, stopped{}, zaptest.NewLogger(t)) }, nil)
	outside := filepath.Join(t.TempDir(), "20200101T000000.000Z-outside.png")
	f.write(outside)
	for short, path := range map[string]string{"notes": "notes.txt", "db": "amnesia.db", "dir": "20200101T000000.000Z-dir.png", "link": "20200101T000000.000Z-link.png"} {
		f.paths[short] = filepath.Join(f.dir, path)
		switch short {
		case "dir":
			if err := os.Mkdir(f.paths[short], 0o700); err != nil {
				t.Fatal(err)
			}
		case "link":
			if err := os.Symlink(outside, f.paths[short]); err != nil {
				t.Fatal(err)
			}
		default:
			f.write(f.paths[short])
		}
	}
	if n, err := k.Collect(); n != 0 || err != nil || len(f.left()) != 4 {
		t.Errorf("removed %d (%v), left %v", n, err, f.left())
	}
	if _, err := os.Stat(outside); err != nil {
		t.Error(err)
	}
	if n, err := New(filepath.Join(f.dir, "none"), Limits{}, stopped{}, zaptest.NewLogger(t)).Collect(); n != 0 || err != nil {
		t.Errorf("of no folder: %d, %v", n, err)
	}
}

// TestRun collects at the start, and again when a cycle is closed.
func TestRun(t *testing.T) {
	f, k := newFolder(t, func(dir string) *Keeper {
		return New(dir, Limits{Size: 100, Age: time.Hour, Findings: time.Hour}, stopped{}, zaptest.NewLogger(t))
	},
		map[string]time.Duration{"a": 0, "b": 2 * time.Hour})
	<-k.due // of the test's own cycles
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() { defer close(over); k.Run(ctx) }()
	await := func(path string) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s is still there", path)
			}
		}
	}
	await(f.paths["b"])
	late := filepath.Join(f.dir, session.EvidenceName(memory.Instant{Wall: now.Add(-3 * time.Hour).UnixNano()}, "late")+".html")
	f.write(late)
	k.Tap([]fact.Entry{{Fact: fact.Cycle{Phase: fact.PhaseClosed, Outcome: fact.CycleClean}}})
	await(late)
	cancel()
	<-over
}
