package docker_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"amnesia/chaos"
	"amnesia/chaos/docker"
	"amnesia/pkg/clock"
	"amnesia/pkg/fact"
)

func injector(e chaos.Engine, j chaos.Journal) *chaos.Injector {
	c := clock.System()
	return chaos.NewInjector(chaos.InjectorConfig{Engine: e, Journal: j, Clock: c, Prober: chaos.NewProber(c, 0),
		Guard: chaos.NewGuard(chaos.Limits{Armed: true, HaltAfter: 1}, e, c, chaos.GuardState{}), Before: 20 * time.Second})
}

func TestEveryKindFromEndToEnd(t *testing.T) {
	s := newStack(t)
	_, app := s.web("app", func(cfg *container.Config, host *container.HostConfig) {
		cfg.Env = []string{"PASSWORD=hunter2"}
		cfg.Volumes = map[string]struct{}{"/anon": {}}
		host.RestartPolicy.Name = "always"
	})
	_, db := s.web("db", nil)
	e := s.engine(docker.Service{Name: "app", Health: app + "/healthz", Volumes: []string{"/anon"}}, docker.Service{Name: "db", Health: db + "/healthz"})
	for i, inj := range []chaos.Injection{
		{Kind: chaos.Kill, Service: "app"},
		{Kind: chaos.Kill, Service: "app", Supervised: true},
		{Kind: chaos.Restart, Service: "app", Grace: 5 * time.Second},
		{Kind: chaos.Pause, Service: "app", Hold: 200 * time.Millisecond},
		{Kind: chaos.Partition, Service: "app", Hold: 200 * time.Millisecond},
		{Kind: chaos.Wipe, Service: "app", Volume: "/anon"},
		{Kind: chaos.Recreate, Service: "app"},
		{Kind: chaos.CrashAll, Services: []string{"app", "db"}},
	} {
		name := inj.Kind
		if inj.Supervised {
			name += ", supervised"
		}
		t.Run(name, func(t *testing.T) {
			inj.ID, inj.Instances = int64(i+1), chaos.One
			write(t, app, "/anon/f", "text")
			write(t, app, "/layer/f", "text")
			var j steps
			res, err := injector(e, &j).Do(testContext(t), inj)
			must(t, err)
			if res.Outcome != chaos.Injected {
				t.Errorf("outcome: %s", res.Outcome)
			}
			want := []fact.StepName{fact.StepPlanned, fact.StepGated, fact.StepFiring, fact.StepInjected, fact.StepProven, fact.StepRecovered, fact.StepClosed}
			if !slices.Equal(j.names(), want) {
				t.Errorf("steps: %v", j.names())
			}
			t.Logf("%s: recovery %s", name, res.Recovery.Round(time.Millisecond))
			gone := func(path string) bool { return strings.HasPrefix(read(app, path), "!") }
			if g := gone("/anon/f"); g != (inj.Kind == chaos.Wipe || inj.Kind == chaos.Recreate) {
				t.Errorf("the anonymous volume is gone: %v", g)
			}
			if g := gone("/layer/f"); g != (inj.Kind == chaos.Recreate) {
				t.Errorf("the writable layer is gone: %v", g)
			}
			all, err := json.Marshal(j.all)
			must(t, err)
			if strings.Contains(string(all), "hunter2") {
				t.Error("the journal holds the environment")
			}
		})
	}
}

func TestSupervisorThatDoesNotComeIsFoundOut(t *testing.T) {
	s := newStack(t)
	// It gives up at the first failure: the count is used up by the deaths before.
	id, app := s.web("app", func(_ *container.Config, host *container.HostConfig) {
		host.RestartPolicy = container.RestartPolicy{Name: "on-failure", MaximumRetryCount: 1}
	})
	e := s.engine(docker.Service{Name: "app", Health: app + "/healthz"})
	must(t, e.KillSupervised(testContext(t), "app"))
	eventually(t, "the policy brings it back once", func() bool { return inspect(t, id).RestartCount == 1 && get(app+"/healthz") == "ok\n" })
	var j steps
	in := injector(e, &j)
	in.After = 3 * time.Second
	res, err := in.Do(testContext(t), chaos.Injection{ID: 1, Kind: chaos.Kill, Service: "app", Supervised: true, Instances: chaos.All})
	if unhealthy, ok := errors.AsType[*chaos.Unhealthy](err); !ok || res.Outcome != chaos.Unrecovered {
		t.Fatalf("outcome %s, %v (%v)", res.Outcome, err, unhealthy)
	}
	if !inspect(t, id).State.Running {
		t.Error("it was left dead")
	}
}

