package docker

import (
	"context"

	"amnesia/chaos"
)

// KillByHelper takes the way of a daemon that does not see the host's processes.
func (e *Engine) KillByHelper(ctx context.Context, pid int, id string) error {
	return e.helper.kill(ctx, pid, id)
}

// HelperImage is the image that was made for helpers; empty if none was needed.
func (e *Engine) HelperImage() string {
	e.helper.mu.Lock()
	defer e.helper.mu.Unlock()
	return e.helper.image
}

// ReasonFirst is the order in which deaths are told.
func ReasonFirst(in <-chan chaos.Event, emit func(chaos.Event)) { reasonFirst(in, emit) }
