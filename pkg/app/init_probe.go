package app

import (
	"context"
	"errors"
	"fmt"
	"net/url"
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
	"amnesia/pkg/view/chroma"
	"amnesia/pkg/view/postgres"
	"amnesia/pkg/view/redis"
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
		d.Looks = append(d.Looks, discover.Look{Name: "page", Service: d.App})
	}
	return nil
}

// stores looks for what the first user told in every store.
func (i *initer) stores(ctx context.Context) {
	d := &i.draft
	deadline := time.Now()
	if i.probe != nil {
		deadline = i.probe.ToldAt.Add(arriveWithin)
	}
	for _, p := range d.Parts {
		if p.Kind == "" || p.Unfit != "" {
			continue
		}
		if i.probe == nil || len(i.probe.Told) == 0 {
			d.Blind = append(d.Blind, discover.Note{Service: p.Service, Text: "nothing could be told to the app, so nothing was looked for here: fill in a view"})
			continue
		}
		i.say("looking in %s for what was told", p.Service)
		looks, err := i.locate(ctx, p, deadline)
		switch {
		case err != nil:
			d.Blind = append(d.Blind, discover.Note{Service: p.Service, Text: "could not look into it (" + i.redact(err).Error() + "): fill in a view"})
		case len(looks) == 0:
			d.Blind = append(d.Blind, discover.Note{Service: p.Service, Text: "what was told was not found in it: fill in a view, if it keeps memories"})
		}
		for k, l := range looks {
			l.Name, l.Service = string(p.Kind), p.Service
			if n := i.named(l.Name); n > 0 {
				l.Settings = append([]discover.Setting{discover.Set("kind", l.Name)}, l.Settings...)
				l.Name = fmt.Sprintf("%s-%d", l.Name, n+1)
			}
			looks[k] = l
			d.Looks = append(d.Looks, l)
		}
	}
}

// named counts the views that are called so, with a number or without.
func (i *initer) named(name string) (n int) {
	for _, l := range i.draft.Looks {
		if l.Name == name || strings.HasPrefix(l.Name, name+"-") {
			n++
		}
	}
	return n
}

