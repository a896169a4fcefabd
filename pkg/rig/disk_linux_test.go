package rig_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// smallDisk gives a file system of its own, of 32 MiB, where that is allowed, and a folder with a limit elsewhere.
func smallDisk(t *testing.T) disk {
	dir := t.TempDir()
	if err := unix.Mount("amnesia-rig", dir, "tmpfs", 0, "size=32m"); err != nil {
		t.Logf("no file system of its own (%v): the size of files is limited instead", err)
		return limited(t)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	t.Parallel()
	stuffing := filepath.Join(dir, "stuffing")
	return disk{dir: dir, fill: func(t *testing.T) { stuff(t, stuffing) }, empty: func(t *testing.T) {
		if err := os.Remove(stuffing); err != nil {
			t.Fatal(err)
		}
	}}
}
