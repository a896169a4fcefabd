// Package bench measures Amnesia's speed as ratios within one run: ours beside a reference on the same machine at the
// same time, so that a slow machine cannot make a figure good or bad. It runs the built binary as its users do.
package bench

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"text/template"
	"time"

	"amnesia/chaos"
	"amnesia/chaos/process"
	"amnesia/pkg/clock"
	"amnesia/pkg/fact"
	"amnesia/pkg/ledger"
	"amnesia/pkg/memory"
	"amnesia/pkg/report"
	"amnesia/pkg/view/viewtest/servers"
)

// Line is one measurement. Reference and Ratio are 0 where the goal is absolute, and all figures where NotMeasured says
// why there are none.
type Line struct {
	Name      string  `json:"name"`
	Unit      string  `json:"unit"`
	Ours      float64 `json:"ours"`
	Reference float64 `json:"reference,omitempty"`
	Ratio     float64 `json:"ratio,omitempty"`
	Goal      string  `json:"goal"`
	Met       bool    `json:"met"`

	NotMeasured string `json:"not_measured,omitempty"`
}

// atMost is a line whose ratio to the reference has an upper bound.
func atMost(name, unit string, ours, reference, goal float64) Line {
	r := ours / reference
	return Line{Name: name, Unit: unit, Ours: ours, Reference: reference, Ratio: r, Goal: fmt.Sprintf("<= %.2f x", goal), Met: r <= goal}
}

// atLeast is a line whose ratio to the reference has a lower bound.
func atLeast(name, unit string, ours, reference, goal float64) Line {
	r := ours / reference
	return Line{Name: name, Unit: unit, Ours: ours, Reference: reference, Ratio: r, Goal: fmt.Sprintf(">= %.2f x", goal), Met: r >= goal}
}

// below is a line whose figure itself has an upper bound, exclusive.
func below(name, unit string, ours, goal float64) Line {
	return Line{Name: name, Unit: unit, Ours: ours, Goal: fmt.Sprintf("< %g", goal), Met: ours < goal}
}

// reaching is a line whose figure itself has a lower bound.
func reaching(name, unit string, ours, goal float64) Line {
	return Line{Name: name, Unit: unit, Ours: ours, Goal: fmt.Sprintf(">= %.0f", goal), Met: ours >= goal}
}

// unmeasured is a line of something that could not be had here.
func unmeasured(name string, why error) Line { return Line{Name: name, NotMeasured: why.Error()} }

// Unmeasured is how many lines could not be had here.
func Unmeasured(lines []Line) int {
	n := 0
	for _, l := range lines {
		if l.NotMeasured != "" {
			n++
		}
	}
	return n
}

// measure gives the lines of one thing that is measured, of the binary amnesia. Its files go to dir.
type measure func(ctx context.Context, amnesia, dir string) ([]Line, error)

// Measurement is one thing that is measured.
type Measurement struct {
	Name    string
	measure measure
}

// Short is every change's: what takes minutes is smaller, as the names of its lines say, or left out.
func Short() []Measurement {
	return []Measurement{
		{"verified", verifying(3, 3, 6)}, {"cycle", cycling(2)}, {"idle", idling}, {"docker", inContainers(1)}, {"append", appending},
		{"growth", growing(100, 10_000)}, {"judge", judging(100_000)}, {"crowd", crowded(200)},
		{"redis", sweeping("Redis", servers.Redis, inRedis(), 400)},
		{"postgres", sweeping("PostgreSQL", servers.Postgres, inPostgres(), 400)},
		{"chroma", sweeping("Chroma", servers.Chroma, inChroma(), 200)},
	}
}

// Full is everything, at the sizes that the goals are about.
func Full() []Measurement {
	return []Measurement{
		{"verified", verifying(5, 4, 11)}, {"cycle", cycling(3)}, {"idle", idling}, {"docker", inContainers(4)}, {"append", appending},
		{"growth", growing(1_000, 10_000)}, {"judge", judging(200_000)}, {"crowd", crowded(1_000)}, {"living", living(10_000, 1_000_000)}, {"start", starting},
		{"redis", sweeping("Redis", servers.Redis, inRedis(), sweepUsers)},
		{"postgres", sweeping("PostgreSQL", servers.Postgres, inPostgres(), sweepUsers)},
		{"chroma", sweeping("Chroma", servers.Chroma, inChroma(), sweepUsers)},
	}
}

