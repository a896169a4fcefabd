//go:build unix

package process

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

// look is the pause between two looks at a process that is about to change.
const look = time.Millisecond

// endGroup kills what lives of a group and waits for its end. SIGKILL cannot be refused; what does not die hangs in the
// kernel, and is given up after a while.
func endGroup(group int) {
	for range 2000 {
		if !groupAlive(group) {
			return
		}
		_ = syscall.Kill(-group, syscall.SIGKILL) // gone is as good
		time.Sleep(look)
	}
}

// Freeze stops every process of the service (SIGSTOP) and returns when all are seen stopped.
func (e *Engine) Freeze(ctx context.Context, name string) (err error) {
	defer e.observe.Time(e.clock, "freeze")(&err)
	return e.hold(ctx, name, syscall.SIGSTOP, "freezing", frozen)
}

// Thaw lets the processes of the service go on (SIGCONT); it does nothing to one that is down or not frozen.
func (e *Engine) Thaw(ctx context.Context, name string) (err error) {
	defer e.observe.Time(e.clock, "thaw")(&err)
	return e.hold(ctx, name, syscall.SIGCONT, "thawing", thawed)
}

// hold repeats the signal until the group is as it should be: a process may be forked while it is sent.
func (e *Engine) hold(ctx context.Context, name string, sig syscall.Signal, doing string, reached func(group int) bool) error {
	s, err := e.service(name)
	if err != nil {
		return err
	}
	s.op.Lock()
	defer s.op.Unlock()
	p := s.current()
	if p == nil || !p.alive() {
		if sig == syscall.SIGCONT {
			return nil
		}
		return fmt.Errorf("%s: %s: it is not running", name, doing)
	}
	for {
		if err := p.signal(sig); err != nil {
			return fmt.Errorf("%s: %s: %w", name, doing, err)
		}
		if reached(p.pid) {
			return nil
		}
		select {
		case <-time.After(look):
		case <-p.done:
			return fmt.Errorf("%s: %s: it died", name, doing)
		case <-ctx.Done():
			return fmt.Errorf("%s: %s: %w", name, doing, ctx.Err())
		}
	}
}
