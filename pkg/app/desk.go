package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"amnesia/chaos"
	runbook "amnesia/deploy/prometheus"
	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
	"amnesia/pkg/oracle"
	"amnesia/pkg/report"
	"amnesia/pkg/web"
)

// deskTimeout bounds what is asked at the desk: the ledger's disk.
const deskTimeout = 10 * time.Second

// desk is where people ask the running daemon for something: the web.Daemon.
type desk struct {
	a     *App
	began memory.Instant

	mu sync.Mutex
	deskFold
	asked *web.Ask
}

// deskFold is what of it follows from facts.
type deskFold struct {
	cycle fact.Cycle
	pause fact.Pause
}

// lend lends what the facts have made: see ledger.Fold.
func (d *desk) lend(fn func(state any) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return fn(&d.deskFold)
}

// tap follows the facts, those of earlier daemons first.
func (d *desk) tap(entries []fact.Entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range entries {
		switch f := e.Fact.(type) {
		case fact.Cycle:
			d.cycle = f
		case fact.Pause:
			d.pause = f
		}
	}
}

// Status says what the daemon is doing.
func (d *desk) Status(context.Context) (web.Status, error) {
	a := d.a
	var l web.Live
	d.live(&l)
	st := web.Status{Version: Version(a.opts.Version), Run: a.run, Target: a.cfg.Target.URL, Armed: l.Armed, Held: l.Held, Next: l.Next, Cycle: l.Cycle, Asked: l.Asked}
	now := a.clock.Now()
	var unverified []memory.ID
	a.Docket.Read(func(b *oracle.Book) {
		st.Summary = report.Summarize(b, now)
		for id, v := range b.All(now) {
			if v.Kind == memory.Unverified {
				unverified = append(unverified, id)
			}
		}
	})
	if c := st.Cycle; c != nil && c.Phase != fact.PhaseClosed {
		st.ToRead = a.board.reread(unverified)
	}
	st.Summary.Target, st.Summary.Seed, st.Summary.Ledger = a.cfg.Target.URL, a.opts.Seed, a.cfg.Ledger.Path
	st.Summary.DurationSeconds = now.Sub(d.began).Seconds()
	return st, nil
}

// live fills in where the daemon is.
func (d *desk) live(l *web.Live) {
	a := d.a
	l.Armed, l.Next = a.cfg.Armed, a.guard.Next()
	for _, r := range a.paused() {
		l.Held = append(l.Held, web.Held{Reason: r, Why: d.why(r)})
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	l.Asked = d.asked
	if c := d.cycle; c.Run == a.run {
		l.Cycle = &web.Cycle{N: c.N, Control: c.Control, Phase: c.Phase, Since: c.At.Time().UTC()}
	}
}

// why says in words why faults are held back.
func (d *desk) why(r chaos.Reason) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch r {
	case chaos.ReasonPaused:
		why := "by a person"
		if d.pause.Reason != "" {
			why = d.pause.Reason
		}
		return fmt.Sprintf("%s, since %s — fix: amnesia resume", why, d.pause.At.Time().UTC().Format(time.RFC3339))
	case chaos.ReasonHalted:
		return "the target did not recover — fix: see to it, then amnesia resume"
	}
	if err := d.a.books.stuck(); err != nil {
		return err.Error()
	}
	return string(r)
}

// Pause holds back every fault until Resume, whatever becomes of the daemon.
func (d *desk) Pause(ctx context.Context, reason string) error {
	d.a.guard.Pause() // first: from here on nothing fires, whatever becomes of the record
	if err := d.append(ctx, fact.Pause{On: true, Reason: reason, At: d.a.clock.Now()}); err != nil {
		return fmt.Errorf("faults are paused until the daemon ends, and not longer: %w", err)
	}
	d.a.log.Info("faults are paused", zap.String("reason", reason))
	return nil
}

// Resume ends a pause and a halt. It is on record before anything may fire.
func (d *desk) Resume(ctx context.Context) error {
	if err := d.append(ctx, fact.Pause{At: d.a.clock.Now()}); err != nil {
		return fmt.Errorf("nothing has changed: %w", err)
	}
	d.a.guard.Resume()
	d.a.log.Info("faults may be injected again")
	return nil
}

// Inject has the next cycle take its fault from among the declared ones that match; the first cycle calibrates, and
// leaves it to the second. That it is refused here is on record like any refusal.
func (d *desk) Inject(ctx context.Context, ask web.Ask) error {
	inj, err := d.take(ask)
	if err == nil {
		d.a.board.changed()
		return nil
	}
	inj.ID = d.a.Ledger.NextInjection()
	now := d.a.clock.Now()
	return errors.Join(err, d.append(ctx, fact.Step{Injection: inj.ID, Name: fact.StepPlanned, Plan: &inj, At: now},
		fact.Step{Injection: inj.ID, Name: fact.StepRefused, Detail: err.Error(), At: now}))
}

