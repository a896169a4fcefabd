//go:build !linux

package servers

import "syscall"

func attributes(owner *syscall.Credential, _ syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: owner}
}
