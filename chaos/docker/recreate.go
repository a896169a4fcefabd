package docker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
)

// undoWait bounds the way back of a recreate that failed.
const undoWait = 20 * time.Second

// Recreate replaces every container of a service that is down by a new one from the same configuration: the writable
// layer and the anonymous volumes are gone. The old one is put aside under another name and removed once the new one has
// started; until then Start brings it back. What the configuration holds never leaves memory.
//
// The address and the host name that the engine drew are drawn again. A hardware address that was set for one network
// (API 1.44) is lost: the engine does not tell it from one that it drew.
func (e *Engine) Recreate(ctx context.Context, name string) (err error) {
	defer e.observe.Time(e.clock, "recreate")(&err)
	if err := e.settle(ctx, name); err != nil {
		return fmt.Errorf("%s: ending a recreate that was cut short: %w", name, e.plain(err))
	}
	return e.change(ctx, name, "recreating", changeWait, func(ctx context.Context, c target) error {
		if c.State.Running {
			return errors.New("it is running")
		}
		return e.replace(ctx, c)
	})
}

// settle ends what a recreate that was cut short has left: the new container stays if it has ever started, and else the
// old one gets its name back.
func (e *Engine) settle(ctx context.Context, name string) error {
	s, err := e.service(name)
	if err != nil {
		return err
	}
	s.op.Lock()
	defer s.op.Unlock()
	ctx, cancel := context.WithTimeout(ctx, changeWait)
	defer cancel()
	list, err := e.containers(ctx, name)
	if err != nil {
		return err
	}
	for _, old := range list {
		if !old.replaced() {
			continue
		}
		own := strings.TrimSuffix(old.name(), replacedSuffix)
		i := slices.IndexFunc(list, func(c target) bool { return c.name() == own })
		if i >= 0 && everStarted(list[i]) {
			if err := e.remove(ctx, old.ID); err != nil {
				return err
			}
			continue
		}
		if i >= 0 {
			if err := e.remove(ctx, list[i].ID); err != nil {
				return err
			}
		}
		if err := e.cli.ContainerRename(ctx, old.ID, own); err != nil {
			return fmt.Errorf("giving container %s its name %s back: %w", old.short(), own, err)
		}
	}
	return nil
}

func everStarted(c target) bool {
	return c.State.Status != container.StateCreated
}

// remove takes a container away with its anonymous volumes; named ones stay.
func (e *Engine) remove(ctx context.Context, id string) error {
	if err := e.cli.ContainerRemove(ctx, id, container.RemoveOptions{RemoveVolumes: true, Force: true}); err != nil {
		return fmt.Errorf("removing container %s: %w", short(id), err)
	}
	return nil
}

// replace makes a new container in the place of one that is down, and starts it.
func (e *Engine) replace(ctx context.Context, old target) error {
	if err := e.sharers(ctx, old); err != nil {
		return err
	}
	plan, err := e.blueprint(ctx, old)
	if err != nil {
		return err
	}
	if err := e.cli.ContainerRename(ctx, old.ID, old.name()+replacedSuffix); err != nil {
		return fmt.Errorf("putting the old one aside: %w", err)
	}
	id, err := e.build(ctx, plan)
	if err == nil {
		err = e.start(ctx, id)
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoWait)
		defer cancel()
		if id != "" {
			err = errors.Join(err, e.remove(ctx, id))
		}
		return errors.Join(err, e.cli.ContainerRename(ctx, old.ID, old.name()))
	}
	return e.remove(ctx, old.ID)
}

// blueprint is how a container is made anew.
type blueprint struct {
	name     string
	config   *container.Config
	host     *container.HostConfig
	first    string // the network that it is created in; empty: none of its own
	networks map[string]*network.EndpointSettings
}

// blueprint reads a container's configuration back from what the engine says of it, which is not quite what it takes.
func (e *Engine) blueprint(ctx context.Context, c target) (blueprint, error) {
	b := blueprint{name: c.name(), config: c.Config, host: c.HostConfig, networks: networks(c)}
	img, err := e.cli.ImageInspect(ctx, c.Image)
	if err != nil {
		return b, fmt.Errorf("reading its image: %w", err)
	}
	// The tag may have been moved to another image since; this one is what is under test.
	if now, err := e.cli.ImageInspect(ctx, b.config.Image); err != nil || now.ID != img.ID {
		b.config.Image = img.ID
	}
	if b.config.Hostname == c.short() {
		b.config.Hostname = "" // drawn from the id, so drawn again
	}
	mode := b.host.NetworkMode
	if mode.IsContainer() || b.host.UTSMode.IsHost() {
		b.config.Hostname, b.config.Domainname = "", "" // shown, but not taken
	}
	if mode.IsContainer() {
		b.config.ExposedPorts, b.networks = nil, nil
	}
	// An entry point that was taken away would come back from the image; [""] takes it away again.
	if len(b.config.Entrypoint) == 0 && img.Config != nil && len(img.Config.Entrypoint) > 0 {
		b.config.Entrypoint = []string{""}
	}
	// Shown as /other:/this/alias, taken as other:alias.
	for i, link := range b.host.Links {
		other, alias, ok := strings.Cut(link, ":")
		if !ok {
			return b, fmt.Errorf("reading its link %q", link)
		}
		b.host.Links[i] = strings.TrimPrefix(other, "/") + ":" + alias[strings.LastIndexByte(alias, '/')+1:]
	}
	b.first = string(mode)
	if mode.IsDefault() || b.first == "" {
		b.first = network.NetworkBridge
	}
	for name, ep := range c.NetworkSettings.Networks {
		if ep != nil && ep.NetworkID == b.first && b.networks != nil {
			b.first = name
		}
	}
	return b, nil
}

// build creates the container and puts it into its networks. The id is given with an error too, once there is one.
func (e *Engine) build(ctx context.Context, b blueprint) (id string, err error) {
	// Before API 1.44 a container is created in one network only, so it is in every version.
	var first *network.NetworkingConfig
	if ep := b.networks[b.first]; ep != nil {
		first = &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{b.first: ep}}
	}
	made, err := e.cli.ContainerCreate(ctx, b.config, b.host, first, nil, b.name)
	if err != nil {
		return "", fmt.Errorf("creating the new one: %w", err)
	}
	if first == nil && b.networks != nil && !b.host.NetworkMode.IsNone() && !b.host.NetworkMode.IsHost() {
		// Somebody had taken the old one out of its first network.
		if err := e.cli.NetworkDisconnect(ctx, b.first, made.ID, true); err != nil {
			return made.ID, fmt.Errorf("leaving the network %s: %w", b.first, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.networks)) {
		if name == b.first {
			continue
		}
		if err := e.cli.NetworkConnect(ctx, name, made.ID, b.networks[name]); err != nil {
			return made.ID, fmt.Errorf("joining the network %s: %w", name, err)
		}
	}
	return made.ID, nil
}
