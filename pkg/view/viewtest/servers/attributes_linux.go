package servers

import "syscall"

// attributes let a process end with us, whatever becomes of us.
func attributes(owner *syscall.Credential, end syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: owner, Pdeathsig: end}
}
