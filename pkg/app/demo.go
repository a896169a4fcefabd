package app

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"amnesia/pkg/fact"
	"amnesia/pkg/incident"
	"amnesia/pkg/ledger"
	"amnesia/pkg/memory"
	"amnesia/pkg/report"
	"amnesia/pkg/session/browser"
)

//go:embed demo.yaml
var demoConfig string

// demoMarker lies in a folder that the demo made, so that it never empties another.
const demoMarker = ".amnesia-demo"

// DemoOptions are the flags of `amnesia demo`.
type DemoOptions struct {
	Bugs       string
	Driver     string // browser, http, auto
	Cycles     int
	Seed       *uint64 // nil: drawn
	Dir        string
	Form       Form
	BrowserDir string
	Version    string
}

// Demo runs the sample target with planted bugs and without any, and says whether both were judged as planted: exit
// code 0, else 1.
func Demo(ctx context.Context, c Console, o DemoOptions) (int, error) {
	return ended(demo(ctx, c, o))
}

func demo(ctx context.Context, c Console, o DemoOptions) (int, error) {
	if o.Cycles < 2 {
		return 0, Usage(fmt.Errorf("--cycles %d shows nothing: the first cycle is a control, without a fault — fix: 2 or more", o.Cycles))
	}
	driver, err := demoDriver(ctx, c, o)
	if err != nil {
		return 0, err
	}
	dir, err := demoDir(o.Dir)
	if err != nil {
		return 0, err
	}
	seed := drawSeed()
	if o.Seed != nil {
		seed = *o.Seed
	}
	var sums []report.Summary
	for _, t := range []struct{ name, file, bugs string }{
		{"sample with " + o.Bugs, "buggy", o.Bugs},
		{"sample without bugs", "healthy", ""},
	} {
		fmt.Fprintf(c.Err, "%s: %d cycles, %s driver, seed %d\n", t.name, o.Cycles, driver, seed)
		s, err := demoTarget(ctx, c, o, demoVars{Seed: seed, Driver: driver, Dir: filepath.Join(dir, t.file), Bugs: t.bugs,
			Ledger: filepath.Join(dir, t.file+".db")}, t.name)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", t.name, err)
		}
		sums = append(sums, s)
		if ctx.Err() != nil {
			return 0, errors.New("the demo was interrupted")
		}
		if o.Form == Text {
			if err := c.demoResult(ctx, s); err != nil {
				return 0, err
			}
		}
	}
	if o.Form == JSON {
		if err := writeJSON(c.Out, sums); err != nil {
			return 0, err
		}
	}
	why := judgedAsPlanted(sums[0], sums[1])
	if why != "" {
		return 0, errors.New("the demo did not go as planted: " + why + " — fix: try more --cycles; what was seen is in " + shown(dir))
	}
	if o.Form == Text {
		fmt.Fprintf(c.Out, "\nBoth targets were judged as planted. Their ledgers are in %s, and each one's amnesia.yaml beside its data.\n", shown(dir))
	}
	return exitNothing, nil
}

// judgedAsPlanted says what differs from what was planted; empty when nothing does.
func judgedAsPlanted(buggy, healthy report.Summary) string {
	switch {
	case buggy.Outcome != fact.CycleLosses && buggy.Outcome != fact.CycleDefects:
		return "nothing was found in the target with the planted bug"
	case healthy.Outcome != fact.CycleClean:
		return fmt.Sprintf("the healthy target came out as %s", healthy.Outcome)
	}
	return ""
}

// demoDriver chooses the driver. Without a browser the demo still shows everything but the browser.
func demoDriver(ctx context.Context, c Console, o DemoOptions) (string, error) {
	switch o.Driver {
	case "http":
		return "http", nil
	case "browser":
		_, err := browser.Find(browser.InstallOptions{Dir: o.BrowserDir})
		return "browser", err
	case "auto":
	default:
		return "", Usage(fmt.Errorf("--driver %s is unknown — fix: browser, http or auto", o.Driver))
	}
	// The driver is a small download; the browser itself is the system's, and not for a demo to install.
	if _, err := browser.Install(ctx, browser.InstallOptions{Dir: o.BrowserDir, BrowserMustExist: true, Out: c.Err}); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		fmt.Fprintf(c.Err, "users are played over plain HTTP, without a browser: %v\n", err)
		return "http", nil
	}
	return "browser", nil
}

