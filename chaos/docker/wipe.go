package docker

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/volume"
)

// place is where what shall be wiped lies.
type place int

const (
	inTmpfs  place = iota // gone with the container's processes
	inVolume              // emptied by a helper
	inLayer               // gone with the container
)

// Wipeable says whether a volume of the service may be emptied: a tmpfs, an anonymous volume, a named one labelled
// amnesia.ephemeral=true, each by its mount point or name, or a path in the writable layer, which then goes as a whole.
// Never a bind mount, nor an unlabelled named volume, nor what another container uses too.
func (e *Engine) Wipeable(ctx context.Context, name, vol string) error {
	list, err := e.containers(ctx, name)
	if err != nil {
		return err
	}
	for _, c := range list {
		if _, _, err := e.locate(ctx, c, vol); err != nil {
			return fmt.Errorf("%s: %q of container %s is not emptied: %w", name, vol, c.short(), e.plain(err))
		}
	}
	return nil
}

// Empty wipes the volume in every container of a service that is down, and returns when it is proven empty: a tmpfs ends
// with its container, a volume is looked at by the helper that emptied it, and a writable layer is one of a new container,
// which is started at once so that the old one can go.
func (e *Engine) Empty(ctx context.Context, name, vol string) (err error) {
	defer e.observe.Time(e.clock, "empty")(&err)
	return e.change(ctx, name, "emptying "+vol+" of", changeWait, func(ctx context.Context, c target) error {
		if c.State.Running {
			return errors.New("it is running")
		}
		where, volume, err := e.locate(ctx, c, vol)
		if err != nil {
			return err
		}
		switch where {
		case inVolume:
			if err := e.idle(ctx, volume); err != nil {
				return err
			}
			return e.helper.empty(ctx, volume)
		case inLayer:
			return e.replace(ctx, c)
		}
		return nil
	})
}

// locate finds what is named and refuses what may not be emptied. For a volume it gives its name.
func (e *Engine) locate(ctx context.Context, c target, vol string) (place, string, error) {
	if vol == "" {
		return 0, "", errors.New("no volume is named — fix: give its mount point or name")
	}
	at := ""
	if strings.HasPrefix(vol, "/") {
		at = path.Clean(vol)
	}
	for dest := range c.HostConfig.Tmpfs {
		if path.Clean(dest) == at {
			return inTmpfs, "", nil
		}
	}
	for _, m := range c.HostConfig.Mounts {
		if m.Type == mount.TypeTmpfs && path.Clean(m.Target) == at {
			return inTmpfs, "", nil
		}
	}
	for _, m := range c.Mounts {
		dest := path.Clean(m.Destination)
		byName := m.Type == mount.TypeVolume && (m.Name == vol || (e.project != "" && m.Name == e.project+"_"+vol))
		switch {
		case byName || dest == at:
			where, err := e.mounted(ctx, c, m)
			return where, m.Name, err
		case strings.HasPrefix(at, dest+"/"):
			return 0, "", fmt.Errorf("it lies within the mount at %s — fix: name %s, if all in it may go", dest, dest)
		}
	}
	if at == "" {
		return 0, "", errors.New("no such volume is mounted — fix: name a mount point, or a volume that the container has")
	}
	return inLayer, "", e.replaceable(ctx, c)
}

func (e *Engine) mounted(ctx context.Context, c target, m container.MountPoint) (place, error) {
	switch m.Type {
	case mount.TypeTmpfs:
		return inTmpfs, nil
	case mount.TypeVolume:
		return inVolume, e.emptiable(ctx, c, m)
	case mount.TypeBind:
		return 0, fmt.Errorf("%s is a bind mount of the host's %s, and those are never emptied — fix: take the rule out, or use a volume labelled %s=true",
			m.Destination, m.Source, EphemeralLabel)
	}
	return 0, fmt.Errorf("%s is a mount of the type %s, and those are never emptied — fix: take the rule out", m.Destination, m.Type)
}

func (e *Engine) emptiable(ctx context.Context, c target, m container.MountPoint) error {
	v, err := e.cli.VolumeInspect(ctx, m.Name)
	if err != nil {
		return fmt.Errorf("reading the volume %s: %w", m.Name, err)
	}
	for _, o := range strings.Split(v.Options["o"], ",") {
		if o == "bind" || o == "rbind" {
			return fmt.Errorf("the volume %s is a bind mount of the host's %s, and those are never emptied — fix: take the rule out", v.Name, v.Options["device"])
		}
	}
	if v.Labels[EphemeralLabel] != "true" && !anonymous(c, v) {
		return fmt.Errorf("the named volume %s lacks the label %s=true — fix: add it to the volume, if all in it may go", v.Name, EphemeralLabel)
	}
	users, err := e.users(ctx, v.Name)
	if err != nil {
		return err
	}
	for _, u := range users {
		if e.serviceOf(u.Names[0], u.Labels) != c.service {
			return fmt.Errorf("container %s uses the volume %s too — fix: take the rule out, or give each its own volume", short(u.ID), v.Name)
		}
	}
	return e.helper.usable()
}

// idle refuses to empty under the feet of a copy that runs.
func (e *Engine) idle(ctx context.Context, volume string) error {
	users, err := e.users(ctx, volume)
	if err != nil {
		return err
	}
	for _, u := range users {
		if u.State == container.StateRunning || u.State == container.StatePaused || u.State == container.StateRestarting {
			return fmt.Errorf("container %s is running with the volume %s", short(u.ID), volume)
		}
	}
	return nil
}

// users are the containers that have the volume, helpers of ours aside.
func (e *Engine) users(ctx context.Context, volume string) ([]container.Summary, error) {
	all, err := e.cli.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("volume", volume))})
	if err != nil {
		return nil, fmt.Errorf("asking who uses the volume %s: %w", volume, err)
	}
	var users []container.Summary
	for _, u := range all {
		if u.Labels[HelperLabel] == "" && len(u.Names) > 0 {
			users = append(users, u)
		}
	}
	return users, nil
}

// anonymous volumes have a drawn name. Engines from 23.0 on label them; before, it is one that nobody named: neither in a
// label nor in the container's configuration.
func anonymous(c target, v volume.Volume) bool {
	if len(v.Name) != 64 || strings.Trim(v.Name, "0123456789abcdef") != "" {
		return false
	}
	if _, ok := v.Labels["com.docker.volume.anonymous"]; ok {
		return true
	}
	for _, b := range c.HostConfig.Binds {
		if source, _, _ := strings.Cut(b, ":"); source == v.Name {
			return false
		}
	}
	for _, m := range c.HostConfig.Mounts {
		if m.Source == v.Name {
			return false
		}
	}
	return len(v.Labels) == 0 && len(v.Options) == 0 && len(c.HostConfig.VolumesFrom) == 0
}

// replaceable: a writable layer goes with its container, and so would the anonymous volumes, which were not named.
func (e *Engine) replaceable(ctx context.Context, c target) error {
	for _, m := range c.Mounts {
		if m.Type != mount.TypeVolume {
			continue
		}
		v, err := e.cli.VolumeInspect(ctx, m.Name)
		if err != nil {
			return fmt.Errorf("reading the volume %s: %w", m.Name, err)
		}
		if anonymous(c, v) {
			return fmt.Errorf("the writable layer cannot go without the anonymous volume at %s — fix: use recreate, which takes both", m.Destination)
		}
	}
	return e.sharers(ctx, c)
}
