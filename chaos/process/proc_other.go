//go:build unix && !linux

package process

import (
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// Without /proc the identity is what ps says, and a state cannot be verified.

func startTime(pid int) string {
	out, err := exec.Command("ps", "-o", "lstart=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

func running(pid int, _ string) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

func groupAlive(group int) bool { return !errors.Is(syscall.Kill(-group, 0), syscall.ESRCH) }

func frozen(group int) bool { return groupAlive(group) }

func thawed(int) bool { return true }

func killMarked(string) {}

func mounts() []string { return nil }
