package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// stat is what is needed of /proc/PID/stat (proc_pid_stat(5)).
type stat struct {
	state   byte
	group   int
	started string // clock ticks since boot
}

func readStat(pid int) (stat, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, err
	}
	// The name in brackets may hold anything, brackets and blanks too; the fields begin after the last one.
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 20 {
		return stat{}, fmt.Errorf("/proc/%d/stat has %d fields after the name", pid, len(fields))
	}
	group, err := strconv.Atoi(fields[2])
	return stat{state: fields[0][0], group: group, started: fields[19]}, err
}

func (s stat) dead() bool { return s.state == 'Z' || s.state == 'X' }

// startTime is empty for a process that is gone.
func startTime(pid int) string {
	s, err := readStat(pid)
	if err != nil {
		return ""
	}
	return s.started
}

func running(pid int, started string) bool {
	s, err := readStat(pid)
	return err == nil && s.started == started && !s.dead()
}

// pids lists the processes of the machine.
func pids() []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	var list []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			list = append(list, pid)
		}
	}
	return list
}

// members gives the states of the living processes of a group.
func members(group int) map[int]byte {
	states := make(map[int]byte)
	for _, pid := range pids() {
		if s, err := readStat(pid); err == nil && s.group == group && !s.dead() {
			states[pid] = s.state
		}
	}
	return states
}

// groupAlive reports whether anything of the group lives; zombies that nobody reaps do not count.
func groupAlive(group int) bool {
	return !errors.Is(syscall.Kill(-group, 0), syscall.ESRCH) && len(members(group)) > 0
}

// frozen reports whether every process of the group is stopped, and that there is one.
func frozen(group int) bool {
	states := members(group)
	for _, state := range states {
		if state != 'T' && state != 't' {
			return false
		}
	}
	return len(states) > 0
}

// thawed reports whether no process of the group is stopped.
func thawed(group int) bool {
	for _, state := range members(group) {
		if state == 'T' {
			return false
		}
	}
	return true
}

// marked lists the living processes whose environment, as they were given it, carries the engine's marker.
func marked(engine string) []int {
	want := []byte("\x00" + markerKey + "=" + engine + "\x00")
	var list []int
	for _, pid := range pids() {
		if pid == os.Getpid() {
			continue
		}
		env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
		if err != nil || !bytes.Contains(append([]byte{0}, env...), want) {
			continue
		}
		if s, err := readStat(pid); err == nil && !s.dead() {
			list = append(list, pid)
		}
	}
	return list
}

// killMarked ends every process that carries the marker, also those that fork meanwhile.
func killMarked(engine string) {
	for range 200 {
		list := marked(engine)
		if len(list) == 0 {
			return
		}
		for _, pid := range list {
			_ = syscall.Kill(pid, syscall.SIGKILL) // gone is as good
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// mounts lists the mount points (proc_pid_mountinfo(5)).
func mounts() []string {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	var points []string
	for line := range strings.Lines(string(b)) {
		if fields := strings.Fields(line); len(fields) > 4 {
			points = append(points, strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(fields[4]))
		}
	}
	return points
}
