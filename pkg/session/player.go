package session

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"amnesia/pkg/memory"
)

// Options of a Player.
type Options struct {
	Clock memory.Clock
	Watch Watcher // may be nil
	// StepTimeout is how long an action, or a condition without a timeout of its own, may take; default 10s.
	StepTimeout time.Duration
	// CountsFrom names the level at which PointAcknowledged passes; default: the last.
	CountsFrom string
	// MaxBackoff bounds how long a throttled user waits before going on, whatever Retry-After says; default 30s.
	MaxBackoff time.Duration
}

// Player gives a script its meaning, over any driver. It may be used by many goroutines at once.
type Player struct {
	driver     Driver
	script     *Compiled
	opts       Options
	countsFrom string
	home       int       // the step of homeOf that loads the app's page, -1: none
	homeOf     *section  // recall or ask
	login      Condition // the address of the login page; no URL: it cannot be told
	isLogin    func(url string) bool
}

// scriptChecker is a driver that cannot do everything: what it cannot is refused when the script is loaded.
type scriptChecker interface {
	Check(s *Script) []error
}

// NewPlayer compiles and checks the script, for the driver too. The error joins one *ScriptError for each mistake.
func NewPlayer(d Driver, s *Script, opts Options) (*Player, error) {
	c, err := CompileScript(s)
	if err != nil {
		return nil, err
	}
	if k, ok := d.(scriptChecker); ok {
		if err := errors.Join(k.Check(s)...); err != nil {
			return nil, err
		}
	}
	if opts.StepTimeout <= 0 {
		opts.StepTimeout = 10 * time.Second
	}
	if opts.MaxBackoff <= 0 {
		opts.MaxBackoff = 30 * time.Second
	}
	levels := s.Levels()
	p := &Player{driver: d, script: c, opts: opts, home: -1, countsFrom: levels[len(levels)-1],
		isLogin: func(string) bool { return false }}
	if opts.CountsFrom != "" {
		found := false
		for _, l := range levels {
			found = found || l == opts.CountsFrom
		}
		if !found {
			return nil, fmt.Errorf("counts_from: %q is no level of tell — fix: one of %s", opts.CountsFrom, strings.Join(levels, ", "))
		}
		p.countsFrom = opts.CountsFrom
	}
	for _, name := range []string{"recall", "ask"} {
		sec := p.section(name)
		for i, st := range sec.steps {
			if st.Goto != "" && p.home < 0 {
				p.home, p.homeOf = i, sec
			}
		}
	}
	for _, st := range s.Login {
		if st.Goto != "" {
			if pg := pathOf(st.Goto); pg != "/" {
				p.login.URL = "**" + pg
				if p.isLogin, err = Glob(p.login.URL); err != nil {
					return nil, err
				}
			}
			break
		}
	}
	return p, nil
}

// pathOf gives the path of an address, or "/" where a template or a host alone stands for it.
func pathOf(url string) string {
	if i := strings.Index(url, "://"); i >= 0 {
		_, rest, ok := strings.Cut(url[i+3:], "/")
		if !ok {
			return "/"
		}
		url = "/" + rest
	}
	if i := strings.IndexAny(url, "?#{*["); i >= 0 {
		url = url[:i]
	}
	return path.Clean("/" + url)
}

func (p *Player) section(name string) *section {
	for i := range p.script.sections {
		if p.script.sections[i].name == name {
			return &p.script.sections[i]
		}
	}
	panic("session: no section " + name)
}

// Open gives the user a surface of their own. Nothing is logged in yet.
func (p *Player) Open(ctx context.Context, u User) (*Session, error) {
	sf, err := p.driver.Open(ctx, u)
	if err != nil {
		return nil, fmt.Errorf("opening a session for %s: %w", u.Name, err)
	}
	return &Session{p: p, u: u, surface: sf, captured: map[string]string{}}, nil
}

