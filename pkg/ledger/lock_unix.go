//go:build unix

package ledger

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// lock makes this process the only writer of the ledger at path. The lock is the kernel's (flock(2)) on a file beside
// the ledger: it goes with the process, however that ends, and hinders no reader. The file stays; only the lock counts.
func lock(path string) (io.Closer, error) {
	f, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer f.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("locking %s: %w", f.Name(), err)
		}
		holder := "another process"
		if pid, err := io.ReadAll(io.LimitReader(f, 20)); err == nil && len(pid) > 0 {
			holder = "process " + strings.TrimSpace(string(pid))
		}
		return nil, refusal("it is in use by " + holder + " — fix: stop that one, or give another path")
	}
	// The number is for the message above. That it could not be written is no reason not to run.
	if f.Truncate(0) == nil {
		_, _ = fmt.Fprintln(f, os.Getpid())
	}
	return f, nil
}
