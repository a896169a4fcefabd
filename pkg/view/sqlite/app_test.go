package sqlite_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"amnesia/pkg/clock"
	"amnesia/pkg/memory"
	"amnesia/pkg/view"
	"amnesia/pkg/view/sqlite"
)

// TestWriter is the app of the tests below, in a process of its own: it stores the texts it is given on its standard
// input, one a line, and says so, until it is killed.
func TestWriter(t *testing.T) {
	path := os.Getenv("SQLITE_TEST_WRITER")
	if path == "" {
		return
	}
	s := &store{path: path, journal: os.Getenv("SQLITE_TEST_JOURNAL")}
	s.start(t)
	switch {
	case os.Getenv("SQLITE_TEST_SCHEMA") != "":
	case os.Getenv("SQLITE_TEST_OPEN_TRANSACTION") != "":
		// A cache of no pages, so that the transaction reaches the file before its end.
		s.exec(t, "PRAGMA cache_size = 1")
		s.exec(t, "BEGIN")
	default:
		s.exec(t, schema)
	}
	var user, text string
	for {
		if _, err := fmt.Scanln(&user, &text); err != nil {
			if errors.Is(err, io.EOF) {
				return
			}
			t.Fatal(err)
		}
		s.start(t)
		s.exec(t, "INSERT INTO chat_memory (user_id, content) VALUES (?, ?)", user, text)
		if os.Getenv("SQLITE_TEST_BRIEF") != "" {
			s.stop(t)
		}
		fmt.Println("stored", text)
	}
}

// startWriter starts the app, and gives a function that lets it store one text, and one that kills it.
func startWriter(t *testing.T, path, journal string, env ...string) (put func(user, text string) error, kill func()) {
	t.Helper()
	cmd := exec.Command(must(os.Executable()), "-test.run=^TestWriter$")
	cmd.Env = append(append(os.Environ(), env...), "SQLITE_TEST_WRITER="+path, "SQLITE_TEST_JOURNAL="+journal)
	cmd.Stderr = os.Stderr
	in, out := must(cmd.StdinPipe()), must(cmd.StdoutPipe())
	check(t, cmd.Start())
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // says that it was killed
	})
	t.Cleanup(kill)
	return func(user, text string) error {
		fmt.Fprintln(in, user, text)
		var stored, got string
		if _, err := fmt.Fscanln(out, &stored, &got); err != nil || stored != "stored" || got != text {
			return fmt.Errorf("the app says %q %q: %w", stored, got, err)
		}
		return nil
	}, kill
}

// files gives the content of every file of the directory.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	for _, e := range must(os.ReadDir(dir)) {
		got[e.Name()] = string(must(os.ReadFile(filepath.Join(dir, e.Name()))))
	}
	return got
}

func names(files map[string]string) []string {
	var out []string
	for name := range files {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func memories(n int) []memory.Memory {
	ms := make([]memory.Memory, n)
	for i := range ms {
		token := fmt.Sprintf("tok%04dx", i)
		ms[i] = memory.Memory{ID: memory.ID(i + 1), User: "ann", Token: token, Text: "code-" + token}
	}
	return ms
}

func states(t *testing.T, v view.View, ms []memory.Memory) []memory.State {
	t.Helper()
	out, err := v.Find(t.Context(), ms)
	if err != nil {
		t.Fatalf("Find: %v", err)
	}
	got := make([]memory.State, len(out))
	for i, o := range out {
		got[i] = o.State
		if o.State == memory.Unreadable {
			t.Errorf("%s: %s", o.Memory, o.Detail)
		}
	}
	return got
}

// TestKilledWriter: the view reads what a living app has only in its WAL, and reads it still when the app was killed,
// and leaves every file as it was.
func TestKilledWriter(t *testing.T) {
	for _, journal := range []string{"WAL", "DELETE"} {
		t.Run(journal, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "app.db")
			put, kill := startWriter(t, path, journal)
			v := sqlite.New(sqlite.Config{Name: "sqlite", Path: path, Query: perUser, Clock: clock.System()})
			defer v.Close()
			ms := memories(4)
			check(t, put("ann", ms[0].Text))
			want := []memory.State{memory.Present, memory.Absent, memory.Absent, memory.Absent}
			if got := states(t, v, ms); !slices.Equal(got, want) {
				t.Errorf("beside the app: %v, want %v", got, want)
			}
			check(t, put("ann", ms[1].Text))
			check(t, put("bob", ms[2].Text))
			kill()
			before := files(t, dir)
			want[1] = memory.Present
			for range 2 {
				if got := states(t, v, ms); !slices.Equal(got, want) {
					t.Errorf("after the app's death: %v, want %v", got, want)
				}
			}
			if after := files(t, dir); fmt.Sprint(after) != fmt.Sprint(before) {
				t.Errorf("the files changed by being read: %v before, %v after", names(before), names(after))
			}
			if journal == "WAL" && !slices.Contains(names(before), "app.db-wal") {
				t.Errorf("the app left no WAL behind: %v", names(before))
			}
		})
	}
}

