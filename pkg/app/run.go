package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"amnesia/pkg/clock"
	"amnesia/pkg/config"
	"amnesia/pkg/fact"
	"amnesia/pkg/ledger"
	"amnesia/pkg/memory"
	"amnesia/pkg/oracle"
	"amnesia/pkg/report"
	"amnesia/pkg/session/browser"
	"amnesia/pkg/session/web"
	"amnesia/pkg/terminal"
)

// SoakOptions are the flags of every command that runs cycles on the target of a configuration.
type SoakOptions struct {
	Config        []string // files, later ones laid over the first
	Armed         bool
	Seed          *uint64 // nil: not given
	MinConclusive float64
	LogFormat     string
	Form          Form
	CI            CIOptions
	BrowserDir    string
	Version       string
	Getenv        func(string) string
}

// RunOptions are the flags of `amnesia run`. Without a seed it is the file's, or drawn.
type RunOptions struct {
	SoakOptions
	Cycles int
	For    time.Duration
	// Witness is a file or a pipe that every fact is written to once it is durable, as a line of Witnessed; may be empty.
	Witness string
	Manager Manager
}

// drawSeed draws a seed that a person can type.
func drawSeed() uint64 { return rand.Uint64N(1_000_000_000) }

// Run is the daemon. It gives the exit code of what was found.
func Run(ctx context.Context, c Console, o RunOptions) (int, error) {
	if err := o.check(); err != nil {
		return ended(0, Usage(err))
	}
	known, err := o.CI.known()
	if err != nil {
		return ended(0, Usage(err))
	}
	if err := o.CI.check(o.Config); err != nil {
		return ended(0, err)
	}
	cfg, err := o.load()
	if err != nil {
		return ended(0, errors.Join(err, o.CI.failed("amnesia", err)))
	}
	if err := o.CI.check(o.Config, cfg.Ledger.Path); err != nil {
		return ended(0, err)
	}
	seed := drawSeed()
	if cfg.Seed != nil {
		seed = *cfg.Seed
	}
	if o.Seed != nil {
		seed = *o.Seed
	}
	log := c.logger(o.LogFormat, false)
	defer log.Sync()
	if !cfg.Armed {
		log.Warn("not armed: faults are only announced — fix: set armed: true, or give --armed")
	}
	tap, end, err := openWitness(o.Witness, log)
	if err != nil {
		return ended(0, err)
	}
	defer end()
	d := &daemon{load: o.load, Manager: o.Manager,
		opts: Options{Version: o.Version, Config: o.Config, Seed: seed, Cycles: o.Cycles, For: o.For, BrowserDir: o.BrowserDir, Log: log, Tap: tap}}
	s, err := d.run(ctx, cfg)
	if foundNothing(s, err) {
		return ended(0, errors.Join(err, o.CI.failed(cfg.Target.URL, err)))
	}
	s.Mute(known, clock.System().Now())
	// What ended the run early takes nothing from what it had found until then.
	return ended(s.ExitCode(o.MinConclusive), errors.Join(err, c.summary(o.Form, s), o.CI.write(ctx, s, known, o.MinConclusive, err)))
}

// foundNothing reports whether a run ended before it had anything to say.
func foundNothing(s report.Summary, err error) bool {
	return err != nil && (s.Cycles.All() == 0 || ExitCode(err) == exitUsage)
}

func (o RunOptions) check() error {
	switch {
	case o.Cycles < 0:
		return fmt.Errorf("--cycles %d is below 0 — fix: a number of cycles, or 0 for no end", o.Cycles)
	case o.For < 0:
		return fmt.Errorf("--for %s is below 0 — fix: a time such as 48h, or 0 for no end", o.For)
	}
	return o.SoakOptions.check()
}

func (o SoakOptions) check() error {
	if o.LogFormat != "console" && o.LogFormat != "json" {
		return fmt.Errorf("--log %s is unknown — fix: console or json", o.LogFormat)
	}
	return checkShare(o.MinConclusive)
}

// load loads the configuration, armed if a flag says so.
func (o SoakOptions) load() (*config.Config, error) {
	cfg, err := LoadConfig(o.Config, o.Getenv)
	if err != nil {
		return nil, err
	}
	cfg.Armed = cfg.Armed || o.Armed
	return cfg, nil
}

// checkShare looks at --min-conclusive.
func checkShare(f float64) error {
	if !(f >= 0 && f <= 1) {
		return fmt.Errorf("--min-conclusive %g is no share — fix: a number from 0 to 1", f)
	}
	return nil
}

// LoadConfig loads an amnesia.yaml, with others laid over it, and with every rule that the parts of this build add. getenv is asked for the variables
// that the files name.
func LoadConfig(paths []string, getenv func(string) string) (*config.Config, error) {
	return config.Load(paths, getenv, driverCheck)
}

// driverCheck lets the http driver refuse, while the file is loaded, what it cannot do.
func driverCheck(cfg *config.Config) []config.Problem {
	if cfg.Sessions.Driver != "http" {
		return nil
	}
	var out []config.Problem
	for _, err := range web.Check(&cfg.Sessions.Script) {
		out = append(out, config.ScriptProblems(err)...)
	}
	return out
}

