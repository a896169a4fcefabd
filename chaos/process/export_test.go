//go:build unix

package process

// Guardian is the process id of the guardian.
func (e *Engine) Guardian() int {
	e.guardian.mu.Lock()
	defer e.guardian.mu.Unlock()
	return e.guardian.cmd.Process.Pid
}
