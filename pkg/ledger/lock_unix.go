//go:build unix

package ledger

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// lockLinger is for how long a lock may outlive its process: in a child that it forked and that has not yet become
	// another program.
	lockLinger = 250 * time.Millisecond
	// guardianWait is for how long a guardian may hold the lock while it undoes what its daemon did not live to undo.
	guardianWait = 15 * time.Second
	lockLook     = 5 * time.Millisecond

	guardianHolds = "the guardian of a daemon that died, process "
)

// lock makes this process the only writer of the ledger at path. The lock is the kernel's (flock(2)) on a file beside
// the ledger: it goes with the process, however that ends, and hinders no reader. The file stays; only the lock counts.
// A guardian is waited for.
func lock(path string) (io.Closer, error) {
	return claim(path, "process ", func(holder string) time.Duration {
		if strings.HasPrefix(holder, guardianHolds) {
			return guardianWait
		}
		return lockLinger
	})
}

// Claim takes the lock of the ledger at path for a guardian: whoever has it may undo injections. The ledger is not opened.
// A lock that is held all through wait is another daemon's, which undoes them itself: held is true.
func Claim(path string, wait time.Duration) (release io.Closer, held bool, err error) {
	release, err = claim(path, guardianHolds, func(string) time.Duration { return wait })
	_, held = errors.AsType[refusal](err)
	return release, held, err
}

// claim locks, and leaves in the file who did; patience says how long to wait for whom.
func claim(path, who string, patience func(holder string) time.Duration) (io.Closer, error) {
	f, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	for start := time.Now(); ; time.Sleep(lockLook) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("locking %s: %w", f.Name(), err), f.Close())
		}
		holder := "another process"
		if text, err := io.ReadAll(io.NewSectionReader(f, 0, 100)); err == nil && len(text) > 0 {
			holder = strings.TrimSpace(string(text))
		}
		if time.Since(start) >= patience(holder) {
			f.Close()
			return nil, refusal("it is in use by " + holder + " — fix: stop that one, or give another path")
		}
	}
	// The words are for the message above. That they could not be written is no reason not to run.
	if f.Truncate(0) == nil {
		_, _ = fmt.Fprintf(f, "%s%d\n", who, os.Getpid())
	}
	return f, nil
}
