package oracle

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
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
// shown other files in place of these (go help build, -overlay). One program holds all mutants, each function of the judge
// in as many versions as it has mutants, and a variable of the environment says which one runs: mutant schemata, after
// Untch, Offutt and Harrold (1993).
func TestMutants(t *testing.T) {
	ms := mutants()
	program := schemata(t, ms)
	if out, ok := program.run(t, 0); !ok {
		t.Fatalf("the tests fail without any mutant:\n%s", out)
	}
	sections, names := map[string]int{}, map[string]bool{}
	for i, m := range ms {
		sections[section.FindString(m.clause)]++
		if names[m.clause] {
			t.Errorf("two mutants are called %q", m.clause)
		}
		names[m.clause] = true
		t.Run(m.clause, func(t *testing.T) {
			t.Parallel()
			if out, ok := program.run(t, i+1); ok {
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

// program is the examples with all mutants.
type program struct{ path, dir string }

// chosen is the variable of the environment that names the mutant which runs, from 1; 0: none.
const chosen = "AMNESIA_MUTANT"

// run runs the examples with a mutant; ok says that they passed.
func (p program) run(t *testing.T, mutant int) (out string, ok bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), p.path, "-test.failfast", "-test.timeout=1m")
	cmd.Dir, cmd.Env = p.dir, append(os.Environ(), fmt.Sprintf("%s=%d", chosen, mutant))
	printed, err := cmd.CombinedOutput()
	if failed := new(exec.ExitError); err != nil && !errors.As(err, &failed) {
		t.Fatalf("running the tests: %v", err)
	}
	return string(printed), err == nil
}

// schemata builds the examples with all mutants in them.
func schemata(t *testing.T, ms []mutant) program {
	t.Helper()
	p := program{dir: t.TempDir()}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	replace := map[string]string{}
	tests, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range tests {
		if !slices.Contains(examples[:], name) {
			replace[filepath.Join(here, name)] = "" // as if it were not there
		}
	}
	files := map[string]string{"mutant.go": fmt.Sprintf(`package oracle
import ("os"; "strconv")
var mutant, _ = strconv.Atoi(os.Getenv(%q))
`, chosen)}
	for i, m := range ms {
		if files[m.file] == "" {
			files[m.file] = versions(t, m.file, i, ms)
		}
	}
	for name, text := range files {
		other := filepath.Join(p.dir, name)
		if err := os.WriteFile(other, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(here, name)] = other
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.dir, "overlay.json"), overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	p.path = filepath.Join(p.dir, "oracle.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", filepath.Join(p.dir, "overlay.json"), "-o", p.path, ".")
	if printed, err := build.CombinedOutput(); err != nil {
		t.Fatalf("the mutants do not compile — fix: write mutants that do (f__m3 is f with mutant 3): %v\n%s", err, printed)
	}
	return p
}

// versions gives a file in which each function that has mutants stands as f__m0, and with each mutant n as f__mn, and f
// calls the one that is chosen. The mutants of the file begin at the place first of ms.
func versions(t *testing.T, file string, first int, ms []mutant) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	source, fset := string(text), token.NewFileSet()
	tree, err := parser.ParseFile(fset, file, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	offset := func(p token.Pos) int { return fset.Position(p).Offset }
	of := map[*ast.FuncDecl][]int{} // the numbers of its mutants
	at := map[int]int{}             // by number: where it changes the file
	for i, m := range ms[first:] {
		if m.file != file {
			continue
		}
		if n := strings.Count(source, m.old); n != 1 || m.old == m.new {
			t.Fatalf("%s: %s holds this %d times, want once — fix: bring the mutant up to date with the code\n%s", m.clause, file, n, m.old)
		}
		begin := strings.Index(source, m.old)
		in := slices.IndexFunc(tree.Decls, func(d ast.Decl) bool { return offset(d.Pos()) <= begin && begin+len(m.old) <= offset(d.End()) })
		f, ok := (*ast.FuncDecl)(nil), false
		if in >= 0 {
			f, ok = tree.Decls[in].(*ast.FuncDecl)
		}
		if !ok || begin < offset(f.Body.Pos()) {
			t.Fatalf("%s: %s is not within the body of one function — fix: write the mutant so that it is", m.clause, m.old)
		}
		number := first + i + 1
		of[f], at[number] = append(of[f], number), begin
	}
	var out strings.Builder
	done := 0
	for _, d := range tree.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || of[f] == nil {
			continue
		}
		begin, name, body, end := offset(f.Type.Pos()), offset(f.Name.Pos()), offset(f.Body.Pos()), offset(f.End())
		part := func(from, to token.Pos) string { return source[offset(from):offset(to)] }
		version := func(n int, body string) {
			fmt.Fprintf(&out, "%s%s__m%d%s%s\n\n", source[begin:name], f.Name.Name, n, source[name+len(f.Name.Name):offset(f.Body.Pos())], body)
		}
		out.WriteString(source[done:begin])
		version(0, source[body:end])
		for _, n := range of[f] {
			m := ms[n-1]
			version(n, source[body:at[n]]+m.new+source[at[n]+len(m.old):end])
		}
		// The function itself, with parameters of names that it can pass on.
		out.WriteString("func ")
		callee := f.Name.Name
		if f.Recv != nil {
			fmt.Fprintf(&out, "(r__ %s) ", part(f.Recv.List[0].Type.Pos(), f.Recv.List[0].Type.End()))
			callee = "r__." + callee
		}
		out.WriteString(f.Name.Name)
		if f.Type.TypeParams != nil {
			out.WriteString(part(f.Type.TypeParams.Pos(), f.Type.TypeParams.End()))
		}
		var params, args []string
		for _, p := range f.Type.Params.List {
			for range max(1, len(p.Names)) {
				arg := fmt.Sprintf("p__%d", len(args))
				params = append(params, arg+" "+part(p.Type.Pos(), p.Type.End()))
				if _, variadic := p.Type.(*ast.Ellipsis); variadic {
					arg += "..."
				}
				args = append(args, arg)
			}
		}
		back, over := "", "; return"
		fmt.Fprintf(&out, "(%s) ", strings.Join(params, ", "))
		if f.Type.Results != nil {
			out.WriteString(part(f.Type.Results.Pos(), f.Type.Results.End()))
			back, over = "return ", ""
		}
		call := func(n int) string { return fmt.Sprintf("%s%s__m%d(%s)", back, callee, n, strings.Join(args, ", ")) }
		out.WriteString(" {\n\tswitch mutant {\n")
		for _, n := range of[f] {
			fmt.Fprintf(&out, "\tcase %d:\n\t\t%s%s\n", n, call(n), over)
		}
		fmt.Fprintf(&out, "\t}\n\t%s\n}", call(0))
		done = end
	}
	return out.String() + source[done:]
}
