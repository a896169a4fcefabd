package docker_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/go-connections/nat"
	"github.com/docker/go-units"
	"github.com/google/go-cmp/cmp"

	"amnesia/chaos/docker"
)

// likeness is all that a recreate must keep, as JSON: what inspect says without ids, times and drawn addresses.
func likeness(t *testing.T, id string) map[string]any {
	t.Helper()
	c := inspect(t, id)
	if c.Config.Hostname == id[:12] {
		c.Config.Hostname = "drawn"
	}
	for i, m := range c.Mounts {
		if len(m.Name) == 64 {
			c.Mounts[i].Name, c.Mounts[i].Source = "drawn", "drawn"
		}
	}
	slices.SortFunc(c.Mounts, func(a, b container.MountPoint) int { return strings.Compare(a.Destination, b.Destination) })
	nets := make(map[string]any)
	for name, ep := range c.NetworkSettings.Networks {
		own := slices.Sorted(slices.Values(slices.DeleteFunc(ep.Aliases, func(a string) bool { return a == id[:12] })))
		nets[name] = []any{slices.Compact(own), ep.IPAMConfig, ep.Links, ep.DriverOpts}
	}
	b, err := json.Marshal(map[string]any{"name": c.Name, "image": c.Image, "path": c.Path, "args": c.Args, "config": c.Config, "host": c.HostConfig,
		"mounts": c.Mounts, "networks": nets, "ports": c.NetworkSettings.Ports})
	must(t, err)
	var all map[string]any
	must(t, json.Unmarshal(b, &all))
	return all
}

