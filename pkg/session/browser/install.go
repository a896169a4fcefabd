package browser

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// driverVersion is the version of npm's playwright-core that this playwright-go speaks with; playwright-go refuses any
// other.
const driverVersion = "1.52.0"

// InstallOptions says where things are, or are to be put.
type InstallOptions struct {
	// Dir is the folder of the Playwright driver; default: amnesia/playwright-<version> in the user's cache folder.
	Dir string
	// ExecutablePath is the browser; without it one is looked for.
	ExecutablePath string
	// Archive is the tarball that `npm pack playwright-core@1.52.0` makes, for machines without a registry.
	Archive string
	// Window wants a browser that can show itself; without it the faster headless shell is taken where there is one.
	Window bool
	// Elsewhere wants no browser here, only the driver that connects to others.
	Elsewhere bool
	// BrowserMustExist leaves the system's packages alone: without a browser nothing is installed.
	BrowserMustExist bool
	// Out is told what is being done, a line each; nil for silence.
	Out io.Writer
}

// Installation is what a Config needs to know of this machine.
type Installation struct {
	DriverDir      string
	ExecutablePath string
}

// Find finds what Install would have installed. Its error is one line that says what is missing and how to get it.
func Find(o InstallOptions) (Installation, error) {
	dir, err := o.dir()
	if err != nil {
		return Installation{}, err
	}
	var missing []string
	if err := checkDriver(dir); err != nil {
		missing = append(missing, "the Playwright driver ("+err.Error()+")")
	}
	var chromium string
	if !o.Elsewhere {
		if chromium, err = findChromium(o.ExecutablePath, o.Window); err != nil {
			missing = append(missing, err.Error())
		}
	}
	if missing != nil {
		return Installation{}, fmt.Errorf("the browser driver lacks %s — fix: run `amnesia browser install`", strings.Join(missing, " and "))
	}
	return Installation{DriverDir: dir, ExecutablePath: chromium}, nil
}

// Install gets what Find misses: the Playwright driver from npm's registry, by npm, and Chromium from Debian's or Ubuntu's
// packages where it may. It does nothing where nothing is missing.
func Install(ctx context.Context, o InstallOptions) (Installation, error) {
	if o.Out == nil {
		o.Out = io.Discard
	}
	dir, err := o.dir()
	if err != nil {
		return Installation{}, err
	}
	if o.BrowserMustExist && !o.Elsewhere {
		if _, err := findChromium(o.ExecutablePath, o.Window); err != nil {
			return Find(o)
		}
	}
	if checkDriver(dir) != nil {
		fmt.Fprintf(o.Out, "installing the Playwright driver %s into %s\n", driverVersion, dir)
		if err := installDriver(ctx, dir, o.Archive); err != nil {
			return Installation{}, fmt.Errorf("installing the Playwright driver: %w", err)
		}
	}
	if _, err := findChromium(o.ExecutablePath, o.Window); err != nil && o.ExecutablePath == "" && !o.Elsewhere {
		if err := installChromium(ctx, o.Window, o.Out); err != nil {
			return Installation{}, fmt.Errorf("installing Chromium: %w", err)
		}
	}
	return Find(o)
}

func (o InstallOptions) dir() (string, error) {
	if o.Dir != "" {
		return filepath.Abs(o.Dir)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the cache folder: %w — fix: set AMNESIA_BROWSER_DIR to a folder for the Playwright driver", err)
	}
	return filepath.Join(cache, "amnesia", "playwright-"+driverVersion), nil
}

func nodeName() string {
	if runtime.GOOS == "windows" {
		return "node.exe"
	}
	return "node"
}

