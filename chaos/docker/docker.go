// Package docker is the engine whose services are containers: those of a Compose project, or named ones, that carry the
// label amnesia.target=true. It is the only importer of the Docker client, and works on Engine 20.10 (API 1.41) and
// newer, the version being negotiated.
//
// What may be touched is decided by what the engine says of a container, by its id and at the moment of doing it, never
// by the configuration alone. Labels of a container cannot change, so an id that was a target stays one.
//
// It knows nothing of plans, journals or verdicts.
package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docker/docker/api/types/versions"
	"github.com/docker/docker/client"
	"go.uber.org/zap"

	"amnesia/chaos"
	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

const (
	// TargetLabel with the value "true" is what a container must carry to be touched.
	TargetLabel = "amnesia.target"
	// EphemeralLabel with the value "true" is what a named volume must carry to be emptied.
	EphemeralLabel = "amnesia.ephemeral"
	// HelperLabel marks the containers and the image that the engine makes for itself.
	HelperLabel = "amnesia.helper"

	// The labels that Compose sets (https://docs.docker.com/reference/compose-file/services/#labels).
	projectLabel = "com.docker.compose.project"
	serviceLabel = "com.docker.compose.service"
	oneOffLabel  = "com.docker.compose.oneoff" // "True" for a container of docker compose run

	leastAPI = "1.41" // Engine 20.10

	answerWait = 10 * time.Second // for the engine to answer at all
	changeWait = time.Minute      // for one change of a container: an engine that hangs must not hang us
	lookWait   = 20 * time.Millisecond
	tailLines  = 20       // of each container
	maxLine    = 64 << 10 // bytes kept of one line
)

// Service is one service of the target.
type Service struct {
	Name   string // the Compose service; without a project, the container's name
	Health string // http(s):// or tcp:// address; empty: healthy when running
	// Volumes are mount points, names of volumes, or paths in the writable layer, that a plan may have emptied. It only
	// makes them known: whether one may be emptied is decided by what it is (see Engine.Wipeable).
	Volumes []string
}

// Config is what an engine works with.
type Config struct {
	// Host is the engine's address, as in DOCKER_HOST; empty: DOCKER_HOST with its companions, or the local socket.
	Host string
	// Project is the Compose project of the target; empty: the services are containers by name.
	Project  string
	Services []Service
	Clock    memory.Clock
	Logger   *zap.Logger // nil: silence
	// Helper is a statically linked Linux program that calls HelperMain first; empty: this program. It works where the
	// daemon itself cannot reach: inside a volume, and in the engine's process namespace.
	Helper string
	// ReadOnly leaves what an earlier daemon has left: for those who only look, perhaps beside a daemon that runs.
	ReadOnly bool
	Observe  chaos.Observer
}

// Engine hurts containers. It plays every role of package chaos, and is safe for concurrent use.
type Engine struct {
	cli      *client.Client
	project  string
	services []*service
	clock    memory.Clock
	observe  chaos.Observer
	log      *zap.Logger
	helper   *helper
	deaths   *deaths
	dropped  atomic.Int64
	ctx      context.Context // of the followers; ends with Close
	cancel   context.CancelFunc

	mu   sync.Mutex
	cuts map[string]cut // by container id: what Join has to restore
}

// service is a declared one.
type service struct {
	Service
	op sync.Mutex // one change at a time
}

var (
	_ chaos.Engine           = (*Engine)(nil)
	_ chaos.Starter          = (*Engine)(nil)
	_ chaos.Killer           = (*Engine)(nil)
	_ chaos.SupervisedKiller = (*Engine)(nil)
	_ chaos.Stopper          = (*Engine)(nil)
	_ chaos.Pauser           = (*Engine)(nil)
	_ chaos.Partitioner      = (*Engine)(nil)
	_ chaos.Wiper            = (*Engine)(nil)
	_ chaos.Recreator        = (*Engine)(nil)
	_ chaos.Checker          = (*Engine)(nil)
	_ chaos.Undoer           = (*Engine)(nil)
	_ chaos.Finisher         = (*Engine)(nil)
	_ chaos.LogReader        = (*Engine)(nil)
	_ chaos.EventSource      = (*Engine)(nil)
	_ chaos.Tailer           = (*Engine)(nil)
	_ chaos.Describer        = (*Engine)(nil)
)

