package image

import (
	"crypto/sha256"
	"io"
	"os"
	"sync"
)

// Program gives the fingerprint of the running program's file: two that differ in a rule have different ones, though their
// types may be the same. It is read once.
var Program = sync.OnceValues(func() (sum [sha256.Size]byte, err error) {
	f, err := os.Open("/proc/self/exe") // this very file, though another may have taken its name
	if err != nil {
		path, err := os.Executable()
		if err != nil {
			return sum, err
		}
		if f, err = os.Open(path); err != nil {
			return sum, err
		}
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return sum, err
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
})
