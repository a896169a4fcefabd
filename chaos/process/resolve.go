//go:build unix

package process

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// resolve checks what was declared of one service and makes its paths absolute. Its scratch directories exist after it.
func resolve(decl Service, protected []string) (*service, error) {
	s := &service{Service: decl}
	s.Grace = cmp.Or(s.Grace, 5*time.Second)
	if s.Name == "" {
		return nil, errors.New("a service without a name — fix: name it")
	}
	if len(s.Command) == 0 || s.Command[0] == "" {
		return nil, fmt.Errorf("%s: it has no command — fix: give the program and its arguments", s.Name)
	}
	dir, err := filepath.Abs(s.Dir)
	if err != nil {
		return nil, fmt.Errorf("%s: working directory: %w", s.Name, err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, fmt.Errorf("%s: working directory: %w — fix: create it, or name another as dir", s.Name, err)
	}
	s.Dir = dir
	if err := s.program(); err != nil {
		return nil, err
	}
	for _, declared := range decl.Scratch {
		d, err := s.declare(declared, protected)
		if err != nil {
			return nil, fmt.Errorf("%s: scratch directory %q: %w", s.Name, declared, err)
		}
		s.scratch = append(s.scratch, d)
	}
	return s, nil
}

// program finds the program: by PATH, or relative to the working directory when it holds a slash.
func (s *service) program() error {
	name := s.Command[0]
	if !strings.Contains(name, "/") {
		path, err := exec.LookPath(name)
		if err != nil {
			return fmt.Errorf("%s: the command %q is not found in PATH — fix: install it, or give its full path", s.Name, name)
		}
		name = path
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(s.Dir, name)
	}
	s.path = name
	info, err := os.Stat(name)
	if err != nil {
		return startError(s, err)
	}
	if info.IsDir() || info.Mode()&0o111 == 0 {
		return startError(s, fs.ErrPermission)
	}
	return nil
}

// startError says in one sentence why a program could not be loaded.
func startError(s *service, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: the command %s is not found — fix: correct its path, or install it (a script needs its interpreter too)", s.Name, s.path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: the command %s is not executable — fix: chmod +x %s", s.Name, s.path, s.path)
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("%s: the command %s is no program for this machine — fix: build it for this one, or begin the script with #! and its interpreter", s.Name, s.path)
	}
	return fmt.Errorf("%s: starting %s: %w", s.Name, s.path, err)
}

// scratch is a directory that may be emptied.
type scratch struct {
	declared  string
	path      string // without symbolic links, when it was declared
	dir       string // the service's working directory
	program   string
	protected []string
}

// declare creates the directory and sees whether it may be emptied and written.
func (s *service) declare(declared string, protected []string) (scratch, error) {
	if declared == "" {
		return scratch{}, errors.New("it is empty — fix: name a directory")
	}
	path := declared
	if !filepath.IsAbs(path) {
		path = filepath.Join(s.Dir, path)
	}
	d := scratch{declared: declared, path: real(path), dir: s.Dir, program: real(s.path), protected: protected}
	if err := d.allowed(); err != nil {
		return d, err
	}
	if err := os.MkdirAll(d.path, 0o755); err != nil {
		return d, fmt.Errorf("creating it: %w — fix: make it writable for this user, or name another", err)
	}
	f, err := os.CreateTemp(d.path, ".amnesia-")
	if err != nil {
		return d, fmt.Errorf("it cannot be written: %w — fix: make it writable for this user, or name another", err)
	}
	return d, errors.Join(f.Close(), os.Remove(f.Name()))
}

// allowed refuses what no configuration may have emptied.
func (d scratch) allowed() error {
	if filepath.Dir(filepath.Dir(d.path)) == filepath.Dir(d.path) {
		return fmt.Errorf("%s is the root or a top-level directory and is never emptied — fix: name a directory of the service's own below it", d.path)
	}
	if home, err := os.UserHomeDir(); err == nil && contains(d.path, real(home)) {
		return fmt.Errorf("%s holds the home directory and is never emptied — fix: name a directory of the service's own", d.path)
	}
	for _, p := range d.protected {
		if contains(d.path, real(p)) {
			return fmt.Errorf("%s holds %s, which is evidence and is never emptied — fix: keep the two apart", d.path, p)
		}
	}
	if contains(d.path, d.program) {
		return fmt.Errorf("%s holds the program %s — fix: name a directory that holds only data", d.path, d.program)
	}
	if d.path != d.dir && contains(d.path, d.dir) {
		return fmt.Errorf("%s holds the working directory %s — fix: name a directory below it", d.path, d.dir)
	}
	for _, mount := range mounts() {
		if mount != d.path && contains(d.path, mount) {
			return fmt.Errorf("another file system is mounted at %s — fix: unmount it, or name another directory", mount)
		}
	}
	return nil
}

// contains reports whether path is dir or lies below it; both are without symbolic links.
func contains(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// real resolves the symbolic links of as much of the path as exists.
func real(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		return filepath.Clean(path)
	}
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		return resolved
	}
	parent := filepath.Dir(path)
	if parent == path {
		return path
	}
	return filepath.Join(real(parent), filepath.Base(path))
}
