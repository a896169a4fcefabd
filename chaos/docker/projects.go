package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"

	"amnesia/pkg/discover"
)

// The labels with which Compose says what a project came of.
const (
	filesLabel = "com.docker.compose.project.config_files"
	dirLabel   = "com.docker.compose.project.working_dir"
)

// Projects gives the Compose projects that have a running container, with the services of each, in the order of their
// names. host is the engine's address, as in Config.
func Projects(ctx context.Context, host string) (_ []discover.Project, err error) {
	opts := []client.Opt{client.FromEnv, client.WithAPIVersionNegotiation()}
	if host != "" {
		opts = append(opts, client.WithHost(host))
	}
	cli, err := client.NewClientWithOpts(opts...)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the Docker engine: %w — fix: correct DOCKER_HOST", err)
	}
	e := &Engine{cli: cli}
	defer func() { err = errors.Join(err, cli.Close()) }()
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	if err := e.greet(ctx); err != nil {
		return nil, err
	}
	found, err := cli.ContainerList(ctx, container.ListOptions{Filters: filters.NewArgs(filters.Arg("label", projectLabel))})
	if err != nil {
		return nil, e.told("listing the containers", err)
	}
	byName := map[string]*discover.Project{}
	for _, c := range found {
		name, service := c.Labels[projectLabel], c.Labels[serviceLabel]
		if name == "" || service == "" || c.Labels[oneOffLabel] == "True" || c.Labels[HelperLabel] != "" {
			continue
		}
		p := byName[name]
		if p == nil {
			p = &discover.Project{Name: name}
			byName[name] = p
		}
		if p.Dir == "" {
			p.Dir = c.Labels[dirLabel]
		}
		// Each container says which files it was made by: one that was made later may have more.
		if files := strings.FieldsFunc(c.Labels[filesLabel], func(r rune) bool { return r == ',' }); len(files) > len(p.Files) {
			p.Files = files
		}
		if !slices.Contains(p.Services, service) {
			p.Services = append(p.Services, service)
		}
	}
	var out []discover.Project
	for _, p := range byName {
		slices.Sort(p.Services)
		out = append(out, *p)
	}
	slices.SortFunc(out, func(a, b discover.Project) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// Variable gives one variable of a container's environment, which may be a secret; ok is false where it has none such.
func (e *Engine) Variable(ctx context.Context, id, name string) (value string, ok bool, err error) {
	c, err := e.inspect(ctx, id)
	if err != nil {
		return "", false, e.told("reading container "+short(id), err)
	}
	for _, set := range c.Config.Env {
		if value, ok := strings.CutPrefix(set, name+"="); ok {
			return value, true, nil
		}
	}
	return "", false, nil
}

// published gives where this host has the ports of a container. A port for all addresses is reached by loopback.
func published(c target) (out []discover.Published) {
	for port, bindings := range c.NetworkSettings.Ports {
		if port.Proto() != "tcp" {
			continue
		}
		for _, b := range bindings {
			host := b.HostIP
			if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
				host = "127.0.0.1"
				if ip != nil && ip.To4() == nil && len(bindings) > 1 {
					continue // the other one says the same
				}
			}
			out = append(out, discover.Published{Port: port.Int(), At: net.JoinHostPort(host, b.HostPort)})
		}
	}
	slices.SortFunc(out, func(a, b discover.Published) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.At, b.At))
	})
	return slices.Compact(out)
}
