package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"amnesia/chaos"
	"amnesia/pkg/clock"
	"amnesia/pkg/config"
	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
	"amnesia/pkg/report"
)

// ReplayOptions are the flags of `amnesia replay`. Without a seed it is that of the recorded run.
type ReplayOptions struct {
	SoakOptions
	From   string // the recorded ledger
	Cycle  int    // of that ledger
	Times  int
	Ledger string // of the replays; empty: a new file beside From
}

// Replay plays the recorded plan of one cycle again, several times, after a first cycle that calibrates. It prints how
// often it showed, and gives the exit code of what was found.
func Replay(ctx context.Context, c Console, o ReplayOptions) (int, error) {
	if err := o.check(); err != nil {
		return ended(0, Usage(err))
	}
	known, err := o.CI.known()
	if err != nil {
		return ended(0, Usage(err))
	}
	into, err := o.ledger()
	if err != nil {
		return ended(0, Usage(err))
	}
	if err := o.CI.check(o.Config, o.From, into); err != nil {
		return ended(0, err)
	}
	rec, err := recorded(ctx, o.From, o.Cycle)
	if err != nil {
		return ended(0, err)
	}
	cfg, err := o.load()
	if err != nil {
		return ended(0, errors.Join(err, o.CI.failed("amnesia", err)))
	}
	cfg.Ledger.Path = into
	if err := fits(rec.plan, cfg); err != nil {
		return ended(0, Usage(fmt.Errorf("cycle %d of %s cannot be played again on this configuration: %w", o.Cycle, o.From, err)))
	}
	seed := rec.run.Seed
	if o.Seed != nil {
		seed = *o.Seed
	}
	p := c.progress(fmt.Sprintf("cycle %d of %s", o.Cycle, o.From), 1+o.Times)
	log := c.logger(o.LogFormat, c.Progress != nil)
	defer log.Sync()
	s, err := soakOnce(ctx, cfg, Options{Version: o.Version, Config: o.Config, Seed: seed, Cycles: 1 + o.Times, BrowserDir: o.BrowserDir, Log: log, Tap: p.tap,
		Replay: &rec.plan, Fired: rec.fired}, cfg.Target.URL)
	p.close()
	if foundNothing(s, err) {
		if s.Cycles.All() == 0 {
			err = errors.Join(err, removeLedger(cfg.Ledger.Path)) // it is new, and says nothing
		}
		return ended(0, errors.Join(err, o.CI.failed(cfg.Target.URL, err)))
	}
	s.Mute(known, clock.System().Now())
	r, rerr := replayed(context.WithoutCancel(ctx), s, o)
	werr := o.CI.write(ctx, s, known, o.MinConclusive, err)
	if err = errors.Join(err, rerr, werr); rerr == nil {
		r.Plan = planned(rec.plan)
		err = errors.Join(err, c.replay(o.Form, r))
	}
	return ended(s.ExitCode(o.MinConclusive), err)
}

func (c Console) replay(f Form, r Replayed) error {
	if f == JSON {
		return writeJSON(c.Out, r)
	}
	return r.Write(c.Out)
}

func (o ReplayOptions) check() error {
	switch {
	case o.Cycle < 1:
		return fmt.Errorf("--cycle %d is no cycle — fix: the number of a cycle with a fault, from 'amnesia why' or the logs", o.Cycle)
	case o.Times < 1:
		return fmt.Errorf("--times %d plays nothing — fix: 1 or more; 10 say how often, to about a third", o.Times)
	}
	return o.SoakOptions.check()
}

// ledger gives the path of a file that is not there yet.
func (o ReplayOptions) ledger() (string, error) {
	free := func(path string) bool {
		_, err := os.Lstat(path)
		return errors.Is(err, fs.ErrNotExist)
	}
	if o.Ledger != "" {
		if !free(o.Ledger) {
			return "", fmt.Errorf("--ledger %s is there already, and replays have a ledger of their own — fix: give a new file", o.Ledger)
		}
		return o.Ledger, nil
	}
	ext := filepath.Ext(o.From)
	stem := fmt.Sprintf("%s-replay-%d", strings.TrimSuffix(o.From, ext), o.Cycle)
	path := stem + ext
	for n := 2; !free(path); n++ {
		path = fmt.Sprintf("%s-%d%s", stem, n, ext)
	}
	return path, nil
}

