package oracle

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A mutant is the judge with one clause of oracle.md broken. Its name is the clause that it breaks.
//
// To add one: write a row under its section in mutants(), with the clause in words, the file, a text that occurs in that
// file exactly once, and what stands there instead. The mutant must compile, and must differ from the judge in some verdict:
// one that cannot be told apart says nothing. Then `go test ./pkg/oracle -run 'TestMutants/§3'`. If it survives, what is
// missing is an example of its clause in TestClauses or TestEdges (or beside them), and not a better mutant.
type mutant struct{ clause, file, old, new string }

// examples are the test files that a mutant must fail. Those that draw ledgers at random are not among them: what one finds
// by luck hides that no example says it. So a mutant is caught always or never, and the tests build fast.
var examples = [...]string{"tape_test.go", "rules_test.go", "edges_test.go", "book_test.go", "recall_test.go", "resume_test.go"}

// Every clause is watched by some example: break it, and the tests fail. Nothing in the tree is changed; the compiler is
// shown other files in place of these (go help build, -overlay).
func TestMutants(t *testing.T) {
	if testing.Short() && os.Getenv("CI") != "true" {
		t.Skip("builds the tests once for each mutant: about two minutes")
	}
	if out, ok := try(t, mutant{}); !ok {
		t.Fatalf("the tests fail without any mutant:\n%s", out)
	}
	sections, names := map[string]int{}, map[string]bool{}
	for _, m := range mutants() {
		sections[section.FindString(m.clause)]++
		if names[m.clause] {
			t.Errorf("two mutants are called %q", m.clause)
		}
		names[m.clause] = true
		t.Run(m.clause, func(t *testing.T) {
			t.Parallel()
			if out, ok := try(t, m); ok {
				t.Errorf("it survived: no test notices %s with\n  %s\nin place of\n  %s", m.file, m.new, m.old)
			} else {
				t.Log("caught by", failure.FindAllString(out, -1)) // the innermost last
			}
		})
	}
	for _, s := range []string{"§1", "§2", "§3", "§4", "§5", "§6", "§7"} {
		if sections[s] == 0 {
			t.Errorf("no clause of %s has a mutant", s)
		}
	}
	t.Log(len(names), sections)
}

var (
	section = regexp.MustCompile(`^§\d`)
	failure = regexp.MustCompile(`FAIL: \S+|panic: .*`)
)

// try builds the examples with a mutant in place (none: as they are) and runs them; ok says that they passed.
func try(t *testing.T, m mutant) (out string, ok bool) {
	t.Helper()
	dir := t.TempDir()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	tests, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	replace := map[string]string{}
	for _, name := range tests {
		if !slices.Contains(examples[:], name) {
			replace[filepath.Join(here, name)] = "" // as if it were not there
		}
	}
	if m.file != "" {
		source, err := os.ReadFile(m.file)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(source), m.old); n != 1 || m.old == m.new {
			t.Fatalf("%s holds this %d times, want once — fix: bring the mutant up to date with the code\n%s", m.file, n, m.old)
		}
		mutated := filepath.Join(dir, m.file)
		if err := os.WriteFile(mutated, []byte(strings.Replace(string(source), m.old, m.new, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(here, m.file)] = mutated
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "oracle.test")
	// Optimising and debugging what runs for a tenth of a second would double the time.
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-gcflags=-N -l", "-ldflags=-s -w",
		"-overlay", filepath.Join(dir, "overlay.json"), "-o", binary, ".")
	if printed, err := build.CombinedOutput(); err != nil {
		t.Fatalf("it does not compile — fix: write a mutant that does: %v\n%s", err, printed)
	}
	run := exec.CommandContext(t.Context(), binary, "-test.failfast", "-test.timeout=1m")
	run.Dir = dir
	printed, err := run.CombinedOutput()
	if failed := new(exec.ExitError); err != nil && !errors.As(err, &failed) {
		t.Fatalf("running the tests: %v", err)
	}
	return string(printed), err == nil
}
