//go:build unix

package process

import (
	"os/exec"
	"runtime"
)

// spawner starts every process on one thread that lives as long as the engine: the kernel sends the parent-death
// signal when the thread that forked ends, not the process (prctl(2), PR_SET_PDEATHSIG).
type spawner struct{ work chan func() }

func newSpawner() *spawner {
	s := &spawner{work: make(chan func())}
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		for f := range s.work {
			f()
		}
	}()
	return s
}

func (s *spawner) start(cmd *exec.Cmd) error {
	done := make(chan error)
	s.work <- func() { done <- cmd.Start() }
	return <-done
}

func (s *spawner) close() { close(s.work) }
