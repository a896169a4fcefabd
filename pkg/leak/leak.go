//go:build linux

// Package leak runs the daemon's real binary for thousands of cycles on the sample target and looks whether anything of it
// grows: goroutines, open files, memory, processes; of the daemon, and of the browser with its driver.
//
// It knows of the daemon what anybody sees from outside: its metrics, and /proc.
package leak

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/template"
	"time"

	"github.com/prometheus/procfs"
)

//go:embed leak.yaml
var configuration string

// Options are those of one soak.
type Options struct {
	Amnesia string // the binary
	Dir     string // for everything that the soak leaves
	Driver  string // http or browser
	Cycles  int
	Seed    uint64
	Tell    func(cycle int, figures map[string]float64) // is told of every sample; may be nil
}

// Series are the figures of a soak, by name, in the order in which they were taken.
type Series map[string][]float64

// samples is how many are taken in a soak.
const samples = 200

// lastWords bounds, in bytes, what an error shows of the daemon's log: its directory may go with the test.
const lastWords = 4096

// Soak runs the daemon for so many cycles, and takes the figures at even distances. The error says that it could not be
// done, or that the healthy target was accused.
func Soak(ctx context.Context, o Options) (Series, error) {
	web, err := address(ctx)
	if err != nil {
		return nil, err
	}
	path, err := o.configure(ctx, web)
	if err != nil {
		return nil, err
	}
	logs, err := os.Create(filepath.Join(o.Dir, "daemon.log"))
	if err != nil {
		return nil, err
	}
	defer logs.Close()
	cmd := exec.CommandContext(ctx, o.Amnesia, "run", "-c", path, "--cycles", strconv.Itoa(o.Cycles), "--min-conclusive", "0.5")
	cmd.Stdout, cmd.Stderr = logs, logs
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	s := Series{}
	for next := 0.0; ; {
		if cycle, figures, err := sample(ctx, cmd.Process.Pid, web); err == nil && cycle >= next && cycle > 0 {
			next = cycle + float64(o.Cycles)/samples
			for name, v := range figures {
				s[name] = append(s[name], v)
			}
			if o.Tell != nil {
				o.Tell(int(cycle), figures)
			}
		}
		select {
		case err := <-ended:
			if err != nil {
				said, _ := os.ReadFile(logs.Name())
				return s, fmt.Errorf("the daemon: %w; its last words:\n%s", err, said[max(0, len(said)-lastWords):])
			}
			return s, nil
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (o Options) configure(ctx context.Context, web string) (path string, err error) {
	app, err := address(ctx)
	if err != nil {
		return "", err
	}
	t, err := template.New("leak.yaml").Delims("<<", ">>").Parse(configuration)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, struct {
		Options
		App, Web string
	}{o, app, web}); err != nil {
		return "", err
	}
	path = filepath.Join(o.Dir, "amnesia.yaml")
	return path, os.WriteFile(path, b.Bytes(), 0o640)
}

func address(ctx context.Context) (string, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return ln.Addr().String(), ln.Close()
}

// The names of the figures. Those of the browser are of its driver too, and of nothing where there is no browser.
const (
	goroutines   = "goroutines of the daemon"
	files        = "open files of the daemon"
	memory       = "memory of the daemon, MiB"
	browserFiles = "open files of browser and driver"
	browserBytes = "memory of browser and driver, MiB"
	browserProcs = "processes of browser and driver"
)

const mib = 1 << 20

// sample takes the figures once, and says how many cycles are closed.
func sample(ctx context.Context, pid int, web string) (cycles float64, figures map[string]float64, err error) {
	m, err := scrape(ctx, web)
	if err != nil {
		return 0, nil, err
	}
	for name, v := range m {
		if strings.HasPrefix(name, "amnesia_cycles_total{") {
			cycles += v
		}
	}
	figures = map[string]float64{goroutines: m["go_goroutines"], files: m["process_open_fds"], memory: m["process_resident_memory_bytes"] / mib}
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, nil, err
	}
	all, err := fs.AllProcs()
	if err != nil {
		return 0, nil, err
	}
	stats := map[int]procfs.ProcStat{}
	for _, p := range all {
		if s, err := p.Stat(); err == nil { // else it has ended meanwhile
			stats[p.PID] = s
		}
	}
	for _, p := range all {
		if !below(stats, p.PID, pid) {
			continue
		}
		figures[browserProcs]++
		if n, err := p.FileDescriptorsLen(); err == nil {
			figures[browserFiles] += float64(n)
		}
		if r, err := p.ProcSMapsRollup(); err == nil {
			figures[browserBytes] += float64(r.Pss) / mib
		}
	}
	return cycles, figures, nil
}

// below reports whether a process belongs to the browser that the daemon runs: Playwright's node is its only child of
// that name.
func below(stats map[int]procfs.ProcStat, pid, daemon int) bool {
	for at := pid; at > 1; at = stats[at].PPID {
		if stats[at].PPID == daemon {
			return strings.HasPrefix(stats[at].Comm, "node")
		}
	}
	return false
}

// scrape reads the daemon's metrics, by series.
func scrape(ctx context.Context, web string) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+web+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(resp.Status)
	}
	return parse(resp.Body)
}

func parse(r io.Reader) (map[string]float64, error) {
	m, lines := map[string]float64{}, bufio.NewScanner(r)
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), "} ")
		if ok {
			name += "}"
		} else if name, value, ok = strings.Cut(lines.Text(), " "); !ok {
			continue
		}
		if v, err := strconv.ParseFloat(value, 64); err == nil { // else it is a comment
			m[name] = v
		}
	}
	return m, lines.Err()
}

// Growth is how much a figure grew over the last half of a soak: the median of the last quarter against that of the one
// before, as a share.
type Growth struct {
	Name        string
	Before, Now float64
	// Steady is true when all of the last quarter is above all of the one before: as it is with what every cycle leaves.
	Steady bool
}

// Share is the growth, 0 for none.
func (g Growth) Share() float64 {
	if g.Before == 0 {
		return 0
	}
	return g.Now/g.Before - 1
}

// Counted reports whether it is of what the daemon itself holds, one by one.
func (g Growth) Counted() bool { return g.Name == goroutines || g.Name == files }

// Growths gives them by name.
func (s Series) Growths() (list []Growth) {
	for name, vs := range s {
		half := vs[len(vs)/2:]
		before, now := half[:len(half)/2], half[len(half)/2:]
		g := Growth{Name: name, Before: median(before), Now: median(now)}
		g.Steady = len(before) > 0 && slices.Min(now) > slices.Max(before)
		list = append(list, g)
	}
	slices.SortFunc(list, func(a, b Growth) int { return strings.Compare(a.Name, b.Name) })
	return list
}

func median(vs []float64) float64 {
	if len(vs) == 0 {
		return 0
	}
	vs = slices.Sorted(slices.Values(vs))
	return vs[len(vs)/2]
}
