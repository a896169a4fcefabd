//go:build unix

package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// Wipeable says whether the directory is a declared scratch directory of the service and may be emptied now.
func (e *Engine) Wipeable(_ context.Context, name, volume string) error {
	s, err := e.service(name)
	if err != nil {
		return err
	}
	d, err := s.find(volume)
	if err != nil {
		return err
	}
	return d.check(s.Name)
}

// Empty removes everything in the directory, and sees that it is empty. It follows no symbolic link out of it.
func (e *Engine) Empty(_ context.Context, name, volume string) (err error) {
	defer e.observe.Time(e.clock, "empty")(&err)
	s, err := e.service(name)
	if err != nil {
		return err
	}
	s.op.Lock()
	defer s.op.Unlock()
	d, err := s.find(volume)
	if err != nil {
		return err
	}
	return s.empty(d)
}

// Recreate empties every scratch directory of a service that is down, and starts it.
func (e *Engine) Recreate(ctx context.Context, name string) (err error) {
	defer e.observe.Time(e.clock, "recreate")(&err)
	s, err := e.service(name)
	if err != nil {
		return err
	}
	s.op.Lock()
	defer s.op.Unlock()
	for _, d := range s.scratch {
		if err := s.empty(d); err != nil {
			return err
		}
	}
	return e.start(ctx, s)
}

func (s *service) find(volume string) (scratch, error) {
	var known []string
	for _, d := range s.scratch {
		if volume != "" && (volume == d.declared || filepath.Clean(volume) == d.path) {
			return d, nil
		}
		known = append(known, d.path)
	}
	return scratch{}, fmt.Errorf("%s: %q is not emptied: it is not among the declared scratch directories %q — fix: declare it under scratch, if all in it is ephemeral",
		s.Name, volume, known)
}

// check refuses a directory that is no longer what was declared.
func (d scratch) check(name string) error {
	if now := real(d.path); now != d.path {
		return fmt.Errorf("%s: %s is not emptied: it has come to lead to %s by a symbolic link — fix: put a directory in its place", name, d.path, now)
	}
	if err := d.allowed(); err != nil {
		return fmt.Errorf("%s: not emptied: %w", name, err)
	}
	return nil
}

// wiping is in a scratch directory that is being emptied, from before the first removal until after the last: what a
// daemon did not live to empty is emptied before the service starts again.
const wiping = ".amnesia-wiping"

// finish empties what was left half empty.
func (s *service) finish() error {
	for _, d := range s.scratch {
		if _, err := os.Lstat(filepath.Join(d.path, wiping)); err == nil {
			if err := s.empty(d); err != nil {
				return fmt.Errorf("ending a wipe that was cut short: %w", err)
			}
		}
	}
	return nil
}

func (s *service) empty(d scratch) error {
	if p := s.current(); p != nil && p.alive() {
		return fmt.Errorf("%s: %s is not emptied while the service runs", s.Name, d.path)
	}
	if err := d.check(s.Name); err != nil {
		return err
	}
	if err := os.MkdirAll(d.path, 0o755); err != nil {
		return fmt.Errorf("%s: creating %s anew: %w", s.Name, d.path, err)
	}
	// An os.Root does not leave its directory, whatever is swapped for a link while it works.
	root, err := os.OpenRoot(d.path)
	if err != nil {
		return fmt.Errorf("%s: opening %s: %w", s.Name, d.path, err)
	}
	defer root.Close()
	// Opening may have followed a link that was put there after the check.
	opened, err := root.Stat(".")
	if err != nil {
		return fmt.Errorf("%s: reading %s: %w", s.Name, d.path, err)
	}
	if at, err := os.Lstat(d.path); err != nil || !os.SameFile(opened, at) || real(d.path) != d.path {
		return fmt.Errorf("%s: %s is not emptied: it was exchanged while it was opened", s.Name, d.path)
	}
	names, err := list(root)
	if err != nil {
		return fmt.Errorf("%s: reading %s: %w", s.Name, d.path, err)
	}
	if len(names) == 0 {
		return nil
	}
	mark, err := root.Create(wiping)
	if err != nil {
		return fmt.Errorf("%s: marking that %s is being emptied: %w", s.Name, d.path, err)
	}
	mark.Close()
	for _, name := range append(slices.DeleteFunc(names, func(n string) bool { return n == wiping }), wiping) {
		if err := root.RemoveAll(name); err != nil {
			return fmt.Errorf("%s: emptying %s: %w", s.Name, d.path, err)
		}
	}
	left, err := list(root)
	if err != nil {
		return fmt.Errorf("%s: reading %s: %w", s.Name, d.path, err)
	}
	if len(left) > 0 {
		return fmt.Errorf("%s: %s is not empty after it was emptied: %q — fix: find out what else writes there", s.Name, d.path, left)
	}
	return nil
}

func list(root *os.Root) ([]string, error) {
	dir, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	names, err := dir.Readdirnames(-1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return names, errors.Join(err, dir.Close())
}
