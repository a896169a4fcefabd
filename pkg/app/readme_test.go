package app

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestDependenciesHaveReasons holds the README's table of direct dependencies against what the code imports.
func TestDependenciesHaveReasons(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(readme), "## What it is built on\n")
	if !ok {
		t.Fatal("the README has no table of dependencies")
	}
	table, _, _ = strings.Cut(table, "\n## ")
	// What our own packages import, tests too, and not what go.mod says: that lags behind.
	out, err := exec.Command("go", "list", "-test", "-f", `{{if not .Standard}}{{range .Imports}}{{.}}
{{end}}{{end}}`, "amnesia/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	imported := map[string]bool{}
	for _, p := range strings.Fields(string(out)) {
		imported[p] = true
	}
	out, err = exec.Command("go", "list", "-m", "all").Output()
	if err != nil {
		t.Fatal(err)
	}
	named := strings.Count(table, "`") / 2
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		module, _, _ := strings.Cut(line, " ")
		direct := false
		for p := range imported {
			direct = direct || p == module || strings.HasPrefix(p, module+"/") && !strings.HasPrefix(module, "amnesia")
		}
		if module == "amnesia" || !direct {
			continue
		}
		if !strings.Contains(table, "`"+module+"`") {
			t.Errorf("%s is imported, and the README does not say what for", module)
		} else {
			named--
		}
	}
	for _, other := range []string{"amnesia.yaml", "go.mod", "go.sum", "chroma", "chroma_query"} {
		named -= strings.Count(table, "`"+other+"`")
	}
	if named != 0 {
		t.Errorf("the README names %d dependencies that nothing imports", named)
	}
}
