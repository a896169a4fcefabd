package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"amnesia/pkg/clock"
	"amnesia/pkg/config"
	"amnesia/pkg/discover"
	"amnesia/pkg/memory"
	"amnesia/pkg/session"
	"amnesia/pkg/session/browser"
	"amnesia/pkg/session/explore"
	"amnesia/pkg/view"
)

const (
	// exploreWithin bounds the first user, whose answers may be a model's, and verifyWithin the second.
	exploreWithin = 5 * time.Minute
	verifyWithin  = 5 * time.Minute
	// arriveWithin is how long what was told may take to come to a store.
	arriveWithin = 10 * time.Second
	// verifyMemories are told to one account: those of two cycles, in every shape.
	verifyMemories = 10
)

// explore has the first user find out how the app is used.
func (i *initer) explore(parent context.Context) error {
	d := &i.draft
	ctx, cancel := context.WithTimeout(parent, exploreWithin)
	defer cancel()
	if at := slices.IndexFunc(d.Parts, func(p discover.Part) bool { return p.Service == d.App }); i.o.URL == "" && at >= 0 && !d.Parts[at].Answer.HTML {
		why := d.URL + " answers with no page: say where people go with --url, or write the script with request steps and driver: http"
		d.Gaps["login"], d.Gaps["tell"], d.Gaps["recall"] = why, "as login", "as login"
		return nil
	}
	found, err := browser.Find(browser.InstallOptions{Dir: i.o.BrowserDir})
	if err != nil {
		return err
	}
	i.say("being the first user of %s, in a browser", d.URL)
	b, err := browser.New(ctx, browser.Config{BaseURL: d.URL, DriverDir: found.DriverDir, ExecutablePath: found.ExecutablePath, Headless: true, Clock: clock.System()})
	if err != nil {
		return err
	}
	i.probe, err = explore.Explore(ctx, explore.Config{URL: d.URL, Open: b.Open, Run: newRun()})
	late := err != nil && ctx.Err() != nil && parent.Err() == nil
	if late {
		d.Gaps["tell"], err = fmt.Sprintf("it took longer than %s", exploreWithin), nil
	}
	if err = errors.Join(err, b.Close()); err != nil || late {
		return err
	}
	d.Script, d.Accounts, d.Answer, d.Notes = i.probe.Script, i.probe.Accounts, i.probe.Answer, i.probe.Notes
	for _, g := range i.probe.Gaps {
		d.Gaps[g.Section] = g.Why
	}
	if len(d.Script.Recall) > 0 {
		d.Looks = append(d.Looks, i.page())
	}
	return nil
}

// verify plays a second user by the script as it will be run, and holds every view to what was told: a view that does not
// find it is none.
func (i *initer) verify(parent context.Context) (err error) {
	if len(i.draft.Gaps) > 0 || !i.viewed() {
		return nil
	}
	ctx, cancel := context.WithTimeout(parent, verifyWithin)
	defer cancel()
	i.say("playing the script with a second user, and looking for what is told in every view")
	cfg, err := i.parse(i.draft.YAML())
	if err != nil {
		return fmt.Errorf("what was written does not load, which is a bug of amnesia init: %w", err)
	}
	evidence, err := os.MkdirTemp("", "amnesia-init-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(evidence)) }()
	trial := i.tools(cfg, evidence)
	driver, err := trial.openDriver(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, driver.Close()) }()
	teller, err := session.NewTeller(session.Personas{Seed: 1, Run: trial.run, Accounts: cfg.Sessions.Accounts})
	if err != nil {
		return err
	}
	v := &verification{initer: i, cfg: trial.cfg, app: trial, accounts: newAccounts(teller, cfg.Sessions), teller: teller}
	if v.player, err = session.NewPlayer(driver, &cfg.Sessions.Script, session.Options{Clock: trial.clock}); err != nil {
		return err
	}
	if err = v.play(ctx); err != nil && ctx.Err() != nil && parent.Err() == nil {
		i.draft.Gaps["tell"], err = fmt.Sprintf("when it was played again, it took longer than %s", verifyWithin), nil
	}
	return err
}

// verification is the second user at work.
type verification struct {
	*initer
	cfg      *config.Config
	app      *App
	accounts *accounts
	teller   *session.Teller
	player   *session.Player
	told     []memory.Memory
	began    time.Time // the first was told
	last     time.Time // so was the last
}

