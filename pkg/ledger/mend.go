package ledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"

	"go.uber.org/zap"
	sqlite3 "modernc.org/sqlite/lib"

	"amnesia/pkg/fact"
)

const (
	mendingSuffix = ".mending" // being written
	mendedSuffix  = ".mended"  // complete: it only has to take the place of the damaged file, which has been set aside
	asideSuffix   = ".damaged-"

	mendBatch = 1024 // facts of one append
	pageSize  = 4096 // SQLite's default
)

// damaged reports whether err says that a ledger's content is not as it was written.
func damaged(err error) bool {
	return errors.Is(err, errDamaged) || code(err) == sqlite3.SQLITE_CORRUPT
}

// mend puts a new ledger in the place of one that is damaged: the facts up to the first that cannot be read, which is what
// the ledger once was. The damaged file is set aside, as it is. The lock is held. A death at any point leaves either file
// whole, and the next open ends what was begun.
func (l *Ledger) mend(ctx context.Context, why error) error {
	mending := l.path + mendingSuffix
	if err := remove(mending, mending+"-wal", mending+"-shm"); err != nil {
		return err
	}
	kept, err := l.salvage(ctx, mending)
	if err != nil {
		return fmt.Errorf("%w; mending it: %w", why, err)
	}
	if err := remove(mending + ".lock"); err != nil {
		return err
	}
	aside, err := l.setAside()
	if err != nil {
		return fmt.Errorf("%w; setting it aside: %w", why, err)
	}
	if err := errors.Join(os.Rename(mending, l.path+mendedSuffix), syncFolder(l.path)); err != nil {
		return err
	}
	l.opts.Logger.Error("the ledger is damaged: what can be read of it is kept, and the file is set aside. A fault that was recorded after that may not have been undone: look at the target",
		zap.String("path", l.path), zap.Error(why), zap.Int64("facts", kept), zap.String("aside", aside))
	return l.endMend()
}

// endMend ends a mending that has come to its last step; without one it does nothing.
func (l *Ledger) endMend() error {
	if !exists(l.path + mendedSuffix) {
		return nil
	}
	// The old -wal must never meet the new file.
	if err := errors.Join(remove(l.path+"-wal", l.path+"-shm"), syncFolder(l.path)); err != nil {
		return err
	}
	return errors.Join(os.Rename(l.path+mendedSuffix, l.path), syncFolder(l.path))
}

// setAside gives the damaged file a second name that is free.
func (l *Ledger) setAside() (aside string, err error) {
	for n := 1; ; n++ {
		aside = fmt.Sprint(l.path, asideSuffix, n)
		err = os.Link(l.path, aside)
		if !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	if err == nil && exists(l.path+"-wal") {
		err = os.Link(l.path+"-wal", aside+"-wal")
	}
	return aside, err
}

// salvage writes the facts that can be read into a ledger at the path to.
func (l *Ledger) salvage(ctx context.Context, to string) (kept int64, err error) {
	from := to + "-from"
	defer func() { err = errors.Join(err, remove(from, from+"-wal", from+"-shm")) }()
	if err := copyPages(from, l.path); err != nil {
		return 0, err
	}
	// SQLite refuses a file that is shorter than it says, unless somebody who means to write its schema asks.
	c, err := connect(ctx, from, "mode=ro", "_pragma=cell_size_check(1)", "_pragma=writable_schema(1)")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	// These stand on the first page. The schema behind them may be gone, and all with it.
	app, err := c.number(ctx, "PRAGMA application_id")
	if err != nil {
		return 0, err
	}
	version, err := c.number(ctx, "PRAGMA user_version")
	if err != nil {
		return 0, err
	}
	if app != applicationID {
		return 0, refusal("the file is of something else — fix: give the path of an Amnesia ledger, or a new path")
	}
	if newest, err := newestVersion(); err != nil || version != newest {
		return 0, errors.Join(err, refusal(fmt.Sprintf("it is of the older format %d — fix: open it with the version that wrote it", version)))
	}
	mended, err := Open(ctx, to, Options{Clock: l.opts.Clock})
	if err != nil {
		return 0, err
	}
	var batch []fact.Fact
	write := func() bool {
		err = mended.Append(ctx, batch...)
		batch = batch[:0:0]
		return err == nil
	}
	readable(ctx, c, func(f fact.Fact) bool {
		batch = append(batch, f)
		kept++
		return len(batch) < mendBatch || write()
	})
	if err == nil {
		write()
	}
	return kept, errors.Join(err, mended.Close())
}

// readable yields facts in their order up to the first that cannot be read. A table that ends in damage does not end the
// others: what comes next is known by its number.
func readable(ctx context.Context, c *conn, yield func(fact.Fact) bool) {
	m, err := newMerge(ctx, c, sources())
	if err != nil {
		return
	}
	for _, cur := range m.cursors {
		if cur.begin(ctx, 0, math.MaxInt64) != nil {
			cur.seq = math.MaxInt64
		}
		defer cur.end()
	}
	for seq := int64(1); ; seq++ {
		next := m.cursors[0]
		for _, cur := range m.cursors[1:] {
			if cur.seq < next.seq {
				next = cur
			}
		}
		if next.seq != seq {
			return
		}
		f := next.source.make(&m.reader, next.rows, next.parts)
		if m.err != nil || next.rows.err != nil || !yield(f) {
			return
		}
		if next.advance() != nil {
			next.seq = math.MaxInt64
		}
	}
}

// remove removes files, if they are there.
func remove(paths ...string) error {
	var errs []error
	for _, p := range paths {
		if err := os.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// whole reports damage that SQLite does not see when it opens a file. After an end that was not orderly every fact is
// read, but those before an image of the time since the machine was started: the death of a process tears nothing that
// it had written, and what it wrote after that is read.
func (l *Ledger) whole(ctx context.Context, unclean bool) error {
	if unclean {
		err := l.reading(ctx, func(c *conn) error {
			return stream(ctx, c, sources(), l.sound, func(fact.Entry) bool { return true })
		})
		if err != nil {
			return err
		}
		// A page that was on its way into the file is still in the -wal, whole.
		if err := l.writer.exec(ctx, "PRAGMA wal_checkpoint(FULL)"); err != nil {
			return err
		}
	}
	if size(l.path)%pageSize != 0 {
		return fmt.Errorf("its last page is cut short: %w", errDamaged) // and SQLite reads zeros in its place
	}
	return nil
}

// copyPages copies the whole pages of a ledger, and its -wal.
func copyPages(to, from string) error {
	for _, suffix := range []string{"", "-wal"} {
		in, err := os.Open(from + suffix)
		if errors.Is(err, fs.ErrNotExist) && suffix != "" {
			return nil
		}
		if err != nil {
			return err
		}
		out, err := os.Create(to + suffix)
		if err == nil {
			length := size(from + suffix)
			if suffix == "" {
				length -= length % pageSize
			}
			_, err = io.CopyN(out, in, length)
			err = errors.Join(err, out.Close())
		}
		if err = errors.Join(err, in.Close()); err != nil {
			return err
		}
	}
	return nil
}

// size gives the bytes of a file; 0 when it is not there.
func size(path string) int64 {
	if info, err := os.Stat(path); err == nil {
		return info.Size()
	}
	return 0
}
