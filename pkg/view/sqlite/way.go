package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// A way is how the file can be opened just now without creating or altering anything. SQLite's own mode=ro is not
// enough for that: in WAL mode (https://sqlite.org/wal.html#read_only_databases) it still creates the files -wal and
// -shm when they are missing, and if they then belong to our user the app cannot write any more.
//
//   - Rollback mode: mode=ro, with SQLite's locks.
//   - WAL mode, -wal and -shm there (the app runs, or was killed): mode=ro and readonly_shm=1, with which SQLite uses a
//     living app's index and, where the app is dead, builds one of its own in memory.
//   - WAL mode, no -wal (the app ended well): immutable=1, that is without locks; what was read counts only if the
//     files are the same afterwards.
type way struct {
	path   string
	params string
	still  fs.FileInfo // for a read without locks: how the file looked before
}

// dsn lets the context and not SQLite end the wait for a lock, so that the reason is told.
func (w way) dsn(timeout time.Duration) string {
	return fmt.Sprintf("file:%s?%s&_pragma=busy_timeout(%d)&_pragma=query_only(1)", (&url.URL{Path: w.path}).EscapedPath(), w.params, (timeout + time.Second).Milliseconds())
}

// tries is how often we look again at what an app leaves behind only for a moment while it starts or ends.
const tries = 20

// tick is more than the step of any file system's clock that is in use with a database. A file that was written within
// it could be written again without looking any different.
const tick = 20 * time.Millisecond

// probe looks at the database file's header. It keeps the file open from one look to the next: closing any descriptor
// of a file gives up all POSIX locks that this process holds on it (fcntl(2)), and with them those of a read in
// progress in another goroutine.
type probe struct {
	mu   sync.Mutex
	file *os.File
}

func (p *probe) look(path string, attempt int) (way, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return way{}, err
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return way{}, fmt.Errorf("%w — fix: check the view's path, and that the app has been started", err)
	case err != nil:
		return way{}, err
	case !info.Mode().IsRegular():
		return way{}, fmt.Errorf("it is no regular file (%s) — fix: check the view's path", info.Mode().Type())
	}
	wal, err := p.isWAL(path, info)
	if err != nil {
		return way{}, err
	}
	hasWAL, hasIndex := size(path+"-wal"), size(path+"-shm")
	switch {
	case !wal:
		return way{path: path, params: "mode=ro"}, nil
	case (hasWAL < 0 || hasWAL == 0 && hasIndex < 0) && time.Since(info.ModTime()) < tick && attempt < tries:
		return way{}, errMoved
	case hasWAL < 0, hasWAL == 0 && hasIndex < 0:
		return way{path: path, params: "mode=ro&immutable=1", still: info}, nil
	case hasIndex < 0 && attempt < tries:
		return way{}, errMoved // an app that ends takes one file after the other
	case hasIndex < 0:
		return way{}, errors.New("it has a -wal file without a -shm file, which cannot be read without altering it — fix: start the app, which recovers it")
	default:
		return way{path: path, params: "mode=ro&readonly_shm=1"}, nil
	}
}

// moved reports whether the file can no longer be opened the same way. After a read without locks, it also reports
// whether the file may have changed meanwhile.
func (p *probe) moved(was way, attempt int) bool {
	now, err := p.look(was.path, attempt)
	if err != nil || now.params != was.params {
		return true
	}
	return was.still != nil && (!os.SameFile(was.still, now.still) || was.still.Size() != now.still.Size() ||
		!was.still.ModTime().Equal(now.still.ModTime()))
}

// isWAL reports whether the header says that the file is in WAL mode (https://sqlite.org/fileformat.html#the_database_header).
func (p *probe) isWAL(path string, info fs.FileInfo) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.file != nil {
		if old, err := p.file.Stat(); err != nil || !os.SameFile(old, info) {
			p.file.Close()
			p.file = nil
		}
	}
	if p.file == nil {
		f, err := os.Open(path)
		if err != nil {
			return false, err
		}
		p.file = f
	}
	const readVersion = 19 // 2: WAL
	var b [1]byte
	n, _ := p.file.ReadAt(b[:], readVersion)
	return n == 1 && b[0] == 2, nil
}

func (p *probe) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.file == nil {
		return nil
	}
	f := p.file
	p.file = nil
	return f.Close()
}

// size gives the size of a file, or -1 where there is none.
func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return -1
	}
	return info.Size()
}
