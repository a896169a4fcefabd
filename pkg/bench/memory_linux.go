package bench

import (
	"os"
	"syscall"
)

// peakMemory is the peak resident memory of a process that has ended, in bytes (getrusage(2) gives kilobytes on Linux).
func peakMemory(s *os.ProcessState) int64 {
	if u, ok := s.SysUsage().(*syscall.Rusage); ok {
		return u.Maxrss << 10
	}
	return 0
}