// Session is one user at work. One goroutine uses it at a time.
type Session struct {
	p        *Player
	u        User
	surface  Surface
	captured map[string]string
	stale    bool      // the last tell went wrong: the page is not to be trusted
	resume   time.Time // throttled until then
}

// Signup makes the account; nothing where the script has no signup.
func (s *Session) Signup(ctx context.Context) error { return s.plain(ctx, "signup") }

// Login logs in. An error wraps ErrRejected when the app refused the user.
func (s *Session) Login(ctx context.Context) error {
	if err := s.plain(ctx, "login"); err != nil {
		return err
	}
	s.stale = false
	s.emit(PointLoggedIn, 0)
	return nil
}

// Logout logs out.
func (s *Session) Logout(ctx context.Context) error { return s.plain(ctx, "logout") }

// Cleanup removes the account or all of its memories, as the script says.
func (s *Session) Cleanup(ctx context.Context) error { return s.plain(ctx, "cleanup") }

// Evidence saves what the surface shows and names the files; best effort.
func (s *Session) Evidence(ctx context.Context, name string) []string {
	return s.surface.Evidence(ctx, name)
}

// Close ends the surface.
func (s *Session) Close() error { return s.surface.Close() }

func (s *Session) emit(pt Point, m memory.ID) {
	if s.p.opts.Watch != nil {
		s.p.opts.Watch(pt, s.u, m)
	}
}

func (s *Session) now() memory.Instant { return s.p.opts.Clock.Now() }

func (s *Session) vars(m memory.Memory) Vars {
	return Vars{Run: s.u.Run, N: s.u.N, User: s.u.Name, Password: s.u.Password, Captured: s.captured,
		Memory: m.Text, Token: m.Token, Question: m.Question, ID: m.ID.String()}
}

// plain runs a section that tells and reads nothing. cleanup comes back after a new login like the others.
func (s *Session) plain(ctx context.Context, name string) error {
	r := run{s: s, sec: s.p.section(name)}
	if name == "cleanup" || name == "logout" {
		return r.again(ctx, r.all)
	}
	return r.all(ctx)
}

// Recall reads the history. The transcript holds what was read whatever error comes; it is complete only when every
// read of the script reached its end.
func (s *Session) Recall(ctx context.Context) (Transcript, error) {
	return s.read(ctx, "recall", memory.Memory{})
}

// Ask asks for the memory, in a conversation as the script says. A read that follows an action with no expect between
// them, and that has no ready of its own, first waits for what tell waits for: the answer has ended then.
func (s *Session) Ask(ctx context.Context, m memory.Memory) (Transcript, error) {
	return s.read(ctx, "ask", m)
}

func (s *Session) read(ctx context.Context, name string, m memory.Memory) (Transcript, error) {
	r := run{s: s, sec: s.p.section(name), m: m}
	if len(r.sec.steps) == 0 {
		return Transcript{}, &RigError{fmt.Errorf("the script has no %s — fix: write one, or leave its view out", name)}
	}
	if err := s.backoff(ctx); err != nil {
		return Transcript{}, err
	}
	err := r.again(ctx, func(ctx context.Context) error {
		r.t = Transcript{Complete: true, Began: s.now()}
		err := r.all(ctx)
		if err == nil {
			// An empty history on a login page is no history.
			err = r.loggedIn(ctx)
		}
		r.t.Ended = s.now()
		return err
	})
	if err != nil {
		r.t.Complete = false
		s.throttle(err)
	}
	return r.t, err
}

// backoff waits until the app wants to be asked again.
func (s *Session) backoff(ctx context.Context) error {
	t := time.NewTimer(time.Until(s.resume))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Session) throttle(err error) {
	var te *TargetError
	if errors.As(err, &te) && te.Status == 429 {
		s.throttled(te.RetryAfter)
	}
}

func (s *Session) throttled(after time.Duration) {
	if after <= 0 {
		after = time.Second
	}
	s.resume = time.Now().Add(min(after, s.p.opts.MaxBackoff))
}
