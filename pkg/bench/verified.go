package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/playwright-community/playwright-go"

	"amnesia/chaos"
	"amnesia/chaos/process"
	"amnesia/pkg/clock"
	"amnesia/pkg/fact"
	"amnesia/pkg/ledger"
	"amnesia/pkg/memory"
	"amnesia/pkg/session/browser"
)

const (
	whatBrowserVerifies = "memories verified, browser driver"
	whatHTTPVerifies    = "memories verified, http driver"
)

// verifying compares how many memories the daemon verifies in a minute, each told, acknowledged, struck by a fault and
// looked for, with what one would write instead: a Playwright script that does it for one memory after the other, so many
// times. browserCycles and httpCycles are what the daemon runs.
func verifying(times, browserCycles, httpCycles int) measure {
	return func(ctx context.Context, amnesia, dir string) ([]Line, error) {
		return verified(ctx, amnesia, dir, times, browserCycles, httpCycles)
	}
}

func verified(ctx context.Context, amnesia, dir string, times, browserCycles, httpCycles int) ([]Line, error) {
	at, err := installed(ctx, amnesia)
	if err != nil {
		return []Line{unmeasured(whatBrowserVerifies, err), unmeasured(whatHTTPVerifies, err)}, nil
	}
	addr, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	app := filepath.Join(dir, "verified-app")
	if err := os.MkdirAll(app, 0o750); err != nil {
		return nil, err
	}
	var perCase []time.Duration
	err = withSample(ctx, amnesia, app, addr, func(e *process.Engine, p *chaos.Prober) error {
		perCase, err = sequentialScript(ctx, at, "http://"+addr, times, func() error {
			if err := errors.Join(e.Kill(ctx, "app"), e.Start(ctx, "app")); err != nil {
				return err
			}
			_, err := p.Await(ctx, e, nil)
			return err
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	reference := time.Minute.Seconds() / median(perCase).Seconds()
	var lines []Line
	for _, k := range []struct {
		what, driver            string
		users, memories, cycles int
		goal                    float64
	}{
		{whatBrowserVerifies, "browser", 8, 20, browserCycles, 15},
		{whatHTTPVerifies, "http", 16, 60, httpCycles, 300},
	} {
		path := filepath.Join(dir, "verified-"+k.driver)
		if _, _, err := soak(ctx, amnesia, path, processes, k.cycles, map[string]any{"Self": amnesia, "Dir": app, "Addr": addr,
			"Driver": k.driver, "Users": k.users, "Memories": k.memories, "PerAccount": k.memories, "Retire": "1ms"}); err != nil {
			return nil, fmt.Errorf("%s: %w", k.what, err)
		}
		ours, err := verifiedPerMinute(ctx, path+".db")
		if err != nil {
			return nil, err
		}
		lines = append(lines, atLeast(k.what, "1/min", ours, reference, k.goal))
	}
	return lines, nil
}

// sequentialScript is the script: a browser for the telling, a kill and a start, and another browser for the look; so many times
// after one that warms up. It gives how long each memory took.
func sequentialScript(ctx context.Context, at browser.Installation, url string, times int, killAndStart func() error) (took []time.Duration, err error) {
	pw, err := playwright.Run(&playwright.RunOptions{DriverDirectory: at.DriverDir, SkipInstallBrowsers: true})
	if err != nil {
		return nil, fmt.Errorf("starting Playwright: %w", err)
	}
	defer func() { err = errors.Join(err, pw.Stop()) }()
	visit := func(user string, on func(playwright.Page) error) (err error) {
		b, err := launch(pw, at)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, b.Close()) }()
		page, err := b.NewPage()
		if err != nil {
			return err
		}
		if _, err := page.Goto(url + "/login"); err != nil {
			return err
		}
		if err := errors.Join(page.Locator("input[name=username]").Fill(user), page.Locator("input[name=password]").Fill("correct horse"),
			page.Locator("button[type=submit]").Click(), page.WaitForURL("**/chat")); err != nil {
			return err
		}
		return on(page)
	}
	c := clock.System()
	for i := range 1 + times {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		user, token := fmt.Sprintf("script-%d", i), fmt.Sprintf("tok%d", i)
		start := c.Now()
		err := visit(user, func(page playwright.Page) error {
			return errors.Join(page.Locator("#message").Fill("My code is "+token), page.Locator("#send").Click(),
				page.Locator(".message.assistant", playwright.PageLocatorOptions{HasText: token}).WaitFor())
		})
		if err == nil {
			err = killAndStart()
		}
		if err == nil {
			err = visit(user, func(page playwright.Page) error {
				return page.Locator(".message.user", playwright.PageLocatorOptions{HasText: token}).WaitFor()
			})
		}
		if err != nil {
			return nil, fmt.Errorf("the script: %w", err)
		}
		if i > 0 {
			took = append(took, c.Now().Sub(start))
		}
	}
	return took, nil
}

// verifiedPerMinute reads the ledger of a run: the memories of cycles with a fault that were found to be kept after it, in the
// time of those cycles, gates and closing and all.
func verifiedPerMinute(ctx context.Context, path string) (float64, error) {
	l, err := ledger.OpenReadOnly(ctx, path)
	if err != nil {
		return 0, err
	}
	defer l.Close()
	var began memory.Instant
	var spent time.Duration
	of, verified := map[memory.ID]int{}, map[memory.ID]bool{}
	struck := map[int]bool{}
	for e, err := range l.Facts(ctx, 0) {
		if err != nil {
			return 0, err
		}
		switch f := e.Fact.(type) {
		case fact.Begun:
			of[f.Memory.ID] = f.Memory.Cycle
		case fact.Judged:
			if f.Cycle == of[f.Verdict.Memory] {
				verified[f.Verdict.Memory] = f.Verdict.Kind == memory.Kept || f.Verdict.Kind == memory.Late
			}
		case fact.Step:
			if f.Name == fact.StepFiring && f.Plan != nil {
				struck[f.Plan.Cycle] = true
			}
		case fact.Cycle:
			switch {
			case f.Phase == fact.PhaseTraffic:
				began = f.At
			case f.Phase == fact.PhaseClosed && struck[f.N]:
				spent += f.At.Sub(began)
			}
		}
	}
	n := 0
	for id, ok := range verified {
		if ok && struck[of[id]] {
			n++
		}
	}
	if n == 0 {
		return 0, errors.New("no memory was verified in a cycle with a fault")
	}
	return float64(n) / spent.Minutes(), nil
}
