package docker_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/versions"

	"amnesia/chaos"
	"amnesia/chaos/docker"
	"amnesia/pkg/clock"
)

func TestKillStartStop(t *testing.T) {
	s := newStack(t)
	id, address := s.web("app", nil)
	e := s.engine(docker.Service{Name: "app", Health: address + "/healthz"})
	ctx := testContext(t)
	events := e.Events(ctx)

	before, err := e.Instances(ctx, "app")
	must(t, err)
	if len(before) != 1 || before[0].ID != id || before[0].Started == "" {
		t.Fatalf("instances: %+v", before)
	}
	began := time.Now()
	must(t, e.Kill(ctx, "app"))
	killed := time.Since(began)
	if c := inspect(t, id); c.State.Running || c.State.ExitCode != 137 {
		t.Fatalf("after the kill: %+v", c.State)
	}
	if who, err := e.Instances(ctx, "app"); err != nil || len(who) != 0 {
		t.Fatalf("a dead service has instances: %+v, %v", who, err)
	}
	must(t, e.Kill(ctx, "app")) // of the dead is nothing
	began = time.Now()
	must(t, e.Start(ctx, "app"))
	t.Logf("kill %s, start %s", killed, time.Since(began))
	must(t, e.Start(ctx, "app"))
	after, err := e.Instances(ctx, "app")
	must(t, err)
	if len(after) != 1 || after[0].ID != id || after[0] == before[0] {
		t.Fatalf("the identity did not change: %+v to %+v", before, after)
	}
	died := take(t, events, "the death", func(ev chaos.Event) bool { return ev.Kind == "die" })
	if !died.Ours || died.Exit != 137 || died.Service != "app" || died.Instance != before[0] {
		t.Errorf("our kill was told as %+v", died)
	}
	if started := take(t, events, "the start", func(ev chaos.Event) bool { return ev.Kind == "start" }); !started.Ours || started.Instance != after[0] {
		t.Errorf("our start was told as %+v, and the instance is %+v", started, after[0])
	}

	eventually(t, "it answers", func() bool { return get(address+"/healthz") == "ok\n" })
	must(t, e.Stop(ctx, "app", 5*time.Second))
	if c := inspect(t, id); c.State.Running || c.State.ExitCode != 0 {
		t.Fatalf("after the stop: %+v", c.State)
	}
	if tail := e.Tail("app"); !slices.Contains(tail, "terminated") {
		t.Errorf("the tail lacks the last words: %q", tail)
	}
}

func TestAllCopiesAreHurt(t *testing.T) {
	s := newStack(t)
	first := s.up("app", nil)
	second := s.up("app", func(cfg *container.Config, _ *container.HostConfig) {
		cfg.Labels["com.docker.compose.container-number"] = "2"
	})
	e := s.engine(docker.Service{Name: "app"})
	if who, err := e.Instances(testContext(t), "app"); err != nil || len(who) != 2 {
		t.Fatalf("instances: %v, %v", who, err)
	}
	must(t, e.Kill(testContext(t), "app"))
	for _, id := range []string{first, second} {
		if inspect(t, id).State.Running {
			t.Errorf("%s runs", id)
		}
	}
	must(t, e.Start(testContext(t), "app"))
	if who, err := e.Instances(testContext(t), "app"); err != nil || len(who) != 2 {
		t.Fatalf("instances after the start: %v, %v", who, err)
	}
}

func TestPause(t *testing.T) {
	s := newStack(t)
	id, address := s.web("app", nil)
	e := s.engine(docker.Service{Name: "app"})
	ctx := testContext(t)
	must(t, e.Thaw(ctx, "app")) // nothing to do
	must(t, e.Freeze(ctx, "app"))
	if !inspect(t, id).State.Paused {
		t.Fatal("not paused")
	}
	if err := e.Freeze(ctx, "app"); err == nil || !strings.Contains(err.Error(), "somebody else has paused it") {
		t.Errorf("a second freeze: %v", err)
	}
	must(t, e.Thaw(ctx, "app"))
	if get(address+"/healthz") != "ok\n" {
		t.Error("it does not answer after the thaw")
	}
	must(t, e.Freeze(ctx, "app"))
	must(t, e.Stop(ctx, "app", 5*time.Second)) // it can hear
	if c := inspect(t, id); c.State.ExitCode != 0 || c.State.Running {
		t.Errorf("a frozen service did not end by itself: %+v", c.State)
	}
}

