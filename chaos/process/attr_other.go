//go:build unix && !linux

package process

import (
	"os"
	"syscall"
)

func groupOfItsOwn() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func self() (string, error) { return os.Executable() }
