package docker

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"amnesia/pkg/fact"
)

// replacedSuffix is in the name of a container that a recreate has put aside.
const replacedSuffix = ".amnesia-replaced"

// target is a container that may be touched, as the engine described it a moment ago.
type target struct {
	container.InspectResponse
	service string
}

func (c target) name() string   { return strings.TrimPrefix(c.Name, "/") }
func (c target) short() string  { return short(c.ID) }
func (c target) replaced() bool { return strings.HasSuffix(c.Name, replacedSuffix) }

// runs: a container that waits for its restart policy counts as running to the engine, but no process lives.
func (c target) runs() bool { return c.State.Running && !c.State.Restarting && c.State.Pid != 0 }

func (c target) instance() fact.Instance {
	return fact.Instance{ID: c.ID, Started: c.State.StartedAt, Restarts: c.RestartCount}
}

func short(id string) string { return id[:min(12, len(id))] }

// serviceOf gives the service that a container belongs to by its labels and name; empty if it may not be touched.
func (e *Engine) serviceOf(name string, labels map[string]string) string {
	if labels[TargetLabel] != "true" || labels[HelperLabel] != "" || labels[oneOffLabel] == "True" {
		return ""
	}
	if e.project == "" {
		return strings.TrimSuffix(strings.TrimPrefix(name, "/"), replacedSuffix)
	}
	if labels[projectLabel] != e.project {
		return ""
	}
	return labels[serviceLabel]
}

// containers gives every container of the service that may be touched, running or not, one put aside by a recreate too,
// and decides it by what the engine says of each id now.
func (e *Engine) containers(ctx context.Context, service string) ([]target, error) {
	if _, err := e.service(service); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	want := filters.NewArgs(filters.Arg("label", TargetLabel+"=true"))
	if e.project != "" {
		want.Add("label", projectLabel+"="+e.project)
		want.Add("label", serviceLabel+"="+service)
	}
	found, err := e.cli.ContainerList(ctx, container.ListOptions{All: true, Filters: want})
	if err != nil {
		return nil, e.told("listing the containers of "+service, err)
	}
	var list []target
	for _, f := range found {
		if e.project == "" && !named(f.Names, service) {
			continue
		}
		c, err := e.inspect(ctx, f.ID)
		if errdefs.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, e.told("reading container "+short(f.ID)+" of "+service, err)
		}
		if c.service == service {
			list = append(list, c)
		}
	}
	if len(list) == 0 {
		return nil, e.whyNone(ctx, service)
	}
	return list, nil
}

func (e *Engine) inspect(ctx context.Context, id string) (target, error) {
	got, err := e.cli.ContainerInspect(ctx, id)
	if err != nil {
		return target{}, err
	}
	if got.ContainerJSONBase == nil || got.State == nil || got.HostConfig == nil || got.Config == nil {
		return target{}, errors.New("the engine described it in part only")
	}
	if got.NetworkSettings == nil {
		got.NetworkSettings = &container.NetworkSettings{}
	}
	c := target{InspectResponse: got, service: e.serviceOf(got.Name, got.Config.Labels)}
	if c.runs() {
		e.deaths.seen(c.instance())
	}
	return c, nil
}

func named(names []string, service string) bool {
	for _, n := range names {
		if n = strings.TrimPrefix(n, "/"); n == service || n == service+replacedSuffix {
			return true
		}
	}
	return false
}

// whyNone tells a service that is not there from one that may not be touched.
func (e *Engine) whyNone(ctx context.Context, service string) error {
	all, err := e.cli.ContainerList(ctx, container.ListOptions{All: true})
	if err != nil {
		return e.told("listing the containers", err)
	}
	for _, c := range all {
		if e.project == "" && named(c.Names, service) {
			return fmt.Errorf("%s: container %s is not touched: it lacks the label %s=true — fix: add the label to it, if it may be hurt",
				service, short(c.ID), TargetLabel)
		}
		if e.project == "" || c.Labels[serviceLabel] != service {
			continue
		}
		if c.Labels[projectLabel] == e.project {
			return fmt.Errorf("%s: container %s is not touched: it lacks the label %s=true, or is a one-off — fix: add the label to the service in the Compose file, if it may be hurt, or use the override that amnesia init writes (docker compose … --file amnesia.compose.yaml up --detach)",
				service, short(c.ID), TargetLabel)
		}
	}
	where := "has that name"
	if e.project != "" {
		where = "is of that service in the Compose project " + e.project
	}
	return fmt.Errorf("%s: no container %s — fix: start the target (docker compose up), or correct target.services", service, where)
}
