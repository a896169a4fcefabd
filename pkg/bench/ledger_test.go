package bench

import (
	"os"
	"runtime"
	"testing"
	"time"

	"amnesia/pkg/ledger/ledgerbench"
)

// TestSweptLedgerStaysSmall: what was there and is there again takes no room of its own.
func TestSweptLedgerStaysSmall(t *testing.T) {
	size := func(sweeps int) int64 {
		path := t.TempDir() + "/l.db"
		if err := ledgerbench.Sweep(t.Context(), path, 1000, sweeps); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	if once, often := size(1), size(50); often > once+once/5 {
		t.Errorf("%d bytes after one sweep, %d after fifty", once, often)
	}
}

// TestCPUTime: work is seen.
func TestCPUTime(t *testing.T) {
	before, ok := cpuTime(os.Getpid())
	if !ok && runtime.GOOS == "linux" {
		t.Fatal("/proc does not say what this process has used")
	} else if !ok {
		t.Skip("only Linux has /proc, and there the line of the idle daemon is measured")
	}
	for start := time.Now(); ; {
		if now, _ := cpuTime(os.Getpid()); now > before {
			return
		}
		if time.Since(start) > time.Minute {
			t.Fatal("a minute of work is no time of the processor's")
		}
	}
}
