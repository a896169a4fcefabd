package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"amnesia/pkg/clock"
	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

// Options are what a writing ledger needs from outside; the zero value works.
type Options struct {
	Clock  memory.Clock // measures appends; nil: the system's
	Logger *zap.Logger  // nil: none
	// Tap is called with the facts of a commit, in the order and form in which Facts gives them, after they are durable
	// and before their Append returns; one call at a time. It must not append, and holds up every writer.
	Tap func([]fact.Entry)
	// Redact is applied to what others said, in every fact and before anything is done with it (see fact.Redact); nil: to
	// nothing.
	Redact func(string) string
	// ObserveAppend is told how long each Append took and how it ended, by the goroutine that appended.
	ObserveAppend func(time.Duration, error)
}

// Ledger is one open file. Its methods may be called by many goroutines.
type Ledger struct {
	path   string
	copied string // what is read instead, where path is in an older format
	opts   Options
	lock   io.Closer // nil: read only

	writer  *writer
	queue   *queue
	stopped chan struct{} // closed by the committer: the writer rests
	close   sync.Once
	closed  error

	memory, injection, sweep, cycle atomic.Int64 // the last number given or seen
	appends, errors                 atomic.Int64

	folds        []Fold
	last, imaged atomic.Int64 // the last fact, and that of the last images
	imageBytes   atomic.Int64 // of the last images, before they were compressed
	sound        int64        // the last fact of an image that was made since the machine was started
}

// Stats are figures of a ledger since it was opened.
type Stats struct {
	Bytes   int64 // of the file and its WAL
	Appends int64 // that are durable
	Errors  int64 // appends that failed; not those whose context ended
}

// Open opens the ledger at path for writing. It makes the file, migrates an older one, and refuses one that another
// process writes, that is newer, or that is no ledger. Of one that was cut short or is damaged, what can be read is kept
// up to the first fact that cannot, and the damaged file is set aside beside it, named .damaged-1 and so on.
func Open(ctx context.Context, path string, o Options) (*Ledger, error) {
	if o.Clock == nil {
		o.Clock = clock.System()
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	l := &Ledger{
		path: path, opts: o, queue: newQueue(), stopped: make(chan struct{}),
	}
	if err := l.open(ctx); err != nil {
		if l.lock != nil {
			err = errors.Join(err, l.lock.Close())
		}
		return nil, l.wrap("opening", err)
	}
	o.Logger.Info("ledger open", zap.String("path", path), zap.Int64("facts", l.writer.seq), zap.Int64("bytes", l.Stats().Bytes))
	go l.commitLoop(context.WithoutCancel(ctx))
	return l, nil
}

func (l *Ledger) open(ctx context.Context) (err error) {
	if err := regular(l.path); err != nil {
		return err
	}
	if l.lock, err = lock(l.path); err != nil {
		return err
	}
	if err := l.endMend(); err != nil {
		return err
	}
	wal := size(l.path + "-wal")
	if wal > 0 && size(l.path) == 0 { // SQLite would take the -wal for a stranger's, and remove it
		return refusal("it is empty, and its -wal is not — fix: put the file back, or move the -wal away")
	}
	err = l.load(ctx)
	if err == nil {
		if err = l.whole(ctx, wal > 0); err != nil {
			err = errors.Join(err, l.writer.Close())
		}
	}
	if damaged(err) {
		if err = l.mend(ctx, err); err == nil {
			err = l.load(ctx)
		}
	}
	return err
}

// load opens the file for writing.
func (l *Ledger) load(ctx context.Context) (err error) {
	c, err := connect(ctx, l.path, "_pragma=journal_size_limit(16777216)", "_pragma=cache_size(-4000)")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	version, err := identify(ctx, c)
	if err != nil {
		return err
	}
	// Only now, that the file is known to be ours, may anything be changed in it.
	if err := c.exec(ctx, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL"); err != nil {
		return err
	}
	if err := migrate(ctx, c, version); err != nil {
		return err
	}
	if err := syncFolder(l.path); err != nil {
		return err
	}
	if l.writer, err = newWriter(ctx, c); err != nil {
		return err
	}
	l.last.Store(l.writer.seq)
	return l.restore(ctx, c)
}

// restore brings back what is kept in memory: the counters and how every memory last looked.
func (l *Ledger) restore(ctx context.Context, c *conn) error {
	for query, counter := range map[string]*atomic.Int64{
		"SELECT max(id) FROM memory":                                 &l.memory,
		"SELECT max(id) FROM sweep":                                  &l.sweep,
		"SELECT max(ref) FROM fact WHERE kind = '" + kindStep + "'":  &l.injection,
		"SELECT max(ref) FROM fact WHERE kind = '" + kindCycle + "'": &l.cycle,
	} {
		n, err := c.number(ctx, query)
		if err != nil {
			return err
		}
		counter.Store(n)
	}
	return l.reading(ctx, func(c *conn) error {
		after := l.picture(ctx, c, looks(l.writer))
		m, err := newMerge(ctx, c, lookSources())
		if err != nil {
			return err
		}
		return m.run(after, math.MaxInt64, func(e fact.Entry) bool {
			switch f := e.Fact.(type) {
			case fact.Sweep:
				l.writer.cache.reduce(&f)
			case fact.Retired:
				l.writer.cache.forget(f.Memories)
			}
			return true
		})
	})
}

// syncFolder makes the name of a new file durable, and not only its content.
func syncFolder(path string) error {
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// OpenReadOnly opens a ledger to read it: beside a running daemon, or a copy of one, also in a folder that may not be
// written. It changes nothing and leaves nothing behind; of a ledger in an older format it reads a migrated copy, which
// goes with Close. Append returns an error.
func OpenReadOnly(ctx context.Context, path string) (*Ledger, error) {
	l := &Ledger{path: path}
	if err := l.readable(ctx); err != nil {
		return nil, errors.Join(l.wrap("opening", err), l.Close())
	}
	return l, nil
}

func (l *Ledger) readable(ctx context.Context) error {
	if _, err := os.Stat(l.path); err != nil {
		return err
	}
	if err := regular(l.path); err != nil {
		return err
	}
	newest, err := newestVersion()
	if err != nil {
		return err
	}
	return l.reading(ctx, func(c *conn) error {
		version, err := identify(ctx, c)
		switch {
		case err != nil:
			return err
		case version == 0:
			return refusal("it is empty — fix: give the path of an Amnesia ledger")
		case version < newest:
			return l.migratedCopy(ctx, c, version)
		}
		return nil
	})
}

// migratedCopy has the ledger read from a copy in the newest format.
func (l *Ledger) migratedCopy(ctx context.Context, from *conn, version int64) error {
	dir, err := os.MkdirTemp("", "amnesia-ledger-")
	if err != nil {
		return err
	}
	l.copied = filepath.Join(dir, "ledger.db")
	if err := from.exec(ctx, fmt.Sprintf("VACUUM INTO '%s'", strings.ReplaceAll(l.copied, "'", "''"))); err != nil {
		return err
	}
	c, err := connect(ctx, l.copied)
	if err != nil {
		return err
	}
	return errors.Join(migrate(ctx, c, version), c.Close())
}

func regular(path string) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return refusal("it is no regular file — fix: give the path of a file")
	}
	return nil
}

