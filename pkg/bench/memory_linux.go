package bench

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// watchMemory looks at how much memory the process pid has had resident at most, until it is stopped, and gives the last
// figure in bytes; 0 where there is none. (What getrusage(2) says of a child that has ended counts the time before its exec,
// in which it was a copy of this process.)
func watchMemory(pid int) (stop func() int64) {
	return watch(func() int64 { return highWater(pid) })
}

// highWater reads VmHWM (proc_pid_status(5)); 0 when the process has gone.
func highWater(pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(status, []byte("VmHWM:"))
	fields := bytes.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kb, err := strconv.ParseInt(string(fields[0]), 10, 64)
	if err != nil {
		return 0
	}
	return kb << 10
}
