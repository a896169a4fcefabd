package docker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"amnesia/chaos"
)

// Check refuses what cannot be done to this very service, or not be undone.
func (e *Engine) Check(ctx context.Context, inj chaos.Injection) error {
	var errs []error
	for _, name := range chaos.Hit(inj) {
		list, err := e.containers(ctx, name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, c := range list {
			if err := e.check(c, inj); err != nil {
				errs = append(errs, fmt.Errorf("%s: container %s: %w", name, c.short(), err))
			}
		}
	}
	return errors.Join(errs...)
}

func (e *Engine) check(c target, inj chaos.Injection) error {
	switch {
	case inj.Kind == chaos.Partition:
		return cuttable(c)
	case inj.Kind == chaos.Pause:
		return nil
	case c.HostConfig.AutoRemove:
		return fmt.Errorf("it would be removed by the engine as soon as it is dead (--rm), and nobody could start it again — fix: start it without --rm")
	case inj.Supervised:
		return e.supervisable(c)
	}
	return nil
}

// Start ends a recreate that was cut short, then starts every container of the service that is down. It does not wait
// for health.
func (e *Engine) Start(ctx context.Context, name string) (err error) {
	defer e.observe.Time(e.clock, "start")(&err)
	if err := e.settle(ctx, name); err != nil {
		return fmt.Errorf("%s: ending a recreate that was cut short: %w", name, e.plain(err))
	}
	return e.change(ctx, name, "starting", changeWait, func(ctx context.Context, c target) error {
		if c.State.Running { // one that waits for its restart policy too
			return nil
		}
		return e.start(ctx, c.ID)
	})
}

func (e *Engine) start(ctx context.Context, id string) error {
	e.deaths.starting(id)
	if err := e.cli.ContainerStart(ctx, id, container.StartOptions{}); err != nil {
		e.deaths.settled(id)
		return err
	}
	// Remembered now, so that a death that follows at once has an identity, and the start's event, which may be late, is ours.
	if _, err := e.inspect(ctx, id); err != nil && !errdefs.IsNotFound(err) {
		return err // the next look sees the life
	}
	e.deaths.settled(id)
	return nil
}

// Kill sends SIGKILL to every container of the service and returns when all are dead. The engine does not apply the
// restart policy to such a death.
func (e *Engine) Kill(ctx context.Context, name string) (err error) {
	defer e.observe.Time(e.clock, "kill")(&err)
	return e.change(ctx, name, "killing", changeWait, func(ctx context.Context, c target) error {
		if !c.State.Running {
			return nil
		}
		if c.HostConfig.AutoRemove {
			return e.check(c, chaos.Injection{Kind: chaos.Kill})
		}
		e.deaths.asked(c.instance())
		// One that has died meanwhile is a conflict to the engine.
		if err := e.cli.ContainerKill(ctx, c.ID, "SIGKILL"); err != nil && !errdefs.IsConflict(err) {
			return err
		}
		return e.dead(ctx, c)
	})
}

// Stop sends the container's stop signal (SIGTERM unless its image says otherwise), waits up to grace, rounded up to
// seconds, then sends SIGKILL; it returns when all are dead. A paused container is thawed, so that it can hear.
func (e *Engine) Stop(ctx context.Context, name string, grace time.Duration) (err error) {
	defer e.observe.Time(e.clock, "stop")(&err)
	seconds := int(math.Ceil(grace.Seconds()))
	return e.change(ctx, name, "stopping", grace+changeWait, func(ctx context.Context, c target) error {
		if !c.State.Running {
			return nil
		}
		if c.HostConfig.AutoRemove {
			return e.check(c, chaos.Injection{Kind: chaos.Restart})
		}
		e.deaths.asked(c.instance())
		if c.State.Paused {
			if err := e.cli.ContainerUnpause(ctx, c.ID); err != nil && !errdefs.IsConflict(err) {
				return err
			}
		}
		if err := e.cli.ContainerStop(ctx, c.ID, container.StopOptions{Timeout: &seconds}); err != nil {
			return err
		}
		return e.dead(ctx, c)
	})
}

// dead waits until the engine says that nothing runs.
func (e *Engine) dead(ctx context.Context, c target) error {
	return e.until(ctx, c.ID, "its death", func(now target) bool { return !now.State.Running })
}

// until looks at a container until it is as it should be.
func (e *Engine) until(ctx context.Context, id, what string, reached func(now target) bool) error {
	for {
		now, err := e.inspect(ctx, id)
		if err != nil {
			return err
		}
		if reached(now) {
			return nil
		}
		select {
		case <-time.After(lookWait):
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		}
	}
}

// Freeze pauses every container of the service (the kernel's freezer) and returns when the engine has confirmed it.
func (e *Engine) Freeze(ctx context.Context, name string) (err error) {
	defer e.observe.Time(e.clock, "freeze")(&err)
	return e.change(ctx, name, "pausing", changeWait, func(ctx context.Context, c target) error {
		if !c.runs() {
			return errors.New("it is not running")
		}
		if c.State.Paused {
			return errors.New("somebody else has paused it — fix: docker unpause, if that was an oversight")
		}
		if err := e.cli.ContainerPause(ctx, c.ID); err != nil {
			return err
		}
		return e.until(ctx, c.ID, "the pause", func(now target) bool { return now.State.Paused })
	})
}

// Thaw lets the containers of the service go on; it does nothing to those that are down or not paused.
func (e *Engine) Thaw(ctx context.Context, name string) (err error) {
	defer e.observe.Time(e.clock, "thaw")(&err)
	return e.change(ctx, name, "thawing", changeWait, func(ctx context.Context, c target) error {
		if !c.State.Paused {
			return nil
		}
		if err := e.cli.ContainerUnpause(ctx, c.ID); err != nil && !errdefs.IsConflict(err) {
			return err
		}
		return e.until(ctx, c.ID, "the thaw", func(now target) bool { return !now.State.Paused })
	})
}

// KillSupervised kills the main process of every container by its process id on the engine's host, past the engine, and
// returns when the engine has seen it: the restart policy acts on such a death, and not on one by its own API.
func (e *Engine) KillSupervised(ctx context.Context, name string) (err error) {
	defer e.observe.Time(e.clock, "kill_supervised")(&err)
	return e.change(ctx, name, "killing past the engine", changeWait, func(ctx context.Context, c target) error {
		if !c.runs() {
			return errors.New("it is not running")
		}
		if err := e.supervisable(c); err != nil {
			return err
		}
		e.deaths.asked(c.instance())
		if err := e.killHostProcess(ctx, c); err != nil {
			return err
		}
		return e.until(ctx, c.ID, "its death", func(now target) bool { return !now.runs() || now.instance() != c.instance() })
	})
}

func (e *Engine) killHostProcess(ctx context.Context, c target) error {
	// The number is of the engine's host: it means this container here only if the kernel says so.
	if belongs(c.State.Pid, c.ID) {
		err := killProcess(c.State.Pid, c.ID)
		if err == nil || !errors.Is(err, os.ErrPermission) {
			return err
		}
	}
	return e.helper.kill(ctx, c.State.Pid, c.ID)
}

// supervisable says whether a supervisor would bring the container back, and whether its process can be reached.
func (e *Engine) supervisable(c target) error {
	if p := c.HostConfig.RestartPolicy; p.IsNone() || p.Name == "" {
		return errors.New("a supervised kill is refused: it has no restart policy that would bring it back — fix: give it one (restart: unless-stopped), or leave supervised out")
	}
	if belongs(c.State.Pid, c.ID) && os.Geteuid() == 0 {
		return nil
	}
	if err := e.helper.usable(); err != nil {
		return fmt.Errorf("a supervised kill is refused: its process is not in reach, and a helper cannot be made: %w", err)
	}
	return nil
}

// Tail gives the last lines of the service's containers, for people; none when the engine does not answer.
func (e *Engine) Tail(name string) []string {
	ctx, cancel := context.WithTimeout(e.ctx, 2*time.Second)
	defer cancel()
	list, err := e.containers(ctx, name)
	if err != nil {
		return nil
	}
	var lines []string
	for _, c := range list {
		err := e.readLogs(ctx, c, container.LogsOptions{ShowStdout: true, ShowStderr: true, Tail: fmt.Sprint(tailLines)},
			func(text string) { lines = append(lines, strings.TrimRight(text, "\r")) })
		if err != nil {
			return append(lines, "(the rest of the log could not be read: "+err.Error()+")")
		}
	}
	return lines
}