func TestSupervisedKill(t *testing.T) {
	s := newStack(t)
	id, _ := s.web("app", func(_ *container.Config, host *container.HostConfig) { host.RestartPolicy.Name = "unless-stopped" })
	bare := s.up("bare", nil)
	e := s.engine(docker.Service{Name: "app"}, docker.Service{Name: "bare"})
	ctx := testContext(t)
	events := e.Events(ctx)

	before, err := e.Instances(ctx, "app")
	must(t, err)
	must(t, e.KillSupervised(ctx, "app"))
	eventually(t, "the restart policy brings it back", func() bool {
		now, err := e.Instances(ctx, "app")
		return err == nil && len(now) == 1 && now[0] != before[0] && now[0].Restarts == before[0].Restarts+1
	})
	if inspect(t, id).RestartCount != 1 {
		t.Errorf("restart count: %d", inspect(t, id).RestartCount)
	}
	if died := take(t, events, "the death", func(ev chaos.Event) bool { return ev.Kind == "die" }); !died.Ours || died.Instance != before[0] {
		t.Errorf("our kill was told as %+v", died)
	}
	if started := take(t, events, "the start", func(ev chaos.Event) bool { return ev.Kind == "start" }); started.Ours {
		t.Errorf("the start by the policy was told as ours")
	}

	err = e.KillSupervised(ctx, "bare")
	if err == nil || !strings.Contains(err.Error(), "no restart policy") {
		t.Errorf("without a policy: %v", err)
	}
	if !inspect(t, bare).State.Running {
		t.Error("and it was killed all the same")
	}
}

func TestSupervisedKillByHelper(t *testing.T) {
	s := newStack(t)
	id := s.up("app", func(_ *container.Config, host *container.HostConfig) { host.RestartPolicy.Name = "always" })
	other := s.up("other", nil)
	e := s.engine(docker.Service{Name: "app"})
	was := inspect(t, id)
	must(t, e.KillByHelper(testContext(t), was.State.Pid, id))
	eventually(t, "the restart policy brings it back", func() bool { c := inspect(t, id); return c.RestartCount == 1 && c.State.Running })
	// A number that has come to mean another container's process.
	err := e.KillByHelper(testContext(t), inspect(t, other).State.Pid, id)
	if err == nil || !strings.Contains(err.Error(), "is none of container") {
		t.Errorf("the process of another container: %v", err)
	}
	if !inspect(t, other).State.Running {
		t.Error("and it was killed")
	}

}

func TestPartition(t *testing.T) {
	s := newStack(t)
	address, publish := published(t)
	id := s.create("app", func(_ *container.Config, host *container.HostConfig) { publish(host) })
	second := s.network("back")
	must(t, cli.NetworkConnect(testContext(t), second, id, &network.EndpointSettings{Aliases: []string{"behind"}}))
	must(t, cli.ContainerStart(testContext(t), id, container.StartOptions{}))
	eventually(t, "it answers", func() bool { return get(address+"/healthz") == "ok\n" })
	was := aliases(t, id)
	e := s.engine(docker.Service{Name: "app"})
	ctx := testContext(t)

	must(t, e.Join(ctx, "app")) // nothing to do
	inj := chaos.Injection{Kind: chaos.Partition, Service: "app"}
	undo, err := e.Undo(ctx, inj)
	must(t, err)
	must(t, e.Cut(ctx, "app"))
	if nets := inspect(t, id).NetworkSettings.Networks; len(nets) != 0 {
		t.Fatalf("it is still in %v", nets)
	}
	if got := get(address + "/healthz"); !strings.HasPrefix(got, "!") {
		t.Errorf("it answers while cut off: %q", got)
	}

	// A later daemon has only the record.
	later := s.engine(docker.Service{Name: "app"})
	must(t, later.Recall(undo))
	must(t, later.Join(ctx, "app"))
	if is := aliases(t, id); !equal(is, was) {
		t.Errorf("aliases: %v, and they were %v", is, was)
	}
	eventually(t, "it answers again", func() bool { return get(address+"/healthz") == "ok\n" })
	must(t, e.Join(ctx, "app")) // the first one's own undo finds it done
	if is := aliases(t, id); !equal(is, was) {
		t.Errorf("aliases after the second join: %v", is)
	}

	// Restarted while it is cut off: the engine puts it into its first network, without its aliases.
	must(t, e.Cut(ctx, "app"))
	must(t, e.Kill(ctx, "app"))
	must(t, e.Start(ctx, "app"))
	must(t, e.Join(ctx, "app"))
	if is := aliases(t, id); !equal(is, was) {
		t.Errorf("aliases after a restart: %v", is)
	}
}

