//go:build unix

package process

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"amnesia/pkg/memory"
)

const (
	// guardianKey makes a process of this program a guardian: GuardianMain takes over.
	guardianKey = "AMNESIA_PROCESS_GUARDIAN"
	// markerKey is in the environment of every service, so that what leaves its group is found again.
	markerKey = "AMNESIA_PROCESS_ENGINE"
	// readyWait bounds the start of the guardian.
	readyWait = 10 * time.Second
)

// engineID tells the engines of a machine apart, also those of one process.
func engineID(now memory.Instant) string { return fmt.Sprintf("%d-%d", os.Getpid(), now.Mono) }

// GuardianMain must be called first in main, and in TestMain, of every program that uses an Engine. It returns at once
// unless the process was started as a guardian; then it never returns.
func GuardianMain() {
	if id := os.Getenv(guardianKey); id != "" {
		guard(id, os.NewFile(3, "daemon"), os.NewFile(4, "ready"))
		os.Exit(0)
	}
}

// guard waits for the daemon's pipe to close, which the kernel sees to however the daemon ends. Meanwhile it is told
// the groups that live: +ID and -ID, a line each.
func guard(id string, daemon io.Reader, ready io.WriteCloser) {
	// It must outlive what ends its daemon: a terminal that closes, a kill of everything by name.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	if _, err := io.WriteString(ready, "ready\n"); err != nil {
		return // the daemon has gone already, before any service
	}
	ready.Close()
	groups := make(map[int]bool)
	for in := bufio.NewScanner(daemon); in.Scan(); {
		if n, err := strconv.Atoi(in.Text()); err == nil && n != 0 {
			groups[max(n, -n)] = n > 0
		}
	}
	var wg sync.WaitGroup
	for group, lives := range groups {
		if lives {
			wg.Go(func() { endGroup(group) })
		}
	}
	wg.Wait()
	killMarked(id)
}

// guardian is the daemon's end.
type guardian struct {
	id string

	mu   sync.Mutex
	pipe *os.File      // its closing is what the guardian waits for
	done chan struct{} // closed when the guardian has ended
	cmd  *exec.Cmd
}

// ensure starts a guardian if none lives, and tells it the groups that do.
func (g *guardian) ensure(groups []int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.done != nil {
		select {
		case <-g.done:
			g.pipe.Close()
		default:
			return nil
		}
	}
	if err := g.start(); err != nil {
		return fmt.Errorf("starting the guardian, without which no service may run: %w", err)
	}
	for _, group := range groups {
		g.write(group)
	}
	return nil
}

func (g *guardian) start() error {
	if os.Getenv(guardianKey) != "" {
		return fmt.Errorf("this process is a guardian itself — fix: call process.GuardianMain first in main")
	}
	program, err := self()
	if err != nil {
		return err
	}
	hears, pipe, err := os.Pipe()
	if err != nil {
		return err
	}
	defer hears.Close()
	ready, says, err := os.Pipe()
	if err != nil {
		pipe.Close()
		return err
	}
	defer ready.Close()
	defer says.Close()
	cmd := &exec.Cmd{
		Path: program, Args: []string{"amnesia-guardian"}, Dir: "/",
		Env:         append(os.Environ(), guardianKey+"="+g.id),
		ExtraFiles:  []*os.File{hears, says},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := cmd.Start(); err != nil {
		pipe.Close()
		return err
	}
	says.Close() // the guardian's copy is the only one, so that its death ends the read below
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended changes nothing
		close(done)
	}()
	if err := ready.SetReadDeadline(time.Now().Add(readyWait)); err != nil {
		return err
	}
	if line, err := bufio.NewReader(ready).ReadString('\n'); err != nil || line != "ready\n" {
		pipe.Close()
		_ = cmd.Process.Kill()
		<-done
		return fmt.Errorf("it did not report ready — fix: call process.GuardianMain first in main")
	}
	g.pipe, g.done, g.cmd = pipe, done, cmd
	return nil
}

func (g *guardian) tell(group int)   { g.locked(group) }
func (g *guardian) forget(group int) { g.locked(-group) }

func (g *guardian) locked(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.write(n)
}

// write fails only when the guardian has died; ensure tells the next one everything.
func (g *guardian) write(n int) { _, _ = fmt.Fprintf(g.pipe, "%d\n", n) }

// close lets the guardian go, which makes a last round itself.
func (g *guardian) close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pipe.Close()
	select {
	case <-g.done:
		return nil
	case <-time.After(readyWait):
		_ = g.cmd.Process.Kill()
		<-g.done
		return fmt.Errorf("the guardian did not end by itself and was killed")
	}
}
