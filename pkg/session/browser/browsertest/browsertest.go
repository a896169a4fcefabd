// Package browsertest gives tests the browser that the daemon plays its users in, to look at pages of ours with. It is in
// no binary.
package browsertest

import (
	"errors"
	"os"
	"testing"

	"github.com/playwright-community/playwright-go"

	"amnesia/pkg/session/browser"
)

// Installed says where browser and driver are. Where one is missing the test is skipped, but in CI it fails.
func Installed(t *testing.T) browser.Installation {
	t.Helper()
	found, err := browser.Find(browser.InstallOptions{Dir: os.Getenv("AMNESIA_BROWSER_DIR")})
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatal(err)
	} else if err != nil {
		t.Skip(err)
	}
	return found
}

// Chromium starts a browser that ends with the test.
func Chromium(t *testing.T) playwright.Browser {
	t.Helper()
	found := Installed(t)
	pw, err := playwright.Run(&playwright.RunOptions{DriverDirectory: found.DriverDir, SkipInstallBrowsers: true})
	if err != nil {
		t.Fatal(err)
	}
	b, err := pw.Chromium.Launch(playwright.BrowserTypeLaunchOptions{ExecutablePath: &found.ExecutablePath, ChromiumSandbox: playwright.Bool(os.Geteuid() != 0),
		Args: []string{"--disable-gpu", "--disable-background-networking"}})
	if err != nil {
		t.Fatal(errors.Join(err, pw.Stop()))
	}
	t.Cleanup(func() {
		if err := errors.Join(b.Close(), pw.Stop()); err != nil {
			t.Error(err)
		}
	})
	return b
}
