//go:build !unix

package ledger

import (
	"io"
	"time"
)

const noLock = refusal("a ledger cannot be written on this system — fix: run the daemon on Linux, or in a container")

// lock refuses: a lock that ends with the process, however it ends, is known here for Unix only.
func lock(string) (io.Closer, error) { return nil, noLock }

// Claim refuses as well.
func Claim(string, time.Duration) (release io.Closer, held bool, err error) {
	return nil, false, noLock
}
