package process

import "syscall"

// groupOfItsOwn also asks for SIGKILL when the daemon dies, a belt beside the guardian's braces.
func groupOfItsOwn() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
