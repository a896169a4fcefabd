// Package explore writes a script for an app that it has never seen, by being its first user: it reads the roles and names
// of what the page has, signs in (or up), tells two memories, watches what the page requests and where it shows them, and
// comes back as a new session to see whether they are still there.
//
// It takes what it saw and guesses nothing: a section that it could not find out is left empty, and told as a Gap. It knows
// nothing of stores, engines or configurations; and a browser only as a session.Inspector.
package explore

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"amnesia/pkg/memory"
	"amnesia/pkg/session"
)

// Config says what to look at.
type Config struct {
	URL string // the target's
	// Open gives a fresh surface, which must be a session.Inspector.
	Open func(ctx context.Context, u session.User) (session.Surface, error)
	Run  string // for the names of the probe's accounts
	// Patience bounds each step, and Answer the wait for an answer, which may be a model's; default 10s and 60s.
	Patience, Answer time.Duration
}

// Gap is a section of the script that could not be found out.
type Gap struct {
	Section string
	Why     string
}

// Found is what was found out.
type Found struct {
	Script   session.Script
	Accounts string // template of the names; empty: the usual
	Gaps     []Gap
	Answer   string            // selector of what the app answers; empty where no answer repeats what was told
	Notes    map[string]string // what is to be said of a section that was found
	Teller   *session.Teller
	User     session.User
	Told     []memory.Memory // and acknowledged, as far as can be seen; by User
	ToldAt   time.Time       // when the last of them was
}

// Gap says why a section is missing; empty: it is not.
func (f *Found) Gap(section string) string {
	for _, g := range f.Gaps {
		if g.Section == section {
			return g.Why
		}
	}
	return ""
}

const emailAccounts = "amnesia-{{.Run}}-{{.N}}@example.com"

// Explore plays the first user. Its error is of the rig, or that nothing answers; what it cannot find is a gap.
func Explore(ctx context.Context, cfg Config) (*Found, error) {
	if cfg.Patience <= 0 {
		cfg.Patience = 10 * time.Second
	}
	if cfg.Answer <= 0 {
		cfg.Answer = time.Minute
	}
	e := &explorer{cfg: cfg, found: &Found{Notes: map[string]string{}}}
	if err := e.accounts(""); err != nil {
		return nil, err
	}
	err := e.first(ctx)
	var g *gap
	if errors.As(err, &g) {
		e.miss(g.section, g.why)
		err = nil
	}
	if err != nil && (session.IsRig(err) || ctx.Err() != nil) {
		return nil, err
	}
	if err != nil {
		e.miss("tell", err.Error())
	}
	for _, section := range []string{"login", "tell", "recall"} {
		if e.empty(section) && e.found.Gap(section) == "" && !(section == "login" && e.open) {
			e.miss(section, "what comes before it was not found")
		}
	}
	return e.found, nil
}

func (e *explorer) empty(section string) bool {
	s := e.found.Script
	return len(map[string][]session.Step{"login": s.Login, "tell": s.Tell, "recall": s.Recall}[section]) == 0
}

// explorer is one exploration under way.
type explorer struct {
	cfg     Config
	found   *Found
	page    session.Inspector
	open    bool          // nobody has to log in
	form    *form         // how one logs in
	own     string        // the selector of the user's messages
	slowest time.Duration // that an answer took
}

// gap ends a part of the exploration.
type gap struct{ section, why string }

func (g *gap) Error() string { return g.section + ": " + g.why }

func (e *explorer) miss(section, why string) {
	e.found.Gaps = append(e.found.Gaps, Gap{section, why})
}

func (e *explorer) accounts(template string) error {
	t, err := session.NewTeller(session.Personas{Seed: 1, Run: e.cfg.Run, Accounts: template, Payloads: []memory.Payload{memory.PayloadShort}})
	if err != nil {
		return err
	}
	e.found.Accounts, e.found.Teller, e.found.User = template, t, t.User(0)
	return nil
}

func (e *explorer) surface(ctx context.Context) (func() error, error) {
	s, err := e.cfg.Open(ctx, e.found.User)
	if err != nil {
		return nil, err
	}
	page, ok := s.(session.Inspector)
	if !ok {
		return nil, errors.Join(errors.New("this driver cannot look at a page"), s.Close())
	}
	e.page = page
	return s.Close, nil
}

// first is the first session: it logs in, tells, and logs out; then a second one looks at what is left.
func (e *explorer) first(ctx context.Context) (err error) {
	shut, err := e.surface(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shut()) }()
	if err := e.page.Goto(ctx, e.cfg.URL); err != nil {
		return &gap{"login", fmt.Sprintf("the page at %s does not load: %v", e.cfg.URL, err)}
	}
	if err := e.enter(ctx); err != nil {
		return err
	}
	if err := e.tell(ctx); err != nil {
		return err
	}
	e.logout(ctx)
	return e.again(ctx)
}

// elements waits until the page's elements are as they should be, and gives them; ok is false where they did not become so
// in time.
func (e *explorer) elements(ctx context.Context, fits func([]session.Element) bool) (els []session.Element, ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Patience)
	defer cancel()
	const still = 300 * time.Millisecond // for which they must be so: a page is drawn bit by bit
	var since time.Time
	for {
		now, err := e.page.Elements(ctx)
		now = slices.DeleteFunc(now, func(el session.Element) bool { return template(el.Selector) })
		switch {
		case session.IsRig(err):
			return nil, false, err
		case err == nil:
			els = now
		}
		if err != nil || !fits(now) {
			since = time.Time{}
		} else if since.IsZero() {
			since = time.Now()
		} else if time.Since(since) >= still {
			return els, true, nil
		}
		if !sleep(ctx, 100*time.Millisecond) {
			return els, false, nil
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// template reports whether a script would take a selector for a template.
func template(selector string) bool { return strings.Contains(selector, "{{") }

// where gives the page's address as a script has it: relative to the target, without what is of this visit only.
func (e *explorer) where() string { return relative(e.cfg.URL, e.page.Address()) }

func relative(base, address string) string {
	b, err1 := url.Parse(base)
	u, err2 := url.Parse(address)
	if err1 != nil || err2 != nil || b.Host != u.Host || b.Scheme != u.Scheme {
		return address
	}
	at := u.EscapedPath()
	if at == "" {
		at = "/"
	}
	if strings.HasPrefix(u.Fragment, "/") || strings.HasPrefix(u.Fragment, "!") {
		at += "#" + u.EscapedFragment()
	}
	return at
}

// varies reports whether a segment of a path is of this visit only: a number, an id.
var varies = regexp.MustCompile(`^[0-9]+$|^[0-9a-fA-F-]{8,}$|^(.*[0-9].*){3,}$`)

func stable(address string) bool {
	for _, segment := range strings.Split(address, "/") {
		if varies.MatchString(segment) {
			return false
		}
	}
	return true
}

// pattern gives a glob of an address, whatever its query, with a star for what is of this visit only.
func pattern(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	segments := strings.Split(path.Clean("/"+u.Path), "/")
	for i, s := range segments {
		if varies.MatchString(s) {
			segments[i] = "*"
		}
	}
	return "**" + strings.Join(segments, "/")
}
