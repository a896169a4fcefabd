package browser_test

import (
	"os"
	"testing"

	"go.uber.org/zap/zaptest"

	"amnesia/pkg/clock"
	"amnesia/pkg/session"
	"amnesia/pkg/session/browser"
	"amnesia/pkg/session/sessiontest"
)

// installation finds the browser. Where it is missing a test is skipped, but not in CI.
func installation(t testing.TB) browser.Installation {
	t.Helper()
	found, err := browser.Find(browser.InstallOptions{Dir: os.Getenv("AMNESIA_BROWSER_DIR")})
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatal(err)
	} else if err != nil {
		t.Skip(err)
	}
	return found
}

// start starts a browser for one test.
func start(t testing.TB, baseURL string, change ...func(*browser.Config)) *browser.Driver {
	t.Helper()
	found := installation(t)
	cfg := browser.Config{
		BaseURL: baseURL, DriverDir: found.DriverDir, ExecutablePath: found.ExecutablePath, Headless: true,
		Clock: clock.System(), EvidenceDir: t.TempDir(), Logger: zaptest.NewLogger(t),
	}
	for _, c := range change {
		c(&cfg)
	}
	d, err := browser.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("closing the driver: %v", err)
		}
	})
	return d
}

func TestSuite(t *testing.T) {
	t.Parallel()
	d := start(t, "")
	sessiontest.Run(t, func(_ *testing.T, baseURL string) session.Driver { return d.At(baseURL) }, sessiontest.Features{JavaScript: true})
}