// TestRestlessApp: whatever the app does to its file, the view sees all that was stored before the read began, nothing
// that was not, and leaves nothing behind.
func TestRestlessApp(t *testing.T) {
	const seed = 7
	for _, journal := range []string{"WAL", "DELETE"} {
		t.Run(journal, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 0))
			s := newStore(t, journal, perUser, false)
			v := s.Open(t)
			defer v.Close()
			ms := memories(120)
			want := slices.Repeat([]memory.State{memory.Absent}, len(ms))
			for i, m := range ms {
				s.Put(t, m.User, m.Text)
				want[i] = memory.Present
				did := "nothing"
				switch rnd.IntN(7) {
				case 0:
					did = "ended"
					s.stop(t)
				case 1:
					did = "checkpoint"
					s.exec(t, "PRAGMA wal_checkpoint(TRUNCATE)")
				case 2:
					did = "passive checkpoint"
					s.exec(t, "PRAGMA wal_checkpoint(PASSIVE)")
				case 3:
					did = "vacuum"
					s.exec(t, "VACUUM")
				case 4:
					did = "delete"
					n := rnd.IntN(i + 1)
					s.Delete(t, ms[n].User, ms[n].Text)
					want[n] = memory.Absent
				}
				if got := states(t, v, ms); !slices.Equal(got, want) {
					t.Fatalf("seed %d, after memory %d (then: %s): got %v, want %v", seed, i, did, got, want)
				}
				if did == "ended" {
					if got := names(files(t, filepath.Dir(s.path))); len(got) != 1 {
						t.Fatalf("seed %d, after memory %d: the folder holds %v, want the database alone", seed, i, got)
					}
				}
			}
		})
	}
}

// TestBesideWriter: the view reads while another process starts, writes and ends again and again, and never misses
// what that process had stored before.
func TestBesideWriter(t *testing.T) {
	for _, journal := range []string{"WAL", "DELETE"} {
		for _, env := range []string{"", "SQLITE_TEST_BRIEF=1"} {
			t.Run(journal+" "+env, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "app.db")
				put, _ := startWriter(t, path, journal, env)
				v := sqlite.New(sqlite.Config{Name: "sqlite", Path: path, Query: perUser, Clock: clock.System()})
				defer v.Close()
				ms := memories(60)
				check(t, put("ann", ms[0].Text))
				var stored atomic.Int64
				stored.Store(1)
				done := make(chan struct{})
				go func() {
					defer close(done)
					for _, m := range ms[1:] {
						if err := put("ann", m.Text); err != nil {
							t.Error(err)
							return
						}
						stored.Add(1)
					}
				}()
				finds := 0
				for running := true; running; finds++ {
					select {
					case <-done:
						running = false
					default:
					}
					n := int(stored.Load())
					for i, state := range states(t, v, ms[:n]) {
						if state != memory.Present {
							t.Fatalf("memory %d of %d is %s", i, n, state)
						}
					}
				}
				t.Logf("%d finds", finds)
			})
		}
	}
}

// TestUnreadWAL: in the index of an app that has written and never read no reader has left a mark that ours could join.
func TestUnreadWAL(t *testing.T) {
	s := newStore(t, "WAL", perUser, true)
	ms := memories(1)
	put, _ := startWriter(t, s.path, "WAL", "SQLITE_TEST_SCHEMA=there")
	check(t, put("ann", ms[0].Text))
	v := s.Open(t)
	defer v.Close()
	if got := states(t, v, ms); got[0] != memory.Present {
		t.Errorf("%v, want present", got)
	}
}

