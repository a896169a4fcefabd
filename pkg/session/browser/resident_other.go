//go:build !linux

package browser

// resident is not known here.
func resident(int) int64 { return 0 }
