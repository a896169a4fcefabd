package ledger_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"amnesia/pkg/fact"
	"amnesia/pkg/ledger"
	"amnesia/pkg/memory"
)

// cut copies a ledger that is open, with its WAL cut after n bytes: what a power cut may leave.
func cut(t testing.TB, path string, n int) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy.db")
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if suffix != "" {
			data = data[:min(n, len(data))]
		}
		if err := os.WriteFile(to+suffix, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// TestTornWAL cuts the WAL at many places: what is whole is read, in order, and a daemon goes on from there.
func TestTornWAL(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "a.db"), ledger.Options{})
	const n = 12
	for range n {
		if err := l.Append(t.Context(), begun(l.NextMemory()), fact.Gap{Of: "clock"}); err != nil {
			t.Fatal(err)
		}
	}
	all := entries(t, l, 0)
	wal, err := os.Stat(l.Path() + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	before := 0
	for size := int(wal.Size()) / 2; size < int(wal.Size()); size += int(wal.Size())/24 + 7 {
		path := cut(t, l.Path(), size)
		ro, err := ledger.OpenReadOnly(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		got := entries(t, ro, 0)
		if len(got)%2 != 0 || len(got) < before {
			t.Errorf("WAL of %d bytes: %d facts, %d with less of it", size, len(got), before)
		}
		before = len(got)
		if d := diff(all[:len(got)], got); d != "" {
			t.Errorf("WAL of %d bytes (-before +after the cut):\n%s", size, d)
		}
		rw := open(t, path, ledger.Options{})
		if err := rw.Append(t.Context(), begun(rw.NextMemory())); err != nil {
			t.Error(err)
		}
		if after := entries(t, rw, 0); len(after) != len(got)+1 {
			t.Errorf("%d facts, and after an append %d", len(got), len(after))
		}
	}
	if before == 0 || before == len(all) {
		t.Errorf("the last cut left %d of %d facts; the test tests nothing", before, len(all))
	}
}

// TestMissingFact takes a fact out from the middle: a ledger that lost one must not read as if it had never been.
func TestMissingFact(t *testing.T) {
	for _, table := range []string{"memory", "settled", "level", "sweep", "observation", "judged", "fact"} {
		path := filepath.Join(t.TempDir(), "a.db")
		l := open(t, path, ledger.Options{})
		if err := l.Append(t.Context(), append(one(), fact.Gap{})...); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if err := ledger.Exec(t.Context(), path, "DELETE FROM "+table+" WHERE seq = (SELECT min(seq) FROM "+table+")"); err != nil {
			t.Fatal(err)
		}
		ro, err := ledger.OpenReadOnly(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		var readErr error
		for _, err := range ro.Facts(t.Context(), 0) {
			readErr = err
		}
		if table == "observation" {
			continue // a sweep without observations is a sweep
		}
		if readErr == nil || !strings.Contains(readErr.Error(), "damaged") || !strings.Contains(readErr.Error(), "fix:") {
			t.Errorf("without a row of %s: error is %v", table, readErr)
		}
	}
}

// FuzzDamagedFile flips bytes of a ledger: it may be refused or end in an error, but never panic, hang or eat memory.
func FuzzDamagedFile(f *testing.F) {
	path := filepath.Join(f.TempDir(), "a.db")
	l, err := ledger.Open(f.Context(), path, ledger.Options{})
	if err != nil {
		f.Fatal(err)
	}
	facts := one()
	for id := memory.ID(100); id < 140; id++ {
		facts = append(facts, begun(id), fact.Settled{Memory: id, Levels: []memory.Level{{Name: "shown"}}})
	}
	if err := l.Append(f.Context(), facts...); err != nil {
		f.Fatal(err)
	}
	if err := l.Close(); err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint32(0), []byte("not a database"))
	f.Add(uint32(68), []byte{0, 0})              // application_id
	f.Add(uint32(100), []byte{13, 0, 0, 0, 255}) // the schema's page
	for at, damage := 4096, 0; at < len(whole); at, damage = at+4096, damage+1 {
		switch damage % 3 {
		case 0:
			f.Add(uint32(at), []byte{2}) // another kind of page
		case 1:
			f.Add(uint32(at+4000), bytes.Repeat([]byte{255}, 40))
		case 2:
			f.Add(uint32(at+3900), []byte{6, 6, 6, 6, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}) // huge numbers
		}
	}
	f.Fuzz(func(t *testing.T, at uint32, data []byte) {
		damaged := bytes.Clone(whole)
		copy(damaged[int(at)%len(damaged):], data)
		path := filepath.Join(t.TempDir(), "a.db")
		if err := os.WriteFile(path, damaged, 0o644); err != nil {
			t.Fatal(err)
		}
		if ro, err := ledger.OpenReadOnly(t.Context(), path); err == nil {
			n := int64(0)
			for e, err := range ro.Facts(t.Context(), 0) {
				if n++; err == nil && e.Seq != n {
					t.Fatalf("fact %d came in place %d", e.Seq, n)
				}
			}
			_, _ = ro.Unsettled(t.Context())
			_, _ = ro.OpenInjections(t.Context())
		}
		if rw, err := ledger.Open(t.Context(), path, ledger.Options{}); err == nil {
			_ = rw.Append(t.Context(), begun(rw.NextMemory()))
			_ = rw.Close()
		}
	})
}