// locate waits until a store has what was told last, and says how it is read there.
func (i *initer) locate(ctx context.Context, p discover.Part, deadline time.Time) (looks []discover.Look, err error) {
	m := i.probe.Told[len(i.probe.Told)-1]
	ctx, cancel := context.WithTimeout(ctx, arriveWithin+viewWithin)
	defer cancel()
	for {
		switch p.Kind {
		case discover.Redis:
			looks, err = i.inRedis(ctx, p, m)
		case discover.Postgres:
			looks, err = i.inPostgres(ctx, p, m)
		case discover.Chroma:
			looks, err = inChroma(ctx, p, m)
		}
		if err != nil || len(looks) > 0 || time.Now().After(deadline) {
			return looks, err
		}
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (i *initer) inRedis(ctx context.Context, p discover.Part, m memory.Memory) (looks []discover.Look, err error) {
	address := url.URL{Scheme: "redis", Host: p.At}
	password, secret, err := i.engine.Variable(ctx, p.Container.ID, "REDIS_PASSWORD")
	if err != nil {
		return nil, err
	}
	if secret = secret && password != ""; secret {
		address.User = url.UserPassword("", password)
	}
	places, err := redis.Locate(ctx, address.String(), m.User, m.Token)
	if err != nil {
		return nil, err
	}
	for _, place := range places {
		at := address
		at.Path = fmt.Sprint("/", place.DB)
		l := discover.Look{Settings: []discover.Setting{discover.Set("url", at.String()), discover.Set("key", place.Key)}}
		if secret {
			name := i.variable("REDIS_URL", p.Service)
			l.Settings[0] = discover.Set("url_env", name)
			i.env[name] = at.String()
			i.export(name, fmt.Sprintf("redis://:%s@%s/%d", "%s", p.At, place.DB), p.Container.Name, "REDIS_PASSWORD", password)
		}
		if !place.Named() {
			if len(looks) > 0 {
				continue
			}
			l.Gap = fmt.Sprintf("what was told is in the %s %s, which does not name its user", place.Type, place.Key)
		} else if len(looks) > 0 && looks[0].Gap == "" {
			l.Note = "found here too"
		}
		l.Contract = []discover.Setting{{Key: "durable", Value: "true"}}
		if place.TTL > 0 {
			l.Contract = append(l.Contract, discover.Duration("ttl", place.TTL)) // to be made exact
		}
		looks = append(looks, l)
	}
	return looks, nil
}

// variable gives the name of a variable that the file has a secret from: one for each service.
func (i *initer) variable(name, service string) string {
	if _, taken := i.env[name]; !taken || strings.EqualFold(service, "redis") || strings.EqualFold(service, "postgres") {
		return name
	}
	return name + "_" + strings.ToUpper(strings.ReplaceAll(service, "-", "_"))
}

// export notes the command that sets a variable from a container's environment, without saying the secret. value holds %s
// where the command that prints the secret stands.
func (i *initer) export(name, value, container, from, secret string) {
	get := fmt.Sprintf(`docker inspect --format '{{range .Config.Env}}{{println .}}{{end}}' %s | sed -n 's/^%s=//p'`, shell([]string{container}), from)
	if url.QueryEscape(secret) != secret { // it would have to be written otherwise in an address
		get += ` | od -An -v -tx1 | tr -d '\n' | sed 's/ 0a$//; s/ /%/g'`
	}
	command := fmt.Sprintf("export %s=\"%s\"", name, strings.ReplaceAll(value, "%s", "$("+get+")"))
	i.exports[name] = command
}

func (i *initer) inPostgres(ctx context.Context, p discover.Part, m memory.Memory) (looks []discover.Look, err error) {
	get := func(names ...string) (name, value string, err error) {
		for _, name := range names {
			value, ok, err := i.engine.Variable(ctx, p.Container.ID, name)
			if err != nil || ok && value != "" {
				return name, value, err
			}
		}
		return "", "", nil
	}
	_, user, err1 := get("POSTGRES_USER", "POSTGRESQL_USERNAME")
	_, database, err2 := get("POSTGRES_DB", "POSTGRESQL_DATABASE")
	from, password, err3 := get("POSTGRES_PASSWORD", "POSTGRESQL_PASSWORD")
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	if user == "" {
		user = "postgres"
	}
	if database == "" {
		database = user
	}
	address := url.URL{Scheme: "postgres", User: url.User(user), Host: p.At, Path: "/" + database}
	set := discover.Set("dsn", address.String())
	dsn := address.String()
	if password != "" {
		address.User = url.UserPassword(user, password)
		dsn = address.String()
		name := i.variable("PG_DSN", p.Service)
		set = discover.Set("dsn_env", name)
		i.env[name] = dsn
		public := url.URL{Scheme: "postgres", Host: p.At, Path: "/" + database}
		i.export(name, strings.Replace(public.String(), "://", "://"+url.User(user).String()+":%s@", 1), p.Container.Name, from, password)
	}
	places, err := postgres.Locate(ctx, dsn, m.User, m.Text, m.Token)
	if err != nil || len(places) == 0 {
		return nil, err
	}
	best := places[0]
	l := discover.Look{Settings: []discover.Setting{set, discover.Set("query", best.Query)}}
	if best.Query == "" {
		l.Settings[1] = discover.Set("query", fmt.Sprintf("SELECT %s FROM %s WHERE … = $1", best.Column, best.Table))
		l.Gap = fmt.Sprintf("what was told is in %s.%s, and no way from there to the user's name was found", best.Table, best.Column)
	}
	var others []string
	for _, o := range places[1:] {
		others = append(others, o.Table+"."+o.Column)
	}
	if len(others) > 0 {
		l.Note = "what was told is in " + strings.Join(others[:min(len(others), 5)], ", ") + " too"
	}
	return []discover.Look{l}, nil
}

func inChroma(ctx context.Context, p discover.Part, m memory.Memory) (looks []discover.Look, err error) {
	address := "http://" + p.At
	places, err := chroma.Locate(ctx, address, nil, m.User, m.Text, m.Token)
	for _, place := range places {
		l := discover.Look{Settings: []discover.Setting{discover.Set("url", address), discover.Set("collection", place.Collection),
			{Key: "match", Value: "{user: " + discover.Scalar(place.User) + "}"}}}
		if place.User == "" {
			l.Gap = fmt.Sprintf("what was told is in the collection %s, and no field of its metadata names the user", place.Collection)
		}
		looks = append(looks, l)
	}
	return looks, err
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
