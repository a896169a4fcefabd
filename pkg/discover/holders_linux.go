package discover

import (
	"fmt"
	"os"
	"strings"

	"github.com/prometheus/procfs"
)

// Holders names the processes that have a file open, in whatever container of this host they are, this one aside. Those
// of other users are seen by root only.
func Holders(path string) (names []string) {
	file, err := os.Stat(path)
	if err != nil {
		return nil
	}
	procs, err := procfs.AllProcs()
	if err != nil {
		return nil
	}
	for _, p := range procs {
		fds, err := p.FileDescriptors()
		if err != nil || p.PID == os.Getpid() {
			continue
		}
		for _, fd := range fds {
			// By what it leads to, not by its name: that is another one in a container.
			if open, err := os.Stat(fmt.Sprintf("/proc/%d/fd/%d", p.PID, fd)); err == nil && os.SameFile(file, open) {
				name, _ := p.Comm()
				names = append(names, strings.TrimSpace(fmt.Sprintf("%s (%d)", name, p.PID)))
				break
			}
		}
	}
	return names
}
