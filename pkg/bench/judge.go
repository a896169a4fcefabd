package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"amnesia/pkg/fact"
	"amnesia/pkg/ledger/ledgerbench"
	"amnesia/pkg/memory"
	"amnesia/pkg/oracle"
	"amnesia/pkg/report"
)

// What is judged from memory, and how fast it has to be, in memories with four views a second.
const (
	inMemory   = 20_000
	fromMemory = 1_000_000
)

// judgings is how often a ledger is judged, and read alone, in turns.
const judgings = 3

// judging measures the judge: on one core from memory, and from a ledger file of n memories as `amnesia judge` reads it,
// beside a process that reads the same rows and judges nothing. What it needs must not grow with the ledger.
func judging(n int) measure {
	return func(ctx context.Context, amnesia, dir string) ([]Line, error) {
		speed, err := judgeFromMemory(inMemory)
		if err != nil {
			return nil, err
		}
		few, many := filepath.Join(dir, "few.db"), filepath.Join(dir, "many.db")
		for path, n := range map[string]int{few: n / 10, many: n} {
			if err := ledgerbench.Fill(ctx, path, n); err != nil {
				return nil, err
			}
		}
		_, small, err := judgeLedger(ctx, amnesia, few, n/10)
		if err != nil {
			return nil, err
		}
		var ours, alone []time.Duration
		large := int64(0)
		for range judgings {
			took, peak, err := judgeLedger(ctx, amnesia, many, n)
			if err != nil {
				return nil, err
			}
			ours, large = append(ours, took), max(large, peak)
			took, err = timed(func() error {
				rows := 0
				err := helped(ctx, nil, &rows, "rows", many)
				if err == nil && rows < 2*n {
					err = fmt.Errorf("of %d memories there are only %d rows to read", n, rows)
				}
				return err
			})
			if err != nil {
				return nil, err
			}
			alone = append(alone, took)
		}
		perSecond := func(d time.Duration) float64 { return float64(n) / d.Seconds() }
		lines := []Line{
			reaching("judge, one core, memories with four views", "1/s", speed, fromMemory),
			atLeast(fmt.Sprintf("judge from a ledger file of %d memories, against reading the rows alone", n), "1/s", perSecond(median(ours)), perSecond(median(alone)), 0.7),
		}
		if small > 0 {
			lines = append(lines, atMost(fmt.Sprintf("judge from a ledger of %d: peak memory, against a tenth", n), "MiB", inMiB(large), inMiB(small), 1.5))
		}
		return lines, nil
	}
}

// judgeFromMemory gives how many memories the oracle judges in a second on one core, of n that it knows.
func judgeFromMemory(n int) (perSecond float64, err error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	book, seq := oracle.NewBook(), int64(0)
	var now memory.Instant
	for facts := range ledgerbench.Soak(n, n) {
		for _, f := range facts {
			seq++
			book.Apply(fact.Entry{Seq: seq, Fact: f})
			now = memory.Later(now, fact.At(f))
		}
	}
	const rounds = 50
	took, err := timed(func() error {
		for range rounds {
			for id, v := range book.All(now) {
				if v.Kind != memory.Kept {
					return fmt.Errorf("%s is %s: %s", id, v.Kind, v.Because)
				}
			}
		}
		return nil
	})
	return float64(n) * rounds / took.Seconds(), err
}

// judgeLedger gives how long the command takes to judge a ledger of n memories, and its peak memory in bytes, 0 where
// that cannot be had.
func judgeLedger(ctx context.Context, amnesia, path string, n int) (took time.Duration, peak int64, err error) {
	cmd := exec.CommandContext(ctx, amnesia, "judge", path, "--min-conclusive", "0", "-o", "json")
	var out []byte
	took, err = timed(func() (err error) {
		out, peak, err = watched(cmd, watchMemory)
		return err
	})
	if err != nil {
		return 0, 0, fmt.Errorf("judging a ledger: %w", err)
	}
	var s report.Summary
	if err := json.Unmarshal(out, &s); err != nil {
		return 0, 0, fmt.Errorf("reading the summary: %w", err)
	}
	if got := s.Writes.Acknowledged; got != n {
		return 0, 0, fmt.Errorf("of %d memories it judged %d", n, got)
	}
	return took, peak, nil
}
