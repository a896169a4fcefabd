package browser

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
)

// names are the browsers in PATH, the best first. The headless shell is the same Chromium without the parts that make
// windows: measured on two cores, four sessions at once took it 1.0 s and Chromium itself 3.0 s.
var (
	shells  = []string{"chromium-headless-shell", "chrome-headless-shell"}
	windows = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"}
)

// findChromium finds the browser: the one that was named, or one in PATH, or where macOS keeps programs, or one that some
// Playwright downloaded. window asks for one that can show itself.
func findChromium(named string, window bool) (string, error) {
	if named != "" {
		path, err := exec.LookPath(named)
		if err != nil {
			return "", fmt.Errorf("a browser (%s cannot be run: %w)", named, errors.Unwrap(err))
		}
		return filepath.Abs(path)
	}
	names := windows
	if !window {
		names = slices.Concat(shells, windows)
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return filepath.Abs(path)
		}
	}
	for _, path := range otherPlaces() {
		if _, err := exec.LookPath(path); err == nil {
			return path, nil
		}
	}
	return "", errors.New("a browser (no Chromium or Chrome in PATH)")
}

// otherPlaces lists the places outside PATH, the best first.
func otherPlaces() []string {
	var places []string
	if runtime.GOOS == "darwin" {
		places = append(places,
			"/Applications/Chromium.app/Contents/MacOS/Chromium",
			"/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return places
	}
	for _, inside := range []string{
		"chrome-linux/chrome", "chrome-mac/Chromium.app/Contents/MacOS/Chromium", "chrome-win/chrome.exe",
	} {
		found, _ := filepath.Glob(filepath.Join(cache, "ms-playwright", "chromium-*", filepath.FromSlash(inside))) // the pattern is sound
		slices.Sort(found)
		slices.Reverse(found) // the newest first
		places = append(places, found...)
	}
	return places
}

// installChromium installs Debian's package where that is possible, and else says what to do.
func installChromium(ctx context.Context, window bool, out io.Writer) error {
	apt, err := exec.LookPath("apt-get")
	switch {
	case runtime.GOOS == "darwin":
		return errors.New("not done on macOS — fix: brew install --cask chromium, or install Google Chrome")
	case runtime.GOOS != "linux" || err != nil:
		return errors.New("not done on this system — fix: install Chromium or Google Chrome, and see that it is in PATH")
	case os.Geteuid() != 0:
		return errors.New("packages are root's to install — fix: sudo apt-get install -y --no-install-recommends chromium")
	}
	packages := []string{"chromium-headless-shell", "chromium"} // older releases have only the second
	if window {
		packages = packages[1:]
	}
	install := func() (err error) {
		for _, p := range packages {
			fmt.Fprintln(out, "installing Chromium: apt-get install -y --no-install-recommends "+p)
			if _, err = run(ctx, "", apt, "-o", "DPkg::Lock::Timeout=60", "-q", "-y", "--no-install-recommends", "install", p); err == nil {
				return nil
			}
		}
		return err
	}
	if install() == nil {
		return nil
	}
	// A fresh image has no lists of packages.
	if _, err := run(ctx, "", apt, "-q", "update"); err != nil {
		return fmt.Errorf("apt-get update: %w", err)
	}
	if err := install(); err != nil {
		return fmt.Errorf("apt-get install: %w — fix: install Chromium or Google Chrome by hand", err)
	}
	return nil
}
