package app

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"amnesia/pkg/ledger"
)

// TestOutputs: a file to be written is not one that is read, nor a ledger, and can be written; to find that out changes
// nothing.
func TestOutputs(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	l, err := ledger.Open(t.Context(), in("amnesia.db"), ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(in("amnesia.db"))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"other.db": whole, "amnesia.yaml": []byte("version: 1\n"), "old.md": []byte("# Old\n"), "known.txt": nil} {
		if err := os.WriteFile(in(name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(in("amnesia.db"), in("linked.xml")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir, in("here")); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ junit, markdown, want string }{
		{in("new.xml"), in("old.md"), ""},
		{in("old.md"), "", ""},
		{os.DevNull, os.DevNull, ""},
		{in("amnesia.db"), "", "a file of the ledger"},
		{"", in("amnesia.db"), "a file of the ledger"},
		{in("amnesia.db-wal"), "", "a file of the ledger"},
		{in("amnesia.db-shm"), "", "a file of the ledger"},
		{in("amnesia.db.lock"), "", "a file of the ledger"},
		{in("amnesia.db.token"), "", "a file of the ledger"},
		{in("linked.xml"), "", "a file of the ledger"},
		{in("here/amnesia.db"), "", "a file of the ledger"},
		{in("here/amnesia.db-wal"), "", "a file of the ledger"},
		{in("to-be.db"), "", "a file of the ledger"},
		{in("here/to-be.db"), "", "a file of the ledger"},
		{in("other.db"), "", "another database"},
		{in("other.db-wal"), "", "another database"},
		{in("amnesia.yaml"), "", "is a file that is read"},
		{"", in("known.txt"), "is a file that is read"},
		{in("new"), in("here/new"), "are both"},
		{in("nodir/x.xml"), "", "no such file or directory"},
		{"", in("nodir/x.md"), "no such file or directory"},
		{dir, "", "is a directory"},
	} {
		before := listed(t, dir)
		err := CIOptions{JUnit: tc.junit, Markdown: tc.markdown, Baseline: in("known.txt")}.check([]string{in("amnesia.yaml")}, in("amnesia.db"), in("to-be.db"))
		if tc.want == "" && err != nil || tc.want != "" && (ExitCode(err) != exitUsage || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), " — fix: ")) {
			t.Errorf("--junit %s --markdown %s: %v, want %q", tc.junit, tc.markdown, err, tc.want)
		}
		if after := listed(t, dir); after != before {
			t.Errorf("--junit %s --markdown %s left %s, where there was %s", tc.junit, tc.markdown, after, before)
		}
	}
	if now, err := os.ReadFile(in("amnesia.db")); err != nil || !bytes.Equal(now, whole) {
		t.Error("the ledger was changed", err)
	}
	if now, err := os.ReadFile(in("old.md")); err != nil || string(now) != "# Old\n" {
		t.Errorf("what was there is now %q (%v)", now, err)
	}
}

func listed(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

// TestOutputsAreChecked: every command that writes files looks at them first.
func TestOutputsAreChecked(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "amnesia.db")
	l, err := ledger.Open(t.Context(), path, ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "amnesia.yaml")
	if err := os.WriteFile(config, []byte("version: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	soak := func(ci CIOptions) SoakOptions {
		return SoakOptions{Config: []string{config}, LogFormat: "console", CI: ci, Getenv: func(string) string { return "" }}
	}
	c := NewConsole(&bytes.Buffer{}, &bytes.Buffer{}, false)
	for name, call := range map[string]func(ci CIOptions, file string) error{
		"run": func(ci CIOptions, _ string) error {
			_, err := Run(t.Context(), c, RunOptions{SoakOptions: soak(ci)})
			return err
		},
		"replay": func(ci CIOptions, _ string) error {
			_, err := Replay(t.Context(), c, ReplayOptions{SoakOptions: soak(ci), From: path, Cycle: 1, Times: 1})
			return err
		},
		"judge": func(ci CIOptions, _ string) error {
			_, err := Judge(t.Context(), c, JudgeOptions{Ledger: path, CI: ci})
			return err
		},
		"report --file": func(_ CIOptions, file string) error {
			return Report(t.Context(), c, ReportOptions{Ledger: path, File: file})
		},
		"report --picture": func(_ CIOptions, file string) error {
			return Report(t.Context(), c, ReportOptions{Ledger: path, Picture: file})
		},
	} {
		for _, file := range []string{path, filepath.Join(dir, "nodir", "x")} {
			err := call(CIOptions{JUnit: file}, file)
			if ExitCode(err) != exitUsage || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), " — fix: give ") {
				t.Errorf("%s into %s: %v", name, file, err)
			}
			if !isDatabase(path) {
				t.Fatalf("%s into %s destroyed the ledger", name, file)
			}
		}
	}
	err = Report(t.Context(), c, ReportOptions{Ledger: path, Evidence: filepath.Join(dir, "nodir")})
	if ExitCode(err) != exitUsage || !strings.Contains(err.Error(), " — fix: give the folder") {
		t.Errorf("evidence that is not there: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = Report(ctx, c, ReportOptions{Ledger: path, File: filepath.Join(dir, "report.html")})
	if err == nil || err.Error() != "interrupted; nothing was written" {
		t.Errorf("a report that was interrupted: %v", err)
	}
	// A ledger that is not there is said before anything of the configuration.
	_, err = Replay(t.Context(), c, ReplayOptions{SoakOptions: soak(CIOptions{}), From: filepath.Join(dir, "missing.db"), Cycle: 1, Times: 1})
	if err == nil || !strings.Contains(err.Error(), "there is no ledger") {
		t.Errorf("a replay of nothing: %v", err)
	}
}
