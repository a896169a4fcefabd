package docker_test

import (
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"amnesia/chaos"
	"amnesia/chaos/docker"
)

func TestWipeTakesWhatIsEphemeralAndNothingElse(t *testing.T) {
	s := newStack(t)
	labelled := s.volume("labelled", map[string]string{docker.EphemeralLabel: "true"}, nil)
	kept := s.volume("kept", nil, nil)
	id, address := s.web("app", func(cfg *container.Config, host *container.HostConfig) {
		cfg.Volumes = map[string]struct{}{"/anon": {}}
		host.Tmpfs = map[string]string{"/tmpfs": ""}
		host.Mounts = []mount.Mount{{Type: mount.TypeVolume, Source: labelled, Target: "/labelled"}, {Type: mount.TypeVolume, Source: kept, Target: "/kept"},
			{Type: mount.TypeVolume, Target: "/anon2"}, {Type: mount.TypeTmpfs, Target: "/tmpfs2"}}
	})
	e := s.engine(docker.Service{Name: "app", Health: address + "/healthz"})
	ctx := testContext(t)
	files := []string{"/anon/f", "/anon2/f", "/tmpfs/f", "/tmpfs2/f", "/labelled/f", "/kept/f", "/layer/f"}
	fill := func() {
		t.Helper()
		eventually(t, "it answers", func() bool { return get(address+"/healthz") == "ok\n" })
		for _, f := range files {
			write(t, address, f, "text")
		}
	}
	for vol, wiped := range map[string]string{"/anon": "/anon/f", "/anon2/": "/anon2/f", "/tmpfs": "/tmpfs/f", "/tmpfs2": "/tmpfs2/f",
		"/labelled": "/labelled/f", labelled: "/labelled/f", "labelled": "/labelled/f"} {
		fill()
		must(t, e.Wipeable(ctx, "app", vol))
		if err := e.Empty(ctx, "app", vol); err == nil || !strings.Contains(err.Error(), "it is running") {
			t.Errorf("emptied under a running service: %v", err)
		}
		must(t, e.Kill(ctx, "app"))
		must(t, e.Empty(ctx, "app", vol))
		must(t, e.Start(ctx, "app"))
		eventually(t, "it answers", func() bool { return get(address+"/healthz") == "ok\n" })
		for _, f := range files {
			got := read(address, f)
			if gone := strings.HasPrefix(got, "!"); gone != (f == wiped || strings.HasPrefix(f, "/tmpfs")) { // a tmpfs goes with any death
				t.Errorf("after the wipe of %s: %s is %q", vol, f, got)
			}
		}
	}
	if now := inspect(t, id); !now.State.Running { // the same container all the while
		t.Error("it is down")
	}
	if err := e.Wipeable(ctx, "app", "/layer"); err == nil || !strings.Contains(err.Error(), "anonymous volume at /anon") {
		t.Errorf("the layer cannot go alone: %v", err)
	}
}

func TestWipeOfTheWritableLayer(t *testing.T) {
	s := newStack(t)
	kept := s.volume("kept", nil, nil)
	id, address := s.web("app", func(_ *container.Config, host *container.HostConfig) {
		host.Mounts = []mount.Mount{{Type: mount.TypeVolume, Source: kept, Target: "/kept"}}
	})
	write(t, address, "/kept/f", "text")
	write(t, address, "/layer/f", "text")
	e := s.engine(docker.Service{Name: "app"})
	ctx := testContext(t)
	must(t, e.Wipeable(ctx, "app", "/layer"))
	must(t, e.Kill(ctx, "app"))
	must(t, e.Empty(ctx, "app", "/layer"))
	must(t, e.Start(ctx, "app"))
	eventually(t, "it answers", func() bool { return get(address+"/healthz") == "ok\n" })
	if got := read(address, "/kept/f"); got != "text" {
		t.Errorf("a named volume: %q", got)
	}
	if got := read(address, "/layer/f"); !strings.HasPrefix(got, "!") {
		t.Errorf("the layer: %q", got)
	}
	if byName(t, s.project+"-app-1") == id {
		t.Error("the same container")
	}
}

func TestWipeRefusals(t *testing.T) {
	s := newStack(t)
	srv := t.TempDir()
	ephemeral := map[string]string{docker.EphemeralLabel: "true"}
	disguised := s.volume("disguised", ephemeral, map[string]string{"type": "none", "o": "bind", "device": srv})
	shared := s.volume("shared", ephemeral, nil)
	// It looks like a drawn name, but somebody has named it.
	long := s.volumeNamed(strings.Repeat("0123456789abcdef", 4), nil, nil)
	s.up("app", func(_ *container.Config, host *container.HostConfig) {
		host.Mounts = []mount.Mount{{Type: mount.TypeVolume, Source: disguised, Target: "/disguised"},
			{Type: mount.TypeVolume, Source: shared, Target: "/shared"}, {Type: mount.TypeVolume, Source: long, Target: "/long"}}
	})
	other := s.up("other", func(cfg *container.Config, host *container.HostConfig) {
		delete(cfg.Labels, docker.TargetLabel)
		host.Mounts = []mount.Mount{{Type: mount.TypeVolume, Source: shared, Target: "/shared"}}
	})
	e := s.engine(docker.Service{Name: "app"})
	ctx := testContext(t)
	must(t, e.Kill(ctx, "app"))
	for vol, want := range map[string]string{"/disguised": "bind mount of the host's " + srv, "/shared": "container " + other[:12] + " uses",
		"/long": docker.EphemeralLabel} {
		for _, err := range []error{e.Wipeable(ctx, "app", vol), e.Empty(ctx, "app", vol),
			chaos.Faults(e)[chaos.Wipe].Available(ctx, chaos.Injection{Kind: chaos.Wipe, Service: "app", Volume: vol})} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("wiping %s: %v", vol, err)
			}
		}
	}
}

// Without a static program of ours, what needs a helper is refused, and says so.
func TestWipeNeedsAHelper(t *testing.T) {
	s := newStack(t)
	s.up("app", func(cfg *container.Config, host *container.HostConfig) {
		cfg.Volumes = map[string]struct{}{"/anon": {}}
		host.Tmpfs = map[string]string{"/tmpfs": ""}
	})
	e := newEngine(t, docker.Config{Project: s.project, Helper: "/dev/null", Services: []docker.Service{{Name: "app"}}})
	must(t, e.Wipeable(testContext(t), "app", "/tmpfs"))
	if err := e.Wipeable(testContext(t), "app", "/anon"); err == nil || !strings.Contains(err.Error(), "is no Linux program") {
		t.Errorf("without a helper: %v", err)
	}
}
