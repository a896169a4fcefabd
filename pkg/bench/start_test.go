package bench

import (
	"os"
	"path/filepath"
	"testing"
)

// TestStarting: both ledgers are started on, as often as is asked for.
func TestStarting(t *testing.T) {
	dir := t.TempDir()
	amnesia, err := program()
	if err != nil {
		t.Fatal(err)
	}
	long, empty, err := startBoth(t.Context(), amnesia, dir, 1000, 1)
	if err != nil || len(long) != 1 || len(empty) != 1 || long[0] <= 0 || empty[0] <= 0 {
		t.Errorf("%v and %v (%v)", long, empty, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "startlong.db")); err == nil {
		t.Error("the long ledger is left behind")
	}
}
