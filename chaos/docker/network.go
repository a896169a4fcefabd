package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"

	"amnesia/chaos"
)

// cut is what a container had before it was cut off: ids and names only.
type cut struct {
	Service  string                               `json:"service"`
	Networks map[string]*network.EndpointSettings `json:"networks"` // by name, configuration only
}

// configured gives the part of an endpoint that was asked for, without what the engine made of it. An address that was
// drawn is not asked for again: only networks with a subnet of their own would allow it, and it would be pinned.
func configured(c target, ep *network.EndpointSettings) *network.EndpointSettings {
	own := func(alias string) bool { return alias == c.short() } // the engine's own doing before API 1.44
	clean := &network.EndpointSettings{Links: ep.Links, Aliases: slices.DeleteFunc(slices.Clone(ep.Aliases), own),
		DriverOpts: ep.DriverOpts, GwPriority: ep.GwPriority}
	if ip := ep.IPAMConfig; ip != nil && (ip.IPv4Address != "" || ip.IPv6Address != "" || len(ip.LinkLocalIPs) > 0) {
		clean.IPAMConfig = ip
	}
	if len(clean.Aliases) == 0 {
		clean.Aliases = nil
	}
	return clean
}

func networks(c target) map[string]*network.EndpointSettings {
	all := make(map[string]*network.EndpointSettings)
	for name, ep := range c.NetworkSettings.Networks {
		if ep != nil {
			all[name] = configured(c, ep)
		}
	}
	return all
}

func cuttable(c target) error {
	if mode := c.HostConfig.NetworkMode; mode.IsHost() || mode.IsContainer() || mode.IsNone() {
		return fmt.Errorf("it cannot be cut off: it has no network of its own (network mode %s) — fix: take the rule out, or give it a network", mode)
	}
	return nil
}

// sharers refuses what would hurt another container, one that may not be touched, through the network that it shares.
func (e *Engine) sharers(ctx context.Context, c target) error {
	all, err := e.cli.ContainerList(ctx, container.ListOptions{All: true})
	if err != nil {
		return err
	}
	for _, other := range all {
		mode := container.NetworkMode(other.HostConfig.NetworkMode)
		if mode.IsContainer() && (mode.ConnectedContainer() == c.ID || mode.ConnectedContainer() == c.name()) {
			return fmt.Errorf("container %s shares its network and would be hurt too — fix: take the rule out, or give that one a network of its own", short(other.ID))
		}
	}
	return nil
}

// Undo reads the networks that a partition will have to restore. Other faults need nothing.
func (e *Engine) Undo(ctx context.Context, inj chaos.Injection) (json.RawMessage, error) {
	if inj.Kind != chaos.Partition {
		return nil, nil
	}
	cuts := make(map[string]cut)
	for _, name := range chaos.Hit(inj) {
		list, err := e.containers(ctx, name)
		if err != nil {
			return nil, err
		}
		for _, c := range list {
			cuts[c.ID] = cut{Service: name, Networks: networks(c)}
		}
	}
	return json.Marshal(cuts)
}

// Recall remembers what Undo has read, for Join.
func (e *Engine) Recall(undo json.RawMessage) error {
	var cuts map[string]cut
	if err := json.Unmarshal(undo, &cuts); err != nil {
		return fmt.Errorf("reading which networks to restore: %w", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, was := range cuts {
		if _, ok := e.cuts[id]; !ok {
			e.cuts[id] = was
		}
	}
	return nil
}

// Cut takes every container of the service out of all its networks, and returns when the engine shows none. Published
// ports stop to answer too.
func (e *Engine) Cut(ctx context.Context, name string) (err error) {
	defer e.observe.Time(e.clock, "cut")(&err)
	return e.change(ctx, name, "cutting off", changeWait, func(ctx context.Context, c target) error {
		if err := errors.Join(cuttable(c), e.sharers(ctx, c)); err != nil {
			return err
		}
		was := networks(c)
		if len(was) == 0 {
			return errors.New("it is in no network already")
		}
		e.mu.Lock()
		e.cuts[c.ID] = cut{Service: name, Networks: was}
		e.mu.Unlock()
		for _, net := range slices.Sorted(maps.Keys(was)) {
			if err := e.cli.NetworkDisconnect(ctx, net, c.ID, false); err != nil {
				return fmt.Errorf("leaving the network %s: %w", net, err)
			}
		}
		return e.until(ctx, c.ID, "the cut", func(now target) bool { return len(now.NetworkSettings.Networks) == 0 })
	})
}

// Join puts the containers of the service back into the networks that they were cut from, with the same aliases, links
// and fixed addresses; it does nothing to those that were not cut. An address that the engine had drawn is drawn again.
func (e *Engine) Join(ctx context.Context, name string) (err error) {
	defer e.observe.Time(e.clock, "join")(&err)
	s, err := e.service(name)
	if err != nil {
		return err
	}
	s.op.Lock()
	defer s.op.Unlock()
	ctx, cancel := context.WithTimeout(ctx, changeWait)
	defer cancel()
	var errs []error
	for id, was := range e.cutOff(name) {
		if err := e.join(ctx, id, was); err != nil {
			errs = append(errs, fmt.Errorf("%s: joining container %s again: %w", name, short(id), e.plain(err)))
			continue
		}
		e.mu.Lock()
		delete(e.cuts, id)
		e.mu.Unlock()
	}
	return errors.Join(errs...)
}

func (e *Engine) cutOff(service string) map[string]cut {
	e.mu.Lock()
	defer e.mu.Unlock()
	off := make(map[string]cut)
	for id, was := range e.cuts {
		if was.Service == service {
			off[id] = was
		}
	}
	return off
}

func (e *Engine) join(ctx context.Context, id string, was cut) error {
	c, err := e.inspect(ctx, id)
	if errdefs.IsNotFound(err) || (err == nil && c.service != was.Service) {
		return nil // it was replaced meanwhile; a record does not make a target of a stranger
	}
	if err != nil {
		return err
	}
	is := networks(c)
	for _, net := range slices.Sorted(maps.Keys(was.Networks)) {
		if same(is[net], was.Networks[net]) {
			continue
		}
		// A container that started while it was cut off is put into its first network by the engine, without aliases.
		if is[net] != nil {
			if err := e.cli.NetworkDisconnect(ctx, net, id, true); err != nil {
				return fmt.Errorf("leaving the network %s, which it had joined by itself: %w", net, err)
			}
		}
		if err := e.cli.NetworkConnect(ctx, net, id, was.Networks[net]); err != nil {
			return fmt.Errorf("joining the network %s: %w", net, err)
		}
	}
	return e.until(ctx, id, "its networks", func(now target) bool {
		is := networks(now)
		for net, ep := range was.Networks {
			if !same(is[net], ep) {
				return false
			}
		}
		return true
	})
}

func same(a, b *network.EndpointSettings) bool {
	if a == nil || b == nil {
		return a == b
	}
	address := func(ep *network.EndpointSettings) [2]string {
		if ep.IPAMConfig == nil {
			return [2]string{}
		}
		return [2]string{ep.IPAMConfig.IPv4Address, ep.IPAMConfig.IPv6Address}
	}
	names := func(ep *network.EndpointSettings) []string { return slices.Sorted(slices.Values(ep.Aliases)) }
	return slices.Equal(slices.Compact(names(a)), slices.Compact(names(b))) && address(a) == address(b)
}