func TestPartitionRefusals(t *testing.T) {
	s := newStack(t)
	s.up("host", func(_ *container.Config, host *container.HostConfig) { host.NetworkMode = "none" })
	id := s.up("shared", nil)
	s.up("sidecar", func(cfg *container.Config, host *container.HostConfig) {
		delete(cfg.Labels, docker.TargetLabel)
		host.NetworkMode = container.NetworkMode("container:" + id)
		cfg.Entrypoint = []string{"/target"}
	})
	e := s.engine(docker.Service{Name: "host"}, docker.Service{Name: "shared"})
	for service, want := range map[string]string{"host": "no network of its own", "shared": "shares its network"} {
		if err := e.Cut(testContext(t), service); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("cutting off %s: %v", service, err)
		}
	}
	if err := e.Check(testContext(t), chaos.Injection{Kind: chaos.Partition, Service: "host"}); err == nil {
		t.Error("the check lets it pass")
	}
}

func aliases(t *testing.T, id string) map[string][]string {
	t.Helper()
	all := make(map[string][]string)
	for name, ep := range inspect(t, id).NetworkSettings.Networks {
		all[name] = slices.Sorted(slices.Values(slices.DeleteFunc(ep.Aliases, func(a string) bool { return strings.HasPrefix(id, a) })))
	}
	return all
}

func equal(a, b map[string][]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k := range a {
		if !slices.Equal(slices.Compact(a[k]), slices.Compact(b[k])) {
			return false
		}
	}
	return true
}

func TestDecoysAreNeverTouched(t *testing.T) {
	s := newStack(t)
	plain := s.volume("plain", nil, nil)
	srv := t.TempDir()
	decoys := map[string]string{
		"unlabelled": s.up("unlabelled", func(cfg *container.Config, _ *container.HostConfig) { delete(cfg.Labels, docker.TargetLabel) }),
		"no":         s.up("no", func(cfg *container.Config, _ *container.HostConfig) { cfg.Labels[docker.TargetLabel] = "false" }),
		"oneoff":     s.up("oneoff", func(cfg *container.Config, _ *container.HostConfig) { cfg.Labels["com.docker.compose.oneoff"] = "True" }),
		"stranger": s.up("stranger", func(cfg *container.Config, _ *container.HostConfig) {
			cfg.Labels["com.docker.compose.project"] = s.project + "x"
		}),
	}
	var services []docker.Service
	var names []string
	was := make(map[string]container.InspectResponse)
	for name, id := range decoys {
		services = append(services, docker.Service{Name: name, Volumes: []string{"/tmp"}})
		names = append(names, name)
		was[name] = inspect(t, id)
	}
	target := s.up("app", func(_ *container.Config, host *container.HostConfig) {
		host.Mounts = []mount.Mount{{Type: mount.TypeVolume, Source: plain, Target: "/plain"}, {Type: mount.TypeBind, Source: srv, Target: "/bind"}}
	})
	e := s.engine(append(services, docker.Service{Name: "app", Volumes: []string{"/plain", "/bind", plain}})...)
	ctx := testContext(t)
	if err := e.Verify(ctx); err == nil {
		t.Error("no word of the decoys")
	} else {
		for _, name := range names {
			if !strings.Contains(err.Error(), name+": ") {
				t.Errorf("no word of %s in: %v", name, err)
			}
		}
	}
	for name, id := range decoys {
		for role, try := range map[string]func() error{
			"start": func() error { return e.Start(ctx, name) }, "kill": func() error { return e.Kill(ctx, name) },
			"stop":     func() error { return e.Stop(ctx, name, time.Second) },
			"freeze":   func() error { return e.Freeze(ctx, name) },
			"thaw":     func() error { return e.Thaw(ctx, name) },
			"cut":      func() error { return e.Cut(ctx, name) },
			"recreate": func() error { return e.Recreate(ctx, name) },
			"empty":    func() error { return e.Empty(ctx, name, "/tmp") }, "wipeable": func() error { return e.Wipeable(ctx, name, "/tmp") },
			"supervised": func() error { return e.KillSupervised(ctx, name) },
		} {
			if err := try(); err == nil {
				t.Errorf("%s of %s was not refused", role, name)
			}
		}
		now := inspect(t, id)
		if now.State.StartedAt != was[name].State.StartedAt || !now.State.Running || now.State.Paused || len(now.NetworkSettings.Networks) != 1 || now.Name != was[name].Name {
			t.Errorf("%s was touched: %+v", name, now.State)
		}
	}
	// A record of an undo makes no target of a stranger.
	must(t, e.Recall([]byte(`{"`+decoys["stranger"]+`":{"service":"stranger","networks":{"bridge":{}}}}`)))
	must(t, e.Join(ctx, "stranger"))
	if n := len(inspect(t, decoys["stranger"]).NetworkSettings.Networks); n != 1 {
		t.Errorf("a stranger was put into %d networks", n)
	}
	must(t, e.Kill(ctx, "app"))
	for vol, want := range map[string]string{"/plain": docker.EphemeralLabel, plain: docker.EphemeralLabel, "plain": docker.EphemeralLabel,
		"/bind": "bind mount", "/plain/sub": "within the mount", "nothing": "no such volume", "": "no volume is named"} {
		for _, err := range []error{e.Wipeable(ctx, "app", vol), e.Empty(ctx, "app", vol)} {
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "fix: ") {
				t.Errorf("wiping %q: %v", vol, err)
			}
		}
	}
	if inspect(t, target).State.Running {
		t.Error("a refused wipe started it")
	}
}

