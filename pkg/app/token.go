package app

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// tokenFile is where the token is kept that the daemon of a ledger makes for itself: the command line on the same machine
// finds it there.
func tokenFile(ledger string) string { return ledger + ".token" }

// token gives the token that is asked of whoever acts: the configuration's, or the ledger's own.
func (a *App) token() (string, error) {
	if t := a.cfg.Web.Token; t.IsSet() {
		return t.Reveal(), nil
	}
	path := tokenFile(a.cfg.Ledger.Path)
	t, err := readToken(path)
	if errors.Is(err, fs.ErrNotExist) {
		t, err = makeToken(path)
	}
	if err != nil {
		return "", fmt.Errorf("the daemon's token: %w", err)
	}
	return t, nil
}

// readToken reads a token's file, and trusts it only if nobody else can have put a token into it or read it.
func readToken(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("%s is not a file that only its owner may read (it is %s) — fix: remove it, and start the daemon again", path, info.Mode())
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 1024))
	if err != nil {
		return "", err
	}
	t := strings.TrimSpace(string(text))
	if t == "" {
		return "", fmt.Errorf("%s is empty — fix: remove it, and start the daemon again", path)
	}
	return t, nil
}

// makeToken makes a token of 128 random bits or more and its file, whole or not at all.
func makeToken(path string) (string, error) {
	t := rand.Text()
	f, err := os.CreateTemp(filepath.Dir(path), ".token-*") // for its owner only
	if err != nil {
		return "", err
	}
	_, err = fmt.Fprintln(f, t)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return t, nil
}
