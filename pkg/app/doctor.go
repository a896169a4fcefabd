package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"amnesia/chaos"
	"amnesia/chaos/docker"
	"amnesia/pkg/clock"
	"amnesia/pkg/config"
	"amnesia/pkg/discover"
	"amnesia/pkg/soak"
)

// DoctorOptions are the flags of `amnesia doctor`.
type DoctorOptions struct {
	Config     []string // files, later ones laid over the first
	Ignore     []string // rules whose findings do not count
	Form       Form
	BrowserDir string
	Getenv     func(string) string
}

// Diagnosis is what `amnesia doctor -o json` prints. Its field names only grow.
type Diagnosis struct {
	Target   string             `json:"target"`
	Outcome  string             `json:"outcome"` // loses, failed, unknown or clean
	Checks   []Check            `json:"checks"`
	Findings []discover.Finding `json:"findings"`
}

// Check is one look at what a run needs.
type Check struct {
	Name   string `json:"name"`
	Result string `json:"result"` // ok, failed, skipped or warning
	Detail string `json:"detail,omitempty"`
	Fix    string `json:"fix,omitempty"`
}

// The results of a check.
const (
	checkOK      = "ok"
	checkFailed  = "failed"
	checkSkipped = "skipped"
	checkWarning = "warning" // it hinders nothing
)

// The outcomes of a diagnosis, as they go before one another.
const (
	outcomeLoses   = "loses"
	outcomeFailed  = "failed"
	outcomeUnknown = "unknown"
	outcomeClean   = "clean"
)

// exitUnread: nothing was found, but not all could be read.
const exitUnread = 4

// DoctorRules names the rules that --ignore takes.
func DoctorRules() []string { return discover.Rules() }

// Doctor looks at everything that a run on the target needs, and at what of the target would lose memories by its
// settings alone. It hurts nothing, and changes nothing but that one new user logs in. It gives the exit code.
func Doctor(ctx context.Context, c Console, o DoctorOptions) (int, error) {
	for _, rule := range o.Ignore {
		if !slices.Contains(discover.Rules(), rule) {
			return ended(0, Usage(fmt.Errorf("--ignore %s is no rule — fix: one of %s", rule, strings.Join(discover.Rules(), ", "))))
		}
	}
	cfg, err := LoadConfig(o.Config, o.Getenv)
	if err != nil {
		return ended(0, err)
	}
	d := &doctor{a: &App{cfg: cfg, clock: clock.System(), log: zap.NewNop(), run: newRun(), loop: &soak.Loop{}, opts: Options{BrowserDir: o.BrowserDir}},
		out: Diagnosis{Target: cfg.Target.URL, Findings: []discover.Finding{}}}
	d.ok("configuration", strings.Join(o.Config, ", "))
	for _, s := range strangers(cfg) {
		d.out.Checks = append(d.out.Checks, Check{Name: "known", Result: checkWarning, Detail: s.what, Fix: s.fix})
	}
	err = d.look(ctx)
	if err = errors.Join(err, d.a.Close()); err != nil {
		return ended(0, redactError(err, cfg.Redact))
	}
	for i, f := range d.out.Findings {
		d.out.Findings[i].Ignored = slices.Contains(o.Ignore, f.Rule)
	}
	code := d.out.judge()
	if o.Form == JSON {
		return ended(code, writeJSON(c.Out, d.out))
	}
	return ended(code, d.out.Write(c.Out))
}

// judge sums up, and gives the exit code: 3, 1, 4, 0.
func (d *Diagnosis) judge() int {
	counts := func(s discover.Severity) bool {
		return slices.ContainsFunc(d.Findings, func(f discover.Finding) bool { return f.Severity == s && !f.Ignored })
	}
	switch {
	case counts(discover.Loses):
		d.Outcome = outcomeLoses
		return exitFound
	case slices.ContainsFunc(d.Checks, func(c Check) bool { return c.Result == checkFailed }):
		d.Outcome = outcomeFailed
		return exitError
	case counts(discover.Unknown):
		d.Outcome = outcomeUnknown
		return exitUnread
	}
	d.Outcome = outcomeClean
	return exitNothing
}

