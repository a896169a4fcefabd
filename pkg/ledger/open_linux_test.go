package ledger_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"amnesia/pkg/ledger"
)

// asNobody runs fn without root's right to pass over permissions (setfsuid(2): for this thread only).
func asNobody(t *testing.T, fn func()) {
	t.Helper()
	if os.Getuid() != 0 {
		fn()
		return
	}
	const nobody = 65534
	runtime.LockOSThread() // and never unlocked: the thread ends with the test
	if err := unix.Setfsuid(nobody); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setfsuid(0); err != nil {
			t.Fatal(err)
		}
	}()
	fn()
}

// TestNoRight reads a ledger in a folder that may not be written, where SQLite by itself could not, and is refused the
// writing.
func TestNoRight(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.db")
	l := open(t, path, ledger.Options{})
	if err := l.Append(t.Context(), one()...); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	// A test's own folder lies in one that is root's alone.
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(d, 0o555); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(d, 0o755) })
	}
	asNobody(t, func() {
		ro, err := ledger.OpenReadOnly(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(entries(t, ro, 0)); n != len(one()) {
			t.Errorf("%d facts", n)
		}
		_, err = ledger.Open(t.Context(), filepath.Join(dir, "b.db"), ledger.Options{})
		if err == nil || !strings.Contains(err.Error(), "permission denied — fix: give this user the right") {
			t.Errorf("error is %v", err)
		}
	})
}

// TestReadersLetGo reads many times, to the end and not, and holds that no file stays open.
func TestReadersLetGo(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "a.db"), ledger.Options{})
	if err := l.Append(t.Context(), one()...); err != nil {
		t.Fatal(err)
	}
	files := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	before := files()
	for range 20 {
		for range l.Facts(t.Context(), 0) {
			break
		}
		for range l.Facts(t.Context(), 0) {
		}
		if _, err := l.Unsettled(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if after := files(); after > before+2 {
		t.Errorf("%d files are open, %d were before", after, before)
	}
}