// Run measures, with the binary amnesia, and prints the table. Files go to dir.
func Run(ctx context.Context, out io.Writer, all []Measurement, amnesia, dir string) ([]Line, error) {
	var lines []Line
	began := time.Now()
	for _, m := range all {
		ls, err := m.measure(ctx, amnesia, dir)
		if err != nil {
			return lines, errors.Join(table(out, lines), fmt.Errorf("%s: %w", m.Name, err)) // what was measured is told
		}
		for _, l := range ls {
			fmt.Fprintf(out, "%4.0fs  %s\n", time.Since(began).Seconds(), l.Name)
		}
		lines = append(lines, ls...)
	}
	return lines, table(out, lines)
}

// table prints the lines for people.
func table(out io.Writer, lines []Line) error {
	fmt.Fprintf(out, "\n%s %s/%s, %d cores\n\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "what\tours\treference\t\tratio\tgoal\tmet\t")
	for _, l := range lines {
		if l.NotMeasured != "" {
			continue
		}
		met, ratio, reference := "yes", "-", "-"
		if !l.Met {
			met = "NO"
		}
		if l.Reference > 0 {
			ratio, reference = fmt.Sprintf("%.2f", l.Ratio), fmt.Sprintf("%.1f", l.Reference)
		}
		fmt.Fprintf(t, "%s\t%.1f\t%s\t%s\t%s\t%s\t%s\t\n", l.Name, l.Ours, reference, l.Unit, ratio, l.Goal, met)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, l := range lines {
		if l.NotMeasured != "" {
			fmt.Fprintf(out, "\nnot measured: %s: %s\n", l.Name, l.NotMeasured)
		}
	}
	return nil
}

// Written gives the lines for programs, one object a line.
func Written(lines []Line) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // the goals are bounds
	for _, l := range lines {
		if err := enc.Encode(l); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

//go:embed bench.yaml
var processes string

const (
	cycles  = 14 // of a round, after the first, a control
	restart = 14 // references to a round, half of them before the cycles
)

// cycling times cycles from firing to the last verdict on a healthy target, beside what kill, start and healthy of the
// same application take alone, so many rounds of both, and takes the daemon's peak memory on the way.
func cycling(rounds int) measure {
	return func(ctx context.Context, amnesia, dir string) ([]Line, error) {
		addr, err := freeAddress(ctx)
		if err != nil {
			return nil, err
		}
		app := filepath.Join(dir, "app")
		if err := os.MkdirAll(app, 0o750); err != nil {
			return nil, err
		}
		var ours, reference []time.Duration
		var peak int64
		alone := func(times int) error {
			took, err := killStartHealthy(ctx, amnesia, app, addr, times)
			reference = append(reference, took...)
			return err
		}
		for i := range rounds {
			if err := alone(restart / 2); err != nil {
				return nil, err
			}
			took, most, err := soak(ctx, amnesia, filepath.Join(dir, fmt.Sprint("cycle", i)), processes, 1+cycles, map[string]any{"Self": amnesia, "Dir": app, "Addr": addr})
			if err != nil {
				return nil, err
			}
			ours, peak = append(ours, took...), max(peak, most)
			if err := alone(restart / 2); err != nil {
				return nil, err
			}
		}
		lines := []Line{atMost("cycle, http driver, process engine, against kill, start and healthy alone", "ms", inMS(median(ours)), inMS(median(reference)), 1.25)}
		if peak > 0 {
			lines = append(lines, below("peak memory of the daemon in these cycles", "MiB", inMiB(peak), 64))
		}
		return lines, nil
	}
}

//go:embed script.yaml
var script string

// soak runs the daemon on a healthy target and gives how long each cycle with a fault took from firing to the last
// verdict, and the daemon's peak memory in bytes. Its files begin with path.
func soak(ctx context.Context, amnesia, path, config string, n int, vars map[string]any, env ...string) (took []time.Duration, peak int64, err error) {
	args, err := configure(path, config, vars)
	if err != nil {
		return nil, 0, err
	}
	cmd := exec.CommandContext(ctx, amnesia, append(args, "--cycles", fmt.Sprint(n), "-o", "json")...)
	cmd.Env = append(os.Environ(), env...)
	out, peak, err := watched(cmd, watchMemory)
	if err != nil {
		return nil, 0, fmt.Errorf("running the daemon: %w", err)
	}
	var s report.Summary
	if err := json.Unmarshal(out, &s); err != nil {
		return nil, 0, fmt.Errorf("reading the daemon's summary: %w", err)
	}
	if s.Outcome != fact.CycleClean || s.Injections() == 0 {
		return nil, 0, fmt.Errorf("the healthy target came out as %s after %d injections", s.Outcome, s.Injections())
	}
	took, err = fromFiringToVerdict(ctx, path+".db")
	return took, peak, err
}

// configure writes the daemon's configuration to path, with .yaml behind it, and gives the arguments that run it.
func configure(path, config string, vars map[string]any) (args []string, err error) {
	vars["Ledger"], vars["Script"] = path+".db", strings.TrimRight(script, "\n")
	var yaml bytes.Buffer
	if err := template.Must(template.New("").Delims("<<", ">>").Parse(config)).Execute(&yaml, vars); err != nil {
		return nil, err
	}
	return []string{"run", "-c", path + ".yaml", "--seed", "1"}, os.WriteFile(path+".yaml", yaml.Bytes(), 0o640)
}

// awaitClosedCycle waits until the daemon has closed a cycle.
func awaitClosedCycle(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, recoversWithin, fmt.Errorf("the daemon closed no cycle within %s", recoversWithin))
	defer cancel()
	for {
		if closed, err := hasClosedCycle(ctx, path); closed || err != nil && ctx.Err() == nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func hasClosedCycle(ctx context.Context, path string) (bool, error) {
	if _, err := os.Stat(path); err != nil {
		return false, err
	}
	l, err := ledger.OpenReadOnly(ctx, path)
	if err != nil {
		return false, nil // it is being made
	}
	defer l.Close()
	for e, err := range l.Facts(ctx, 0) {
		if err != nil {
			return false, err
		}
		if c, ok := e.Fact.(fact.Cycle); ok && c.Phase == fact.PhaseClosed {
			return true, nil
		}
	}
	return false, nil
}

// fromFiringToVerdict reads the ledger of a run.
func fromFiringToVerdict(ctx context.Context, path string) ([]time.Duration, error) {
	l, err := ledger.OpenReadOnly(ctx, path)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	var fired memory.Instant
	var took []time.Duration
	for e, err := range l.Facts(ctx, 0) {
		if err != nil {
			return nil, err
		}
		switch f := e.Fact.(type) {
		case fact.Step:
			if f.Name == fact.StepInjected {
				fired = f.Fired
			}
		case fact.Cycle:
			if f.Phase == fact.PhaseClosed && !f.Control && !fired.IsZero() {
				took = append(took, f.At.Sub(fired))
				fired = memory.Instant{}
			}
		}
	}
	if len(took) == 0 {
		return nil, errors.New("the run had no cycle with a fault")
	}
	return took, nil
}

// withSample runs the sample application without a daemon, and what is to be done with it.
func withSample(ctx context.Context, self, dir, addr string, do func(*process.Engine, *chaos.Prober) error) (err error) {
	c := clock.System()
	e, err := process.New(process.Config{Clock: c, Services: []process.Service{{
		Name: "app", Command: []string{self, "sample"}, Dir: dir, Health: "http://" + addr + "/healthz",
		Env: []string{"CHATAPP_ADDR=" + addr, "CHATAPP_DATA=" + filepath.Join(dir, "data"), "CHATAPP_SCRATCH=" + filepath.Join(dir, "scratch")},
	}}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	p := chaos.NewProber(c, 0)
	if err := e.StartAll(ctx); err != nil {
		return err
	}
	if _, err := p.Await(ctx, e, nil); err != nil {
		return err
	}
	return do(e, p)
}

// killStartHealthy does by hand what a cycle's fault does, so many times.
func killStartHealthy(ctx context.Context, self, dir, addr string, times int) (took []time.Duration, err error) {
	c := clock.System()
	err = withSample(ctx, self, dir, addr, func(e *process.Engine, p *chaos.Prober) error {
		for range times {
			start := c.Now()
			if err := errors.Join(e.Kill(ctx, "app"), e.Start(ctx, "app")); err != nil {
				return err
			}
			if _, err := p.Await(ctx, e, nil); err != nil {
				return err
			}
			took = append(took, c.Now().Sub(start))
		}
		return nil
	})
	return took, err
}

func median(ds []time.Duration) time.Duration {
	ds = slices.Sorted(slices.Values(ds))
	return ds[len(ds)/2]
}

func inMiB[N int | int64](bytes N) float64 { return float64(bytes) / (1 << 20) }

func inMS(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func freeAddress(ctx context.Context) (string, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("finding a free port: %w", err)
	}
	defer ln.Close()
	return ln.Addr().String(), nil
}