// doctor is one diagnosis under way.
type doctor struct {
	a      *App // of which only what is looked with is open
	out    Diagnosis
	engine discover.Engine // nil: none whose services are containers
	stack  discover.Stack
}

func (d *doctor) ok(name, detail string) {
	d.out.Checks = append(d.out.Checks, Check{Name: name, Result: checkOK, Detail: detail})
}

func (d *doctor) skip(name, why string) {
	d.out.Checks = append(d.out.Checks, Check{Name: name, Result: checkSkipped, Detail: why})
}

// check notes how one look went. What is to be done stands behind the error's last "fix:".
func (d *doctor) check(name, detail string, err error) bool {
	if err == nil {
		d.ok(name, detail)
		return true
	}
	what, fix := redactError(err, d.a.cfg.Redact).Error(), ""
	const sign = " — fix: "
	if i := strings.LastIndex(what, sign); i >= 0 {
		what, fix = strings.TrimSpace(what[:i]), what[i+len(sign):]
	}
	d.out.Checks = append(d.out.Checks, Check{Name: name, Result: checkFailed, Detail: what, Fix: fix})
	return false
}

// healthWithin is how long services may take to answer that are there already.
const healthWithin = 5 * time.Second

// look looks at everything. Its error is not of what was looked at: the context has ended.
func (d *doctor) look(ctx context.Context) error {
	d.rig(ctx)
	var up bool
	if d.a.cfg.Target.Engine == "docker" {
		d.docker(ctx)
		up = d.check("target", d.a.cfg.Target.URL, reachable(ctx, d.a.cfg.Target.URL))
	} else {
		up = d.processes(ctx)
	}
	if ctx.Err() == nil {
		d.views(ctx, up)
		if d.engine != nil {
			d.stack.Layers(ctx, d.engine)
		}
		d.out.Findings = append(d.out.Findings, discover.Diagnose(d.stack)...)
	}
	return ctx.Err()
}

// docker looks at the engine, at its containers, and at what the faults of the file may do to them.
func (d *doctor) docker(ctx context.Context) {
	dc := d.a.dockerConfig()
	dc.ReadOnly = true
	e, err := docker.New(ctx, dc)
	if !d.check("docker", "", err) {
		return
	}
	d.a.onClose(e.Close)
	d.engine = e
	d.out.Checks[len(d.out.Checks)-1].Detail = "API " + e.APIVersion()
	within, cancel := context.WithTimeout(ctx, healthWithin)
	defer cancel()
	health, _ := chaos.NewProber(d.a.clock, 0).Await(within, e, nil) // each reading says its own
	for _, h := range health {
		var err error
		if !h.Healthy {
			err = errors.New(h.Detail)
			if !strings.Contains(h.Detail, "fix: ") {
				err = fmt.Errorf("%s — fix: see what it logs, and correct target.services.%s.health if it is well", h.Detail, h.Service)
			}
		}
		d.check("service "+h.Service, "healthy", err)
	}
	possible := 0
	for _, f := range d.a.cfg.Faults {
		if !d.refused(ctx, e, f) {
			possible++
		}
	}
	if possible > 0 {
		d.ok("faults", fmt.Sprintf("%d of %d could be injected now", possible, len(d.a.cfg.Faults)))
	}
	d.stack.Containers, err = e.Containers(ctx)
	if err != nil {
		d.check("containers", "", err)
	}
}

// refused notes a fault of the file that would be refused now.
func (d *doctor) refused(ctx context.Context, e *docker.Engine, f config.Fault) bool {
	inj := chaos.Injection{Kind: f.Kind, Service: f.Service, Volume: f.Volume, Supervised: f.Supervised}
	if f.Kind == chaos.CrashAll {
		for _, s := range d.a.cfg.Target.Services {
			inj.Services = append(inj.Services, s.Name)
		}
	}
	err := e.Check(ctx, inj)
	if err == nil && f.Kind == chaos.Wipe {
		err = e.Wipeable(ctx, f.Service, f.Volume)
	}
	if err == nil || d.check("fault "+strings.TrimSpace(f.Kind+" "+f.Service), "", err) {
		return false
	}
	d.once()
	return true
}

