package browser

import (
	"os"

	"github.com/prometheus/procfs"
)

// resident gives the memory, in bytes, of the browser's process pid, of Playwright's node, which we have started, above it,
// and of all below that; what they share is counted once (the Pss of proc_pid_smaps(5)). 0 when it cannot be read.
func resident(pid int) (bytes int64) {
	fs, err := procfs.NewDefaultFS()
	if err != nil || pid == 0 {
		return 0
	}
	all, err := fs.AllProcs()
	if err != nil {
		return 0
	}
	parents := make(map[int]int, len(all))
	for _, p := range all {
		if s, err := p.Stat(); err == nil {
			parents[p.PID] = s.PPID
		}
	}
	root := pid
	for parents[root] > 1 && parents[root] != os.Getpid() {
		root = parents[root]
	}
	for _, p := range all {
		for at := p.PID; at > 1; at = parents[at] {
			if at != root {
				continue
			}
			if m, err := p.ProcSMapsRollup(); err == nil {
				bytes += int64(m.Pss)
			}
			break
		}
	}
	return bytes
}
