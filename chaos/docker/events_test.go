package docker_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"amnesia/chaos"
	"amnesia/chaos/docker"
	"amnesia/pkg/fact"
)

func died(ev chaos.Event) bool { return ev.Kind == "die" }

func TestForeignDeathsAreToldFromOurs(t *testing.T) {
	s := newStack(t)
	id, address := s.web("app", nil)
	s.up("decoy", func(cfg *container.Config, _ *container.HostConfig) { delete(cfg.Labels, docker.TargetLabel) })
	e := s.engine(docker.Service{Name: "app"})
	ctx := testContext(t)
	events := e.Events(ctx)
	var lives []chaos.Event
	for _, step := range []struct {
		name string
		do   func() error
		ours bool
		exit int
	}{
		{"a stray docker kill", func() error { return cli.ContainerKill(ctx, id, "SIGKILL") }, false, 137},
		{"our kill", func() error { return e.Kill(ctx, "app") }, true, 137},
		{"a stray docker stop", func() error { return cli.ContainerStop(ctx, id, container.StopOptions{}) }, false, 0},
		{"its own end", func() error { _ = get(address + "/exit?code=3"); return nil }, false, 3},
		{"our stop", func() error { return e.Stop(ctx, "app", time.Second) }, true, 0},
		{"a stray kill of the one that we have killed before", func() error { return cli.ContainerKill(ctx, id, "SIGKILL") }, false, 137},
	} {
		must(t, e.Start(ctx, "app"))
		eventually(t, "it answers", func() bool { return get(address+"/healthz") == "ok\n" })
		who, err := e.Instances(ctx, "app")
		must(t, err)
		must(t, step.do())
		ev := take(t, events, step.name, died)
		if ev.Ours != step.ours || ev.Exit != step.exit || ev.Service != "app" || len(who) != 1 || ev.Instance != who[0] {
			t.Errorf("%s was told as %+v, of %+v", step.name, ev, who)
		}
		lives = append(lives, ev)
	}
	for i, ev := range lives {
		if slices.ContainsFunc(lives[:i], func(o chaos.Event) bool { return o.Instance == ev.Instance }) {
			t.Errorf("two deaths of one life: %+v", ev)
		}
	}
}

func TestStrangersGiveNoEvents(t *testing.T) {
	s := newStack(t)
	decoy := s.up("decoy", func(cfg *container.Config, _ *container.HostConfig) { delete(cfg.Labels, docker.TargetLabel) })
	undeclared := s.up("undeclared", nil)
	id := s.up("app", nil)
	e := s.engine(docker.Service{Name: "app"}, docker.Service{Name: "decoy"})
	events := e.Events(testContext(t))
	for _, id := range []string{decoy, undeclared, id} {
		must(t, cli.ContainerKill(testContext(t), id, "SIGKILL"))
	}
	if ev := take(t, events, "a death", func(chaos.Event) bool { return true }); ev.Service != "app" || ev.Kind != "die" {
		t.Errorf("told of a stranger: %+v", ev)
	}
}

func TestOutOfMemoryAndHealth(t *testing.T) {
	s := newStack(t)
	_, address := s.web("app", func(cfg *container.Config, host *container.HostConfig) {
		host.Memory, host.MemorySwap = 32<<20, 32<<20
		cfg.Healthcheck = &container.HealthConfig{Test: []string{"CMD", "/target", "probe"}, Interval: time.Second, Timeout: 5 * time.Second}
	})
	e := s.engine(docker.Service{Name: "app"})
	events := e.Events(testContext(t))
	must(t, e.Kill(testContext(t), "app"))
	must(t, e.Start(testContext(t), "app"))
	take(t, events, "health", func(ev chaos.Event) bool { return ev.Kind == "healthy" })
	_ = get(address + "/eat")
	oom := take(t, events, "the kill by the kernel", func(ev chaos.Event) bool { return ev.Kind == "oom" })
	die := take(t, events, "the death", died)
	if oom.Ours || die.Ours || die.Exit != 137 || oom.Instance != die.Instance {
		t.Errorf("out of memory was told as %+v and %+v", oom, die)
	}
}

