// Package app puts the parts together: New opens everything that a run on one target needs, Run runs its cycles, Close
// ends it all in reverse order. It is the only package that knows every other; what the commands of the command line do
// is here too, without flags, environment or signals.
package app

import (
	"cmp"
	"context"
	"errors"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/zap"

	"amnesia/chaos"
	"amnesia/pkg/clock"
	"amnesia/pkg/config"
	"amnesia/pkg/evidence"
	"amnesia/pkg/fact"
	"amnesia/pkg/incident"
	"amnesia/pkg/ledger"
	"amnesia/pkg/memory"
	"amnesia/pkg/metrics"
	"amnesia/pkg/oracle"
	"amnesia/pkg/session"
	"amnesia/pkg/session/browser"
	"amnesia/pkg/soak"
)

// Options are what a run needs beside its configuration.
type Options struct {
	Version    string
	Config     []string // the configuration's files, as they were given
	Seed       uint64
	Cycles     int           // 0: no end
	For        time.Duration // 0: no end
	BrowserDir string        // of Playwright's driver; empty: the user's cache
	Log        *zap.Logger
	Tap        func([]fact.Entry) // sees every fact once it is durable; may be nil
	// Replay is a plan that every cycle but the first plays again, each with accounts of its own; nil: plans are drawn.
	Replay *chaos.Injection
	Fired  []memory.Instant // faults on this target that are in another ledger: the limits count them too

	Finish <-chan struct{} // closed: Run ends with the cycle under way; may be nil

	Clock       memory.Clock  // nil: the system's
	StepTimeout time.Duration // of one action of a user; 0: the player's own
	LookTimeout time.Duration // of one read of a view, beyond what its contract lets a memory take to settle; 0: 30 s
}

// App is one daemon on one target.
type App struct {
	Docket *soak.Docket
	Ledger *ledger.Ledger
	Web    string // the address that it listens on

	cfg     *config.Config
	opts    Options
	log     *zap.Logger
	clock   memory.Clock
	run     string
	loop    *soak.Loop
	guard   *chaos.Guard
	desk    *desk
	board   *board
	keeper  *evidence.Keeper
	freezer *incident.Freezer
	books   *patient // the ledger, for all that goes on while cycles run
	guarded *guarded // nil: the guardian is the engine's own
	// browser is the one that users are played in; nil: they are played without one.
	browser *browser.Driver
	past    soak.Past        // what earlier daemons left in the ledger
	limited chaos.GuardState // by them: the limits go on counting
	kept    keptFold         // what the next one will find there; the ledger's tap alone goes on with it
	done    []func() error   // clean-up, last first
	serve   func(context.Context) error
}

// New opens everything and starts the target's services where the engine does that. On an error all that was opened is
// closed again.
func New(ctx context.Context, cfg *config.Config, o Options) (_ *App, err error) {
	if o.Clock == nil {
		o.Clock = clock.System()
	}
	o.LookTimeout = cmp.Or(o.LookTimeout, 30*time.Second)
	a := &App{cfg: cfg, opts: o, log: redactLog(o.Log, cfg.Redact), clock: o.Clock, run: newRun(), Docket: soak.NewDocket()}
	defer func() {
		if err != nil {
			err = redactError(errors.Join(err, a.Close()), cfg.Redact)
		}
	}()

	a.desk = &desk{a: a, began: a.clock.Now()}
	a.board = newBoard(a)
	a.keeper = evidence.New(cfg.Evidence.Dir, evidence.Limits{Size: int64(cfg.Evidence.MaxSize), Age: cfg.Evidence.MaxAge,
		Findings: cfg.Evidence.MaxAgeFindings}, a.clock, a.log)
	a.freezer = a.newFreezer()
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m, err := metrics.New(reg, a.metricsSetup())
	if err != nil {
		return nil, err
	}
	gatherer := prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		if a.Ledger != nil {
			m.LedgerSize(a.Ledger.Stats().Bytes)
		}
		if a.guard != nil {
			m.Paused(a.paused()...)
			m.NextFault(a.guard.Next())
		}
		if a.browser != nil {
			s := a.browser.Stats()
			m.Browser(s.Restarts, s.Memory)
		}
		return reg.Gather()
	})
	if err := a.openLedger(ctx, m); err != nil {
		return nil, err
	}
	if err := a.listen(ctx, gatherer); err != nil {
		return nil, err
	}
	engine, start, err := a.openEngine(ctx, m.Engine)
	if err != nil {
		return nil, err
	}
	teller, err := session.NewTeller(session.Personas{Seed: o.Seed, Run: a.run, Accounts: cfg.Sessions.Accounts})
	if err != nil {
		return nil, err
	}
	accounts := newAccounts(teller, cfg.Sessions)
	prober := chaos.NewProber(a.clock, 0)
	a.loop = a.newLoop(engine, prober)
	a.loop.Accounts, a.loop.Teller, a.loop.SelfTested = accounts.user, teller.Memory, m.SelfTested

	if err := a.startTarget(ctx, engine, start, prober); err != nil {
		return nil, err
	}
	driver, err := a.openDriver(ctx)
	if err != nil {
		return nil, err
	}
	a.onClose(driver.Close)
	a.browser, _ = driver.(*browser.Driver)
	if err := a.openPlayersAndViews(driver, accounts); err != nil {
		return nil, err
	}
	a.freezing(engine, driver)
	if err := a.resume(ctx, accounts); err != nil {
		return nil, err
	}
	err = a.Ledger.Append(ctx, append(a.muting(),
		fact.Run{ID: a.run, Seed: o.Seed, Version: Version(o.Version), Target: cfg.Target.URL, Driver: driver.Name(), Config: o.Config, At: a.clock.Now()},
		fact.Contracts{Version: 1, Contracts: cfg.Contracts(), Levels: cfg.Sessions.Script.Levels(),
			CountsFrom: cfg.Sessions.CountsFrom, At: a.clock.Now()})...)
	if err != nil {
		return nil, err
	}
	a.log.Info("ready", zap.String("run", a.run), zap.Uint64("seed", o.Seed), zap.String("listen", a.Web), zap.String("driver", driver.Name()))
	return a, nil
}

