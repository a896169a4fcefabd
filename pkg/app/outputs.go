package app

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// output is a file that a command is told to write, with the flag that names it.
type output struct{ flag, path string }

// besideLedger are the endings of the files of a ledger.
var besideLedger = [...]string{"", "-wal", "-shm", ".lock", ".token"}

// checkOutputs refuses, before a command does anything, the outputs that would destroy something and those that cannot be
// written. ledgers are those that the command reads or writes; inputs are the other files that it reads. An empty path is
// none.
func checkOutputs(outs []output, ledgers, inputs []string) error {
	for i, o := range outs {
		if o.path == "" {
			continue
		}
		if err := o.check(outs[:i], ledgers, inputs); err != nil {
			return Usage(err)
		}
	}
	return nil
}

func (o output) check(earlier []output, ledgers, inputs []string) error {
	info, err := os.Stat(o.path)
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return nil // such as /dev/stdout, or a pipe, which would wait for its reader
	}
	for _, ledger := range ledgers {
		for _, ending := range besideLedger {
			if ledger != "" && sameFile(o.path, ledger+ending) {
				return fmt.Errorf("%s %s is a file of the ledger %s, which it would destroy — fix: give another file", o.flag, o.path, ledger)
			}
		}
	}
	for _, ending := range besideLedger {
		if stem, ok := strings.CutSuffix(o.path, ending); ok && isDatabase(stem) {
			return fmt.Errorf("%s %s is a file of a ledger or another database, which it would destroy — fix: give another file", o.flag, o.path)
		}
	}
	for _, path := range inputs {
		if path != "" && sameFile(o.path, path) {
			return fmt.Errorf("%s %s is a file that is read, which it would destroy — fix: give another file", o.flag, o.path)
		}
	}
	for _, other := range earlier {
		if other.path != "" && sameFile(o.path, other.path) {
			return fmt.Errorf("%s and %s are both %s — fix: give each a file of its own", other.flag, o.flag, o.path)
		}
	}
	if err := tryWrite(o.path); err != nil {
		return fmt.Errorf("%s: %w — fix: give a file in a folder that is there and can be written", o.flag, err)
	}
	return nil
}

// sameFile reports whether two paths lead to one file, or would once it is there.
func sameFile(a, b string) bool {
	x, xerr := os.Stat(a)
	y, yerr := os.Stat(b)
	if xerr == nil && yerr == nil {
		return os.SameFile(x, y)
	}
	return resolved(a) == resolved(b)
}

// resolved follows the links that a path has as far as it is there.
func resolved(path string) string {
	path = absolute(path)
	if whole, err := filepath.EvalSymlinks(path); err == nil {
		return whole
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(dir, filepath.Base(path))
	}
	return path
}

// isDatabase reports whether a file begins as those of SQLite do, as ledgers are.
func isDatabase(path string) bool {
	const header = "SQLite format 3\x00"
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	b := make([]byte, len(header))
	_, err = io.ReadFull(f, b)
	return err == nil && bytes.Equal(b, []byte(header))
}

// tryWrite tries whether a file can be written, and leaves it, or its absence, as it is.
func tryWrite(path string) error {
	_, missing := os.Lstat(path)
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil || missing == nil {
		return err
	}
	return os.Remove(path)
}
