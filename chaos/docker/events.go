package docker

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	"go.uber.org/zap"

	"amnesia/chaos"
	"amnesia/pkg/fact"
)

const (
	buffered  = 1024 // of each consumer
	leastWait = 100 * time.Millisecond
	mostWait  = 2 * time.Second // between two tries to reach the engine again
	oomWait   = 500 * time.Millisecond
)

// Events follows deaths, starts, out-of-memory kills and health of the services. What happens while the engine cannot be
// reached is caught up on, as far as the engine remembers it. A death with Ours false was asked for by nobody here; so was
// a start by a restart policy. A slow consumer loses events; Dropped counts them.
func (e *Engine) Events(ctx context.Context) <-chan chaos.Event {
	out := make(chan chaos.Event, buffered)
	ctx, stop := e.following(ctx)
	since := e.now(ctx)
	e.look(ctx)
	raw := make(chan chaos.Event)
	go func() {
		defer close(raw)
		defer stop()
		e.follow(ctx, since, func() { e.look(ctx) }, func(ev chaos.Event) { raw <- ev })
	}()
	go func() {
		defer close(out)
		reasonFirst(raw, func(ev chaos.Event) {
			select {
			case out <- ev:
			default:
				e.dropped.Add(1)
			}
		})
	}()
	return out
}

// reasonFirst passes events on in their order, but for one pair: the engine learns of a kill for want of memory and of the
// death by two ways, and either may come first. A death by a SIGKILL of nobody here waits oomWait for its reason, and what
// comes meanwhile waits behind it.
func reasonFirst(in <-chan chaos.Event, emit func(chaos.Event)) {
	oom := map[string]fact.Instance{} // the last one of each service
	var held []chaos.Event
	var over <-chan time.Time
	release := func() {
		for _, ev := range held {
			emit(ev)
		}
		held, over = nil, nil
	}
	for {
		select {
		case ev, ok := <-in:
			switch {
			case !ok:
				release()
				return
			case ev.Kind == "oom":
				oom[ev.Service] = ev.Instance
				emit(ev)
				if len(held) > 0 && held[0].Instance == ev.Instance {
					release()
				}
			case len(held) > 0:
				held = append(held, ev)
			case ev.Kind == "die" && !ev.Ours && ev.Exit == 137 && oom[ev.Service] != ev.Instance:
				held, over = append(held, ev), time.After(oomWait)
			default:
				emit(ev)
			}
		case <-over:
			release()
		}
	}
}

// following ends with ctx or with the engine.
func (e *Engine) following(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(e.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// now reads the engine's clock, and ours if it does not answer: an event stream that begins then misses nothing since.
func (e *Engine) now(ctx context.Context) time.Time {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	if info, err := e.cli.Info(ctx); err == nil {
		if t, err := time.Parse(time.RFC3339Nano, info.SystemTime); err == nil {
			return t
		}
	}
	return e.clock.Now().Time()
}

// look remembers who lives, so that a death has an identity.
func (e *Engine) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	for _, s := range e.services {
		if _, err := e.containers(ctx, s.Name); err != nil {
			e.log.Debug("could not look at a service", zap.String("service", s.Name), zap.Error(err))
		}
	}
}

// follow reads the engine's events from since on until ctx ends, over breaks of the connection; again is called after
// each.
func (e *Engine) follow(ctx context.Context, since time.Time, again func(), emit func(chaos.Event)) {
	want := filters.NewArgs(filters.Arg("type", string(events.ContainerEventType)), filters.Arg("label", TargetLabel+"=true"))
	if e.project != "" {
		want.Add("label", projectLabel+"="+e.project)
	}
	wait := leastWait
	for ctx.Err() == nil {
		stream, cancel := context.WithCancel(ctx)
		messages, errs := e.cli.Events(stream, events.ListOptions{Since: stamp(since), Filters: want})
		var err error
		for err == nil {
			select {
			case m := <-messages:
				wait = leastWait
				since = time.Unix(0, m.TimeNano+1)
				if ev, ok := e.event(ctx, m); ok {
					emit(ev)
				}
			case err = <-errs:
			}
		}
		cancel()
		if ctx.Err() != nil {
			return
		}
		e.log.Warn("the stream of the engine's events broke, and is opened again", zap.Error(e.told("following its events", err)))
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		wait = min(2*wait, mostWait)
		again()
	}
}

// stamp is how the API takes an instant.
func stamp(t time.Time) string { return fmt.Sprintf("%d.%09d", t.Unix(), t.Nanosecond()) }

// event translates a message; false for what is not one of ours.
func (e *Engine) event(ctx context.Context, m events.Message) (chaos.Event, bool) {
	ev := chaos.Event{Service: e.serviceOf(m.Actor.Attributes["name"], m.Actor.Attributes), At: time.Unix(0, m.TimeNano)}
	if !slices.ContainsFunc(e.services, func(s *service) bool { return s.Name == ev.Service }) {
		return ev, false
	}
	switch action := string(m.Action); {
	case action == string(events.ActionStart):
		ev.Kind = "start"
		// A container that died at once keeps its start time.
		if c, err := e.inspect(ctx, m.Actor.ID); err == nil {
			e.deaths.seen(c.instance())
		}
		ev.Instance, ev.Ours, _ = e.deaths.at(m.Actor.ID, ev.At)
		return ev, true
	case action == string(events.ActionDie):
		ev.Kind = "die"
		ev.Exit, _ = strconv.Atoi(m.Actor.Attributes["exitCode"]) // 0 when it is not told
	case action == string(events.ActionOOM):
		ev.Kind = "oom"
	case strings.HasPrefix(action, string(events.ActionHealthStatus)):
		// Podman tells the state in an attribute.
		if ev.Kind = strings.TrimPrefix(action, string(events.ActionHealthStatus)+": "); ev.Kind == action {
			ev.Kind = m.Actor.Attributes["health_status"]
		}
		if ev.Kind != "healthy" && ev.Kind != "unhealthy" {
			return ev, false
		}
	default:
		return ev, false
	}
	ev.Instance, _, ev.Ours = e.deaths.at(m.Actor.ID, ev.At)
	ev.Ours = ev.Ours && ev.Kind == "die"
	return ev, true
}
