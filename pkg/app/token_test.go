package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"amnesia/pkg/config"
)

// TestTokenOfALedger: it is made once, is the same over restarts, and is its owner's alone.
func TestTokenOfALedger(t *testing.T) {
	ledger := filepath.Join(t.TempDir(), "a.db")
	a := &App{cfg: &config.Config{Ledger: config.Ledger{Path: ledger}}}
	first, err := a.token()
	if err != nil || len(first) < 22 {
		t.Fatalf("%q, %v", first, err)
	}
	info, err := os.Stat(tokenFile(ledger))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if again, err := a.token(); again != first || err != nil {
		t.Errorf("then %q, %v", again, err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(ledger), ".token*")); len(left) > 0 || err != nil {
		t.Errorf("left behind: %v, %v", left, err)
	}
	other := &App{cfg: &config.Config{Ledger: config.Ledger{Path: filepath.Join(t.TempDir(), "b.db")}}}
	if second, err := other.token(); second == first || err != nil {
		t.Errorf("another ledger's is %q, %v", second, err)
	}
	a.cfg.Web.Token = config.NewSecret("the configuration's own")
	if got, err := a.token(); got != "the configuration's own" || err != nil {
		t.Errorf("with one in the configuration: %q, %v", got, err)
	}
}

// TestTokenThatIsNotTrusted: a file that another may have read or put there is refused, with what to do.
func TestTokenThatIsNotTrusted(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"others may read it": func(path string) error { return os.WriteFile(path, []byte("a-token-of-somebody"), 0o644) },
		"it is a link": func(path string) error {
			to := filepath.Join(filepath.Dir(path), "elsewhere")
			if err := os.WriteFile(to, []byte("a-token-of-somebody"), 0o600); err != nil {
				return err
			}
			return os.Symlink(to, path)
		},
		"it is a folder": func(path string) error { return os.Mkdir(path, 0o700) },
		"it is empty":    func(path string) error { return os.WriteFile(path, []byte("\n"), 0o600) },
	} {
		ledger := filepath.Join(t.TempDir(), "a.db")
		if err := put(tokenFile(ledger)); err != nil {
			t.Fatal(err)
		}
		a := &App{cfg: &config.Config{Ledger: config.Ledger{Path: ledger}}}
		if got, err := a.token(); got != "" || err == nil || !strings.Contains(err.Error(), tokenFile(ledger)) || !strings.Contains(err.Error(), " — fix: remove it") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
