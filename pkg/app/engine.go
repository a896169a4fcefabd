package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"amnesia/chaos"
	"amnesia/chaos/docker"
	"amnesia/chaos/process"
)

// openEngine opens the engine that the file names. start makes sure that the target is there: the process engine starts
// it, the Docker engine looks for what it may touch. observe is told of every operation.
func (a *App) openEngine(ctx context.Context, observe chaos.Observer) (_ chaos.Engine, start func(context.Context) error, err error) {
	if a.cfg.Target.Engine == "docker" {
		dc := a.dockerConfig()
		dc.Observe = observe
		e, err := docker.New(ctx, dc)
		if err != nil {
			return nil, nil, err
		}
		a.onClose(e.Close)
		if err := a.guardTarget(ctx); err != nil {
			return nil, nil, err
		}
		return e, e.Verify, nil
	}
	pc := a.processConfig()
	pc.Observe = observe
	e, err := process.New(pc)
	if err != nil {
		return nil, nil, err
	}
	a.onClose(e.Close)
	return e, e.StartAll, nil
}

func (a *App) processConfig() process.Config {
	pc := process.Config{Clock: a.clock, Protected: []string{a.cfg.Ledger.Path, a.cfg.Evidence.Dir}}
	for _, s := range a.cfg.Target.Services {
		svc := process.Service{Name: s.Name, Command: s.Command, Dir: s.Dir, Health: s.Health, Scratch: s.Scratch}
		for k, v := range s.Env.Reveal() {
			svc.Env = append(svc.Env, k+"="+v)
		}
		pc.Services = append(pc.Services, svc)
	}
	return pc
}

func (a *App) dockerConfig() docker.Config {
	dc := docker.Config{Project: a.cfg.Target.Project, Clock: a.clock, Logger: a.log}
	for _, s := range a.cfg.Target.Services {
		svc := docker.Service{Name: s.Name, Health: s.Health}
		for _, f := range a.cfg.Faults {
			if f.Kind == chaos.Wipe && f.Service == s.Name && !slices.Contains(svc.Volumes, f.Volume) {
				svc.Volumes = append(svc.Volumes, f.Volume)
			}
		}
		dc.Services = append(dc.Services, svc)
	}
	return dc
}

// startTarget has the target started, undoes what an earlier daemon left done to it, waits until it is healthy, and looks
// whether the application answers. A service that ends by itself is not waited for, unless a supervisor may start it
// again.
func (a *App) startTarget(ctx context.Context, engine chaos.Engine, start func(context.Context) error, prober *chaos.Prober) error {
	hctx, cancel := context.WithTimeout(ctx, a.cfg.Limits.Recovery)
	defer cancel()
	if e, ok := engine.(*process.Engine); ok {
		events := e.Events(hctx)
		go func() {
			for e := range events { // closed when hctx ends
				if e.Kind == "die" && !e.Ours {
					cancel()
				}
			}
		}()
	}
	if err := start(ctx); err != nil {
		return err
	}
	started := a.clock.Now()
	if err := a.revertOpen(ctx); err != nil {
		return err
	}
	health, err := prober.Await(hctx, engine, nil)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		why := "a service ended by itself"
		if errors.Is(hctx.Err(), context.DeadlineExceeded) {
			why = "not within " + a.cfg.Limits.Recovery.String()
		}
		fix := "start it by hand with the same command, and see what it says"
		if a.cfg.Target.Engine == "docker" {
			fix = "start the containers, and see what they log"
		}
		return fmt.Errorf("the target did not come up, %s: %w\n — fix: %s", why, err, fix)
	}
	return errors.Join(a.noteRestart(ctx, engine, started, health), reachable(ctx, a.cfg.Target.URL))
}

// reachable reports why nothing answers at the target's address.
func reachable(ctx context.Context, url string) error {
	if err := answers(ctx, url); err != nil {
		return fmt.Errorf("the target does not answer at target.url: %w — fix: start it, or correct target.url", err)
	}
	return nil
}

// answers reports why nothing answers at an address, whatever it would be.
func answers(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}