// New connects to the engine, agrees on an API version, and, unless it is to be read only, removes helpers that an earlier
// daemon of this project left.
// It touches no service; Verify says whether all of them are there.
func New(ctx context.Context, cfg Config) (*Engine, error) {
	if err := declared(cfg.Services); err != nil {
		return nil, err
	}
	opts := []client.Opt{client.FromEnv, client.WithAPIVersionNegotiation()}
	if cfg.Host != "" {
		opts = append(opts, client.WithHost(cfg.Host))
	}
	cli, err := client.NewClientWithOpts(opts...)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the Docker engine: %w — fix: give unix:// or tcp:// (ssh -L can bring a remote socket near) in DOCKER_HOST or target.host", err)
	}
	e := &Engine{cli: cli, project: cfg.Project, clock: cfg.Clock, observe: cfg.Observe, log: cfg.Logger, deaths: newDeaths(), cuts: make(map[string]cut)}
	if e.log == nil {
		e.log = zap.NewNop()
	}
	for _, s := range cfg.Services {
		e.services = append(e.services, &service{Service: s})
	}
	e.helper = &helper{cli: cli, project: cfg.Project, program: cfg.Helper}
	e.ctx, e.cancel = context.WithCancel(context.WithoutCancel(ctx))
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	err = e.greet(ctx)
	if err == nil && !cfg.ReadOnly {
		err = e.helper.sweep(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

func declared(services []Service) error {
	var errs []error
	if len(services) == 0 {
		errs = append(errs, errors.New("no services — fix: name at least one"))
	}
	for i, s := range services {
		if s.Name == "" {
			errs = append(errs, fmt.Errorf("service %d has no name — fix: name it", i+1))
		}
		if slices.ContainsFunc(services[:i], func(o Service) bool { return o.Name == s.Name }) {
			errs = append(errs, fmt.Errorf("%s: declared twice — fix: give each service a name of its own", s.Name))
		}
	}
	return errors.Join(errs...)
}

func (e *Engine) greet(ctx context.Context) error {
	if _, err := e.cli.Ping(ctx); err != nil {
		return e.told("asking for the API version", err)
	}
	e.cli.NegotiateAPIVersion(ctx)
	if v := e.cli.ClientVersion(); versions.LessThan(v, leastAPI) {
		return fmt.Errorf("the engine at %s speaks API %s, and %s (Docker 20.10) is the least — fix: update it, or unset DOCKER_API_VERSION",
			e.cli.DaemonHost(), v, leastAPI)
	}
	return nil
}

// told wraps an error of asking the engine, which says nothing of what was asked about.
func (e *Engine) told(doing string, err error) error {
	return &chaos.Unreachable{Err: fmt.Errorf("%s: %w", doing, e.plain(err))}
}

// Name is "docker".
func (e *Engine) Name() string { return "docker" }

// APIVersion is the one agreed upon.
func (e *Engine) APIVersion() string { return e.cli.ClientVersion() }

// Services lists the services in the order of the configuration.
func (e *Engine) Services() []chaos.Service {
	var list []chaos.Service
	for _, s := range e.services {
		list = append(list, chaos.Service{Name: s.Name, Health: s.Health, Wipeable: slices.Clone(s.Volumes)})
	}
	return list
}

// Verify says of every declared service that has no container to touch, why.
func (e *Engine) Verify(ctx context.Context) error {
	var errs []error
	for _, s := range e.services {
		_, err := e.containers(ctx, s.Name)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Instances gives the running containers of the service, by id, start time and restart count. That a service has no
// container to touch at all is an error.
func (e *Engine) Instances(ctx context.Context, name string) (_ []fact.Instance, err error) {
	defer e.observe.Time(e.clock, "instances")(&err)
	list, err := e.containers(ctx, name)
	if err != nil {
		return nil, err
	}
	var instances []fact.Instance
	for _, c := range list {
		if c.runs() && !c.replaced() {
			instances = append(instances, c.instance())
		}
	}
	slices.SortFunc(instances, func(a, b fact.Instance) int { return cmp.Compare(a.ID, b.ID) })
	return instances, nil
}

// Dropped counts the log lines and events that slow consumers have lost.
func (e *Engine) Dropped() int64 { return e.dropped.Load() }

// Close ends the followers and removes the helper image. The services are left as they are.
func (e *Engine) Close() error {
	e.cancel()
	ctx, cancel := context.WithTimeout(context.Background(), answerWait)
	defer cancel()
	return errors.Join(e.helper.close(ctx), e.cli.Close())
}

func (e *Engine) service(name string) (*service, error) {
	for _, s := range e.services {
		if s.Name == name {
			return s, nil
		}
	}
	return nil, fmt.Errorf("no service %q in this engine", name)
}

// change runs do on every container of the service at once, while nothing else changes the service, and for so long at
// most.
func (e *Engine) change(ctx context.Context, name, doing string, most time.Duration, do func(ctx context.Context, c target) error) error {
	s, err := e.service(name)
	if err != nil {
		return err
	}
	s.op.Lock()
	defer s.op.Unlock()
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	list, err := e.containers(ctx, name)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", name, doing, err)
	}
	errs := make([]error, len(list))
	var wg sync.WaitGroup
	for i, c := range list {
		if c.replaced() {
			continue
		}
		wg.Go(func() {
			if err := do(ctx, c); err != nil {
				errs[i] = fmt.Errorf("%s: %s container %s: %w", name, doing, c.short(), e.plain(err))
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// plain adds the fix to the error of an engine that does not answer, or broke off.
func (e *Engine) plain(err error) error {
	_, known := errors.AsType[*chaos.Unreachable](err)
	gone := client.IsErrConnectionFailed(err) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, context.DeadlineExceeded)
	if known || !gone {
		return err
	}
	return &chaos.Unreachable{Err: fmt.Errorf("the Docker engine at %s does not answer: %w — fix: start it, or set DOCKER_HOST", e.cli.DaemonHost(), err)}
}
