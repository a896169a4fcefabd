// Package evidence keeps the folder of screenshots, documents and traces within its limits: what healthy noise left goes
// early, so that what belongs to a finding is still there when somebody asks why.
//
// It learns from the facts which files belong to which cycle and what came of that, and knows neither what is in a file
// nor who made it. Nothing is removed but files with a name that session.EvidenceName gives.
package evidence

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
	"amnesia/pkg/session"
)

// Limits bound the folder.
type Limits struct {
	Size     int64         // bytes of all files
	Age      time.Duration // of what belongs to no finding
	Findings time.Duration // of what belongs to an incident, or to a cycle with a loss, a defect or a target that did not recover
}

// Keeper keeps one folder. Its methods may be called by many goroutines.
type Keeper struct {
	dir    string
	limits Limits
	clock  memory.Clock
	log    *zap.Logger
	due    chan struct{} // holds one: a cycle was closed

	mu sync.Mutex
	fold
}

// fold is what the facts say of files.
type fold struct {
	open    []string        // files of the cycle that is not closed yet
	finding map[string]bool // by file name: it belongs to one
}

// New gives the keeper of a folder, which need not exist.
func New(dir string, limits Limits, clock memory.Clock, log *zap.Logger) *Keeper {
	return &Keeper{dir: dir, limits: limits, clock: clock, log: log, due: make(chan struct{}, 1), fold: fold{finding: map[string]bool{}}}
}

// Tap follows the facts, those of earlier daemons first.
func (k *Keeper) Tap(entries []fact.Entry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range entries {
		switch f := e.Fact.(type) {
		case fact.Session:
			for _, path := range f.Files {
				k.open = append(k.open, filepath.Base(path))
			}
		case fact.Frozen:
			for _, p := range f.Pictures {
				k.finding[filepath.Base(p.File)] = true
			}
		case fact.Cycle:
			if f.Phase != fact.PhaseClosed {
				continue
			}
			switch f.Outcome {
			case fact.CycleLosses, fact.CycleDefects, fact.CycleUnrecovered:
				for _, name := range k.open {
					k.finding[name] = true
				}
			}
			k.open = nil
			select {
			case k.due <- struct{}{}:
			default:
			}
		}
	}
}

// Lend lends what the facts have made: see ledger.Fold.
func (k *Keeper) Lend(fn func(state any) error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return fn(&k.fold)
}

// Run collects now and after every cycle, until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	for {
		if n, err := k.Collect(); err != nil {
			k.log.Warn("evidence is not kept within its limits", zap.Error(err))
		} else if n > 0 {
			k.log.Info("old evidence was removed", zap.Int("files", n))
		}
		select {
		case <-k.due:
		case <-ctx.Done():
			return
		}
	}
}

// file is one in the folder.
type file struct {
	name    string
	at      time.Time
	size    int64
	finding bool
}

// Collect removes what is too old, and then the oldest until the rest is small enough, findings last. It goes on after a
// file that cannot be removed.
func (k *Keeper) Collect() (removed int, err error) {
	files, err := k.list()
	if err != nil {
		return 0, err
	}
	slices.SortFunc(files, func(a, b file) int {
		if a.finding != b.finding {
			if a.finding {
				return 1
			}
			return -1
		}
		return a.at.Compare(b.at)
	})
	total := int64(0)
	for _, f := range files {
		total += f.size
	}
	now := k.clock.Now().Time()
	var errs []error
	drop := func(when func(f file) bool) {
		files = slices.DeleteFunc(files, func(f file) bool {
			if !when(f) {
				return false
			}
			if err := os.Remove(filepath.Join(k.dir, f.name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			} else {
				total -= f.size
				removed++
			}
			return true
		})
	}
	drop(func(f file) bool {
		return f.finding && now.Sub(f.at) > k.limits.Findings || !f.finding && now.Sub(f.at) > k.limits.Age
	})
	drop(func(file) bool { return total > k.limits.Size })
	if err := errors.Join(errs...); err != nil {
		return removed, fmt.Errorf("removing old evidence: %w — fix: give this user the right to the folder %s", err, k.dir)
	}
	return removed, nil
}

// list gives the files of ours in the folder, and forgets of what is gone that it belonged to a finding.
func (k *Keeper) list() ([]file, error) {
	k.mu.Lock() // so that nothing comes to belong to a finding while the folder is read
	defer k.mu.Unlock()
	entries, err := os.ReadDir(k.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking for old evidence: %w", err)
	}
	var files []file
	finding := map[string]bool{}
	for _, e := range entries {
		at, ours := session.EvidenceTime(e.Name())
		info, err := e.Info()
		if !ours || err != nil || !info.Mode().IsRegular() {
			continue
		}
		f := file{e.Name(), at, info.Size(), k.finding[e.Name()]}
		if f.finding {
			finding[f.name] = true
		}
		files = append(files, f)
	}
	k.finding = finding
	return files, nil
}