// demoDir makes an empty folder; one that is there is emptied only if an earlier demo made it.
func demoDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		if _, err := os.Stat(filepath.Join(dir, demoMarker)); err != nil {
			return "", Usage(fmt.Errorf("%s is not empty, and no earlier demo made it — fix: give --dir another folder", dir))
		}
		if err := os.RemoveAll(dir); err != nil {
			return "", fmt.Errorf("emptying the folder of an earlier demo: %w", err)
		}
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("looking at the demo's folder: %w — fix: give --dir another folder", err)
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", fmt.Errorf("making the demo's folder: %w — fix: give --dir a folder that can be written", err)
	}
	return dir, os.WriteFile(filepath.Join(dir, demoMarker), nil, 0o640)
}

// demoVars fill demo.yaml. Every text is written as a JSON string, which is a YAML string too.
type demoVars struct {
	Seed                            uint64
	Driver, Dir, Bugs, Ledger, Addr string
	Self                            string
}

// Config writes the configuration of one target.
func (v demoVars) Config() ([]byte, error) {
	var b bytes.Buffer
	t := template.Must(template.New("demo.yaml").Delims("<<", ">>").Funcs(template.FuncMap{
		"text": func(parts ...string) (string, error) {
			q, err := json.Marshal(strings.Join(parts, ""))
			return string(q), err
		},
	}).Parse(demoConfig))
	err := t.Execute(&b, v)
	return b.Bytes(), err
}

func demoTarget(ctx context.Context, c Console, o DemoOptions, v demoVars, name string) (report.Summary, error) {
	var err error
	if v.Self, err = os.Executable(); err != nil {
		return report.Summary{}, fmt.Errorf("finding this program, which also runs the sample: %w", err)
	}
	if v.Addr, err = freeAddress(ctx); err != nil {
		return report.Summary{}, err
	}
	if err := os.MkdirAll(v.Dir, 0o750); err != nil {
		return report.Summary{}, err
	}
	text, err := v.Config()
	if err != nil {
		return report.Summary{}, err
	}
	// The file stays, so that a person can read and reuse it.
	path := filepath.Join(v.Dir, "amnesia.yaml")
	if err := os.WriteFile(path, text, 0o640); err != nil {
		return report.Summary{}, err
	}
	cfg, err := LoadConfig([]string{path}, func(string) string { return "" })
	if err != nil {
		return report.Summary{}, err
	}
	p := c.progress(name, o.Cycles)
	defer p.close()
	return soakOnce(ctx, cfg, Options{Version: o.Version, Config: []string{shown(path)}, Seed: v.Seed, Cycles: o.Cycles, BrowserDir: o.BrowserDir,
		Log: c.logger("console", true), Tap: p.tap}, name)
}

// freeAddress gives a loopback address that is free now.
func freeAddress(ctx context.Context) (string, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("finding a free port: %w", err)
	}
	defer ln.Close()
	return ln.Addr().String(), nil
}

// shown shortens a path that lies below the working directory.
func shown(path string) string {
	if wd, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(wd, path); err == nil && filepath.IsLocal(rel) {
			return rel
		}
	}
	return path
}

// demoResult prints what was found, and the story of one lost memory.
func (c Console) demoResult(ctx context.Context, s report.Summary) error {
	if err := s.WriteAll(c.Out); err != nil {
		return err
	}
	var id memory.ID
	for _, v := range s.Found {
		if v.Kind.Loss() {
			id = v.Memory
			break
		}
	}
	if id == 0 {
		return nil
	}
	l, err := ledger.OpenReadOnly(ctx, s.Ledger)
	if err != nil {
		return err
	}
	defer l.Close()
	story, err := incident.Tell(ctx, l, id.String())
	if err != nil {
		return err
	}
	fmt.Fprintf(c.Out, "\nThe story of one of them (amnesia why %s --ledger %s):\n\n", id, shown(s.Ledger))
	if err := story.Write(c.Out, shown(s.Ledger), pictures(s.Ledger, "").find); err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.Out)
	return err
}
