package docker_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"amnesia/chaos/docker"
	"amnesia/pkg/discover"
)

// TestContainers: what the engine is asked is what was set, for a container that may not be touched too; and no variable
// of its environment but those that say where data lie.
func TestContainers(t *testing.T) {
	s := newStack(t)
	data := s.volume("data", nil, nil)
	scratch := s.volume("scratch", map[string]string{docker.EphemeralLabel: "true"}, nil)
	memory := s.volume("memory", nil, map[string]string{"type": "tmpfs", "device": "tmpfs"})
	host := t.TempDir()
	grace := 3
	_, address := s.web("db", func(cfg *container.Config, h *container.HostConfig) {
		delete(cfg.Labels, docker.TargetLabel)
		cfg.Env = []string{"PASSWORD=s3same", "PGDATA=/data/pg"}
		cfg.StopTimeout, cfg.StopSignal, cfg.WorkingDir = &grace, "SIGINT", "/tmp"
		cfg.Volumes = map[string]struct{}{"/anon": {}}
		h.RestartPolicy.Name = "always"
		h.Binds = []string{data + ":/data", host + ":/host:ro"}
		h.Mounts = []mount.Mount{{Type: mount.TypeVolume, Source: scratch, Target: "/scratch"}, {Type: mount.TypeVolume, Source: memory, Target: "/memory"},
			{Type: mount.TypeTmpfs, Target: "/fast"}}
		h.Tmpfs = map[string]string{"/run/": ""}
	})
	write(t, address, "/layer/made", "x")
	write(t, address, "/data/made", "x")
	s.up("bystander", nil)
	e := newEngine(t, docker.Config{Project: s.project, Services: []docker.Service{{Name: "db"}}, ReadOnly: true})
	all, err := e.Containers(testContext(t))
	must(t, err)
	if len(all) != 1 {
		t.Fatalf("%+v", all)
	}
	got := all[0]
	var lie []string // where a volume lies on the host
	for i, m := range got.Mounts {
		if m.Type != discover.Bind && m.Source != "" {
			lie = append(lie, m.Source)
			got.Mounts[i].Source = ""
		}
	}
	if len(lie) != 4 {
		t.Errorf("volumes lie at %q", lie)
	}
	want := discover.Container{Service: "db", Name: s.project + "-db-1", Image: picture, Running: true, Command: []string{"/target", "from-image"},
		WorkDir: "/tmp", Env: map[string]string{"PGDATA": "/data/pg"}, Ports: []int{8080},
		Published: []discover.Published{{Port: 8080, At: strings.TrimPrefix(address, "http://")}}, Restart: "always", Grace: 3 * time.Second, StopSignal: "SIGINT",
		Mounts: []discover.Mount{
			{Type: discover.Volume, At: "/anon", Anonymous: true},
			{Type: discover.Volume, At: "/data", Name: data},
			{Type: discover.Tmpfs, At: "/fast"},
			{Type: discover.Bind, At: "/host", Source: host, ReadOnly: true},
			{Type: discover.Tmpfs, At: "/memory", Name: memory},
			{Type: discover.Tmpfs, At: "/run"},
			{Type: discover.Volume, At: "/scratch", Name: scratch, Ephemeral: true},
		}}
	anonymousName := cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "Mounts.Name" }, cmp.Comparer(func(a, b string) bool {
		return a == b || len(a)+len(b) == 64 // drawn
	}))
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(discover.Container{}, "ID"), anonymousName); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	written, err := e.Written(testContext(t), got.ID)
	must(t, err)
	if !slices.Contains(written, "/layer/made") || slices.ContainsFunc(written, func(p string) bool { return strings.HasPrefix(p, "/data/") }) {
		t.Errorf("written: %q", written)
	}
	if _, err := e.Written(testContext(t), "no-such-container"); err == nil {
		t.Error("of no container it says what was written")
	}
}

// A project is found with its services and the files that it came of, by one who knows nothing of it; a variable of a
// container is read by name.
func TestProjects(t *testing.T) {
	s := newStack(t)
	id := s.up("web", func(cfg *container.Config, _ *container.HostConfig) {
		cfg.Labels["com.docker.compose.project.config_files"] = "/srv/a.yaml,/srv/b.yaml"
		cfg.Labels["com.docker.compose.project.working_dir"] = "/srv"
		cfg.Env = []string{"PASSWORD=s3same=", "PASSWORDS=many"}
		delete(cfg.Labels, docker.TargetLabel)
	})
	s.up("db", nil)
	all, err := docker.Projects(testContext(t), "")
	must(t, err)
	i := slices.IndexFunc(all, func(p discover.Project) bool { return p.Name == s.project })
	if i < 0 {
		t.Fatalf("%s is not among %+v", s.project, all)
	}
	want := discover.Project{Name: s.project, Dir: "/srv", Files: []string{"/srv/a.yaml", "/srv/b.yaml"}, Services: []string{"db", "web"}}
	if diff := cmp.Diff(want, all[i]); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	e := newEngine(t, docker.Config{Project: s.project, Services: []docker.Service{{Name: "web"}}, ReadOnly: true})
	if value, ok, err := e.Variable(testContext(t), id, "PASSWORD"); err != nil || !ok || value != "s3same=" {
		t.Errorf("%q, %t, %v", value, ok, err)
	}
	if value, ok, err := e.Variable(testContext(t), id, "PASS"); err != nil || ok {
		t.Errorf("%q, %t, %v", value, ok, err)
	}
	containers, err := e.Containers(testContext(t))
	must(t, err)
	if len(containers) != 1 || containers[0].Target {
		t.Errorf("%+v", containers)
	}
}