func TestByNameWithoutProject(t *testing.T) {
	s := newStack(t)
	id := s.up("app", nil)
	other := s.up("app2", nil)
	e := newEngine(t, docker.Config{Services: []docker.Service{{Name: s.project + "-app-1"}, {Name: s.project + "-app"}}})
	ctx := testContext(t)
	must(t, e.Kill(ctx, s.project+"-app-1"))
	if inspect(t, id).State.Running || !inspect(t, other).State.Running {
		t.Error("the wrong one was killed")
	}
	if err := e.Kill(ctx, s.project+"-app"); err == nil {
		t.Error("half a name is a name")
	}
	must(t, e.Recreate(ctx, s.project+"-app-1"))
	if who, err := e.Instances(ctx, s.project+"-app-1"); err != nil || len(who) != 1 || who[0].ID == id {
		t.Errorf("after the recreate: %v, %v", who, err)
	}
}

func TestRemovedByItselfIsRefused(t *testing.T) {
	s := newStack(t)
	id := s.up("app", func(_ *container.Config, host *container.HostConfig) { host.AutoRemove = true })
	e := s.engine(docker.Service{Name: "app"})
	for _, err := range []error{e.Kill(testContext(t), "app"), e.Stop(testContext(t), "app", 0),
		e.Check(testContext(t), chaos.Injection{Kind: chaos.Kill, Service: "app"})} {
		if err == nil || !strings.Contains(err.Error(), "--rm") {
			t.Errorf("not refused: %v", err)
		}
	}
	if !inspect(t, id).State.Running {
		t.Error("it was killed")
	}
}

func TestAPIVersionIsNegotiated(t *testing.T) {
	s := newStack(t)
	s.up("app", nil)
	e := s.engine(docker.Service{Name: "app"})
	v, err := cli.ServerVersion(testContext(t))
	must(t, err)
	want := v.APIVersion
	if versions.LessThan(api.DefaultVersion, want) {
		want = api.DefaultVersion
	}
	if e.APIVersion() != want {
		t.Errorf("agreed on %s, the engine speaks %s and we %s", e.APIVersion(), v.APIVersion, api.DefaultVersion)
	}
	t.Setenv("DOCKER_API_VERSION", "1.40")
	_, err = docker.New(testContext(t), docker.Config{Clock: clock.System(), Services: []docker.Service{{Name: "app"}}})
	if err == nil || !strings.Contains(err.Error(), "1.41") || !strings.Contains(err.Error(), "fix: ") {
		t.Errorf("an engine that is too old: %v", err)
	}
}

func TestNoEngine(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, host := range []string{"unix://" + filepath.Join(t.TempDir(), "none.sock"), "tcp://" + freeAddress(t)} {
		_, err := docker.New(ctx, docker.Config{Host: host, Clock: clock.System(), Services: []docker.Service{{Name: "app"}}})
		if err == nil || !strings.Contains(err.Error(), host+" does not answer") || !strings.Contains(err.Error(), "fix: start it") {
			t.Errorf("%s: %v", host, err)
		}
	}
	_, err := docker.New(ctx, docker.Config{Clock: clock.System(), Services: []docker.Service{{Name: "a"}, {Name: "a"}, {}}})
	if err == nil || !strings.Contains(err.Error(), "declared twice") || !strings.Contains(err.Error(), "has no name") {
		t.Errorf("bad services: %v", err)
	}
}