func TestRecreateKeepsTheConfiguration(t *testing.T) {
	s := newStack(t)
	named := s.volume("named", nil, nil)
	fixed := s.project + "_fixed"
	_, err := cli.NetworkCreate(testContext(t), fixed, network.CreateOptions{Driver: "bridge",
		IPAM: &network.IPAM{Config: []network.IPAMConfig{{Subnet: "10.213.47.0/24"}}}})
	must(t, err)
	t.Cleanup(func() { must(t, cli.NetworkRemove(testContext(t), fixed)) })
	other := s.up("other", nil)
	init, grace := true, 7
	bind := t.TempDir()
	address, publish := published(t)
	id := s.create("app", func(cfg *container.Config, host *container.HostConfig) {
		publish(host)
		cfg.Env = []string{"SECRET=s3cret", "EMPTY="}
		cfg.User, cfg.WorkingDir, cfg.Hostname, cfg.Domainname = "0:0", "/tmp", "myhost", "example.test"
		cfg.Cmd = []string{"a", "b c"}
		cfg.StopSignal, cfg.StopTimeout = "SIGINT", &grace
		cfg.Labels["further"] = "label"
		cfg.Volumes = map[string]struct{}{"/anon": {}}
		cfg.ExposedPorts = nat.PortSet{"9999/udp": {}}
		cfg.Healthcheck = &container.HealthConfig{Test: []string{"CMD", "/target", "probe"}, Interval: 3e9, Timeout: 2e9, Retries: 4, StartPeriod: 1e9}
		host.Binds = []string{bind + ":/bind:ro", named + ":/named"}
		host.Mounts = []mount.Mount{{Type: mount.TypeTmpfs, Target: "/scratch", TmpfsOptions: &mount.TmpfsOptions{SizeBytes: 1 << 20}},
			{Type: mount.TypeVolume, Target: "/anon2", VolumeOptions: &mount.VolumeOptions{Labels: map[string]string{"k": "v"}}}}
		host.Tmpfs = map[string]string{"/run": "size=1m"}
		host.RestartPolicy = container.RestartPolicy{Name: "on-failure", MaximumRetryCount: 3}
		host.Memory, host.MemorySwap, host.NanoCPUs, host.CpusetCpus = 64<<20, 64<<20, 500_000_000, "0"
		host.Ulimits = []*units.Ulimit{{Name: "nofile", Soft: 1000, Hard: 2000}}
		host.CapAdd, host.CapDrop = []string{"NET_ADMIN"}, []string{"MKNOD"}
		host.ExtraHosts, host.DNS, host.DNSSearch = []string{"db:10.9.8.7"}, []string{"10.0.0.53"}, []string{"search.test"}
		host.Sysctls = map[string]string{"net.core.somaxconn": "77"}
		host.SecurityOpt = []string{"no-new-privileges"}
		host.LogConfig = container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "1m", "max-file": "2"}}
		host.ShmSize, host.OomScoreAdj, host.Init = 32<<20, 100, &init
		host.GroupAdd = []string{"1234"}
		host.Links = []string{s.project + "-other-1:linked"}
	})
	must(t, cli.NetworkConnect(testContext(t), fixed, id, &network.EndpointSettings{Aliases: []string{"pinned"},
		IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: "10.213.47.77"}}))
	must(t, cli.ContainerStart(testContext(t), id, container.StartOptions{}))
	eventually(t, "it answers", func() bool { return get(address+"/healthz") == "ok\n" })
	for _, file := range []string{"/anon/f", "/anon2/f", "/named/f", "/layer/f", "/scratch/f"} {
		write(t, address, file, "kept?")
	}
	was, old := likeness(t, id), inspect(t, id)

	e := s.engine(docker.Service{Name: "app", Health: address + "/healthz"})
	ctx := testContext(t)
	if err := e.Recreate(ctx, "app"); err == nil || !strings.Contains(err.Error(), "it is running") {
		t.Fatalf("recreated while it runs: %v", err)
	}
	must(t, e.Kill(ctx, "app"))
	must(t, e.Recreate(ctx, "app"))
	who, err := e.Instances(ctx, "app")
	must(t, err)
	if len(who) != 1 || who[0].ID == id {
		t.Fatalf("instances: %+v", who)
	}
	if diff := cmp.Diff(was, likeness(t, who[0].ID)); diff != "" {
		t.Errorf("the new one is not like the old one (-old +new):\n%s", diff)
	}
	eventually(t, "it answers", func() bool { return get(address+"/healthz") == "ok\n" })
	for file, want := range map[string]string{"/anon/f": "!", "/anon2/f": "!", "/layer/f": "!", "/scratch/f": "!", "/named/f": "kept?"} {
		if got := read(address, file); !strings.HasPrefix(got, want) {
			t.Errorf("%s after the recreate: %q", file, got)
		}
	}
	if _, err := cli.ContainerInspect(ctx, id); err == nil {
		t.Error("the old container is still there")
	}
	for _, m := range old.Mounts {
		if len(m.Name) == 64 {
			if _, err := cli.VolumeInspect(ctx, m.Name); err == nil {
				t.Errorf("the anonymous volume of %s is still there", m.Destination)
			}
		}
	}
	if !inspect(t, other).State.Running {
		t.Error("the other one was hurt")
	}
	// And once more: nothing may get lost step by step.
	must(t, e.Kill(ctx, "app"))
	must(t, e.Recreate(ctx, "app"))
	who, err = e.Instances(ctx, "app")
	must(t, err)
	if diff := cmp.Diff(was, likeness(t, who[0].ID)); diff != "" {
		t.Errorf("the third is not like the first (-old +new):\n%s", diff)
	}
}

func TestRecreateInOddNetworks(t *testing.T) {
	s := newStack(t)
	for service, change := range map[string]func(cfg *container.Config, host *container.HostConfig){
		"none":   func(_ *container.Config, host *container.HostConfig) { host.NetworkMode = "none" },
		"host":   func(_ *container.Config, host *container.HostConfig) { host.NetworkMode, host.PidMode = "host", "host" },
		"bridge": func(_ *container.Config, host *container.HostConfig) { host.NetworkMode = "default" },
		"plain":  nil,
		"tty":    func(cfg *container.Config, _ *container.HostConfig) { cfg.Tty, cfg.OpenStdin = true, true },
	} {
		id := s.create(service, func(cfg *container.Config, host *container.HostConfig) {
			if change != nil {
				change(cfg, host)
			}
			// The host's port 8080 may be taken; nothing needs to be served here.
			cfg.Entrypoint, cfg.Cmd = []string{"/target"}, nil
			cfg.Healthcheck = &container.HealthConfig{Test: []string{"NONE"}}
		})
		was := likeness(t, id)
		e := s.engine(docker.Service{Name: service})
		must(t, e.Recreate(testContext(t), service))
		who := byName(t, s.project+"-"+service+"-1")
		if who == id {
			t.Fatalf("%s: the same container", service)
		}
		now := likeness(t, who)
		delete(was, "ports") // it had never run
		delete(now, "ports")
		if diff := cmp.Diff(was, now); diff != "" {
			t.Errorf("%s: the new one is not like the old one (-old +new):\n%s", service, diff)
		}
	}
}