// startled is a clock that does something at its n-th look.
type startled struct {
	memory.Clock
	n  atomic.Int32
	do func()
}

func (s *startled) Now() memory.Instant {
	if s.n.Add(-1) == 0 {
		s.do()
	}
	return s.Clock.Now()
}

// TestChangedMeanwhile: what was read without locks counts only if the app let the file alone meanwhile. Here it starts,
// writes and ends right after the records were read.
func TestChangedMeanwhile(t *testing.T) {
	s := newStore(t, "WAL", perUser, true)
	ms := memories(2)
	s.Put(t, "ann", ms[0].Text)
	c := &startled{Clock: clock.System(), do: func() {
		s.Put(t, "ann", ms[1].Text)
		// Not just now, so that it is the change that shows and not how new it is.
		then := time.Now().Add(-time.Hour)
		check(t, os.Chtimes(s.path, then, then))
	}}
	c.n.Store(2) // the end of the read
	v := sqlite.New(sqlite.Config{Name: "sqlite", Path: s.path, Query: perUser, Clock: c})
	defer v.Close()
	if got := states(t, v, ms); got[0] != memory.Present || got[1] != memory.Present {
		t.Errorf("%v, want both present: the read was not begun anew", got)
	}
}

// TestHotJournal: an app that died within a transaction leaves pages in its file that count for nothing. Only a
// recovery may roll them back, and reading is none.
func TestHotJournal(t *testing.T) {
	dir := t.TempDir()
	s := &store{path: filepath.Join(dir, "app.db"), journal: "DELETE", query: perUser}
	s.start(t)
	s.exec(t, schema)
	s.stop(t)
	put, kill := startWriter(t, s.path, "DELETE", "SQLITE_TEST_OPEN_TRANSACTION=1")
	ms := memories(1)
	check(t, put("ann", ms[0].Text))
	for range 40 {
		check(t, put("ann", strings.Repeat("x", 3000)))
	}
	kill()
	before := files(t, dir)
	if !slices.Contains(names(before), "app.db-journal") {
		t.Fatalf("no journal was left: %v", names(before))
	}
	v := s.Open(t)
	defer v.Close()
	out, err := v.Find(t.Context(), ms)
	if err == nil {
		t.Fatalf("Find gives %v, want an error", out)
	}
	if !strings.Contains(err.Error(), "fix: start the app") {
		t.Errorf("the error does not say what to do: %v", err)
	}
	if after := files(t, dir); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("the files changed by being read: %v before, %v after", names(before), names(after))
	}
}

// TestCreatesNothing: SQLite would make -wal and -shm files beside a WAL database of an app that ended well, or the
// database itself.
func TestCreatesNothing(t *testing.T) {
	s := newStore(t, "WAL", perUser, true)
	v := s.Open(t)
	defer v.Close()
	ms := memories(1)
	s.Put(t, "ann", ms[0].Text)
	if got := states(t, v, ms); got[0] != memory.Present {
		t.Errorf("%v, want present", got)
	}
	if got := names(files(t, filepath.Dir(s.path))); len(got) != 1 {
		t.Errorf("the folder holds %v, want the database alone", got)
	}
	check(t, os.Remove(s.path))
	if out, err := v.Find(t.Context(), ms); err == nil {
		t.Errorf("Find of a missing file gives %v", out)
	}
	if got := names(files(t, filepath.Dir(s.path))); len(got) != 0 {
		t.Errorf("the folder holds %v, want nothing", got)
	}
}

// TestReplaced: the file was wiped and made anew under an open view.
func TestReplaced(t *testing.T) {
	s := newStore(t, "WAL", perUser, false)
	v := s.Open(t)
	defer v.Close()
	ms := memories(1)
	s.Put(t, "ann", ms[0].Text)
	if got := states(t, v, ms); got[0] != memory.Present {
		t.Fatalf("%v, want present", got)
	}
	s.stop(t)
	check(t, os.Remove(s.path))
	s.start(t)
	s.exec(t, schema)
	if got := states(t, v, ms); got[0] != memory.Absent {
		t.Errorf("%v, want absent", got)
	}
}
