package bench

import (
	"testing"

	"amnesia/chaos"
	"amnesia/chaos/process"
	"amnesia/pkg/session/browser/browsertest"
)

// TestBare: the script loads its users' pages, all at once, and notices when a history is not what its user told.
func TestBare(t *testing.T) {
	amnesia, err := program()
	if err != nil {
		t.Fatal(err)
	}
	at := browsertest.Installed(t)
	addr, err := freeAddress(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = withSample(t.Context(), amnesia, t.TempDir(), addr, func(*process.Engine, *chaos.Prober) error {
		s, err := newBare(t.Context(), at, "http://"+addr, 3)
		if err != nil {
			return err
		}
		if err := s.load(); err != nil {
			t.Error(err)
		}
		// One of them tells everything once more.
		if _, err := bareUser(t.Context(), "http://"+addr, "bare-1"); err != nil {
			t.Error(err)
		}
		if s.load() == nil {
			t.Error("a user's page has other messages than told, and the script does not see it")
		}
		return s.close()
	})
	if err != nil {
		t.Fatal(err)
	}
}