// removeLedger removes a ledger that nobody needs.
func removeLedger(path string) error {
	var errs []error
	for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
		if err := os.Remove(path + suffix); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// recording is what a ledger says of a cycle that is to be played again.
type recording struct {
	run   fact.Run
	plan  fact.Injection
	fired []memory.Instant // the faults of the ledger's last hour
}

// recorded finds the plan of a cycle. What ends in a fix is refused as a mistake of usage.
func recorded(ctx context.Context, path string, n int) (rec recording, err error) {
	l, err := openRecorded(ctx, path)
	if err != nil {
		return rec, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	var run fact.Run
	var struck []memory.ID // cycles, as numbers that can be written as ranges
	there, control := false, false
	var limited chaos.GuardState
	for e, err := range l.Facts(ctx, 0) {
		if err != nil {
			return rec, err
		}
		switch f := e.Fact.(type) {
		case fact.Run:
			run = f
		case fact.Cycle:
			if f.N == n {
				if !there { // a later run may have seen it through
					rec.run = run
				}
				there, control = true, control || f.Control
			}
		case fact.Step:
			limited.Apply(f)
			if f.Name != fact.StepPlanned || f.Plan == nil {
				continue
			}
			struck = append(struck, memory.ID(f.Plan.Cycle))
			if f.Plan.Cycle == n {
				rec.plan = *f.Plan
			}
		}
	}
	rec.fired = limited.Fired
	// Who it hurt then, and that it was only announced, is of no concern now.
	rec.plan.ID, rec.plan.Cycle, rec.plan.Undo, rec.plan.DryRun = 0, 0, nil, false
	fix := "choose a cycle with a fault: " + strings.ReplaceAll(memory.SetOf(struck...).String(), ",", ", ")
	if len(struck) == 0 {
		fix = "give a ledger with faults; this one has none"
	}
	switch {
	case !there:
		return rec, Usage(fmt.Errorf("%s has no cycle %d — fix: %s", path, n, fix))
	case control:
		return rec, Usage(fmt.Errorf("cycle %d of %s is a control, without a fault to play again — fix: %s", n, path, fix))
	case rec.plan.Kind == "":
		return rec, Usage(fmt.Errorf("no fault was planned for cycle %d of %s — fix: %s", n, path, fix))
	}
	return rec, nil
}

// fits says why a recorded plan cannot be played on the target of a configuration. What its faults do not allow is not
// done, whatever a ledger says.
func fits(p fact.Injection, cfg *config.Config) error {
	for _, name := range chaos.Hit(p) {
		if !slices.ContainsFunc(cfg.Target.Services, func(s config.Service) bool { return s.Name == name }) {
			return fmt.Errorf("its %s hits the service %s, which is not there — fix: add it to target.services, or give the configuration of that run", p.Kind, name)
		}
	}
	if !slices.ContainsFunc(cfg.Faults, func(f config.Fault) bool {
		return f.Kind == p.Kind && f.Service == p.Service && f.Volume == p.Volume && f.Supervised == p.Supervised
	}) {
		rule := "{kind: " + p.Kind
		for _, kv := range [][2]string{{"service", p.Service}, {"volume", p.Volume}, {"supervised", map[bool]string{true: "true"}[p.Supervised]}} {
			if kv[1] != "" {
				rule += ", " + kv[0] + ": " + kv[1]
			}
		}
		return fmt.Errorf("its faults do not allow a %s — fix: add %s} to faults", describe(p), rule)
	}
	if most := points(cfg.Sessions)[p.After]; p.After != "" && p.Nth > most {
		return fmt.Errorf("it strikes after point %d of %q, and a cycle has %d — fix: raise sessions.users or sessions.memories", p.Nth, p.After, most)
	}
	if !cfg.Armed {
		return errors.New("it is not armed, and a fault that is only announced shows nothing — fix: give --armed, or set armed: true")
	}
	return nil
}

// describe names a fault and what it hits.
func describe(p fact.Injection) string {
	switch {
	case p.Kind == chaos.CrashAll:
		return "crash of all services"
	case p.Volume != "":
		return fmt.Sprintf("%s of %s in %s", p.Kind, p.Volume, p.Service)
	}
	return p.Kind + " of " + p.Service
}

// Replayed is the result of `amnesia replay`. Its field names are a contract: they only grow.
type Replayed struct {
	From struct {
		Ledger string `json:"ledger"`
		Cycle  int    `json:"cycle"`
	} `json:"from"`
	Plan   Planned `json:"plan"`
	Times  int     `json:"times"`  // asked for
	Played int     `json:"played"` // of them; fewer when it was cut short
	// Lost, Defects and Unrecovered say in how many of the conclusive replays a memory was lost silently or with a word, one
	// had a defect, and the target did not come back.
	Lost        Share `json:"lost"`
	Defects     Share `json:"defects"`
	Unrecovered Share `json:"unrecovered"`
	// Showed says it by fault and verdict or defect, with the memories.
	Showed  []Showed       `json:"showed"`
	Cycles  []ReplayCycle  `json:"cycles"`
	Summary report.Summary `json:"summary"` // of the whole ledger, the first cycle with it
}

// Planned is what was played again.
type Planned struct {
	Kind      string   `json:"kind"`
	Service   string   `json:"service"` // empty for a crash of all
	Services  []string `json:"services,omitempty"`
	Volume    string   `json:"volume,omitempty"`
	Instances string   `json:"instances"`
	After     string   `json:"after"` // the point; empty: by time
	Nth       int      `json:"nth"`
	DelayMS   float64  `json:"delay_ms"`
	HoldMS    float64  `json:"hold_ms"`
	GraceMS   float64  `json:"grace_ms"`

	words string
}

// Share is in how many replays something showed, with the 95 % interval of how often it would; the interval is all there
// is, 0 to 1, when none was conclusive.
type Share struct {
	Times int     `json:"times"`
	Of    int     `json:"of"`
	Share float64 `json:"share"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// Showed is one thing that showed, by what it was put down to.
type Showed struct {
	Fault   string `json:"fault"` // a kind, several, foreign or none; empty for a defect, which has no cause
	Service string `json:"service"`
	What    string `json:"what"`  // a verdict or a defect
	Class   string `json:"class"` // of a loss
	Share
	Memories []string `json:"memories"`
}

// ReplayCycle is one replay.
type ReplayCycle struct {
	Cycle   int               `json:"cycle"` // in the replays' ledger
	Outcome fact.CycleOutcome `json:"outcome"`
	Reason  string            `json:"reason"`
}

func planned(p fact.Injection) Planned {
	return Planned{Kind: p.Kind, Service: p.Service, Services: p.Services, Volume: p.Volume, Instances: p.Instances, After: p.After, Nth: p.Nth,
		DelayMS: milliseconds(p.Delay), HoldMS: milliseconds(p.Hold), GraceMS: milliseconds(p.Grace), words: describe(p) + moment(p)}
}

// replayed counts in the ledger of the replays how often it showed.
func replayed(ctx context.Context, s report.Summary, o ReplayOptions) (r Replayed, err error) {
	r = Replayed{Times: o.Times, Summary: s, Showed: []Showed{}, Cycles: []ReplayCycle{}}
	r.From.Ledger, r.From.Cycle = o.From, o.Cycle
	l, err := openRecorded(ctx, s.Ledger)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	t := newTally()
	for e, err := range l.Facts(ctx, 0) {
		if err != nil {
			return r, err
		}
		t.take(e)
	}
	t.count(&r)
	return r, nil
}

// sortShowed puts what showed most often first.
func sortShowed(all []Showed) {
	slices.SortFunc(all, func(a, b Showed) int {
		return cmp.Or(-cmp.Compare(a.Times, b.Times), cmp.Compare(a.What, b.What), cmp.Compare(a.Class, b.Class), cmp.Compare(a.Fault, b.Fault),
			cmp.Compare(a.Service, b.Service))
	})
}
