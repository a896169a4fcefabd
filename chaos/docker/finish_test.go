package docker_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"amnesia/chaos"
	"amnesia/chaos/docker"
)

// The engine goes on with a stop although whoever asked for it has died. A revert that looked only whether the service
// runs would leave it to die later, with nobody to start it.
func TestAStopUnderWayIsFinished(t *testing.T) {
	s := newStack(t)
	id, app := s.web("app", func(cfg *container.Config, _ *container.HostConfig) { cfg.Cmd = []string{"deaf"} })
	e := s.engine(docker.Service{Name: "app", Health: app + "/healthz"})
	inj := chaos.Injection{Kind: chaos.Restart, Service: "app", Grace: 3 * time.Second}
	revert := func() {
		t.Helper()
		must(t, chaos.Faults(e)[inj.Kind].Revert(testContext(t), inj))
	}
	began := inspect(t, id).State.StartedAt
	revert()
	if now := inspect(t, id); now.State.StartedAt != began {
		t.Fatal("a revert of what was never injected ended the service")
	}
	ctx, cancel := context.WithCancel(testContext(t))
	stopped := make(chan error, 1)
	go func() { stopped <- e.Stop(ctx, "app", inj.Grace) }()
	eventually(t, "the stop", func() bool { return read(app, "/tmp/terminated") == "yes" })
	cancel()
	<-stopped
	revert()
	now := inspect(t, id)
	if !now.State.Running || now.State.StartedAt == began {
		t.Fatalf("after the revert: %+v, started before at %s", now.State, began)
	}
	// Past the grace of the stop that was under way.
	for until := time.Now().Add(inj.Grace + 500*time.Millisecond); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		if got := inspect(t, id); got.State.StartedAt != now.State.StartedAt || !got.State.Running {
			t.Fatalf("it died after the revert: %+v", got.State)
		}
	}
}

// A helper that is left says that a volume may be half empty.
func TestAWipeUnderWayIsFinished(t *testing.T) {
	s := newStack(t)
	vol := s.volume("data", map[string]string{docker.EphemeralLabel: "true"}, nil)
	_, app := s.web("app", func(_ *container.Config, host *container.HostConfig) {
		host.Mounts = []mount.Mount{{Type: mount.TypeVolume, Source: vol, Target: "/data"}}
	})
	e := s.engine(docker.Service{Name: "app", Health: app + "/healthz"})
	inj := chaos.Injection{Kind: chaos.Wipe, Service: "app", Volume: "/data"}
	for _, under := range []bool{false, true} {
		write(t, app, "/data/f", "text")
		must(t, e.Kill(testContext(t), "app"))
		if under {
			_, err := cli.ContainerCreate(testContext(t), &container.Config{Image: picture, Labels: map[string]string{
				docker.HelperLabel: "true", "amnesia.project": s.project, "amnesia.for": vol}}, nil, nil, nil, "")
			must(t, err)
		}
		must(t, chaos.Faults(e)[inj.Kind].Revert(testContext(t), inj))
		eventually(t, "it answers", func() bool { return get(app+"/healthz") == "ok\n" })
		if gone := strings.HasPrefix(read(app, "/data/f"), "!"); gone != under {
			t.Errorf("a wipe was under way: %v; the volume is empty: %v", under, gone)
		}
		noHelpers(t, s.project, "")
	}
}
