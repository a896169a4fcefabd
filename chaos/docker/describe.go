package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"amnesia/pkg/discover"
	"amnesia/pkg/fact"
)

// Describe tells of every container of the services, running or not.
func (e *Engine) Describe(ctx context.Context, services ...string) (states []fact.ServiceState, err error) {
	defer e.observe.Time(e.clock, "describe")(&err)
	var errs []error
	for _, name := range services {
		list, err := e.containers(ctx, name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		slices.SortFunc(list, func(a, b target) int { return cmp.Compare(a.Name, b.Name) })
		for _, c := range list {
			if c.replaced() {
				continue
			}
			mounts, err := e.mounts(ctx, c)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: container %s: %w", name, c.short(), err))
			}
			states = append(states, fact.ServiceState{
				Service: name, Instance: c.instance(), Name: c.name(), Image: c.Config.Image, State: c.State.Status, Exit: c.State.ExitCode,
				RestartPolicy: string(c.HostConfig.RestartPolicy.Name), Command: slices.Concat(c.Config.Entrypoint, c.Config.Cmd), Mounts: mounted(mounts),
			})
		}
	}
	return states, errors.Join(errs...)
}

func mounted(mounts []discover.Mount) (out []fact.Mount) {
	for _, m := range mounts {
		f := fact.Mount{Kind: string(m.Type), Source: m.Name, Path: m.At, Anonymous: m.Anonymous, ReadOnly: m.ReadOnly}
		if m.Type == discover.Bind {
			f.Source = m.Source
		}
		out = append(out, f)
	}
	return out
}