// reading lends a connection that reads.
func (l *Ledger) reading(ctx context.Context, fn func(*conn) error) error {
	path := cmp.Or(l.copied, l.path)
	params := []string{"mode=ro", "_pragma=cell_size_check(1)"}
	// Whoever has a ledger open has a -wal beside it. Without one the file is read as it stands, since SQLite would make a
	// -wal of its own: it could not in a folder that may not be written, and would litter evidence elsewhere.
	alone := l.lock == nil && !exists(path+"-wal")
	if alone {
		params = append(params, "immutable=1")
	}
	c, err := connect(ctx, path, params...)
	if err != nil {
		return err
	}
	err = errors.Join(fn(c), c.Close())
	if alone && exists(path+"-wal") {
		return refusal("a daemon opened it while it was being read — fix: read it again")
	}
	return err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// wrap names the file in an error that a person sees, and what to do.
func (l *Ledger) wrap(doing string, err error) error {
	fix := ""
	switch refused := refusal(""); {
	case errors.As(err, &refused), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
	case errors.Is(err, fs.ErrPermission):
		fix = " — fix: give this user the right to the file and its folder, or give another path"
	case errors.As(err, new(*fs.PathError)):
		fix = " — fix: give the path of a file in a folder that exists"
	default:
		fix = " — fix: " + hint(err)
	}
	return fmt.Errorf("%s the ledger %s: %w%s", doing, l.path, err, fix)
}

// Path gives the path that the ledger was opened with.
func (l *Ledger) Path() string { return l.path }

// NextMemory gives a number that no memory of this ledger has.
func (l *Ledger) NextMemory() memory.ID { return memory.ID(l.memory.Add(1)) }

// NextInjection gives a number that no injection of this ledger has.
func (l *Ledger) NextInjection() int64 { return l.injection.Add(1) }

// NextSweep gives a number that no sweep of this ledger has.
func (l *Ledger) NextSweep() int64 { return l.sweep.Add(1) }

// NextCycle gives a number that no cycle of this ledger has.
func (l *Ledger) NextCycle() int { return int(l.cycle.Add(1)) }

// Stats gives the figures as they are now.
func (l *Ledger) Stats() Stats {
	s := Stats{Appends: l.appends.Load(), Errors: l.errors.Load()}
	for _, suffix := range []string{"", "-wal"} {
		if info, err := os.Stat(l.path + suffix); err == nil {
			s.Bytes += info.Size()
		}
	}
	return s
}

// Close makes what was appended before it durable, and lets go of the file.
func (l *Ledger) Close() error {
	if l.copied != "" {
		return os.RemoveAll(filepath.Dir(l.copied))
	}
	if l.lock == nil {
		return nil
	}
	l.close.Do(func() {
		l.queue.close()
		<-l.stopped
		if err := errors.Join(l.writer.Close(), l.lock.Close()); err != nil {
			l.closed = l.wrap("closing", err)
		}
	})
	return l.closed
}
