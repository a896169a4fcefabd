package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"

	"amnesia/chaos"
)

// endings are the signals that a container is asked to end with.
var endings = []string{"2", "3", "6", "9", "15", "37"}

// Finish brings to an end what the engine, or a helper, goes on with although whoever asked for it has died. A container
// that was told to stop may run until its grace has passed, and nobody would start it again: it is killed now. A volume
// that a helper was at work on is emptied whole.
func (e *Engine) Finish(ctx context.Context, inj chaos.Injection) error {
	var errs []error
	for _, name := range chaos.Hit(inj) {
		errs = append(errs, e.change(ctx, name, "ending what was under way with", changeWait, func(ctx context.Context, c target) error {
			if _, err := e.helper.end(ctx, c.ID); err != nil {
				return err
			}
			if inj.Kind == chaos.Pause || inj.Kind == chaos.Partition {
				return nil
			}
			if err := e.endStop(ctx, c); err != nil {
				return err
			}
			if inj.Kind == chaos.Wipe {
				return e.endWipe(ctx, c, inj.Volume)
			}
			return nil
		}))
	}
	return errors.Join(errs...)
}

// endStop kills a container that has been told to end, and has not ended yet.
func (e *Engine) endStop(ctx context.Context, c target) error {
	if !c.runs() {
		return nil
	}
	told, err := e.toldToEnd(ctx, c)
	if err != nil || !told {
		return err
	}
	e.deaths.asked(c.instance())
	if err := e.cli.ContainerKill(ctx, c.ID, "SIGKILL"); err != nil && !errdefs.IsConflict(err) {
		return err
	}
	return e.until(ctx, c.ID, "its death", func(now target) bool { return !now.runs() || now.instance() != c.instance() })
}

// toldToEnd looks into what the engine remembers of the container since it started.
func (e *Engine) toldToEnd(ctx context.Context, c target) (bool, error) {
	began, err := time.Parse(time.RFC3339Nano, c.State.StartedAt)
	if err != nil {
		return false, fmt.Errorf("reading when it started: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	past, failed := e.cli.Events(ctx, events.ListOptions{Since: stamp(began), Until: stamp(e.now(ctx)), Filters: filters.NewArgs(
		filters.Arg("type", string(events.ContainerEventType)), filters.Arg("container", c.ID), filters.Arg("event", string(events.ActionKill)))})
	told := false
	for {
		select {
		case ev := <-past:
			told = told || slices.Contains(endings, ev.Actor.Attributes["signal"])
		case err := <-failed:
			if errors.Is(err, io.EOF) {
				return told, nil
			}
			return told, fmt.Errorf("asking what the engine remembers of it: %w", err)
		}
	}
}

// endWipe empties a volume that a helper has not been seen to be done with: half of it may be gone.
func (e *Engine) endWipe(ctx context.Context, c target, vol string) error {
	where, volume, err := e.locate(ctx, c, vol)
	if err != nil || where != inVolume {
		return err
	}
	found, err := e.helper.end(ctx, volume)
	if err != nil || !found {
		return err
	}
	if err := e.idle(ctx, volume); err != nil {
		return err
	}
	return e.helper.empty(ctx, volume)
}
