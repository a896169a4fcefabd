package docker

import "context"

// KillByHelper takes the way of a daemon that does not see the host's processes.
func (e *Engine) KillByHelper(ctx context.Context, pid int, id string) error {
	return e.helper.kill(ctx, pid, id)
}
