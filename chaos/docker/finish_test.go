package docker_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"amnesia/chaos"
	"amnesia/chaos/docker"
	"amnesia/pkg/clock"
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

// The image for helpers that a killed daemon has left goes with the next one, also if that one needs no helper.
func TestTheHelperImageOfAnEarlierDaemonGoes(t *testing.T) {
	s := newStack(t)
	vol := s.volume("data", map[string]string{docker.EphemeralLabel: "true"}, nil)
	s.create("app", func(_ *container.Config, host *container.HostConfig) {
		host.Mounts = []mount.Mount{{Type: mount.TypeVolume, Source: vol, Target: "/data"}}
	})
	// A version of the program of its own, so that no other test uses the same image.
	own := filepath.Join(t.TempDir(), "helper")
	code, err := os.ReadFile(program)
	must(t, err)
	must(t, os.WriteFile(own, append(code, "of its own"...), 0o755))
	cfg := docker.Config{Project: s.project, Services: []docker.Service{{Name: "app"}}, Helper: own, Clock: clock.System()}
	killed, err := docker.New(testContext(t), cfg)
	must(t, err)
	must(t, killed.Empty(testContext(t), "app", "/data"))
	left := killed.HelperImage()
	if _, err := cli.ImageInspect(testContext(t), left); left == "" || err != nil {
		t.Fatalf("no image %q was made: %v", left, err)
	}
	next, err := docker.New(testContext(t), cfg)
	must(t, err)
	must(t, next.Close())
	noHelpers(t, s.project, left)
	must(t, killed.Close())
}