// take takes what is asked for, for the next cycle; the error is a *chaos.Refusal of the injection.
func (d *desk) take(ask web.Ask) (inj chaos.Injection, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	inj = chaos.Injection{Kind: ask.Kind, Service: ask.Service, Cycle: d.cycle.N}
	refuse := func(reason chaos.Reason, why string) error {
		return &chaos.Refusal{Kind: ask.Kind, Service: ask.Service, Reason: reason, Why: why}
	}
	from := d.a.planConfig()
	switch {
	case len(matching(from.Rules, ask)) == 0:
		var declared []string
		for _, r := range from.Rules {
			declared = append(declared, strings.TrimSpace(r.Kind+" "+r.Service))
		}
		slices.Sort(declared)
		what := "it is not among the faults that the configuration declares"
		switch {
		case ask.Kind == "":
			what = "no kind of fault is named"
		case ask.Service == "" && ask.Kind != chaos.CrashAll:
			what = "no service is named"
		}
		err = refuse(chaos.ReasonUnavailable, fmt.Sprintf("%s — fix: ask for one of %q, which are declared, or add it to faults", what, slices.Compact(declared)))
	case d.a.opts.Replay != nil:
		err = refuse(chaos.ReasonUnavailable, "a replay plays its own plan")
	case d.asked != nil:
		err = refuse(chaos.ReasonBusy, "another is asked for already, and waits for its cycle")
	default:
		if r, ok := errors.AsType[*chaos.Refusal](d.a.guard.Admit(inj)); ok && (r.Reason == chaos.ReasonPaused || r.Reason == chaos.ReasonHalted) {
			err = r // the others pass, and are asked again when it fires
		}
	}
	if err == nil {
		d.asked = &ask
	}
	return inj, err
}

func matching(rules []chaos.Rule, ask web.Ask) (out []chaos.Rule) {
	for _, r := range rules {
		if r.Kind == ask.Kind && r.Service == ask.Service {
			out = append(out, r)
		}
	}
	return out
}

// plan lays what is asked for over what is drawn.
func (d *desk) plan(from chaos.PlanConfig, drawn func(int) (chaos.Injection, bool)) func(int) (chaos.Injection, bool) {
	calibrated := false
	return func(cycle int) (chaos.Injection, bool) {
		ask := d.give(calibrated)
		calibrated = true
		if ask == nil {
			return drawn(cycle)
		}
		from := from
		from.Rules = matching(from.Rules, *ask)
		for n := cycle; ; n++ { // that one may be a control
			if inj, fault := chaos.Plan(d.a.opts.Seed, from, n, d.a.prior()); fault {
				return inj, false
			}
		}
	}
}

// give gives what was asked for away, if it is time.
func (d *desk) give(now bool) *web.Ask {
	if !now {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	ask := d.asked
	d.asked = nil
	return ask
}

func (d *desk) append(ctx context.Context, facts ...fact.Fact) error {
	// Who asked may be gone before it is durable.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deskTimeout)
	defer cancel()
	return d.a.Ledger.Append(ctx, facts...)
}

// listen opens the addresses of the file, and has them served in Run, beside the keeping of the evidence.
func (a *App) listen(ctx context.Context, g prometheus.Gatherer) error {
	token, err := a.token()
	if err != nil {
		return err
	}
	shown := web.Config{Gatherer: g, Logger: a.log, Ready: a.ready, Runbook: runbook.Runbook}
	all := shown
	all.Daemon, all.Books, all.Token, all.File = a.desk, a.board, token, a.cfg.Web.ConfigFile
	var serves []func(context.Context) error
	open := func(cfg web.Config, address string) (string, error) {
		srv := web.New(cfg)
		ln, err := srv.Listen(ctx, address)
		if err != nil {
			return "", err
		}
		a.onClose(func() error { ln.Close(); return nil })
		serves = append(serves, func(ctx context.Context) error { return srv.Serve(ctx, ln) })
		return ln.Addr().String(), nil
	}
	if a.Web, err = open(all, a.cfg.Web.Listen); err != nil {
		return err
	}
	if address := a.cfg.Web.Metrics; address != "" {
		if _, err := open(shown, address); err != nil {
			return fmt.Errorf("web.metrics: %w", err)
		}
	}
	a.serve = func(ctx context.Context) error {
		g, ctx := errgroup.WithContext(ctx)
		for _, serve := range serves {
			g.Go(func() error { return serve(ctx) })
		}
		g.Go(func() error { a.keeper.Run(ctx); return nil })
		return g.Wait()
	}
	return nil
}
