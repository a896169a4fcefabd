//go:build unix

package rig_test

import (
	"testing"

	"golang.org/x/sys/unix"
)

// limited gives a folder in which no file can grow beyond what a ledger soon is: that is a limit of the whole process
// (setrlimit(2)), so the test runs alone.
func limited(t *testing.T) disk {
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	set := func(t *testing.T, l unix.Rlimit) {
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &l); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { set(t, was) })
	return disk{dir: t.TempDir(),
		fill:  func(t *testing.T) { set(t, unix.Rlimit{Cur: 256 << 10, Max: was.Max}) },
		empty: func(t *testing.T) { set(t, was) }}
}
