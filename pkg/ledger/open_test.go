package ledger_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"amnesia/pkg/fact"
	"amnesia/pkg/ledger"
	"amnesia/pkg/memory"
)

// TestOpenRefuses holds the sentences that a person sees, and that a file which is refused is left as it was.
func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	made := func(name string, pragmas ...string) string {
		path := filepath.Join(dir, name)
		if err := open(t, path, ledger.Options{}).Close(); err != nil {
			t.Fatal(err)
		}
		for _, p := range pragmas {
			if err := ledger.Exec(t.Context(), path, "PRAGMA "+p); err != nil {
				t.Fatal(err)
			}
		}
		return path
	}
	other := filepath.Join(dir, "other.db")
	if err := ledger.Exec(t.Context(), other, "CREATE TABLE chat (message)"); err != nil {
		t.Fatal(err)
	}
	held := open(t, filepath.Join(dir, "held.db"), ledger.Options{})
	for _, c := range []struct {
		path  string
		want  []string // in the error of Open
		wantR []string // in that of OpenReadOnly; nil: no error
	}{
		{file("text", strings.Repeat("no database ", 100)), []string{"this file is none"}, []string{"this file is none"}},
		{other, []string{"of something else"}, []string{"of something else"}},
		{made("foreign.db", "application_id = 7"), []string{"of something else"}, []string{"of something else"}},
		{made("newer.db", "user_version = 99"), []string{"newer Amnesia (format 99, this one knows 5)"}, []string{"newer Amnesia"}},
		{dir, []string{"it is no regular file"}, []string{"it is no regular file"}},
		{filepath.Join(dir, "none", "a.db"), []string{"give the path of a file in a folder that exists"}, []string{"no such file"}},
		{filepath.Join(dir, "text", "a.db"), []string{"give the path of a file in a folder that exists"}, []string{"not a directory"}},
		{held.Path(), []string{"it is in use by process", "stop that one"}, nil},
		{file("empty", ""), nil, []string{"it is empty"}},
	} {
		before, _ := os.ReadFile(c.path)
		ro, err := ledger.OpenReadOnly(t.Context(), c.path)
		check(t, "OpenReadOnly", c.path, err, c.wantR)
		if err == nil {
			_ = ro.Close()
		}
		if after, _ := os.ReadFile(c.path); !slices.Equal(before, after) {
			t.Errorf("OpenReadOnly changed %s", c.path)
		}
		l, err := ledger.Open(t.Context(), c.path, ledger.Options{})
		check(t, "Open", c.path, err, c.want)
		if err == nil {
			_ = l.Close()
		} else if after, _ := os.ReadFile(c.path); !slices.Equal(before, after) {
			t.Errorf("Open refused %s, and changed it", c.path)
		}
	}
}

func check(t *testing.T, what, path string, err error, want []string) {
	t.Helper()
	if (err == nil) != (want == nil) {
		t.Errorf("%s of %s: error is %v, want %q", what, path, err, want)
		return
	}
	if err == nil {
		return
	}
	for _, w := range append(want, path, "fix: ") {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s of %s: error is %q, want %q in it", what, path, err, w)
		}
	}
	if strings.ContainsRune(err.Error(), '\n') {
		t.Errorf("%s of %s: %q is more than one line", what, path, err)
	}
}

// TestCommitsAreSynced holds the one setting whose loss no killed process could show: SQLite's FULL is 2.
func TestCommitsAreSynced(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "a.db"), ledger.Options{})
	if n, err := l.Writer(t.Context(), "synchronous"); err != nil || n != 2 {
		t.Errorf("synchronous is %d (%v)", n, err)
	}
}

func TestLockEndsWithClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	for range 3 {
		if err := open(t, path, ledger.Options{}).Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReadOnlyLeavesNothing reads a copy, as an on-call person does with the file of a daemon that was stopped.
func TestReadOnlyLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.db")
	l := open(t, path, ledger.Options{})
	if err := l.Append(t.Context(), one()...); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path + ".lock"); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	ro, err := ledger.OpenReadOnly(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(entries(t, ro, 0)); n != len(one()) {
		t.Errorf("%d facts", n)
	}
	if after, err := os.ReadFile(path); err != nil || !slices.Equal(before, after) {
		t.Errorf("reading changed the file (%v)", err)
	}
	if err := ro.Append(t.Context(), fact.Gap{}); err == nil || !strings.Contains(err.Error(), "reading only") {
		t.Errorf("error of an append is %v", err)
	}
	if err := ro.Close(); err != nil {
		t.Error(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Errorf("reading left %v (%v)", files, err)
	}
}

func TestWhatIsOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	l := open(t, path, ledger.Options{})
	step := func(id int64, name fact.StepName, plan *fact.Injection) fact.Step {
		return fact.Step{Injection: id, Name: name, Plan: plan}
	}
	armed := fact.Injection{ID: 2, Kind: "pause", Undo: []byte(`"c1"`)}
	if err := l.Append(t.Context(),
		begun(1), begun(2), begun(3), fact.Settled{Memory: 2}, fact.Cycle{N: 4},
		step(1, fact.StepPlanned, &fact.Injection{ID: 1}), step(1, fact.StepFiring, &fact.Injection{ID: 1}), step(1, fact.StepReverted, nil),
		step(2, fact.StepPlanned, &fact.Injection{ID: 2}), step(2, fact.StepFiring, &armed), step(2, fact.StepFailed, nil),
		step(3, fact.StepPlanned, &fact.Injection{ID: 3}), step(3, fact.StepRefused, nil),
		step(4, fact.StepPlanned, &fact.Injection{ID: 4}), step(4, fact.StepFiring, nil), step(4, fact.StepInjected, nil),
		step(5, fact.StepFiring, &fact.Injection{ID: 5}), step(5, fact.StepClosed, nil),
	); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = open(t, path, ledger.Options{})
	injections, err := l.OpenInjections(t.Context())
	if err != nil || len(injections) != 2 || injections[0].ID != 2 || string(injections[0].Undo) != `"c1"` || injections[1].ID != 4 {
		t.Errorf("open injections are %+v (%v)", injections, err)
	}
	if ids, err := l.Unsettled(t.Context()); err != nil || !slices.Equal(ids, []memory.ID{1, 3}) {
		t.Errorf("unsettled are %v (%v)", ids, err)
	}
	if m, i, s, c := l.NextMemory(), l.NextInjection(), l.NextSweep(), l.NextCycle(); m != 4 || i != 6 || s != 1 || c != 5 {
		t.Errorf("next are %d, %d, %d, %d", m, i, s, c)
	}
}

// TestViews holds that each view of the schema can be read, and what an on-call person finds in two of them.
func TestViews(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "a.db"), ledger.Options{})
	facts := one()
	if err := l.Append(t.Context(), facts...); err != nil {
		t.Fatal(err)
	}
	views, err := l.Rows(t.Context(), "SELECT name FROM sqlite_master WHERE type = 'view'")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range views {
		v = strings.Trim(v, "[]")
		if rows, err := l.Rows(t.Context(), "SELECT * FROM "+v); err != nil || len(rows) == 0 {
			t.Errorf("%s has %d rows (%v)", v, len(rows), err)
		}
	}
	loss, err := l.Rows(t.Context(), "SELECT at, memory, user, verdict, class, fault, exposure_ms, missing, because FROM losses")
	if want := []string{"[2023-11-14 22:13:20.040 5 ann lost silent wipe 41 redis it is gone]"}; err != nil || !slices.Equal(loss, want) {
		t.Errorf("losses has %q (%v), want %q", loss, err, want)
	}
	// Every fact is in the timeline, and each row of a sweep's observations beside it.
	if line, err := l.Rows(t.Context(), "SELECT count(DISTINCT seq), count(*) FROM timeline WHERE at LIKE '2023-11-14 22:13:20%'"); err != nil ||
		!slices.Equal(line, []string{"[20 22]"}) {
		t.Errorf("timeline has %v (%v)", line, err)
	}
}

// A ledger in any format before this one is read as it is, and migrated when a daemon opens it.
func TestOlderFormat(t *testing.T) {
	newest, err := ledger.Newest()
	if err != nil {
		t.Fatal(err)
	}
	today := filepath.Join(t.TempDir(), "it's new.db")
	l := open(t, today, ledger.Options{})
	sweep := fact.Sweep{ID: 1, Cycle: 1, View: "page", Complete: true, Read: memory.SetOf(1, 2), Observations: []memory.Observation{
		{Memory: 1, View: "page", State: memory.Absent, Detail: "4 messages"}, {Memory: 2, View: "page", State: memory.Present, Copies: 1}}}
	if err := l.Append(t.Context(), begun(1), begun(2), sweep); err != nil {
		t.Fatal(err)
	}
	want := readAll(t, l)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	for version := int64(1); version < newest; version++ {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			path := filepath.Join(filepath.Dir(today), fmt.Sprintf("it's old %d.db", version))
			if err := ledger.Older(t.Context(), today, path, version); err != nil {
				t.Fatal(err)
			}
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			ro, err := ledger.OpenReadOnly(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, readAll(t, ro)); diff != "" {
				t.Errorf("what is read of it (-want +got):\n%s", diff)
			}
			if err := ro.Close(); err != nil {
				t.Error(err)
			}
			if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
			if after, err := os.ReadFile(path); err != nil || !slices.Equal(before, after) {
				t.Errorf("reading changed it: %v", err)
			}
			if diff := cmp.Diff(want, readAll(t, open(t, path, ledger.Options{}))); diff != "" {
				t.Errorf("migrated (-want +got):\n%s", diff)
			}
		})
	}
}
