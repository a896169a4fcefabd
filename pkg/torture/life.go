//go:build linux

package torture

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"amnesia/pkg/app"
	"amnesia/pkg/fact"
	"amnesia/pkg/ledger"
)

const (
	// patience bounds every wait for something that a daemon must do.
	patience = 90 * time.Second
	// look is the pause between two looks at what the witness has been told.
	look = time.Millisecond
	// lifeKey is in the environment of a daemon and of all that it starts.
	lifeKey = "AMNESIA_TORTURE_LIFE"
)

// line is what the witness has been told.
type line struct{ app.Witnessed }

// as reads a fact of that kind.
func (w line) as(kind string, into any) bool {
	return w.Kind == kind && json.Unmarshal(w.Fact, into) == nil
}

// step gives the station that an injection has reached; empty for another fact.
func (w line) step() fact.StepName {
	var s fact.Step
	w.as("step", &s)
	return s.Name
}

// life is one daemon, from its start to its death.
type life struct {
	n       int
	cmd     *exec.Cmd
	witness *os.File // as the daemon writes it
	said    string   // the file of its log
	url     string
	ended   time.Time
	over    chan struct{} // closed when it has ended

	facts []line
	rest  []byte // of a line that is not whole yet

	stop context.CancelFunc // of watch
	eyes sync.WaitGroup
	mu   sync.Mutex
	seen counters // the last ones
}

