//go:build unix

package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"amnesia/chaos"
	"amnesia/pkg/fact"
)

// service is a declared service, resolved, and the process that runs it.
type service struct {
	Service
	path    string // of the program
	scratch []scratch

	op sync.Mutex // one start, stop or wipe at a time

	mu     sync.Mutex
	proc   *proc // the last one started; nil before the first
	closed bool
}

func (s *service) current() *proc {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc
}

func (s *service) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// proc is one process group.
type proc struct {
	cmd      *exec.Cmd
	pid      int // of the leader, and the group's id
	instance fact.Instance
	tail     *tail
	done     chan struct{} // closed when the leader has been reaped and its group is dead

	mu   sync.Mutex
	ours bool // its death was asked for
}

// alive reports whether the leader runs: not reaped, and no zombie.
func (p *proc) alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return running(p.pid, p.instance.Started)
	}
}

func (p *proc) asked() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ours = true
}

// Start starts the service if it is down, and returns when its program has been loaded; it does not wait for health.
func (e *Engine) Start(ctx context.Context, name string) (err error) {
	defer e.observe.Time(e.clock, "start")(&err)
	s, err := e.service(name)
	if err != nil {
		return err
	}
	s.op.Lock()
	defer s.op.Unlock()
	return e.start(ctx, s)
}

func (e *Engine) start(ctx context.Context, s *service) error {
	if p := s.current(); p != nil {
		if p.alive() {
			return nil
		}
		// A dead leader's group is ended by the follower; a new process must not meet its remains.
		select {
		case <-p.done:
		case <-ctx.Done():
			return fmt.Errorf("%s: waiting for the end of the process before: %w", s.Name, ctx.Err())
		}
	}
	if err := e.portFree(ctx, s); err != nil {
		return err
	}
	if err := s.finish(); err != nil {
		return err
	}
	if err := e.guarded(); err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("%s: opening a pipe for its output: %w", s.Name, err)
	}
	defer w.Close()
	p := &proc{tail: newTail(), done: make(chan struct{})}
	p.cmd = &exec.Cmd{Path: s.path, Args: s.Command, Dir: s.Dir, Stdout: w, Stderr: w, SysProcAttr: groupOfItsOwn()}
	p.cmd.Env = append(append(os.Environ(), s.Env...), markerKey+"="+e.id)

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		r.Close()
		return fmt.Errorf("%s: the engine is closed", s.Name)
	}
	if err := e.spawner.start(p.cmd); err != nil {
		r.Close()
		return startError(s, err)
	}
	p.pid = p.cmd.Process.Pid
	e.tell(p.pid)
	p.instance = fact.Instance{ID: strconv.Itoa(p.pid), Started: startTime(p.pid)}
	s.proc = p
	go p.tail.read(r, func(text string) { e.lines.send(chaos.Line{Service: s.Name, At: e.clock.Now().Time(), Text: text}) })
	e.events.send(chaos.Event{Service: s.Name, Instance: p.instance, Kind: "start", At: e.clock.Now().Time(), Ours: true})
	go e.follow(s, p)
	return nil
}

// follow waits for the end of the leader, and ends what is left of its group: the instance is the group.
func (e *Engine) follow(s *service, p *proc) {
	// The error says what ProcessState says too.
	_ = p.cmd.Wait()
	at := e.clock.Now().Time()
	p.mu.Lock()
	ours := p.ours
	p.mu.Unlock()
	endGroup(p.pid)
	e.tell(-p.pid)
	close(p.done)
	e.events.send(chaos.Event{Service: s.Name, Instance: p.instance, Kind: "die", Exit: exitCode(p.cmd.ProcessState), At: at, Ours: ours})
}

// exitCode is the shell's: 128 and the signal for a process that a signal ended.
func exitCode(state *os.ProcessState) int {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return state.ExitCode()
}

// Kill sends SIGKILL to the service's process group and returns when all of it is dead.
func (e *Engine) Kill(ctx context.Context, name string) (err error) {
	defer e.observe.Time(e.clock, "kill")(&err)
	s, err := e.service(name)
	if err != nil {
		return err
	}
	s.op.Lock()
	defer s.op.Unlock()
	p := s.current()
	if p == nil {
		return nil
	}
	return p.kill(ctx, s.Name)
}

func (p *proc) kill(ctx context.Context, name string) error {
	p.asked()
	if err := p.signal(syscall.SIGKILL); err != nil {
		return fmt.Errorf("%s: killing: %w", name, err)
	}
	return p.gone(ctx, name)
}

func (p *proc) gone(ctx context.Context, name string) error {
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: waiting for its end: %w", name, ctx.Err())
	}
}

// signal sends to the whole group; a group that is gone is no error. Once done is closed the id may belong to another.
func (p *proc) signal(sig syscall.Signal) error {
	select {
	case <-p.done:
		return nil
	default:
	}
	if err := syscall.Kill(-p.pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// Stop sends SIGTERM to the process group, waits up to grace, then sends SIGKILL; it returns when the group is dead. A
// frozen service is thawed, so that it can hear.
func (e *Engine) Stop(ctx context.Context, name string, grace time.Duration) (err error) {
	defer e.observe.Time(e.clock, "stop")(&err)
	s, err := e.service(name)
	if err != nil {
		return err
	}
	s.op.Lock()
	defer s.op.Unlock()
	p := s.current()
	if p == nil {
		return nil
	}
	p.asked()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT} {
		if err := p.signal(sig); err != nil {
			return fmt.Errorf("%s: stopping: %w", name, err)
		}
	}
	term, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	select {
	case <-p.done:
		return nil
	case <-term.Done():
		return p.kill(ctx, name)
	}
}

// Tail gives the last lines of the service's newest process.
func (e *Engine) Tail(name string) []string {
	s, err := e.service(name)
	if err != nil {
		return nil
	}
	p := s.current()
	if p == nil {
		return nil
	}
	if !p.alive() {
		p.tail.settle() // its last words may still be in the pipe
	}
	return p.tail.last()
}

// groups are the process groups that live.
func (e *Engine) groups() []int {
	var ids []int
	for _, s := range e.services {
		if p := s.current(); p != nil && p.alive() {
			ids = append(ids, p.pid)
		}
	}
	return ids
}

// portWait is how long a port may still be held by what an earlier daemon's guardian is just clearing away.
const portWait = 2500 * time.Millisecond

// portFree refuses to start a service whose health address already answers while the service is down: the gate would
// take a stranger for it. An address that several services share proves nothing and is not asked.
func (e *Engine) portFree(ctx context.Context, s *service) error {
	u, err := url.Parse(s.Health)
	if err != nil || u.Port() == "" || !loopback(u.Hostname()) {
		return nil
	}
	if slices.ContainsFunc(e.services, func(o *service) bool {
		other, err := url.Parse(o.Health)
		return o != s && err == nil && other.Port() == u.Port()
	}) {
		return nil
	}
	until := time.Now().Add(portWait)
	for {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", u.Host)
		if err != nil {
			return nil
		}
		conn.Close()
		if time.Now().After(until) {
			return fmt.Errorf("%s: port %s is in use by another program — fix: end it (ss -ltnp 'sport = :%s' names it), or give the service another port",
				s.Name, u.Port(), u.Port())
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}
