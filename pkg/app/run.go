package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"amnesia/pkg/config"
	"amnesia/pkg/fact"
	"amnesia/pkg/incident"
	"amnesia/pkg/ledger"
	"amnesia/pkg/memory"
	"amnesia/pkg/oracle"
	"amnesia/pkg/report"
	"amnesia/pkg/session/browser"
	"amnesia/pkg/session/web"
)

// lookTimeout bounds one read of a view, beyond what its contract lets a memory take to settle.
const lookTimeout = 30 * time.Second

// RunOptions are the flags of `amnesia run`.
type RunOptions struct {
	Config        string
	Armed         bool
	Seed          *uint64 // nil: the file's, or drawn
	Cycles        int
	For           time.Duration
	MinConclusive float64
	LogFormat     string
	Form          Form
	BrowserDir    string
	Version       string
	Getenv        func(string) string
}

// drawSeed draws a seed that a person can type.
func drawSeed() uint64 { return rand.Uint64N(1_000_000_000) }

// Run is the daemon. It gives the exit code of what was found.
func Run(ctx context.Context, c Console, o RunOptions) (int, error) {
	if o.LogFormat != "console" && o.LogFormat != "json" {
		return 0, Usage(fmt.Errorf("--log %s is unknown — fix: console or json", o.LogFormat))
	}
	cfg, err := LoadConfig(o.Config, o.Getenv)
	if err != nil {
		return 0, err
	}
	cfg.Armed = cfg.Armed || o.Armed
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
	s, err := soakOnce(ctx, cfg, Options{Version: o.Version, Seed: seed, Cycles: o.Cycles, For: o.For, BrowserDir: o.BrowserDir, Log: log}, cfg.Target.URL)
	if err != nil {
		return 0, err
	}
	if err := c.summary(o.Form, s); err != nil {
		return 0, err
	}
	return s.ExitCode(o.MinConclusive), nil
}

// LoadConfig loads an amnesia.yaml with every rule that the parts of this build add. getenv is asked for the variables
// that the file names.
func LoadConfig(path string, getenv func(string) string) (*config.Config, error) {
	return config.Load(path, getenv, driverCheck)
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

// soakOnce runs one target from start to end and sums up.
func soakOnce(ctx context.Context, cfg *config.Config, o Options, name string) (s report.Summary, err error) {
	a, err := New(ctx, cfg, o)
	if err != nil {
		return s, err
	}
	defer func() {
		if cerr := a.Close(); err == nil {
			err = cerr
		}
	}()
	began := a.clock.Now()
	if err := a.Run(ctx); err != nil {
		return s, err
	}
	now := a.clock.Now()
	a.Docket.Read(func(b *oracle.Book) { s = report.Summarize(b, now) })
	s.Target, s.Seed, s.Ledger = name, o.Seed, cfg.Ledger.Path
	s.DurationSeconds = now.Sub(began).Seconds()
	return s, nil
}

// summary prints one or more summaries in the form asked for: in JSON, a single object or an array as given.
func (c Console) summary(f Form, v any) error {
	if f == JSON {
		return writeJSON(c.Out, v)
	}
	switch v := v.(type) {
	case report.Summary:
		return v.Write(c.Out)
	case []report.Summary:
		for _, s := range v {
			if err := s.Write(c.Out); err != nil {
				return err
			}
		}
	}
	return nil
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// Judge judges a recorded ledger again. Its now is the last recorded fact.
func Judge(ctx context.Context, c Console, path string, f Form) (int, error) {
	l, err := ledger.OpenReadOnly(ctx, path)
	if err != nil {
		return 0, err
	}
	defer l.Close()
	book := oracle.NewBook()
	var run fact.Run
	var start, end memory.Instant
	for e, err := range l.Facts(ctx, 0) {
		if err != nil {
			return 0, err
		}
		book.Apply(e)
		if r, ok := e.Fact.(fact.Run); ok {
			run = r
		}
		end = memory.Later(end, fact.At(e.Fact))
		if start.IsZero() {
			start = end
		}
	}
	s := report.Summarize(book, end)
	s.Target, s.Seed, s.Ledger, s.DurationSeconds = run.Target, run.Seed, path, end.Sub(start).Seconds()
	if err := c.summary(f, s); err != nil {
		return 0, err
	}
	return s.ExitCode(0), nil
}

// Why tells the story of one memory.
func Why(ctx context.Context, c Console, path, what string, f Form) error {
	l, err := ledger.OpenReadOnly(ctx, path)
	if err != nil {
		return err
	}
	defer l.Close()
	story, err := incident.Tell(ctx, l, what)
	if err != nil {
		return err
	}
	if f == JSON {
		return writeJSON(c.Out, story)
	}
	return story.Write(c.Out)
}

// InstallBrowser gets the browser driver and finds or installs Chromium.
func InstallBrowser(ctx context.Context, c Console, dir string) error {
	in, err := browser.Install(ctx, browser.InstallOptions{Dir: dir, Out: c.Err})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.Out, "driver   %s\nchromium %s\n", in.DriverDir, in.ExecutablePath)
	return err
}

// HealthCheck asks a running daemon whether it is alive.
func HealthCheck(ctx context.Context, addr string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/healthz", nil)
	if err != nil {
		return Usage(fmt.Errorf("--address %s: %w — fix: host:port", addr, err))
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