// Run runs cycles until a bound or ctx ends them; an ended ctx is no error.
func (a *App) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	served := make(chan error, 1)
	go func() {
		err := a.serve(ctx)
		if err != nil {
			cancel() // without eyes on it a soak is not to go on
		}
		served <- err
	}()
	defer a.books.until(ctx)()
	err := a.loop.Start(ctx)
	if err == nil {
		err = a.books.stuck()
	}
	cancel()
	return redactError(errors.Join(err, <-served), a.cfg.Redact)
}

// Close ends everything, last opened first.
func (a *App) Close() error {
	var errs []error
	for i := len(a.done) - 1; i >= 0; i-- {
		errs = append(errs, a.done[i]())
	}
	a.done = nil
	return errors.Join(errs...)
}

func (a *App) onClose(fn func() error) { a.done = append(a.done, fn) }

// ready reports an error until the loop can run, and while it cannot record what it does.
func (a *App) ready() error {
	if a.loop == nil || a.loop.Player == nil {
		return errors.New("starting")
	}
	return a.books.stuck()
}

// paused says why faults are held back.
func (a *App) paused() (reasons []chaos.Reason) {
	if r := a.guard.Paused(); r != "" {
		reasons = append(reasons, r)
	}
	if a.books.stuck() != nil {
		reasons = append(reasons, chaos.ReasonLedger)
	}
	return reasons
}

func (a *App) newLoop(engine chaos.Engine, prober *chaos.Prober) *soak.Loop {
	cfg := a.cfg
	a.guard = chaos.NewGuard(chaos.Limits{
		Armed: cfg.Armed, Every: cfg.Limits.Every, PerHour: cfg.Limits.PerHour, Hours: cfg.Limits.Window, HaltAfter: cfg.Limits.HaltAfter,
	}, engine, a.clock, a.limited)
	services := make([]string, len(cfg.Target.Services))
	for i, s := range cfg.Target.Services {
		services[i] = s.Name
	}
	l := &soak.Loop{
		Run: a.run, Seed: a.opts.Seed,
		Users: cfg.Sessions.Users, Memories: cfg.Sessions.Memories,
		PerAccount: cfg.Sessions.PerAccount, Rotation: rotation(cfg), ForgetShare: cfg.Sessions.Forget, Retire: cfg.Sessions.Retire, Pace: [2]time.Duration{cfg.Sessions.Pace.Min, cfg.Sessions.Pace.Max},
		Plan:  a.plan(),
		Every: cfg.Limits.Every, Cycles: a.opts.Cycles, For: a.opts.For, Finish: a.opts.Finish,
		Services: services, App: appService(cfg),
		// A view that cannot be read may take as long to come back as a service.
		TrafficWithin: 5 * time.Minute, SettleWithin: cfg.Limits.Recovery,
		Driver: cfg.Sessions.Driver,
		Ledger: a.books, Docket: a.Docket, Engine: engine, Prober: prober, Recovery: cfg.Limits.Recovery,
		Injector: chaos.NewInjector(chaos.InjectorConfig{Engine: engine, Journal: a.guarding(journal{a.books}), Guard: a.guard, Prober: prober,
			Clock: a.clock, After: cfg.Limits.Recovery}),
		Clock: a.clock, Log: a.log,
	}
	if a.opts.Replay != nil {
		l.PerAccount = l.Memories // so that each replay has new ones
	}
	return l
}

