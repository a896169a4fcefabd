//go:build linux

package process_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"amnesia/chaos"
	"amnesia/chaos/process"
	"amnesia/pkg/clock"
)

func write(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("kept"), 0o644); err != nil {
		t.Fatal(err)
	}
}

func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// withScratch gives an engine over one service with the scratch directory cache, and the service's directory.
func withScratch(t *testing.T) (*process.Engine, string) {
	t.Helper()
	s := app(t, "app")
	s.Scratch = []string{"cache"}
	e := engine(t, s)
	dir, err := filepath.EvalSymlinks(s.Dir)
	if err != nil {
		t.Fatal(err)
	}
	return e, dir
}

func TestAWipeEmptiesOnlyScratch(t *testing.T) {
	e, dir := withScratch(t)
	cache, data, outside := filepath.Join(dir, "cache"), filepath.Join(dir, "data", "db"), filepath.Join(t.TempDir(), "precious")
	write(t, data)
	write(t, outside)
	write(t, filepath.Join(cache, "a", "b", "c"))
	write(t, filepath.Join(cache, ".hidden"))
	for name, to := range map[string]string{"dir-link": filepath.Dir(outside), "file-link": outside, "up": ".."} {
		if err := os.Symlink(to, filepath.Join(cache, name)); err != nil {
			t.Fatal(err)
		}
	}
	if got := e.Services()[0].Wipeable; len(got) != 1 || got[0] != cache {
		t.Errorf("wipeable: %q", got)
	}
	ctx := testContext(t)
	startAll(t, e)
	if err := e.Empty(ctx, "app", "cache"); err == nil || !strings.Contains(err.Error(), "while the service runs") {
		t.Errorf("emptied under a running service: %v", err)
	}
	if err := e.Kill(ctx, "app"); err != nil {
		t.Fatal(err)
	}
	if err := e.Empty(ctx, "app", "cache"); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(cache); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	if !there(data) || !there(outside) {
		t.Errorf("what is no scratch is gone: data %t, outside %t", there(data), there(outside))
	}
	for _, volume := range []string{"", "data", dir, "/", "..", "cache/..", filepath.Dir(outside)} {
		for what, err := range map[string]error{"Wipeable": e.Wipeable(ctx, "app", volume), "Empty": e.Empty(ctx, "app", volume)} {
			if err == nil || !strings.Contains(err.Error(), "not among the declared scratch directories") {
				t.Errorf("%s of %q: %v", what, volume, err)
			}
		}
	}
	if err := e.Wipeable(ctx, "app", cache); err != nil {
		t.Error(err)
	}
}

func TestAScratchDirectoryExchangedForALinkIsRefused(t *testing.T) {
	for name, exchange := range map[string]func(dir, precious string) error{
		"itself": func(dir, precious string) error {
			if err := os.Remove(filepath.Join(dir, "cache")); err != nil {
				return err
			}
			return os.Symlink(precious, filepath.Join(dir, "cache"))
		},
		"its parent": func(dir, precious string) error {
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
			if err := os.Rename(precious, filepath.Join(filepath.Dir(precious), "cache")); err != nil {
				return err
			}
			return os.Symlink(filepath.Dir(precious), dir)
		},
	} {
		t.Run(name, func(t *testing.T) {
			e, dir := withScratch(t)
			home := t.TempDir()
			precious := filepath.Join(home, "precious")
			write(t, filepath.Join(precious, "file"))
			if err := exchange(dir, precious); err != nil {
				t.Fatal(err)
			}
			ctx := testContext(t)
			for what, err := range map[string]error{"Wipeable": e.Wipeable(ctx, "app", "cache"), "Empty": e.Empty(ctx, "app", "cache"), "Recreate": e.Recreate(ctx, "app")} {
				if err == nil || !strings.Contains(err.Error(), "by a symbolic link — fix: ") {
					t.Errorf("%s: %v", what, err)
				}
			}
			if !there(filepath.Join(precious, "file")) && !there(filepath.Join(home, "cache", "file")) {
				t.Error("the file behind the link is gone")
			}
		})
	}
}

