package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

// Tailer keeps the last lines that a service logged, for messages to people.
type Tailer interface {
	Tail(service string) []string
}

// Prober asks services whether they are well. Each question is a connection of its own: one kept alive to a killed
// process would speak for the dead.
type Prober struct {
	clock   memory.Clock
	timeout time.Duration
	client  *http.Client
}

// NewProber gives a prober; timeout bounds one question (0: one second).
func NewProber(clock memory.Clock, timeout time.Duration) *Prober {
	if timeout <= 0 {
		timeout = time.Second
	}
	return &Prober{clock: clock, timeout: timeout, client: &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, DialContext: (&net.Dialer{}).DialContext},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Check reads the services once, all at the same time, in the order of the engine; nil asks all. A service is healthy
// when it has a running instance, its address answers (http: 2xx, tcp: accepts), and its identity was the same before
// and after the question.
func (p *Prober) Check(ctx context.Context, e Engine, services []string) []fact.Health {
	var asked []Service
	for _, s := range e.Services() {
		if services == nil || slices.Contains(services, s.Name) {
			asked = append(asked, s)
		}
	}
	health := make([]fact.Health, len(asked))
	var wg sync.WaitGroup
	for i, s := range asked {
		wg.Go(func() { health[i] = p.read(ctx, e, s) })
	}
	wg.Wait()
	for _, name := range services {
		if !slices.ContainsFunc(asked, func(s Service) bool { return s.Name == name }) {
			health = append(health, fact.Health{Service: name, Detail: "the engine knows no such service", At: p.clock.Now()})
		}
	}
	return health
}

func (p *Prober) read(ctx context.Context, e Engine, s Service) fact.Health {
	h := fact.Health{Service: s.Name}
	err := func() error {
		before, err := e.Instances(ctx, s.Name)
		if err != nil {
			return err
		}
		h.Instances = before
		if len(before) == 0 {
			return errDown
		}
		if err := p.ask(ctx, s.Health); err != nil {
			return err
		}
		after, err := e.Instances(ctx, s.Name)
		if err != nil {
			return err
		}
		h.Instances = after
		if !slices.Equal(before, after) {
			return errors.New("its identity changed while it was asked")
		}
		return nil
	}()
	h.Healthy, h.At = err == nil, p.clock.Now()
	if err != nil {
		h.Detail, h.Unread = err.Error(), unreachable(err)
	}
	return h
}

var errDown = errors.New("it is not running")

// ask puts one question to a health address; an empty one is always well (the running instance is all there is).
func (p *Prober) ask(ctx context.Context, address string) error {
	if address == "" {
		return nil
	}
	u, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("reading the health address: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	switch u.Scheme {
	case "tcp":
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", u.Host)
		if err != nil {
			return err
		}
		return conn.Close()
	case "http", "https":
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return err
		}
		resp, err := p.client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)); err != nil {
			return err
		}
		if resp.StatusCode/100 != 2 {
			return fmt.Errorf("%s answered %s", address, resp.Status)
		}
		return nil
	}
	return fmt.Errorf("health address %q is neither http://, https:// nor tcp://", address)
}

// Unhealthy says which services did not become healthy, and what was last known of them.
type Unhealthy struct {
	Health []fact.Health
	Tails  map[string][]string // the last log lines, by service
}

// sick reports whether err says of a service that it is not well, and not only that nobody could be asked.
func sick(err error) bool {
	u, ok := errors.AsType[*Unhealthy](err)
	return ok && slices.ContainsFunc(u.Health, func(h fact.Health) bool { return h.Sick() })
}

func (u *Unhealthy) Error() string {
	var parts []string
	for _, h := range u.Health {
		if h.Healthy {
			continue
		}
		part := fmt.Sprintf("%s never became healthy: %s", h.Service, h.Detail)
		if tail := u.Tails[h.Service]; len(tail) > 0 {
			part += "; its last lines were:\n\t" + strings.Join(tail, "\n\t")
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "\n")
}

// Await asks until all the services (nil: all of the engine) are healthy in the same round, or ctx ends; the last
// readings come with either. The pause between two rounds is a twentieth of the time waited, from 2 to 100 ms: an answer
// comes late by 5 % at most. The error is an *Unhealthy.
func (p *Prober) Await(ctx context.Context, e Engine, services []string) ([]fact.Health, error) {
	began := p.clock.Now()
	var last []fact.Health
	for {
		health := p.Check(ctx, e, services)
		if !slices.ContainsFunc(health, func(h fact.Health) bool { return !h.Healthy }) {
			return health, nil
		}
		// A round that ctx cut short says nothing about the services, unless it is the only one. A connection notices the
		// deadline before ctx does.
		deadline, bounded := ctx.Deadline()
		if cut := ctx.Err() != nil || (bounded && !time.Now().Before(deadline)); !cut || last == nil {
			last = health
		}
		pause := min(max(p.clock.Now().Sub(began)/20, 2*time.Millisecond), 100*time.Millisecond)
		if sleep(ctx, pause) != nil {
			u := &Unhealthy{Health: last, Tails: make(map[string][]string)}
			if t, ok := e.(Tailer); ok {
				for _, h := range last {
					if !h.Healthy {
						u.Tails[h.Service] = t.Tail(h.Service)
					}
				}
			}
			return last, u
		}
	}
}
