package ledgerbench_test

import (
	"path/filepath"
	"testing"

	"amnesia/pkg/fact"
	"amnesia/pkg/ledger"
	"amnesia/pkg/ledger/ledgerbench"
	"amnesia/pkg/memory"
)

func BenchmarkAppend64(b *testing.B) {
	took, err := ledgerbench.Append(b.Context(), filepath.Join(b.TempDir(), "a.db"), 64, b.N)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/took.Seconds(), "rows/s")
}

func BenchmarkRawBatch64(b *testing.B) {
	took, err := ledgerbench.Raw(b.Context(), filepath.Join(b.TempDir(), "a.db"), 64, b.N)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/took.Seconds(), "rows/s")
}

func BenchmarkRead(b *testing.B) {
	const memories = 50_000
	path := filepath.Join(b.TempDir(), "a.db")
	if err := ledgerbench.Fill(b.Context(), path, memories); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		if _, _, err := ledgerbench.Read(b.Context(), path); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(memories*b.N)/b.Elapsed().Seconds(), "memories/s")
}

// TestMeasures holds that each measure does the work it is named after.
func TestMeasures(t *testing.T) {
	const n = 130 // two batches and a rest
	dir := t.TempDir()
	for name, measure := range map[string]func(path string) error{
		"append": func(path string) error { _, err := ledgerbench.Append(t.Context(), path, 64, n); return err },
		"fill":   func(path string) error { return ledgerbench.Fill(t.Context(), path, n) },
	} {
		path := filepath.Join(dir, name)
		if err := measure(path); err != nil {
			t.Fatal(err)
		}
		want := map[string]int{"append": n, "fill": 1 + 3*n + 2*4}[name]
		if facts, _, err := ledgerbench.Read(t.Context(), path); err != nil || facts != want {
			t.Errorf("%s left %d facts (%v), want %d", name, facts, err, want)
		}
	}
	if _, err := ledgerbench.Raw(t.Context(), filepath.Join(dir, "raw"), 64, n); err != nil {
		t.Error(err)
	}
}

// TestLong holds that all but the last cycles' memories are retired, whatever n is.
func TestLong(t *testing.T) {
	for n, left := range map[int]int{50: 50, 250: 250, 1200: 300, 730: 230} {
		path := filepath.Join(t.TempDir(), "a.db")
		if err := ledgerbench.Long(t.Context(), path, n, 3); err != nil {
			t.Fatal(err)
		}
		l, err := ledger.OpenReadOnly(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		begun := map[memory.ID]bool{}
		for e, err := range l.Facts(t.Context(), 0) {
			if err != nil {
				t.Fatal(err)
			}
			switch f := e.Fact.(type) {
			case fact.Begun:
				begun[f.Memory.ID] = true
			case fact.Retired:
				for _, r := range f.Memories {
					for id := r.First; id <= r.Last; id++ {
						delete(begun, id)
					}
				}
			}
		}
		if len(begun) != left {
			t.Errorf("of %d memories %d are not retired, want %d", n, len(begun), left)
		}
	}
}
