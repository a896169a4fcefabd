//go:build linux

package torture

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"
)

// canaries is how many files lie in what may be wiped: all of them, or none, or it is half wiped.
const canaries = 1000

// Processes are the sample application and another one beside it as processes of the daemon's. They end with it.
type Processes struct {
	dir, app, side string
}

// NewProcesses gives the target of a run in the folder dir.
func NewProcesses(ctx context.Context, dir string) (*Processes, error) {
	p := &Processes{dir: dir}
	for _, to := range []*string{&p.app, &p.side} {
		var err error
		if *to, err = freeAddress(ctx); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *Processes) fill(s *settings) { s.App, s.Side = p.app, p.side }

func (p *Processes) start() time.Duration { return 0 } // nothing is to start while no daemon lives

// restore fills the scratch directory again.
func (p *Processes) restore(context.Context) error {
	dir := filepath.Join(p.dir, "scratch")
	if n, err := p.count(); err != nil || n > 0 {
		return err
	}
	for i := range canaries {
		sub := filepath.Join(dir, fmt.Sprintf("canary-%d", i))
		if err := errors.Join(os.MkdirAll(sub, 0o755), os.WriteFile(filepath.Join(sub, "canary"), nil, 0o644)); err != nil {
			return err
		}
	}
	return nil
}

func (p *Processes) count() (int, error) {
	files, err := filepath.Glob(filepath.Join(p.dir, "scratch", "canary-*"))
	return len(files), err
}

// broken: the services have ended with their daemon, and their ports are free; what is half wiped the next start empties.
func (p *Processes) broken(_ context.Context, alone bool) error {
	if alone {
		for _, addr := range []string{p.app, p.side} {
			if conn, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
				conn.Close()
				return fmt.Errorf("something answers at %s although the daemon is dead", addr)
			}
		}
		return nil
	}
	n, err := p.count()
	if err != nil {
		return err
	}
	if n != 0 && n != canaries {
		return fmt.Errorf("the scratch directory is half wiped: %d of %d files are there", n, canaries)
	}
	return nil
}

func (p *Processes) left(context.Context) error { return nil }
