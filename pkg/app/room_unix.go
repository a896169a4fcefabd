//go:build unix

package app

import "golang.org/x/sys/unix"

// room is the space on the disk of a folder that is left to us, in bytes.
func room(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}