// born starts a daemon.
func (b *bench) born(ctx context.Context) (*life, error) {
	b.lives++
	l := &life{n: b.lives, over: make(chan struct{}), url: "http://" + b.settings.Web + "/metrics", stop: func() {}}
	told := filepath.Join(b.Dir, fmt.Sprintf("witness-%d", l.n))
	l.said = filepath.Join(b.Dir, fmt.Sprintf("log-%d", l.n))
	log, err := os.Create(l.said)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	file, err := os.Create(told)
	if err != nil {
		return nil, err
	}
	l.witness = file
	l.cmd = exec.CommandContext(ctx, b.Amnesia, "run", "--config", filepath.Join(b.Dir, "amnesia.yaml"), "--min-conclusive", "0")
	l.cmd.Dir, l.cmd.Stdout, l.cmd.Stderr = b.Dir, log, log
	l.cmd.Env = append(os.Environ(), "AMNESIA_WITNESS="+told, lifeKey+"="+b.mark(l.n))
	if err := l.cmd.Start(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	go func() {
		_ = l.cmd.Wait() // ProcessState says it
		l.ended = time.Now()
		close(l.over)
	}()
	return l, nil
}

// mark tells the lives of all runs apart.
func (b *bench) mark(n int) string { return fmt.Sprintf("%s:%d", b.Dir, n) }

// read takes in what the witness has been told since.
func (l *life) read() error {
	more, err := io.ReadAll(l.witness)
	if err != nil {
		return fmt.Errorf("reading the witness: %w", err)
	}
	l.rest = append(l.rest, more...)
	for {
		text, rest, whole := bytes.Cut(l.rest, []byte("\n"))
		if !whole {
			return nil
		}
		var w line
		if err := json.Unmarshal(text, &w); err != nil {
			return fmt.Errorf("reading the witness: %q: %w", text, err)
		}
		l.facts, l.rest = append(l.facts, w), rest
	}
}

// await waits until a fact fits that has not been looked at before.
func (l *life) await(ctx context.Context, fits func(line) bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for from := len(l.facts); ; {
		if err := l.read(); err != nil {
			return err
		}
		for i := from; i < len(l.facts); i++ {
			if fits(l.facts[i]) {
				// What came with it is looked at by the next.
				l.rest = append(l.unread(i+1), l.rest...)
				l.facts = l.facts[:i+1]
				return nil
			}
		}
		from = len(l.facts)
		if err := l.lives(ctx, look); err != nil {
			return err
		}
	}
}

// strikes counts the faults that it has let loose so far, and reports whether one of them is open. Nothing of what it reads
// counts as looked at.
func (l *life) strikes() (n int, open bool, err error) {
	from := len(l.facts)
	if err := l.read(); err != nil {
		return 0, false, err
	}
	for _, w := range l.facts {
		switch w.step() {
		case fact.StepFiring:
			n, open = n+1, true // never two at once
		case fact.StepClosed:
			open = false
		}
	}
	l.rest = append(l.unread(from), l.rest...)
	l.facts = l.facts[:from]
	return n, open, nil
}

// unread gives the lines of facts back.
func (l *life) unread(from int) []byte {
	var b bytes.Buffer
	for _, w := range l.facts[from:] {
		_ = json.NewEncoder(&b).Encode(w) // to memory, of what was read from JSON
	}
	return b.Bytes()
}

// lives waits, and gives an error when the daemon has ended by itself.
func (l *life) lives(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-l.over:
		return fmt.Errorf("the daemon ended by itself: %s", l.cmd.ProcessState)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// watch reads the metrics again and again until the daemon dies: what was seen once must not be taken back.
func (l *life) watch(ctx context.Context) {
	ctx, l.stop = context.WithCancel(ctx)
	l.eyes.Go(func() {
		for ctx.Err() == nil {
			if c, err := l.scrape(ctx); err == nil {
				l.mu.Lock()
				l.seen = c
				l.mu.Unlock()
			}
			select {
			case <-time.After(20 * time.Millisecond):
			case <-l.over:
				return
			}
		}
	})
}

func (l *life) scrape(ctx context.Context) (counters, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return parse(resp.Body)
}

// kill ends the daemon as nothing can foresee.
func (l *life) kill() {
	_ = l.cmd.Process.Kill() // gone is as good
	<-l.over
	l.stop()
	l.eyes.Wait()
}

// terminate ends it in order.
func (l *life) terminate() error {
	if err := l.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-l.over:
	case <-time.After(patience):
		l.kill()
		return fmt.Errorf("it did not end within %s of SIGTERM", patience)
	}
	l.stop()
	l.eyes.Wait()
	if !l.cmd.ProcessState.Success() {
		return errors.New(l.cmd.ProcessState.String())
	}
	return nil
}

// explain adds the last lines of the log.
func (l *life) explain(err error) error {
	text, _ := os.ReadFile(l.said)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return fmt.Errorf("life %d: %w\n%s", l.n, err, strings.Join(lines[max(0, len(lines)-12):], "\n"))
}

// open names the fault that was open when the daemon died, as far as the witness knows; empty: none.
func (l *life) open() string {
	kinds := map[int64]string{}
	for _, w := range l.facts {
		var s fact.Step
		if !w.as("step", &s) {
			continue
		}
		switch s.Name {
		case fact.StepFiring:
			kinds[s.Injection] = s.Plan.Kind + " " + s.Plan.Service
		case fact.StepReverted, fact.StepClosed:
			delete(kinds, s.Injection)
		}
	}
	for _, kind := range kinds { // never two at once
		return kind
	}
	return ""
}

// close takes in the last of what the witness was told.
func (l *life) close() error { return errors.Join(l.read(), l.witness.Close()) }

// booked gives the facts of a ledger after seq, as a witness would have been told them; none of a ledger that there is not
// yet.
func booked(path string, after int64) (held []line, err error) {
	books, err := ledger.OpenReadOnly(context.Background(), path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer books.Close()
	for e, err := range books.Facts(context.Background(), after) {
		if err != nil {
			return nil, err
		}
		w, err := app.Witness(e)
		if err != nil {
			return nil, err
		}
		held = append(held, line{w})
	}
	return held, nil
}

// missing names what the witness was told of and the ledger does not give back as it was told.
func missing(told, held []line) (missing []string) {
	by := map[int64]line{}
	for _, w := range held {
		by[w.Seq] = w
	}
	for _, w := range told {
		if h := by[w.Seq]; h.Kind != w.Kind || !bytes.Equal(h.Fact, w.Fact) {
			missing = append(missing, fmt.Sprintf("fact %d is not in the ledger as it was when it was durable:\n%s %s\n%s %s", w.Seq, w.Kind, w.Fact, h.Kind, h.Fact))
		}
	}
	return missing
}

// left names the processes that live of a daemon's that has died: its services, its guardian, and what they started.
func (l *life) left() error {
	var mark []byte
	for _, e := range l.cmd.Env {
		if strings.HasPrefix(e, lifeKey+"=") {
			mark = []byte("\x00" + e + "\x00")
		}
	}
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return err
	}
	for _, f := range files {
		if env, err := os.ReadFile(f); err == nil && bytes.Contains(append([]byte{0}, env...), mark) {
			what, _ := os.ReadFile(filepath.Join(filepath.Dir(f), "cmdline"))
			return fmt.Errorf("a process still lives: %s, %q", filepath.Dir(f), what)
		}
	}
	return nil
}
