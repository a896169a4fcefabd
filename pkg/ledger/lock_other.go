//go:build !unix

package ledger

import "io"

// lock refuses: a lock that ends with the process, however it ends, is known here for Unix only.
func lock(string) (io.Closer, error) {
	return nil, refusal("a ledger cannot be written on this system — fix: run the daemon on Linux, or in a container")
}
