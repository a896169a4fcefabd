package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/playwright-community/playwright-go"
	"golang.org/x/sync/errgroup"

	"amnesia/pkg/session/browser"
)

// bare is a Playwright script with one browser that looks at the pages of some users, all at once, and does nothing with
// what it sees.
type bare struct {
	pw    *playwright.Playwright
	b     playwright.Browser
	url   string
	users []playwright.OptionalCookie // signed in
}

// bareTold is how many messages each user's history has: as many as those of the daemon's users in the middle of their time.
const bareTold = 10

// newBare starts the browser and gives users of their own something to look at.
func newBare(ctx context.Context, at browser.Installation, url string, users int) (_ *bare, err error) {
	s := &bare{url: url}
	for n := range users {
		c, err := bareUser(ctx, url, fmt.Sprintf("bare-%d", n))
		if err != nil {
			return nil, fmt.Errorf("signing a user of the bare script in: %w", err)
		}
		s.users = append(s.users, c)
	}
	if s.pw, err = playwright.Run(&playwright.RunOptions{DriverDirectory: at.DriverDir, SkipInstallBrowsers: true}); err != nil {
		return nil, fmt.Errorf("starting Playwright: %w", err)
	}
	if s.b, err = launch(s.pw, at); err != nil {
		return nil, errors.Join(err, s.pw.Stop())
	}
	return s, nil
}

// installed finds the browser and its driver, or installs them where that can be done.
func installed(ctx context.Context, amnesia string) (browser.Installation, error) {
	if _, err := run(ctx, nil, amnesia, "browser", "install"); err != nil {
		return browser.Installation{}, err
	}
	return browser.Find(browser.InstallOptions{Dir: os.Getenv("AMNESIA_BROWSER_DIR")})
}

// launch starts a browser as a script does.
func launch(pw *playwright.Playwright, at browser.Installation) (playwright.Browser, error) {
	return pw.Chromium.Launch(playwright.BrowserTypeLaunchOptions{ExecutablePath: &at.ExecutablePath, Headless: playwright.Bool(true),
		ChromiumSandbox: playwright.Bool(os.Geteuid() != 0)})
}

// bareUser signs a user in, who tells a little, and gives the cookie of the session.
func bareUser(ctx context.Context, base, name string) (c playwright.OptionalCookie, err error) {
	post := func(path string, form url.Values, with *http.Cookie) (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+path, strings.NewReader(form.Encode()))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Accept", "application/json")
		if with != nil {
			req.AddCookie(with)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil, err
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("%s: %s", path, resp.Status)
		}
		return resp, nil
	}
	resp, err := post("/api/login", url.Values{"username": {name}, "password": {"correct horse"}}, nil)
	if err != nil {
		return c, err
	}
	if len(resp.Cookies()) != 1 {
		return c, fmt.Errorf("%d cookies, want that of the session", len(resp.Cookies()))
	}
	signed := resp.Cookies()[0]
	for i := range bareTold {
		if _, err := post("/api/chat", url.Values{"message": {fmt.Sprintf("The code of my white locker %d is bare%d", i, i)}}, signed); err != nil {
			return c, err
		}
	}
	return playwright.OptionalCookie{Name: signed.Name, Value: signed.Value, URL: &base}, nil
}

// load opens a context for each user and loads two pages in it.
func (s *bare) load() error {
	var all errgroup.Group
	for _, user := range s.users {
		all.Go(func() (err error) {
			context, err := s.b.NewContext()
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, context.Close()) }()
			if err := context.AddCookies([]playwright.OptionalCookie{user}); err != nil {
				return err
			}
			page, err := context.NewPage()
			if err != nil {
				return err
			}
			for _, path := range []string{"/login", "/chat"} {
				if _, err := page.Goto(s.url + path); err != nil {
					return err
				}
			}
			n, err := page.Locator(".message.user").Count()
			if err == nil && n != bareTold {
				err = fmt.Errorf("the bare script sees %d messages of its user, want %d", n, bareTold)
			}
			return err
		})
	}
	return all.Wait()
}

func (s *bare) close() error { return errors.Join(s.b.Close(), s.pw.Stop()) }
