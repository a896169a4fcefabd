package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"pgregory.net/rapid"

	"amnesia/pkg/fact"
	"amnesia/pkg/image"
	"amnesia/pkg/ledger"
	"amnesia/pkg/memory"
)

// log is a fold: the kinds of all facts, in order.
type log struct {
	Kinds   []string
	applied int // by this process
}

func (g *log) fold() ledger.Fold {
	return ledger.Fold{Name: "log", Apply: func(e fact.Entry) {
		g.applied++
		g.Kinds = append(g.Kinds, fmt.Sprintf("%d %T", e.Seq, e.Fact))
	}, Lend: func(fn func(any) error) error { return fn(&g.Kinds) }}
}

// booted is a clock of a machine that was started under a name.
type booted string

func (b booted) Now() memory.Instant { return memory.Instant{Mono: 1, Wall: 1, Boot: string(b)} }

// imaged makes a ledger with the images of so many facts, and more facts behind them.
func imaged(t *testing.T, path string, facts, more int) {
	t.Helper()
	var g log
	f := g.fold()
	l := open(t, path, ledger.Options{Clock: booted("b"), Tap: func(es []fact.Entry) {
		for _, e := range es {
			f.Apply(e)
		}
	}})
	defer l.Close()
	if err := l.Restore(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	for id := range facts + more {
		if id == facts {
			if err := l.KeepImages(t.Context(), true); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Append(t.Context(), begun(memory.ID(id+1))); err != nil {
			t.Fatal(err)
		}
	}
}

// restored opens a ledger, and gives how many facts were applied to a fold that it restores, which must be complete.
func restored(t *testing.T, path string, boot booted) (applied int, why string) {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	l := open(t, path, ledger.Options{Clock: boot, Logger: zap.New(core)})
	defer l.Close()
	var g, whole log
	if err := l.Restore(t.Context(), g.fold()); err != nil {
		t.Fatal(err)
	}
	for _, e := range entries(t, l, 0) {
		whole.fold().Apply(e)
	}
	if d := cmp.Diff(whole.Kinds, g.Kinds); d != "" {
		t.Fatalf("the fold is not that of every fact (-all +restored):\n%s", d)
	}
	for _, e := range logs.FilterMessageSnippet("is not used").All() {
		why += fmt.Sprint(e.ContextMap()["error"])
	}
	return g.applied, why
}

// TestImages: what has an image is not folded again, and what came after is.
func TestImages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	imaged(t, path, 7, 3)
	if n, why := restored(t, path, "b"); n != 3 || why != "" {
		t.Errorf("%d facts were folded, want the 3 behind the image (%s)", n, why)
	}
}

// TestImageInDoubt: an image that may be of anything else but this ledger's facts, by this program, is not used.
func TestImageInDoubt(t *testing.T) {
	forge := func(set string) func(string) error {
		return func(path string) error { return ledger.Forge(context.Background(), path, "log", set) }
	}
	exec := func(query string) func(string) error {
		return func(path string) error { return ledger.Exec(context.Background(), path, query) }
	}
	const facts, more = 7, 3
	for name, c := range map[string]struct {
		harm func(path string) error
		why  string
	}{
		"a flipped bit":            {exec("UPDATE image SET body = CAST('x' || substr(body, 2) AS BLOB) WHERE name = 'log'"), "its fingerprint is another"},
		"a seq that is not its":    {exec("UPDATE image SET seq = 6 WHERE name = 'log'"), "its fingerprint is another"},
		"of another program":       {forge("program = x'00'"), "another program made it"},
		"newer than the facts":     {forge("seq = 99"), "no fact 99"},
		"of facts that were other": {exec("UPDATE memory SET text = 'other' WHERE seq = 7"), "made of another fact 7"},
		"of other types":           {forge("body = (SELECT body FROM image WHERE name = 'looks')"), image.ErrLayout.Error()},
		"no image at all":          {forge("body = x''"), "EOF"},
		"not there":                {exec("DELETE FROM image"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.db")
			imaged(t, path, facts, more)
			if err := c.harm(path); err != nil {
				t.Fatal(err)
			}
			n, why := restored(t, path, "b")
			if n != facts+more || !strings.Contains(why, c.why) || (why == "") != (c.why == "") {
				t.Errorf("%d of %d facts were folded, because %q, want %q", n, facts+more, why, c.why)
			}
		})
	}
}

// TestImagesAfterMending: a ledger that was cut short has no images of what it lost.
func TestImagesAfterMending(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	imaged(t, path, 7, 3)
	if err := ledger.Exec(t.Context(), path, "DELETE FROM memory WHERE seq = 5"); err != nil {
		t.Fatal(err)
	}
	unclean(t, path)
	if n, _ := restored(t, path, "another"); n != 4 {
		t.Errorf("%d facts were folded, want the 4 before the one that is missing", n)
	}
}

// unclean leaves a ledger as a process that was killed does.
func unclean(t *testing.T, path string) {
	t.Helper()
	kept := filepath.Join(t.TempDir(), "copy")
	l := open(t, path, ledger.Options{Clock: booted("b")})
	if err := l.Append(t.Context(), fact.Pause{At: at(1)}); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(path + suffix)
		if err == nil {
			err = os.WriteFile(kept+suffix, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "-wal"} {
		if err := os.Rename(kept+suffix, path+suffix); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReadAfterDeath: after the death of a process the facts that it made an image of are not read again; after one of
// the machine they are.
func TestReadAfterDeath(t *testing.T) {
	for boot, mended := range map[booted]bool{"b": false, "another": true} {
		path := filepath.Join(t.TempDir(), "a.db")
		imaged(t, path, 7, 3)
		unclean(t, path)
		if err := ledger.Exec(t.Context(), path, "UPDATE memory SET run = 999 WHERE seq = 2"); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path + "-wal"); err != nil {
			unclean(t, path)
		}
		l := open(t, path, ledger.Options{Clock: boot})
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path + ".damaged-1"); (err == nil) != mended {
			t.Errorf("started as %s: mended %v, want %v", boot, err == nil, mended)
		}
	}
}

// TestImagesRefused: a ledger that is closed, or open for reading, keeps none; a fold that cannot be one is named.
func TestImagesRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	l := open(t, path, ledger.Options{})
	if err := l.Append(t.Context(), begun(1)); err != nil {
		t.Fatal(err)
	}
	if err := l.Restore(t.Context(), ledger.Fold{Name: "odd", Apply: func(fact.Entry) {}, Lend: func(fn func(any) error) error {
		return fn(&struct{ C chan int }{})
	}}); err != nil {
		t.Fatal(err)
	}
	if err := l.KeepImages(t.Context(), true); err == nil || !strings.Contains(err.Error(), "odd: ") {
		t.Error(err)
	}
	if l.ImagesDue() {
		t.Error("images are due after one fact")
	}
	if err := l.Append(t.Context(), begun(2)); err != nil {
		t.Errorf("after images that could not be kept: %v", err)
	}
	_ = l.Close()
	if err := l.KeepImages(t.Context(), true); !errors.Is(err, ledger.ErrClosed) {
		t.Error(err)
	}
	ro, err := ledger.OpenReadOnly(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer ro.Close()
	if err := ro.KeepImages(t.Context(), true); !errors.Is(err, ledger.ErrReadOnly) {
		t.Error(err)
	}
}

// TestLooksFromImage cuts a random history in two: a ledger that has the cache of looks from an image reduces the rest as
// one that was never closed, and as one that folds it anew.
func TestLooksFromImage(t *testing.T) {
	dir := t.TempDir()
	n := 0
	empty := blank(t)
	rapid.Check(t, func(rt *rapid.T) {
		var next memory.ID
		facts := rapid.SliceOfN(anyFact(&next), 1, 30).Draw(rt, "facts")
		cut := rapid.IntRange(0, len(facts)).Draw(rt, "cut")
		n++
		run := func(how string) (all []fact.Entry) {
			path := filepath.Join(dir, fmt.Sprint(n, how))
			if err := os.WriteFile(path, empty, 0o600); err != nil {
				rt.Fatal(err)
			}
			next := facts
			for _, part := range [][]fact.Fact{facts[:cut], facts[cut:]} {
				l, err := ledger.Open(context.Background(), path, ledger.Options{})
				if err == nil {
					err = l.Hasty(context.Background())
				}
				if err != nil {
					rt.Fatal(err)
				}
				if how == "never closed" {
					part, next = next, nil
				}
				for _, f := range part {
					_ = l.Append(context.Background(), f) // some contradict the ledger, in each alike
				}
				if how == "image" {
					if err := l.KeepImages(context.Background(), true); err != nil {
						rt.Fatal(err)
					}
				}
				all = slices.Clone(entries(t, l, 0))
				if err := l.Close(); err != nil {
					rt.Fatal(err)
				}
			}
			return all
		}
		want := run("folded")
		for _, how := range []string{"image", "never closed"} {
			if d := diff(want, run(how)); d != "" {
				rt.Fatalf("cut after %d of %d facts, %s is another ledger:\n%s", cut, len(facts), how, d)
			}
		}
	})
}
