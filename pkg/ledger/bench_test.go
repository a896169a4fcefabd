package ledger_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"amnesia/pkg/fact"
	"amnesia/pkg/ledger"
	"amnesia/pkg/memory"
)

// writers is how many append at the same time, and how many rows the raw batch has.
const writers = 64

func begun(id int64) fact.Begun {
	return fact.Begun{Memory: memory.Memory{ID: memory.ID(id), Run: "run-1", Cycle: int(id / 100), User: fmt.Sprintf("amnesia-run-1-%d", id%8),
		Text: fmt.Sprintf("My cat is called k%015d and she sleeps on the piano", id), Token: fmt.Sprintf("k%015d", id),
		Question: "What is my cat called?", Payload: memory.PayloadShort, Views: []string{"page", "chroma", "redis", "postgres"}}, At: at(id)}
}

// BenchmarkAppend64 is 64 writers with one Append of one fact each, over and over.
func BenchmarkAppend64(b *testing.B) {
	l := open(b, filepath.Join(b.TempDir(), "bench.db"), ledger.Options{})
	ctx := context.Background()
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range writers {
		wg.Go(func() {
			for id := next.Add(1); id <= int64(b.N); id = next.Add(1) {
				if err := l.Append(ctx, begun(id)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

// BenchmarkRawBatch64 is what SQLite can do at best with the same durability: the same rows, by one writer, 64 to a
// transaction. BenchmarkAppend64 should reach 0.7 of it.
func BenchmarkRawBatch64(b *testing.B) {
	path := filepath.Join(b.TempDir(), "bench.db")
	if err := open(b, path, ledger.Options{}).Close(); err != nil {
		b.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=synchronous(FULL)")
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	insert, err := db.Prepare("INSERT INTO memory VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)")
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for id := int64(1); id <= int64(b.N); {
		tx, err := db.Begin()
		if err != nil {
			b.Fatal(err)
		}
		for end := min(id+writers, int64(b.N)+1); id < end; id++ {
			f := begun(id)
			m := f.Memory
			if _, err := tx.Stmt(insert).Exec(id, int64(m.ID), 1, m.Cycle, 2, 3, 4, m.Token, m.Text, m.Question,
				f.At.Mono, f.At.Wall, 5); err != nil {
				b.Fatal(err)
			}
		}
		if err := tx.Commit(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}