func (v *verification) play(ctx context.Context) (err error) {
	user := v.accounts.user(0)
	s, err := v.player.Open(ctx, user)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	gap := func(section string, err error) error {
		if session.IsRig(err) || ctx.Err() != nil {
			return err
		}
		v.draft.Gaps[section] = "when it was played again, it failed: " + err.Error()
		return nil
	}
	if err := s.Signup(ctx); err != nil {
		return gap("login", err)
	}
	if err := s.Login(ctx); err != nil {
		return gap("login", err)
	}
	for k := range verifyMemories {
		if err := v.tell(ctx, s, user, k); err != nil {
			return gap("tell", err)
		}
	}
	v.draft.PerAccount = verifyMemories
	if err := v.looks(ctx); err != nil {
		return err
	}
	return v.lives(ctx, s, user)
}

// tell tells one memory; that it is not seen to be acknowledged is an error.
func (v *verification) tell(ctx context.Context, s *session.Session, user session.User, k int) error {
	m := v.teller.Memory(user, k)
	m.ID = memory.ID(k + 1)
	now := time.Now()
	receipt, err := s.Tell(ctx, m)
	if err == nil && receipt.Outcome != memory.Acknowledged {
		err = fmt.Errorf("%s: %s %s", receipt.Outcome, receipt.Cause, receipt.Detail)
	}
	if err != nil {
		return fmt.Errorf("memory %d: %w", k+1, err)
	}
	if len(v.told) == 0 {
		v.began = now
	}
	v.told, v.last = append(v.told, m), now
	return nil
}

// looks reads every view: with the whole text if that is what it holds, else by the token.
func (v *verification) looks(ctx context.Context) error {
	for k := range v.draft.Looks {
		l := &v.draft.Looks[k]
		if l.Gap != "" {
			continue
		}
		why := ""
		for _, match := range []view.Match{view.MatchExact, view.MatchToken} {
			var err error
			if why, err = v.holds(ctx, l.Name, match); err != nil {
				return err
			}
			if why == "" && match == view.MatchToken {
				byToken(l)
			}
			if why == "" {
				break
			}
		}
		if why != "" {
			l.Gap = "as it stands here, it did not find what a second user had told: " + why
		}
	}
	return nil
}

// byToken has a view look for the token alone.
func byToken(l *discover.Look) {
	for k, s := range l.Settings {
		if s.Key == "match" { // Chroma's names the user too
			l.Settings[k].Value = strings.TrimSuffix(s.Value, "}") + ", text: token}"
			return
		}
	}
	l.Settings = append(l.Settings, discover.Set("match", "token"))
}

// open opens a view of the draft.
func (v *verification) open(name string, match view.Match) (view.View, error) {
	at := slices.IndexFunc(v.cfg.Views, func(c config.View) bool { return c.Name == name })
	if at < 0 {
		return nil, fmt.Errorf("no view %s", name)
	}
	c := v.cfg.Views[at]
	c.Page.Match, c.Redis.Match, c.Postgres.Match, c.Chroma.Match.Text = match, match, match, match
	return v.app.openView(c, v.player, v.accounts)
}

// holds says why a view does not show everything that was told; empty: it does.
func (v *verification) holds(ctx context.Context, name string, match view.Match) (why string, err error) {
	opened, err := v.open(name, match)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	for deadline := time.Now().Add(arriveWithin); ; {
		seen, err := opened.Find(ctx, v.told)
		if err != nil {
			return err.Error(), ctx.Err()
		}
		why = ""
		present, altered := 0, 0
		for _, o := range seen {
			switch o.State {
			case memory.Present:
				present++
			case memory.Altered:
				altered++
			}
			if o.State != memory.Present && why == "" {
				why = strings.TrimSpace(fmt.Sprintf("%s %s", o.State, o.Detail))
			}
		}
		if present == len(v.told) {
			return "", nil
		}
		why = fmt.Sprintf("%d of %d; the first that was not: %s", present, len(v.told), why)
		if present+altered == len(v.told) || time.Now().After(deadline) {
			return why, nil
		}
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
			return why, ctx.Err()
		}
	}
}
