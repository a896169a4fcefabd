package ledger_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"amnesia/pkg/fact"
	"amnesia/pkg/ledger"
	"amnesia/pkg/memory"
)

// long gives a closed ledger of many pages, and what is in it.
func long(t *testing.T) (path string, all []fact.Entry) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "whole.db")
	l := open(t, path, ledger.Options{})
	for n := range 70 {
		b := begun(l.NextMemory())
		b.Memory.Text = strings.Repeat("a long text ", n%40)
		id := b.Memory.ID
		sweep := fact.Sweep{ID: l.NextSweep(), View: "page", Complete: true, Read: memory.SetOf(id),
			Observations: []memory.Observation{{Memory: id, View: "page", State: memory.Present, Copies: 1}}}
		if err := l.Append(t.Context(), b, fact.Settled{Memory: id, Levels: []memory.Level{{Name: fmt.Sprint("level ", n)}}}, sweep, fact.Gap{Of: "clock"}); err != nil {
			t.Fatal(err)
		}
	}
	all = entries(t, l, 0)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return path, all
}

// TestCutFile cuts a ledger's file short at every page, beside every page and at many other places (under the race
// detector, at some): the daemon that opens
// it has what is whole, in order, the file as it was lies beside it, and it goes on from there.
func TestCutFile(t *testing.T) {
	t.Parallel()
	path, all := long(t)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var cuts []int
	for at := 0; at < len(whole); at += 4096 {
		cuts = append(cuts, max(at-1, 0), at)
	}
	for at := len(whole) - 4096; at < len(whole); at += 331 {
		cuts = append(cuts, at)
	}
	read, most := 0, 0
	dir := t.TempDir()
	for i, n := range cuts {
		if slow && i%5 > 0 {
			continue
		}
		n = min(n, len(whole)-1)
		to := filepath.Join(dir, fmt.Sprintf("%d.db", i))
		if err := os.WriteFile(to, whole[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		if ro, err := ledger.OpenReadOnly(t.Context(), to); err == nil { // an on-call person's, beside nobody: it ends, and changes nothing
			for range ro.Facts(t.Context(), 0) {
			}
			_ = ro.Close()
		}
		core, logs := observer.New(zapcore.ErrorLevel)
		l, err := ledger.Open(t.Context(), to, ledger.Options{Logger: zap.New(core)})
		if err != nil {
			if n >= 4096 {
				t.Errorf("cut after %d of %d bytes: %v", n, len(whole), err)
			} else if !strings.Contains(err.Error(), "fix: ") {
				t.Errorf("cut in its first page: %v", err)
			}
			if now, err := os.ReadFile(to); err != nil || !slices.Equal(now, whole[:n]) {
				t.Errorf("cut after %d bytes: it was refused, and changed: %v", n, err)
			}
			continue
		}
		if n == 0 { // a new one
			_ = l.Close()
			continue
		}
		got := entries(t, l, 0)
		if d := diff(all[:len(got)], got); d != "" {
			t.Errorf("cut after %d bytes (-before +after the cut):\n%s", n, d)
		}
		if len(got) > 0 {
			read, most = read+1, max(most, len(got))
		}
		aside := to + ".damaged-1"
		if was, err := os.ReadFile(aside); err != nil || !slices.Equal(was, whole[:n]) {
			t.Errorf("cut after %d bytes: what was set aside is not what was there: %v", n, err)
		}
		if logs.FilterMessageSnippet("set aside").Len() != 1 {
			t.Errorf("cut after %d bytes: nothing says so", n)
		}
		if err := l.Append(t.Context(), begun(l.NextMemory())); err != nil {
			t.Error(err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	if read == 0 || most == len(all) {
		t.Errorf("in %d cases something was left, at most %d of %d facts: the test tests nothing", read, most, len(all))
	}
	t.Logf("%d cuts; in %d something was left, at most %d of %d facts", len(cuts), read, most, len(all))
	// Nothing else is left lying about.
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range left {
		if strings.Contains(f.Name(), "mend") {
			t.Errorf("%s is left", f.Name())
		}
	}
}

// TestEveryByteOfTheWAL cuts the WAL at every byte of its last frame (under the race detector, at some), from the end: what
// was appended before is there, and the last append is there as a whole or not at all.
func TestEveryByteOfTheWAL(t *testing.T) {
	t.Parallel()
	l := open(t, filepath.Join(t.TempDir(), "a.db"), ledger.Options{})
	for range 5 {
		if err := l.Append(t.Context(), begun(l.NextMemory()), fact.Gap{Of: "clock"}); err != nil {
			t.Fatal(err)
		}
	}
	n := len(entries(t, l, 0))
	path := cut(t, l.Path(), 1<<30)
	whole := int(size(t, path+"-wal"))
	const frame = 24 + 4096 // https://sqlite.org/fileformat2.html#the_write_ahead_log
	for at := whole; at >= whole-frame-1; at-- {
		if beyond := whole - at; slow && beyond > 2 && beyond < frame-2 && at%397 != 0 {
			continue
		}
		if err := os.Truncate(path+"-wal", int64(at)); err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(path + "-shm")
		ro, err := ledger.OpenReadOnly(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		got := entries(t, ro, 0)
		if want := map[bool]int{true: n, false: n - 2}[at == whole]; len(got) != want {
			t.Fatalf("WAL of %d of %d bytes: %d facts, want %d", at, whole, len(got), want)
		}
	}
	rw := open(t, path, ledger.Options{})
	if err := rw.Append(t.Context(), begun(rw.NextMemory())); err != nil {
		t.Error(err)
	}
	if got := entries(t, rw, 0); len(got) != n-1 {
		t.Errorf("%d facts after the last cut and an append", len(got))
	}
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// TestMendingThatWasCutOff ends a mending whose process died before its last step, and begins one anew that died before.
func TestMendingThatWasCutOff(t *testing.T) {
	path, all := long(t)
	dir := filepath.Dir(path)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	// Complete, but not yet in its place: the old file and its -wal are still there.
	must(os.Rename(path, path+".mended"))
	must(os.WriteFile(path, whole[:8192], 0o644))
	must(os.WriteFile(path+"-wal", []byte("of the damaged one"), 0o644))
	l := open(t, path, ledger.Options{})
	if d := diff(all, entries(t, l, 0)); d != "" {
		t.Errorf("after the last step (-want +got):\n%s", d)
	}
	must(l.Close())
	// In the middle of the writing.
	must(os.WriteFile(path, whole[:len(whole)-4096], 0o644))
	must(os.WriteFile(path+".mending", whole[:5000], 0o644))
	must(os.WriteFile(path+".damaged-1", nil, 0o644)) // of another time
	l = open(t, path, ledger.Options{})
	got := entries(t, l, 0)
	if d := diff(all[:len(got)], got); d != "" {
		t.Errorf("begun anew (-want +got):\n%s", d)
	}
	must(l.Close())
	if _, err := os.Stat(path + ".damaged-2"); err != nil {
		t.Error(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.mend*"))
	if err != nil || len(files) > 0 {
		t.Errorf("%v are left, %v", files, err)
	}
}

// TestAnEmptyFileBesideItsWAL: SQLite would throw the WAL away.
func TestAnEmptyFileBesideItsWAL(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "a.db"), ledger.Options{})
	if err := l.Append(t.Context(), one()...); err != nil {
		t.Fatal(err)
	}
	path := cut(t, l.Path(), 1<<30)
	for _, lose := range []func(string) error{func(p string) error { return os.Truncate(p, 0) }, os.Remove} {
		if err := lose(path); err != nil {
			t.Fatal(err)
		}
		before := size(t, path+"-wal")
		if _, err := ledger.Open(t.Context(), path, ledger.Options{}); err == nil || !strings.Contains(err.Error(), "fix: put the file back") {
			t.Errorf("error is %v", err)
		}
		if size(t, path+"-wal") != before {
			t.Error("the WAL was changed")
		}
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was made: %v", err)
	}
}
