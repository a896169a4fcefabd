//go:build unix

package process

// Guardian is the process id of the guardian.
func (e *Engine) Guardian() int { return e.guardian.PID() }
