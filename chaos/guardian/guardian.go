//go:build unix

// Package guardian keeps a process beside the daemon that outlives it: the same program, in a session of its own. When
// the daemon dies, however it dies, the kernel closes the pipe between the two, and the guardian does its duty: it ends
// what the daemon has started, or undoes what the daemon has done to its target.
//
// It does not know what a duty is about: the engines say that.
package guardian

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

const (
	// dutyKey makes a process of this program a guardian, with this duty: Main takes over.
	dutyKey = "AMNESIA_GUARDIAN"
	// readyWait bounds the start of a guardian, and its end when its daemon lets it go.
	readyWait = 10 * time.Second
	ready     = "ready\n"
	// fix is what a program lacks that cannot be guarded.
	fix = " — fix: call GuardianMain first in main"
)

// Duty is what a guardian is there for. It is played in the guardian's process, by one goroutine.
type Duty interface {
	// Hear is given every line that the daemon tells, without its end.
	Hear(line []byte)
	// End is called once, when the daemon has gone or has let its guardian go.
	End()
}

// Main must be called first in main, and in TestMain, of every program that uses a Guardian; duties are those that it can
// be given, by name. It returns at once unless the process was started as a guardian; then it never returns.
func Main(duties map[string]func() Duty) {
	name := os.Getenv(dutyKey)
	if name == "" {
		return
	}
	if duty := duties[name]; duty != nil {
		guard(duty(), os.NewFile(3, "daemon"), os.NewFile(4, "ready"))
	}
	os.Exit(0)
}

// guard waits for the daemon's pipe to close, which the kernel sees to however the daemon ends.
func guard(duty Duty, daemon io.Reader, says io.WriteCloser) {
	// It must outlive what ends its daemon: a terminal that closes, a kill of everything by name.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	if _, err := io.WriteString(says, ready); err != nil {
		return // the daemon has gone already, before anything was done
	}
	says.Close()
	in := bufio.NewReader(daemon)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			break // a line without its end was never told: the daemon died over it
		}
		duty.Hear(line[:len(line)-1])
	}
	duty.End()
}

// Guardian is the daemon's end. Its methods are safe for concurrent use.
type Guardian struct {
	duty string

	mu   sync.Mutex
	pipe *os.File      // its closing is what the guardian waits for
	done chan struct{} // closed when the guardian has ended; nil before the first
	cmd  *exec.Cmd
}

// New gives the daemon's end of a guardian with that duty. None is started before Ensure.
func New(duty string) *Guardian { return &Guardian{duty: duty} }

// Ensure starts a guardian if none lives, and tells it first what it must know.
func (g *Guardian) Ensure(first ...string) error {
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
		return fmt.Errorf("starting the guardian: %w", err)
	}
	for _, line := range first {
		if err := g.write(line); err != nil {
			return err
		}
	}
	return nil
}

func (g *Guardian) start() error {
	if os.Getenv(dutyKey) != "" {
		return errors.New("this process is a guardian itself" + fix)
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
	hear, says, err := os.Pipe()
	if err != nil {
		pipe.Close()
		return err
	}
	defer hear.Close()
	defer says.Close()
	cmd := &exec.Cmd{
		Path: program, Args: []string{"amnesia-guardian"}, Dir: "/",
		Env:         append(os.Environ(), dutyKey+"="+g.duty),
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
	err = hear.SetReadDeadline(time.Now().Add(readyWait))
	if err == nil {
		var line string
		if line, err = bufio.NewReader(hear).ReadString('\n'); err != nil || line != ready {
			err = errors.New("it did not report ready" + fix)
		}
	}
	if err != nil {
		pipe.Close()
		_ = cmd.Process.Kill()
		<-done
		return err
	}
	g.pipe, g.done, g.cmd = pipe, done, cmd
	return nil
}

// Tell tells it a line. It fails when the guardian has died; Ensure starts another one.
func (g *Guardian) Tell(line string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.write(line)
}

func (g *Guardian) write(line string) error {
	if _, err := io.WriteString(g.pipe, line+"\n"); err != nil {
		return fmt.Errorf("telling the guardian: %w", err)
	}
	return nil
}

// PID is the guardian's process id.
func (g *Guardian) PID() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.cmd.Process.Pid
}

// Close lets the guardian go, which does its duty once more, and waits for its end. It does nothing when there never was
// one.
func (g *Guardian) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.done == nil {
		return nil
	}
	g.pipe.Close()
	select {
	case <-g.done:
		return nil
	case <-time.After(readyWait):
		_ = g.cmd.Process.Kill()
		<-g.done
		return errors.New("the guardian did not end by itself and was killed")
	}
}
