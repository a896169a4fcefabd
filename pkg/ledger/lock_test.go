package ledger_test

import (
	"path/filepath"
	"testing"
	"time"

	"amnesia/pkg/ledger"
)

// TestClaim holds who waits for whom: a daemon for the guardian of the one before it, a guardian for no daemon.
func TestClaim(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	release, held, err := ledger.Claim(path, 0)
	if err != nil || held {
		t.Fatal(err, held)
	}
	opened := make(chan error, 1)
	go func() {
		l, err := ledger.Open(t.Context(), path, ledger.Options{})
		if err == nil {
			if _, held, err := ledger.Claim(path, 20*time.Millisecond); err == nil || !held {
				t.Errorf("a claim beside a daemon: held %t, %v", held, err)
			}
			err = l.Close()
		}
		opened <- err
	}()
	// Longer than a lock may outlive its process, which every other holder is refused after.
	select {
	case err := <-opened:
		t.Fatalf("the daemon did not wait for the guardian: %v", err)
	case <-time.After(400 * time.Millisecond):
	}
	if err := release.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Error(err)
	}
}