func TestScratchThatMayNeverBeEmptiedIsRefused(t *testing.T) {
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	ledger := filepath.Join(dir, "alias", "amnesia.db") // does not exist yet, and is named through a link
	if err := os.Mkdir(filepath.Join(dir, "books"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("books", filepath.Join(dir, "alias")); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink("/", link); err != nil {
		t.Fatal(err)
	}
	for scratch, want := range map[string]string{
		"/": "top-level directory", "/tmp": "top-level directory", "/tmp/..": "top-level directory", link: "top-level directory",
		"link/usr": "top-level directory", "": "name a directory", home: "",
		"/sys/fs": "another file system is mounted at /sys/fs/", filepath.Join(dir, "books"): "is evidence", dir: "is evidence", "..": "", filepath.Dir(os.Args[0]): "holds the program",
	} {
		_, err := process.New(process.Config{Clock: clock.System(), Protected: []string{ledger}, Services: []process.Service{
			{Name: "app", Command: []string{os.Args[0]}, Dir: dir, Scratch: []string{scratch}}}})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), " — fix: ") {
			t.Errorf("%q: %v, want %q", scratch, err, want)
		}
	}
	work := t.TempDir()
	inner := filepath.Join(work, "inner")
	if err := os.Mkdir(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	_, err = process.New(process.Config{Clock: clock.System(), Services: []process.Service{
		{Name: "app", Command: []string{os.Args[0]}, Dir: inner, Scratch: []string{work}}}})
	if err == nil || !strings.Contains(err.Error(), "holds the working directory") {
		t.Errorf("got %v", err)
	}
}

// The injector over real processes: every kind that the engine can do, and how long the target was away.
func TestTheInjectorHurtsAndHealsRealProcesses(t *testing.T) {
	e, dir := withScratch(t)
	ctx := testContext(t)
	cache := filepath.Join(dir, "cache")
	startAll(t, e)
	c := clock.System()
	in := chaos.NewInjector(chaos.InjectorConfig{Engine: e, Journal: discard{}, Prober: prober(), Clock: c,
		Guard: chaos.NewGuard(chaos.Limits{Armed: true}, e, c, chaos.GuardState{})})
	for _, inj := range []chaos.Injection{
		{Kind: chaos.Kill, Service: "app"},
		{Kind: chaos.Restart, Service: "app", Grace: time.Second},
		{Kind: chaos.Pause, Service: "app", Hold: 20 * time.Millisecond},
		{Kind: chaos.Wipe, Service: "app", Volume: "cache"},
		{Kind: chaos.Recreate, Service: "app", Grace: time.Second},
		{Kind: chaos.CrashAll, Services: []string{"app"}},
	} {
		write(t, filepath.Join(cache, "file"))
		res, err := in.Do(ctx, inj)
		if err != nil || res.Outcome != chaos.Injected {
			t.Errorf("%s: %s, %v", inj.Kind, res.Outcome, err)
		}
		if gone := inj.Kind == chaos.Wipe || inj.Kind == chaos.Recreate; there(filepath.Join(cache, "file")) == gone {
			t.Errorf("%s: the file in the scratch directory is there: %t", inj.Kind, !gone)
		}
		if same := res.Before[0].Instances[0] == res.After[0].Instances[0]; same != (inj.Kind == chaos.Pause) {
			t.Errorf("%s: before %v, after %v", inj.Kind, res.Before, res.After)
		}
		t.Logf("%-9s injected in %s, recovered in %s", inj.Kind, res.Injected.Sub(res.Fired), res.Recovery)
	}
	_, err := in.Do(ctx, chaos.Injection{Kind: chaos.Partition, Service: "app"})
	if err == nil || !strings.Contains(err.Error(), "partition of app is not available with the engine process") {
		t.Errorf("partition: %v", err)
	}
}

// TestAWipeCutShortIsFinished: a daemon that is killed while it empties a directory leaves a mark, by which the next start
// knows.
func TestAWipeCutShortIsFinished(t *testing.T) {
	e, dir := withScratch(t)
	ctx := testContext(t)
	left, mark := filepath.Join(dir, "cache", "left"), filepath.Join(dir, "cache", ".amnesia-wiping")
	for _, cut := range []bool{false, true} {
		write(t, left)
		if cut {
			write(t, mark)
		}
		if err := e.Kill(ctx, "app"); err != nil {
			t.Fatal(err)
		}
		if err := e.Start(ctx, "app"); err != nil {
			t.Fatal(err)
		}
		if there(left) == cut || there(mark) {
			t.Errorf("the wipe was cut short: %v; the rest is there: %v, the mark: %v", cut, there(left), there(mark))
		}
	}
}
