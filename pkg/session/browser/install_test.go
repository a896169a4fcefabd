package browser_test

import (
	"archive/tar"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"amnesia/pkg/session/browser"
)

// pack makes an archive as npm pack would, of a driver that only knows its version.
func pack(t *testing.T, version string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "driver.tgz")
	f, err := os.Create(path)
	must(t, err)
	z := gzip.NewWriter(f)
	files := tar.NewWriter(z)
	for name, content := range map[string]string{
		"package/package.json": `{"name": "playwright-core", "version": "` + version + `"}`,
		"package/cli.js":       `console.log("Version ` + version + `")`,
	} {
		must(t, files.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}))
		_, err := files.Write([]byte(content))
		must(t, err)
	}
	must(t, files.Close())
	must(t, z.Close())
	must(t, f.Close())
	return path
}

func TestInstall(t *testing.T) {
	t.Parallel()
	chromium := installation(t).ExecutablePath
	o := browser.InstallOptions{Dir: filepath.Join(t.TempDir(), "cache", "driver"), ExecutablePath: chromium, Archive: pack(t, "1.52.0")}
	_, err := browser.Find(o)
	if err == nil || !strings.Contains(err.Error(), "amnesia browser install") || strings.Contains(err.Error(), "\n") {
		t.Fatalf("got %v, want one line that says what to do", err)
	}
	var said strings.Builder
	o.Out = &said
	for range 2 {
		got, err := browser.Install(t.Context(), o)
		must(t, err)
		if want := (browser.Installation{DriverDir: o.Dir, ExecutablePath: chromium}); got != want {
			t.Errorf("installed %+v, want %+v", got, want)
		}
	}
	if n := strings.Count(said.String(), "installing"); n != 1 {
		t.Errorf("the second time something was done: %q", said.String())
	}
	// With a browser elsewhere, none is looked for here.
	alone := o
	alone.ExecutablePath, alone.Elsewhere = filepath.Join(t.TempDir(), "none"), true
	if got, err := browser.Install(t.Context(), alone); err != nil || got != (browser.Installation{DriverDir: o.Dir}) {
		t.Errorf("the driver alone: %+v, %v", got, err)
	}
	// What is damaged is made whole.
	for _, damage := range []string{"node", "package/cli.js", "package/package.json", "package", "."} {
		must(t, os.RemoveAll(filepath.Join(o.Dir, filepath.FromSlash(damage))))
		if _, err := browser.Find(o); err == nil {
			t.Errorf("%s is not missed", damage)
		}
		_, err := browser.Install(t.Context(), o)
		must(t, err)
	}
	// What cannot be used is not put in its place.
	other := browser.InstallOptions{Dir: filepath.Join(t.TempDir(), "driver"), ExecutablePath: chromium, Archive: pack(t, "1.51.0")}
	if _, err := browser.Install(t.Context(), other); err == nil || !strings.Contains(err.Error(), "1.51.0") {
		t.Errorf("got %v", err)
	}
	if left, err := os.ReadDir(filepath.Dir(other.Dir)); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	o.ExecutablePath = filepath.Join(t.TempDir(), "chromium")
	if _, err := browser.Install(t.Context(), o); err == nil || !strings.Contains(err.Error(), o.ExecutablePath) {
		t.Errorf("got %v, want an error that names the browser", err)
	}
}
