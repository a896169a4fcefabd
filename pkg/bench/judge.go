package bench

import (
	"bytes"
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

// What is judged, and how fast it has to be, in memories with four views a second.
const (
	inMemory   = 20_000
	inLedger   = 200_000
	fromMemory = 1_000_000
	fromLedger = 100_000
)

// judging measures the judge: on one core from memory, and from a ledger file as `amnesia judge` reads it, where what it
// needs must not grow with the ledger.
func judging(ctx context.Context, amnesia, dir string) ([]Line, error) {
	speed, err := judgeFromMemory(inMemory)
	if err != nil {
		return nil, err
	}
	few, many := filepath.Join(dir, "few.db"), filepath.Join(dir, "many.db")
	_, small, err := judgeFromLedger(ctx, amnesia, few, inLedger/10)
	if err != nil {
		return nil, err
	}
	took, large, err := judgeFromLedger(ctx, amnesia, many, inLedger)
	if err != nil {
		return nil, err
	}
	file := float64(inLedger) / took.Seconds()
	lines := []Line{
		{Name: "judge, one core, memories with four views", Unit: "1/s", Ours: speed, Goal: fmt.Sprint(">= ", fromMemory), Met: speed >= fromMemory},
		{Name: "the same from a ledger file", Unit: "1/s", Ours: file, Goal: fmt.Sprint(">= ", fromLedger), Met: file >= fromLedger},
	}
	if small > 0 {
		lines = append(lines, atMost("judge from a ledger: peak memory, against a tenth", "MiB", large, small, 1.5))
	}
	return lines, nil
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

// judgeFromLedger makes a ledger of n memories at path, and gives how long the command takes to judge it, and its peak
// memory in MiB, 0 where that cannot be had.
func judgeFromLedger(ctx context.Context, amnesia, path string, n int) (took time.Duration, peak float64, err error) {
	if err := ledgerbench.Fill(ctx, path, n); err != nil {
		return 0, 0, err
	}
	cmd := exec.CommandContext(ctx, amnesia, "judge", path, "--min-conclusive", "0", "-o", "json")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	var most int64
	took, err = timed(func() error {
		if err := cmd.Start(); err != nil {
			return err
		}
		watched := watchMemory(cmd.Process.Pid)
		err := cmd.Wait()
		most = watched()
		return err
	})
	if err != nil {
		return 0, 0, fmt.Errorf("judging a ledger: %w\n%s", err, out.String())
	}
	var s report.Summary
	if err := json.Unmarshal(out.Bytes(), &s); err != nil {
		return 0, 0, fmt.Errorf("reading the summary: %w", err)
	}
	if got := s.Writes.Acknowledged; got != n {
		return 0, 0, fmt.Errorf("of %d memories it judged %d", n, got)
	}
	return took, float64(most) / (1 << 20), nil
}