// checkDriver says what a driver's folder lacks.
func checkDriver(dir string) error {
	manifest, err := os.ReadFile(filepath.Join(dir, "package", "package.json"))
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("nothing in %s", dir)
	} else if err != nil {
		return err
	}
	var p struct{ Name, Version string }
	if err := json.Unmarshal(manifest, &p); err != nil {
		return fmt.Errorf("reading %s: %w", filepath.Join(dir, "package", "package.json"), err)
	}
	if p.Name != "playwright-core" || p.Version != driverVersion {
		return fmt.Errorf("%s holds %s %s, not playwright-core %s", dir, p.Name, p.Version, driverVersion)
	}
	if _, err := os.Stat(filepath.Join(dir, "package", "cli.js")); err != nil {
		return fmt.Errorf("%s is not whole: %w", dir, err)
	}
	if _, err := os.Stat(filepath.Join(dir, nodeName())); err != nil {
		return fmt.Errorf("its node is gone from %s", dir)
	}
	return nil
}

// installDriver makes the folder beside its place and moves it there when it has been tried, so that a folder by that
// name is always whole.
func installDriver(ctx context.Context, dir, archive string) error {
	node, err := exec.LookPath("node")
	if err != nil {
		return errors.New("node is not in PATH — fix: install Node.js 18 or newer (Debian, Ubuntu: apt-get install nodejs npm)")
	}
	if node, err = filepath.Abs(node); err != nil {
		return err
	}
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(parent, ".install-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if archive == "" {
		if archive, err = fetchDriver(ctx, work); err != nil {
			return err
		}
	}
	made := filepath.Join(work, "driver")
	if err := unpack(archive, made); err != nil {
		return fmt.Errorf("unpacking %s: %w", archive, err)
	}
	if err := link(node, filepath.Join(made, nodeName())); err != nil {
		return err
	}
	if err := checkDriver(made); err != nil {
		return err
	}
	out, err := run(ctx, made, filepath.Join(made, nodeName()), filepath.Join("package", "cli.js"), "--version")
	if err != nil {
		return fmt.Errorf("trying the driver with %s: %w — fix: install Node.js 18 or newer", node, err)
	}
	if !strings.Contains(out, driverVersion) {
		return fmt.Errorf("the driver says that it is %q, not %s", out, driverVersion)
	}
	if err := os.RemoveAll(dir); err != nil { // what is there is broken
		return err
	}
	if err := os.Rename(made, dir); err != nil && checkDriver(dir) != nil { // else somebody else was quicker
		return err
	}
	return nil
}

// fetchDriver has npm fetch and verify the package, from whatever registry npm is set to.
func fetchDriver(ctx context.Context, work string) (string, error) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", errors.New("npm is not in PATH — fix: install npm, or fetch playwright-core-" + driverVersion + ".tgz by hand and name it as the archive")
	}
	if _, err := run(ctx, work, npm, "pack", "playwright-core@"+driverVersion, "--pack-destination", work, "--silent"); err != nil {
		return "", fmt.Errorf("npm pack: %w — fix: see that npm reaches its registry (npm ping)", err)
	}
	return filepath.Join(work, "playwright-core-"+driverVersion+".tgz"), nil
}

// unpack unpacks a gzipped tarball of plain files.
func unpack(archive, into string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(into, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(into) // refuses names that lead out of it
	if err != nil {
		return err
	}
	defer root.Close()
	for files := tar.NewReader(z); ; {
		h, err := files.Next()
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		name := filepath.FromSlash(h.Name)
		if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		out, err := root.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, os.FileMode(h.Mode)&0o777|0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, files)
		if err := errors.Join(err, out.Close()); err != nil {
			return err
		}
	}
}

// link links node into the driver's folder; Windows, where links want a privilege, gets a copy.
func link(node, to string) error {
	if runtime.GOOS != "windows" {
		return os.Symlink(node, to)
	}
	in, err := os.Open(node)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// run runs a command and gives its output; the last line of its complaints is in the error.
func run(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var out, complaints strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil {
		if lines := strings.Split(strings.TrimSpace(complaints.String()), "\n"); lines[len(lines)-1] != "" {
			return "", fmt.Errorf("%w: %s", err, lines[len(lines)-1])
		}
		return "", err
	}
	return strings.TrimSpace(out.String()), nil
}