func TestAvailability(t *testing.T) {
	s := newStack(t)
	s.up("bare", nil)
	e := s.engine(docker.Service{Name: "bare"})
	for _, c := range []struct {
		inj  chaos.Injection
		want string
	}{
		{chaos.Injection{Kind: chaos.Kill, Service: "bare", Supervised: true}, "no restart policy"},
		{chaos.Injection{Kind: chaos.Restart, Service: "bare", Supervised: true}, "anything but the kill"},
		{chaos.Injection{Kind: chaos.Wipe, Service: "bare", Volume: "nothing"}, "no such volume"},
	} {
		c.inj.Instances = chaos.All
		var j steps
		res, err := injector(e, &j).Do(testContext(t), c.inj)
		if refusal, ok := errors.AsType[*chaos.Refusal](err); !ok || res.Outcome != chaos.Refused || refusal.Reason != chaos.ReasonUnavailable || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %s, %v", c.inj, res.Outcome, err)
		}
	}
}

// A daemon that is killed while it holds a service leaves an open injection; the next one has only the ledger.
func TestLaterDaemonReverts(t *testing.T) {
	for _, kind := range []string{chaos.Kill, chaos.Pause, chaos.Partition} {
		t.Run(kind, func(t *testing.T) {
			s := newStack(t)
			id, app := s.web("app", nil)
			was := aliases(t, id)
			first := s.engine(docker.Service{Name: "app", Health: app + "/healthz"})
			var j steps
			in := injector(stuck{first}, &j)
			in.Revert = 50 * time.Millisecond // the first one's own undo fails
			ctx, cancel := context.WithCancel(testContext(t))
			defer cancel()
			ended := make(chan struct{})
			var res chaos.Result
			var err error
			go func() {
				defer close(ended)
				res, err = in.Do(ctx, chaos.Injection{ID: 9, Kind: kind, Service: "app", Instances: chaos.All, Hold: time.Minute})
			}()
			eventually(t, "the fault", func() bool {
				c := inspect(t, id)
				return !c.State.Running || c.State.Paused || len(c.NetworkSettings.Networks) == 0
			})
			cancel()
			<-ended
			if err == nil || res.Reverted {
				t.Fatalf("it was to be left open: %+v, %v", res, err)
			}
			open := j.plan()
			if len(open.Undo) == 0 {
				t.Fatal("no undo on record")
			}
			later := s.engine(docker.Service{Name: "app", Health: app + "/healthz"})
			must(t, injector(later, &steps{}).RevertOpen(testContext(t), []chaos.Injection{open}))
			eventually(t, "it answers", func() bool { return get(app+"/healthz") == "ok\n" })
			if is := aliases(t, id); !equal(is, was) {
				t.Errorf("aliases: %v, and they were %v", is, was)
			}
			// Once more does nothing.
			before, err := later.Instances(testContext(t), "app")
			must(t, err)
			must(t, injector(later, &steps{}).RevertOpen(testContext(t), []chaos.Injection{open}))
			if after, err := later.Instances(testContext(t), "app"); err != nil || !slices.Equal(before, after) {
				t.Errorf("a second revert: %v to %v, %v", before, after, err)
			}
		})
	}
}

// stuck is an engine whose daemon can hurt and not heal.
type stuck struct{ *docker.Engine }

var errStuck = errors.New("stuck on purpose")

func (stuck) Start(context.Context, string) error { return errStuck }
func (stuck) Thaw(context.Context, string) error  { return errStuck }
func (stuck) Join(context.Context, string) error  { return errStuck }

// gate is a socket before the engine's, which can be shut.
type gate struct {
	t    *testing.T
	path string
	mu   sync.Mutex
	l    net.Listener
	open []net.Conn
}

func newGate(t *testing.T) *gate {
	t.Helper()
	target, ok := strings.CutPrefix(cli.DaemonHost(), "unix://")
	if !ok {
		without(t, "the engine is not behind a socket of this machine, before which another can be put")
	}
	g := &gate{t: t, path: filepath.Join(t.TempDir(), "docker.sock")}
	g.up(target)
	t.Cleanup(g.shut)
	return g
}

func (g *gate) up(target string) {
	l, err := net.Listen("unix", g.path)
	must(g.t, err)
	g.mu.Lock()
	g.l = l
	g.mu.Unlock()
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("unix", target)
			if err != nil {
				in.Close()
				continue
			}
			g.mu.Lock()
			if g.l != l { // shut between this connection's arrival and here
				in.Close()
				out.Close()
			}
			g.open = append(g.open, in, out)
			g.mu.Unlock()
			go func() { _, _ = io.Copy(out, in); out.Close() }()
			go func() { _, _ = io.Copy(in, out); in.Close() }()
		}
	}()
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.l != nil {
		g.l.Close()
	}
	for _, c := range g.open {
		c.Close()
	}
	g.l, g.open = nil, nil
}

