package docker_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/google/go-cmp/cmp"

	"amnesia/chaos/docker"
	"amnesia/pkg/fact"
)

// TestDescribe: of every copy of a service, of one that is down too, is told what it is, what it runs and what is mounted
// where; and of no other service.
func TestDescribe(t *testing.T) {
	s := newStack(t)
	named, bind := s.volume("named", nil, nil), t.TempDir()
	id := s.up("app", func(cfg *container.Config, host *container.HostConfig) {
		cfg.Cmd = []string{"a", "b c"}
		cfg.Volumes = map[string]struct{}{"/anon": {}}
		host.Binds = []string{bind + ":/bind:ro", named + ":/named"}
		host.Tmpfs = map[string]string{"/run": "size=1m"}
		host.RestartPolicy = container.RestartPolicy{Name: "on-failure", MaximumRetryCount: 3}
	})
	second := s.up("app", func(cfg *container.Config, _ *container.HostConfig) {
		cfg.Labels["com.docker.compose.container-number"] = "2"
	})
	s.up("other", nil)
	e := s.engine(docker.Service{Name: "app"}, docker.Service{Name: "other"})
	ctx := testContext(t)
	who, err := e.Instances(ctx, "app")
	must(t, err)
	must(t, e.Kill(ctx, "app"))

	states, err := e.Describe(ctx, "app")
	must(t, err)
	if len(states) != 2 || states[0].Instance.ID != id || states[1].Instance.ID != second {
		t.Fatalf("described is %+v", states)
	}
	c, got := inspect(t, id), states[0]
	var anonymous string
	for _, m := range c.Mounts {
		if m.Destination == "/anon" {
			anonymous = m.Name
		}
	}
	slices.SortFunc(got.Mounts, func(a, b fact.Mount) int { return strings.Compare(a.Path, b.Path) })
	want := fact.ServiceState{
		Service: "app", Name: s.project + "-app-1", Image: c.Config.Image, State: "exited", Exit: 137, RestartPolicy: "on-failure",
		Command: append(slices.Clone(c.Config.Entrypoint), "a", "b c"), Instance: got.Instance,
		Mounts: []fact.Mount{
			{Kind: "volume", Source: anonymous, Path: "/anon", Anonymous: true}, {Kind: "bind", Source: bind, Path: "/bind", ReadOnly: true},
			{Kind: "volume", Source: named, Path: "/named"}, {Kind: "tmpfs", Path: "/run"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the first copy (-want +got):\n%s", diff)
	}
	if !slices.Contains(who, got.Instance) {
		t.Errorf("it is %+v, and the copies were %+v", got.Instance, who)
	}
	if states, err := e.Describe(ctx, "app", "nobody"); err == nil || len(states) != 2 {
		t.Errorf("of a service that there is not: %+v, %v", states, err)
	}
}