// once has the last check refer to the one of a service that failed of the same.
func (d *doctor) once() {
	last := &d.out.Checks[len(d.out.Checks)-1]
	for _, c := range d.out.Checks {
		if strings.HasPrefix(c.Name, "service ") && c.Result == checkFailed && c.Detail == last.Detail {
			last.Detail, last.Fix = "see "+c.Name, ""
			return
		}
	}
}

// processes looks whether what a run starts itself could be started, and whether one has started it.
func (d *doctor) processes(ctx context.Context) (up bool) {
	if err := reachable(ctx, d.a.cfg.Target.URL); err == nil {
		d.ok("target", d.a.cfg.Target.URL+" answers: a run is under way, or something else listens there")
		return true
	}
	for _, s := range d.a.cfg.Target.Services {
		d.check("service "+s.Name, "its command is there", startable(s))
	}
	d.skip("target", "amnesia run starts it")
	return false
}

// Write prints the diagnosis for people.
func (d *Diagnosis) Write(w io.Writer) error {
	var b strings.Builder
	width := 0
	for _, c := range d.Checks {
		width = max(width, len(c.Name))
	}
	for _, c := range d.Checks {
		fmt.Fprintf(&b, "%-8s %-*s  %s\n", c.Result, width, c.Name, indent(c.Detail, 8+width+3))
		if c.Fix != "" {
			fmt.Fprintf(&b, "%-8s %-*s  fix: %s\n", "", width, "", indent(c.Fix, 8+width+3))
		}
	}
	for _, f := range d.Findings {
		severity := string(f.Severity)
		if f.Ignored {
			severity = "ignored"
		}
		fmt.Fprintf(&b, "\n%-8s %s: %s\n", severity, f.Service, f.What)
		fmt.Fprintf(&b, "%-8s loses  %s\n", "", f.Loses)
		if len(f.Faults) > 0 {
			fmt.Fprintf(&b, "%-8s under  %s\n", "", faultNames(f))
		}
		fmt.Fprintf(&b, "%-8s fix    %s\n", "", f.Fix)
		fmt.Fprintf(&b, "%-8s rule   %s\n", "", strings.TrimSpace(f.Rule+"  "+f.Container))
	}
	fmt.Fprintf(&b, "\n%s: %s\n", d.Target, d.headline())
	_, err := io.WriteString(w, b.String())
	return err
}

func indent(s string, n int) string {
	return strings.ReplaceAll(s, "\n", "\n"+strings.Repeat(" ", n))
}

// faultNames says of each fault what it is, where its name does not.
func faultNames(f discover.Finding) string {
	recreate := chaos.Recreate
	if f.Container != "" {
		recreate += " (a new container, as after compose down and up)"
	}
	var out []string
	for _, k := range f.Faults {
		out = append(out, cmp.Or(map[string]string{
			chaos.Kill: "kill (SIGKILL)", chaos.Restart: "restart (SIGTERM)", chaos.Recreate: recreate,
			chaos.CrashAll:    "crash_all (SIGKILL of every service)",
			discover.PowerCut: "a power cut (which Amnesia does not inject)", discover.NoFault: "no fault at all",
		}[k], k))
	}
	return strings.Join(out, ", ")
}

func (d *Diagnosis) headline() string {
	count := func(fits func(discover.Finding) bool) (n int) {
		for _, f := range d.Findings {
			if fits(f) {
				n++
			}
		}
		return n
	}
	loses := count(func(f discover.Finding) bool { return f.Severity == discover.Loses && !f.Ignored })
	failed := 0
	for _, c := range d.Checks {
		if c.Result == checkFailed {
			failed++
		}
	}
	var parts []string
	if loses > 0 {
		parts = append(parts, fmt.Sprintf("%d %s lose memories", loses, plural(loses, "setting would", "settings would")))
	}
	if failed > 0 {
		parts = append(parts, fmt.Sprintf("%d %s failed", failed, plural(failed, "check", "checks")))
	}
	if n := count(func(f discover.Finding) bool { return f.Severity == discover.Unknown && !f.Ignored }); n > 0 {
		parts = append(parts, fmt.Sprintf("%d could not be read", n))
	}
	if len(parts) == 0 {
		return "no setting was found that would lose memories"
	}
	return strings.Join(parts, ", ")
}

func plural(n int, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}
