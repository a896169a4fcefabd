package app

import (
	"context"
	"fmt"
	"net/http"

	"amnesia/pkg/config"
	"amnesia/pkg/memory"
	"amnesia/pkg/session"
	"amnesia/pkg/session/browser"
	"amnesia/pkg/session/web"
	"amnesia/pkg/soak"
	"amnesia/pkg/view"
	"amnesia/pkg/view/answer"
	"amnesia/pkg/view/chroma"
	viewhttp "amnesia/pkg/view/http"
	"amnesia/pkg/view/page"
	"amnesia/pkg/view/postgres"
	"amnesia/pkg/view/redis"
	"amnesia/pkg/view/sqlite"
)

// openDriver opens the hands of the users.
func (a *App) openDriver(ctx context.Context) (session.Driver, error) {
	cfg := a.cfg
	if cfg.Sessions.Driver == "http" {
		return web.New(web.Config{BaseURL: cfg.Target.URL, Clock: a.clock, Evidence: cfg.Evidence.Dir})
	}
	found, err := a.findBrowser()
	if err != nil {
		return nil, err
	}
	b := cfg.Sessions.Browser
	return browser.New(ctx, browser.Config{BaseURL: cfg.Target.URL, DriverDir: found.DriverDir, ExecutablePath: found.ExecutablePath, Connect: b.Connect,
		Headless: b.Headless, MaxAge: b.MaxAge, MaxMemory: int64(b.MaxMemory), Args: b.Args, Clock: a.clock, EvidenceDir: cfg.Evidence.Dir, Trace: b.Trace, Logger: a.log})
}

// findBrowser says where the driver is, and the browser that is to be started, if any is.
func (a *App) findBrowser() (browser.Installation, error) {
	b := a.cfg.Sessions.Browser
	return browser.Find(browser.InstallOptions{Dir: a.opts.BrowserDir, ExecutablePath: b.Executable, Window: !b.Headless, Elsewhere: len(b.Connect) > 0})
}

// openPlayersAndViews makes the players: one for the traffic, whose points can trigger a fault, and one that only reads.
func (a *App) openPlayersAndViews(driver session.Driver, accounts *accounts) error {
	script := &a.cfg.Sessions.Script
	player, err := session.NewPlayer(driver, script, session.Options{Clock: a.clock, Watch: a.loop.Watch, CountsFrom: a.cfg.Sessions.CountsFrom, StepTimeout: a.opts.StepTimeout})
	if err != nil {
		return fmt.Errorf("sessions.script: %w", err)
	}
	looking := driver
	if b, ok := driver.(*browser.Driver); ok {
		looking = b.Untraced()
	}
	reader, err := session.NewPlayer(looking, script, session.Options{Clock: a.clock, CountsFrom: a.cfg.Sessions.CountsFrom, StepTimeout: a.opts.StepTimeout})
	if err != nil {
		return fmt.Errorf("sessions.script: %w", err)
	}
	contracts := a.cfg.Contracts()
	for i, v := range a.cfg.Views {
		opened, err := a.openView(v, reader, accounts)
		if err != nil {
			return fmt.Errorf("views.%s: %w", v.Name, err)
		}
		a.onClose(opened.Close)
		a.loop.Looks = append(a.loop.Looks, soak.Look{View: opened, Contract: contracts[i], Last: v.Kind == "answer", Timeout: 2*contracts[i].Settle + a.opts.LookTimeout})
	}
	a.loop.Player = player
	return nil
}

// opener lets the user views read through sessions.
type opener[R any] struct{ player *session.Player }

func (o opener[R]) Open(ctx context.Context, u session.User) (R, error) {
	s, err := o.player.Open(ctx, u)
	if err != nil {
		var none R
		return none, err
	}
	return any(s).(R), nil
}

func (a *App) openView(v config.View, reader *session.Player, accounts *accounts) (view.View, error) {
	parallel := 8
	if a.cfg.Sessions.Driver == "browser" {
		parallel = 4 * max(1, len(a.cfg.Sessions.Browser.Connect))
	}
	switch v.Kind {
	case "page":
		var missed func(user string, ids []memory.ID, take func(name string) []string)
		if a.freezer != nil { // else nothing is kept of what is seen
			missed = a.freezer.Missed
		}
		return page.New(page.Config{Name: v.Name, Opener: opener[page.Reader]{reader}, Account: accounts.named, Match: v.Page.Match,
			Parallel: parallel, Clock: a.clock, Missed: missed}), nil
	case "answer":
		return answer.New(answer.Config{Name: v.Name, Opener: opener[answer.Asker]{reader}, Account: accounts.named,
			Attempts: v.Answer.Attempts, Parallel: parallel, Clock: a.clock}), nil
	case "sqlite":
		return sqlite.New(sqlite.Config{Name: v.Name, Path: v.SQLite.Path, Query: v.SQLite.Query, Match: v.SQLite.Match, Clock: a.clock}), nil
	case "http":
		h := http.Header{}
		for k, s := range v.HTTP.Headers.Reveal() {
			h.Set(k, s)
		}
		return viewhttp.New(viewhttp.Config{Name: v.Name, URL: v.HTTP.URL, Items: v.HTTP.Items, Text: v.HTTP.Text, Owner: v.HTTP.Owner,
			ID: v.HTTP.ID, Next: v.HTTP.Next, Headers: h, Match: v.HTTP.Match, Clock: a.clock})
	case "chroma", "chroma_query":
		return chroma.New(chroma.Config{Name: v.Name, URL: v.Chroma.URL, Tenant: v.Chroma.Tenant, Database: v.Chroma.Database,
			Collection: v.Chroma.Collection, User: v.Chroma.Match.User, Headers: v.Chroma.Headers.Reveal(), Match: v.Chroma.Match.Text,
			Query: v.Kind == "chroma_query", Clock: a.clock})
	case "redis":
		return redis.New(redis.Config{Name: v.Name, URL: v.Redis.Address.Reveal(), Key: v.Redis.Key, Match: v.Redis.Match, Clock: a.clock})
	case "postgres":
		return postgres.New(postgres.Config{Name: v.Name, DSN: v.Postgres.Address.Reveal(), Query: v.Postgres.Query, Match: v.Postgres.Match, Clock: a.clock})
	}
	return nil, fmt.Errorf("the kind %q has no adapter", v.Kind) // the loader refuses it first
}