func TestLogsOverRestartsAndRecreations(t *testing.T) {
	s := newStack(t)
	_, address := s.web("app", nil)
	if got := get(address + "/say?text=before"); got != "" {
		t.Fatal(got)
	}
	e := s.engine(docker.Service{Name: "app"})
	eventually(t, "the engine has stamped it", func() bool { return slices.Contains(e.Tail("app"), "before") })
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	began := time.Now()
	lines := e.Logs(ctx)
	var seen []string
	next := func(want string) {
		t.Helper()
		timeout := time.After(20 * time.Second)
		for {
			select {
			case l := <-lines:
				seen = append(seen, l.Text)
				if l.Service != "app" || l.At.Before(began.Add(-time.Second)) || l.At.After(time.Now().Add(time.Second)) {
					t.Errorf("a line of %s at %s", l.Service, l.At)
				}
				if strings.HasPrefix(l.Text, want) {
					return
				}
			case <-timeout:
				t.Fatalf("never logged: %q; logged: %q", want, seen)
			}
		}
	}
	say := func(text string) {
		t.Helper()
		eventually(t, "it answers", func() bool { return get(address+"/say?text="+text) == "" })
		next(text)
	}
	say("first")
	for i := range 3 {
		must(t, e.Stop(ctx, "app", time.Second))
		next("terminated")
		must(t, e.Start(ctx, "app"))
		next("up")
		say(fmt.Sprint("after-restart-", i))
	}
	must(t, e.Kill(ctx, "app"))
	must(t, e.Recreate(ctx, "app"))
	next("up")
	say("after-recreate")
	for _, line := range seen {
		if line == "before" {
			t.Error("a line from before was told")
		}
		if n := strings.Count(strings.Join(seen, "\n")+"\n", line+"\n"); strings.HasPrefix(line, "after") && n != 1 {
			t.Errorf("%q was told %d times", line, n)
		}
	}
	if tail := e.Tail("app"); !slices.Contains(tail, "after-recreate") {
		t.Errorf("tail: %q", tail)
	}
	cancel()
	eventually(t, "the channel is closed", func() bool {
		select {
		case _, ok := <-lines:
			return !ok
		default:
			return false
		}
	})
}

// TestTheReasonComesFirst: the engine may tell of the death before it tells of the kill for want of memory.
func TestTheReasonComesFirst(t *testing.T) {
	one, other := fact.Instance{ID: "1"}, fact.Instance{ID: "2"}
	ev := func(kind string, who fact.Instance, exit int, ours bool) chaos.Event {
		return chaos.Event{Service: "app", Kind: kind, Instance: who, Exit: exit, Ours: ours}
	}
	oom, died, start := ev("oom", one, 0, false), ev("die", one, 137, false), ev("start", other, 0, false)
	for _, c := range []struct {
		name     string
		in, want []chaos.Event
	}{
		{"in order", []chaos.Event{oom, died, start}, []chaos.Event{oom, died, start}},
		{"out of order", []chaos.Event{died, start, oom}, []chaos.Event{oom, died, start}},
		{"no reason", []chaos.Event{died, start}, []chaos.Event{died, start}},
		{"the reason of another life", []chaos.Event{ev("oom", other, 0, false), died}, []chaos.Event{ev("oom", other, 0, false), died}},
	} {
		in := make(chan chaos.Event, len(c.in))
		for _, e := range c.in {
			in <- e
		}
		close(in)
		var got []chaos.Event
		docker.ReasonFirst(in, func(e chaos.Event) { got = append(got, e) })
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}

	in, out := make(chan chaos.Event), make(chan chaos.Event, 8)
	go docker.ReasonFirst(in, func(e chaos.Event) { out <- e })
	defer close(in)
	in <- ev("die", one, 137, true) // ours needs no reason
	in <- ev("die", one, 3, false)  // nor does an end of its own
	in <- died
	for range 3 {
		take(t, out, "a death without a reason", func(chaos.Event) bool { return true })
	}
}
