package discover

import (
	"context"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Part is a service of a stack, as a configuration would have it.
type Part struct {
	Service   string
	Container Container // the first that runs
	Kind      Kind      // of store; empty: it is none that is known
	At        string    // host:port at which it was asked; empty: nowhere from here
	Answer    Answer
	Unfit     string // why it can be no service of a configuration
}

// serviceForm is what a configuration calls services.
var serviceForm = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]*$`)

// watchers are images of what looks at an app and is no part of it.
func watchers() []string {
	return []string{"prometheus", "grafana", "jaeger", "loki", "promtail", "alertmanager", "exporter", "cadvisor", "adminer", "pgadmin", "portainer", "redisinsight", "amnesia/amnesia"}
}

// Survey asks every service of a stack what it is. Each container that is given is asked at the ports that this host has.
func Survey(ctx context.Context, containers []Container) (parts []Part) {
	for _, c := range containers {
		if i := slices.IndexFunc(parts, func(p Part) bool { return p.Service == c.Service }); i >= 0 {
			if c.Running && !parts[i].Container.Running {
				parts[i].Container = c
			}
			continue
		}
		parts = append(parts, Part{Service: c.Service, Container: c})
	}
	for i := range parts {
		parts[i].survey(ctx)
	}
	return parts
}

func (p *Part) survey(ctx context.Context) {
	p.Kind = KindOf(p.Container)
	image, _, _ := strings.Cut(p.Container.Image, "@")
	switch {
	case !serviceForm.MatchString(p.Service):
		p.Unfit = "its name has other signs than small letters, digits, - and _"
		return
	case !p.Container.Running:
		p.Unfit = "it does not run"
		return
	case slices.ContainsFunc(watchers(), func(w string) bool { return strings.Contains(image, w) }):
		p.Unfit = "it looks at the app, and is no part of it"
		return
	}
	for _, at := range p.Container.Published {
		a := Probe(ctx, at.At)
		better := p.At == "" || a.Kind != "" && p.Answer.Kind == "" || a.HTML && !p.Answer.HTML && p.Answer.Kind == ""
		if a.Health == "" || !better {
			continue
		}
		p.At, p.Answer = at.At, a
	}
	switch {
	case p.At != "":
		if p.Answer.Kind != "" {
			p.Kind = p.Answer.Kind
		}
	case len(p.Container.Published) > 0:
		p.Unfit = "nothing answers at " + p.Container.Published[0].At
	case len(p.Container.Ports) > 0:
		port := p.Container.Ports[0]
		p.Unfit = fmt.Sprintf(`this host has none of its ports, so that its health cannot be asked: publish one, as with  ports: ["127.0.0.1:%d:%[1]d"]`, port)
	default:
		p.Unfit = "it has no port, so that its health cannot be asked"
	}
}

// Front gives the service that shows pages to people, as far as that can be told; -1: none. address, where somebody gave
// one, is host:port of it.
func Front(parts []Part, address string) int {
	best, most := -1, 0
	for i, p := range parts {
		score := 0
		switch {
		case address != "":
			if _, port, err := net.SplitHostPort(address); err == nil && slices.ContainsFunc(p.Container.Published, func(a Published) bool { return strings.HasSuffix(a.At, ":"+port) }) {
				score = 100
			}
		case p.Unfit != "" || p.Kind != "" || !p.Answer.HTTP:
		default:
			score = 1
			if p.Answer.HTML {
				score += 10
			}
			if p.Container.Target {
				score += 4
			}
			if regexp.MustCompile(`app|web|front|chat|ui`).MatchString(p.Service) {
				score += 2
			}
		}
		if score > most {
			best, most = i, score
		}
	}
	return best
}

// grace is how long a part takes to end, where that is another time than the usual one; 0: it is not.
func (p Part) grace() time.Duration {
	const usual = 10 * time.Second
	if p.Container.Grace == usual {
		return 0
	}
	return p.Container.Grace
}