func TestEngineThatGoesAndComesBack(t *testing.T) {
	s := newStack(t)
	id, app := s.web("app", nil)
	g := newGate(t)
	e := newEngine(t, docker.Config{Host: "unix://" + g.path, Project: s.project, Services: []docker.Service{{Name: "app", Health: app + "/healthz"}}})
	ctx := testContext(t)
	events, lines := e.Events(ctx), e.Logs(ctx)
	before, err := e.Instances(ctx, "app")
	must(t, err)
	g.shut()
	for role, try := range map[string]func() error{
		"kill": func() error { return e.Kill(ctx, "app") }, "start": func() error { return e.Start(ctx, "app") },
		"freeze":    func() error { return e.Freeze(ctx, "app") },
		"instances": func() error { _, err := e.Instances(ctx, "app"); return err },
		"wipeable":  func() error { return e.Wipeable(ctx, "app", "/tmp") },
	} {
		if err := try(); err == nil || !strings.Contains(err.Error(), "unix://"+g.path+" does not answer") || strings.Count(err.Error(), "fix: ") != 1 {
			t.Errorf("%s without an engine: %v", role, err)
		}
	}
	if h := chaos.NewProber(clock.System(), 0).Check(ctx, e, nil); h[0].Healthy || !h[0].Unread {
		t.Errorf("it is %+v, though nobody can tell who it is", h[0])
	}
	// What happens meanwhile is caught up on.
	must(t, cli.ContainerKill(ctx, id, "SIGKILL"))
	must(t, cli.ContainerStart(ctx, id, container.StartOptions{}))
	g.up(strings.TrimPrefix(cli.DaemonHost(), "unix://"))
	if ev := take(t, events, "the death meanwhile", died); ev.Ours || ev.Instance != before[0] {
		t.Errorf("told as %+v", ev)
	}
	eventually(t, "it answers", func() bool { return get(app+"/say?text=after-the-break") == "" })
	for timeout := time.After(20 * time.Second); ; {
		select {
		case l := <-lines:
			if l.Text == "after-the-break" {
				return
			}
		case <-timeout:
			t.Fatal("the log is not followed any more")
		}
	}
}

// severed is an engine whose socket goes with the service that it kills.
type severed struct {
	*docker.Engine
	g *gate
}

func (s severed) Kill(ctx context.Context, service string) error {
	defer s.g.shut()
	return s.Engine.Kill(ctx, service)
}

// TestEngineGoneInAnInjection: a service that is down because the engine's socket is gone is owed, and no finding.
func TestEngineGoneInAnInjection(t *testing.T) {
	s := newStack(t)
	_, app := s.web("app", nil)
	g := newGate(t)
	e := severed{newEngine(t, docker.Config{Host: "unix://" + g.path, Project: s.project, Services: []docker.Service{{Name: "app", Health: app + "/healthz"}}}), g}
	var j steps
	in := injector(e, &j)
	in.Revert = time.Second
	res, err := in.Do(testContext(t), chaos.Injection{ID: 1, Kind: chaos.Kill, Service: "app", Instances: chaos.All})
	if res.Outcome != chaos.Failed || res.Reverted || err == nil || in.Guard.Paused() != "" {
		t.Errorf("%s, reverted %v, %v", res.Outcome, res.Reverted, err)
	}
	if err := in.Owed(testContext(t)); err == nil {
		t.Error("nothing is owed")
	}
	g.up(strings.TrimPrefix(cli.DaemonHost(), "unix://"))
	in.Revert = 20 * time.Second
	must(t, in.Owed(testContext(t)))
	if _, err := in.Prober.Await(testContext(t), e, nil); err != nil {
		t.Error(err)
	}
	want := []fact.StepName{fact.StepPlanned, fact.StepGated, fact.StepFiring, fact.StepFailed, fact.StepReverted, fact.StepClosed}
	if !slices.Equal(j.names(), want) {
		t.Errorf("steps: %v", j.names())
	}
}

// BenchmarkKillStart measures what a kill and a start take by themselves.
func BenchmarkKillStart(b *testing.B) {
	if missing != "" {
		b.Skip(missing)
	}
	ctx := context.Background()
	name := "amnesia-bench"
	made, err := cli.ContainerCreate(ctx, &container.Config{Image: picture, Labels: map[string]string{docker.TargetLabel: "true"}}, nil, nil, nil, name)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = cli.ContainerRemove(ctx, made.ID, container.RemoveOptions{Force: true}) }()
	e, err := docker.New(ctx, docker.Config{Services: []docker.Service{{Name: name}}, Clock: clock.System(), Helper: program})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	if err := e.Start(ctx, name); err != nil {
		b.Fatal(err)
	}
	var bare, kill, start, look time.Duration
	for b.Loop() {
		// What the client alone takes, in the same run.
		t0 := time.Now()
		errBare := errors.Join(cli.ContainerKill(ctx, made.ID, "SIGKILL"), cli.ContainerStart(ctx, made.ID, container.StartOptions{}))
		bare += time.Since(t0)
		t0 = time.Now()
		errKill := e.Kill(ctx, name)
		t1 := time.Now()
		errStart := e.Start(ctx, name)
		t2 := time.Now()
		_, errLook := e.Instances(ctx, name)
		kill, start, look = kill+t1.Sub(t0), start+t2.Sub(t1), look+time.Since(t2)
		if err := errors.Join(errBare, errKill, errStart, errLook); err != nil {
			b.Fatal(err)
		}
	}
	per := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 / float64(b.N) }
	b.ReportMetric(float64(kill+start)/float64(bare), "times-bare")
	b.ReportMetric(per(kill), "kill-ms/op")
	b.ReportMetric(per(start), "start-ms/op")
	b.ReportMetric(per(look), "instances-ms/op")
}