// An entry point that the image has and the container has not must not come back.
func TestRecreateWithoutEntrypoint(t *testing.T) {
	s := newStack(t)
	id := s.up("app", func(cfg *container.Config, _ *container.HostConfig) {
		cfg.Entrypoint, cfg.Cmd = []string{""}, []string{"/target", "mine"}
	})
	was := likeness(t, id)
	e := s.engine(docker.Service{Name: "app"})
	must(t, e.Kill(testContext(t), "app"))
	must(t, e.Recreate(testContext(t), "app"))
	now := inspect(t, byName(t, s.project+"-app-1"))
	if now.Path != "/target" || !slices.Equal(now.Args, []string{"mine"}) {
		t.Errorf("it runs %q %q", now.Path, now.Args)
	}
	if diff := cmp.Diff(was, likeness(t, now.ID)); diff != "" {
		t.Errorf("-old +new:\n%s", diff)
	}
}

func byName(t *testing.T, name string) string {
	t.Helper()
	return inspect(t, name).ID
}

// A daemon that died in the middle leaves these; Start, which every revert ends with, must bring the service back.
func TestRecreateCutShort(t *testing.T) {
	for name, leave := range map[string]func(t *testing.T, s *stack, id string) (stays string){
		"put aside": func(_ *testing.T, _ *stack, id string) string { return id },
		"made, not started": func(_ *testing.T, s *stack, id string) string {
			s.create("app", nil)
			return id
		},
		"started, old one not removed": func(_ *testing.T, s *stack, _ string) string { return s.up("app", nil) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStack(t)
			id := s.up("app", nil)
			ctx := testContext(t)
			must(t, cli.ContainerKill(ctx, id, "SIGKILL"))
			must(t, cli.ContainerRename(ctx, id, s.project+"-app-1.amnesia-replaced"))
			stays := leave(t, s, id)
			e := s.engine(docker.Service{Name: "app"})
			if err := e.Verify(ctx); err != nil {
				t.Errorf("a service in the middle of a recreate is not missed: %v", err)
			}
			must(t, e.Start(ctx, "app"))
			who, err := e.Instances(ctx, "app")
			must(t, err)
			if len(who) != 1 || who[0].ID != stays || byName(t, s.project+"-app-1") != stays {
				t.Errorf("runs: %+v, should %s", who, stays)
			}
			if _, err := cli.ContainerInspect(ctx, s.project+"-app-1.amnesia-replaced"); err == nil {
				t.Error("the old one is still put aside")
			}
		})
	}
}

func TestRecreateThatFailsLeavesTheOldOne(t *testing.T) {
	s := newStack(t)
	gone := s.network("gone")
	id := s.create("app", nil)
	must(t, cli.NetworkConnect(testContext(t), gone, id, nil))
	must(t, cli.ContainerStart(testContext(t), id, container.StartOptions{}))
	e := s.engine(docker.Service{Name: "app"})
	ctx := testContext(t)
	must(t, e.Kill(ctx, "app"))
	// A stopped container does not hold its network.
	must(t, cli.NetworkRemove(ctx, gone))
	t.Cleanup(func() { // for the stack's own clean-up
		_, err := cli.NetworkCreate(testContext(t), gone, network.CreateOptions{})
		must(t, err)
	})
	if err := e.Recreate(ctx, "app"); err == nil || !strings.Contains(err.Error(), gone) {
		t.Fatalf("recreated in a network that is gone: %v", err)
	}
	if now := byName(t, s.project+"-app-1"); now != id {
		t.Errorf("%s has the name, and not %s", now, id)
	}
	if _, err := cli.ContainerInspect(ctx, s.project+"-app-1.amnesia-replaced"); err == nil {
		t.Error("one is still put aside")
	}
}