// plan says what a cycle does to the target: what is drawn for it, or what is to be played again.
func (a *App) plan() func(cycle int) (inj chaos.Injection, control bool) {
	if a.opts.Replay != nil {
		return func(int) (chaos.Injection, bool) { return *a.opts.Replay, false }
	}
	from := a.planConfig()
	return a.desk.plan(from, func(cycle int) (chaos.Injection, bool) {
		inj, fault := chaos.Plan(a.opts.Seed, from, cycle, a.prior())
		return inj, !fault
	})
}

// prior is what the ledger knows of the windows in which faults lose memories.
func (a *App) prior() (p chaos.Prior) {
	a.Docket.Read(func(b *oracle.Book) {
		for _, c := range b.Curves(a.clock.Now()) {
			e := c.Edge()
			p.Edges = append(p.Edges, chaos.Edge{Kind: c.Kind, Service: c.Service, Lost: e.Lost, Kept: e.Kept})
		}
	})
	return p
}

// appService is the service that users talk to, and wait for after a failure: the one behind what they look at, by its
// name where they look at nothing, and else the first of the file.
func appService(cfg *config.Config) string {
	for _, k := range cfg.Contracts() {
		if k.User {
			return k.Service
		}
	}
	for _, s := range cfg.Target.Services {
		if s.Name == "app" {
			return s.Name
		}
	}
	return cfg.Target.Services[0].Name
}

// points says how many of each point a cycle passes.
func points(s config.Sessions) map[string]int {
	return map[string]int{
		string(session.PointLoggedIn): s.Users, string(session.PointTold): s.Users * s.Memories,
		string(session.PointAcknowledged): s.Users * s.Memories, string(session.PointIdle): s.Users * s.Memories,
	}
}

// planConfig turns the file's faults into the plan's rules.
func (a *App) planConfig() chaos.PlanConfig {
	p := chaos.PlanConfig{Points: points(a.cfg.Sessions)}
	for _, svc := range a.cfg.Target.Services {
		p.Services = append(p.Services, svc.Name)
	}
	for _, f := range a.cfg.Faults {
		p.Rules = append(p.Rules, chaos.Rule{
			Kind: f.Kind, Service: f.Service, Weight: f.Weight, After: f.After, Delay: chaos.Range(f.Delay), Hold: chaos.Range(f.Hold),
			Grace: f.Grace, Volume: f.Volume, Instances: f.Instances, Supervised: f.Supervised,
		})
	}
	return p
}

func (a *App) metricsSetup() metrics.Setup {
	s := metrics.Setup{Build: metrics.BuildInfo{Version: Version(a.opts.Version), Revision: revision()}, Driver: a.cfg.Sessions.Driver,
		Levels: a.cfg.Sessions.Script.Levels()}
	if a.cfg.Sessions.Driver == "browser" {
		s.BrowserRestarts = browser.Reasons()
	}
	for _, svc := range a.cfg.Target.Services {
		s.Services = append(s.Services, svc.Name)
	}
	for _, v := range a.cfg.Views {
		s.Views = append(s.Views, v.Name)
	}
	for _, f := range a.cfg.Faults {
		s.Faults = append(s.Faults, metrics.Fault{Kind: f.Kind, Service: f.Service})
	}
	if a.cfg.Target.Engine != "docker" {
		s.Faults = append(s.Faults, metrics.Fault{Kind: chaos.DaemonRestart})
	}
	return s
}

// Version gives the linker's version, or what the build recorded.
func Version(linked string) string {
	if linked != "" && linked != "dev" {
		return linked
	}
	if b, ok := debug.ReadBuildInfo(); ok && b.Main.Version != "" && b.Main.Version != "(devel)" {
		return b.Main.Version
	}
	return "dev"
}

func revision() string {
	if b, ok := debug.ReadBuildInfo(); ok {
		for _, s := range b.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return "unknown"
}

// rotation is in how many cycles each account is read whole.
func rotation(cfg *config.Config) int {
	if cfg.Sweep == "full" {
		return 1
	}
	return cfg.SweepEvery
}
