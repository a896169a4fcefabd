package docker

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/volume"

	"amnesia/pkg/discover"
)

var _ discover.Engine = (*Engine)(nil)

// defaultGrace is what the engine waits between the stop signal and SIGKILL where the container does not say.
const defaultGrace = 10 * time.Second

// Containers describes the containers of the declared services, in their order. It only looks, and so it takes those too
// that may not be touched for want of a label.
func (e *Engine) Containers(ctx context.Context) (_ []discover.Container, err error) {
	defer e.observe.Time(e.clock, "containers")(&err)
	list := container.ListOptions{All: true}
	if e.project != "" {
		list.Filters = filters.NewArgs(filters.Arg("label", projectLabel+"="+e.project))
	}
	found, err := e.cli.ContainerList(ctx, list)
	if err != nil {
		return nil, e.told("listing the containers", err)
	}
	var out []discover.Container
	for _, s := range e.services {
		for _, f := range found {
			of := f.Labels[serviceLabel] == s.Name
			if e.project == "" {
				of = named(f.Names, s.Name)
			}
			if !of || f.Labels[HelperLabel] != "" || f.Labels[oneOffLabel] == "True" {
				continue
			}
			c, err := e.inspect(ctx, f.ID)
			if errdefs.IsNotFound(err) {
				continue
			}
			if err != nil {
				return nil, e.told("reading container "+short(f.ID)+" of "+s.Name, err)
			}
			if c.replaced() {
				continue
			}
			facts, err := e.describe(ctx, s.Name, c)
			if err != nil {
				return nil, fmt.Errorf("%s: container %s: %w", s.Name, c.short(), err)
			}
			out = append(out, facts)
		}
	}
	return out, nil
}

func (e *Engine) describe(ctx context.Context, service string, c target) (discover.Container, error) {
	d := discover.Container{
		ID: c.ID, Service: service, Name: c.name(), Image: c.Config.Image, Running: c.runs(), WorkDir: c.Config.WorkingDir,
		Command: slices.Concat(c.Config.Entrypoint, c.Config.Cmd), Env: map[string]string{}, Restart: string(c.HostConfig.RestartPolicy.Name),
		Grace: defaultGrace, StopSignal: c.Config.StopSignal, AutoRemove: c.HostConfig.AutoRemove,
	}
	if c.Config.StopTimeout != nil {
		d.Grace = time.Duration(*c.Config.StopTimeout) * time.Second
	}
	for _, set := range c.Config.Env {
		if name, value, _ := strings.Cut(set, "="); discover.KeepsEnv(name) {
			d.Env[name] = value
		}
	}
	for port := range c.Config.ExposedPorts {
		if n, err := strconv.Atoi(port.Port()); err == nil {
			d.Ports = append(d.Ports, n)
		}
	}
	slices.Sort(d.Ports)
	d.Published, d.Target = published(c), c.Config.Labels[TargetLabel] == "true"
	var err error
	if d.Mounts, err = e.mounts(ctx, c); err != nil {
		return d, err
	}
	return d, nil
}

// Written gives the paths in a container's writable layer that differ from its image. It takes the engine a second or two:
// a layer is compared with all of its image.
func (e *Engine) Written(ctx context.Context, id string) ([]string, error) {
	changes, err := e.cli.ContainerDiff(ctx, id)
	if err != nil {
		return nil, e.told("asking what container "+short(id)+" has written", err)
	}
	paths := []string{}
	for _, change := range changes {
		if change.Kind != container.ChangeDelete {
			paths = append(paths, change.Path)
		}
	}
	return paths, nil
}

// mounts gives every mount; the engine lists a tmpfs of its own option apart.
func (e *Engine) mounts(ctx context.Context, c target) (out []discover.Mount, err error) {
	for _, m := range c.Mounts {
		d := discover.Mount{Type: discover.MountType(m.Type), At: path.Clean(m.Destination), Name: m.Name, Source: m.Source, ReadOnly: !m.RW}
		if m.Type == mount.TypeVolume {
			v, err := e.cli.VolumeInspect(ctx, m.Name)
			if err != nil {
				return nil, e.told("reading the volume "+m.Name, err)
			}
			d.Anonymous, d.Ephemeral = anonymous(c, v), v.Labels[EphemeralLabel] == "true"
			if inMemory(v) {
				d.Type = discover.Tmpfs
			}
		}
		out = append(out, d)
	}
	add := func(at string) {
		if at = path.Clean(at); !slices.ContainsFunc(out, func(d discover.Mount) bool { return d.At == at }) {
			out = append(out, discover.Mount{Type: discover.Tmpfs, At: at})
		}
	}
	for at := range c.HostConfig.Tmpfs {
		add(at)
	}
	for _, m := range c.HostConfig.Mounts {
		if m.Type == mount.TypeTmpfs {
			add(m.Target)
		}
	}
	slices.SortFunc(out, func(a, b discover.Mount) int { return strings.Compare(a.At, b.At) })
	return out, nil
}

// inMemory: a volume of the local driver that is a tmpfs, mounted anew whenever its last container has ended.
func inMemory(v volume.Volume) bool { return v.Driver == "local" && v.Options["type"] == "tmpfs" }