// soakOnce runs one target from start to end and sums up, also what an error ended.
func soakOnce(ctx context.Context, cfg *config.Config, o Options, name string) (s report.Summary, err error) {
	a, err := open(ctx, cfg, o)
	if err != nil {
		return s, err
	}
	return a.soak(ctx, name)
}

// open is New, which ctx may have ended.
func open(ctx context.Context, cfg *config.Config, o Options) (*App, error) {
	a, err := New(ctx, cfg, o)
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("interrupted before the first cycle: %w", err)
	}
	return a, err
}

// soak runs an app to its end, sums up, and closes it.
func (a *App) soak(ctx context.Context, name string) (s report.Summary, err error) {
	defer func() { err = errors.Join(err, a.Close()) }()
	began := a.clock.Now()
	err = a.Run(ctx)
	now := a.clock.Now()
	a.Docket.Read(func(b *oracle.Book) { s = report.Summarize(b, now) })
	s.Target, s.Seed, s.Ledger = name, a.opts.Seed, a.cfg.Ledger.Path
	s.DurationSeconds = now.Sub(began).Seconds()
	s.Mute(a.board.known(), now)
	return s, err
}

// summary prints one summary in the form asked for.
func (c Console) summary(f Form, s report.Summary) error {
	if f == JSON {
		return writeJSON(c.Out, s)
	}
	return s.Write(c.Out)
}

func writeJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(terminal.JSON(b.Bytes()))
	return err
}

// openRecorded opens a ledger that a run has written.
func openRecorded(ctx context.Context, path string) (*ledger.Ledger, error) {
	l, err := ledger.OpenReadOnly(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noLedger(path)
	}
	return l, err
}

func noLedger(path string) error {
	return fmt.Errorf("there is no ledger %s — fix: give the file that ledger.path of the run's amnesia.yaml names", path)
}

// JudgeOptions are the flags of `amnesia judge`.
type JudgeOptions struct {
	Ledger        string
	MinConclusive float64
	Form          Form
	CI            CIOptions
}

// Judge judges a recorded ledger again. Its now is the last recorded fact.
func Judge(ctx context.Context, c Console, o JudgeOptions) (int, error) {
	if err := checkShare(o.MinConclusive); err != nil {
		return ended(0, Usage(err))
	}
	known, err := o.CI.known()
	if err != nil {
		return ended(0, Usage(err))
	}
	if err := o.CI.check(nil, o.Ledger); err != nil {
		return ended(0, err)
	}
	s, end, err := judge(ctx, o.Ledger)
	if err != nil {
		return ended(0, errors.Join(err, o.CI.failed(o.Ledger, err)))
	}
	s.Mute(known, end)
	return ended(s.ExitCode(o.MinConclusive), errors.Join(c.summary(o.Form, s), o.CI.write(ctx, s, known, o.MinConclusive, nil)))
}

// judge gives what a recorded ledger says, as of its last fact, which is its end.
func judge(ctx context.Context, path string) (s report.Summary, end memory.Instant, err error) {
	l, err := openRecorded(ctx, path)
	if err != nil {
		return s, end, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	book := oracle.NewBook()
	var run fact.Run
	var start memory.Instant
	var known []fact.Known
	for e, err := range l.Evidence(ctx) {
		if err != nil {
			return s, end, err
		}
		book.Apply(e)
		switch f := e.Fact.(type) {
		case fact.Run:
			run = f
		case fact.Muting:
			known = f.Known
		}
		end = memory.Later(end, fact.At(e.Fact))
		if start.IsZero() {
			start = end
		}
	}
	s = report.Summarize(book, end)
	s.Target, s.Seed, s.Ledger, s.DurationSeconds = run.Target, run.Seed, path, end.Sub(start).Seconds()
	s.Mute(known, end)
	return s, end, nil
}

// InstallBrowser gets the browser driver, and finds or installs Chromium unless only the driver is wanted.
func InstallBrowser(ctx context.Context, c Console, dir string, driverOnly bool) error {
	in, err := browser.Install(ctx, browser.InstallOptions{Dir: dir, Out: c.Err, Elsewhere: driverOnly})
	if err != nil {
		return err
	}
	said := fmt.Sprintf("driver   %s\n", in.DriverDir)
	if !driverOnly {
		said += fmt.Sprintf("chromium %s\n", in.ExecutablePath)
	}
	_, err = fmt.Fprint(c.Out, said)
	return err
}

// HealthCheck asks a running daemon whether it is alive.
func HealthCheck(ctx context.Context, addr string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if !strings.Contains(addr, "://") {
		addr = "http://" + addr
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, addr+"/healthz", nil)
	if err != nil {
		return Usage(fmt.Errorf("--address %s: %w — fix: host:port, or https://host:port", addr, err))
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("asking the daemon at %s: %w", addr, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the daemon at %s says %s", addr, resp.Status)
	}
	return nil
}
