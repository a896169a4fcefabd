package app

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

// pkgInfo is what `go list` says of a package.
type pkgInfo struct {
	ImportPath string
	Imports    []string
}

// adapters are the packages that talk to the world outside. They never import one another, but for the exceptions.
var adapters = []string{"chaos/docker", "chaos/process", "pkg/session/browser", "pkg/session/web", "pkg/view/*",
	"pkg/ledger", "pkg/web", "pkg/metrics", "pkg/config"}

// onlyImporter says which package alone, with what lies below it, may import a library, so that replacing it touches one
// folder; what measures us beside the library may too.
var onlyImporter = map[string]string{
	"github.com/docker/docker":                      "chaos/docker",
	"github.com/playwright-community/playwright-go": "pkg/session/browser",
	"github.com/amikos-tech/chroma-go":              "pkg/view/chroma",
	"github.com/spf13/cobra":                        "cmd/amnesia",
	"github.com/goccy/go-yaml":                      "pkg/config",
}

// TestImportRules holds the architecture: who may import whom, and why.
func TestImportRules(t *testing.T) {
	pkgs := list(t)
	for _, p := range pkgs {
		name := strings.TrimPrefix(p.ImportPath, "amnesia/")
		for _, imp := range p.Imports {
			for lib, only := range onlyImporter {
				if (imp == lib || strings.HasPrefix(imp, lib+"/")) && name != only && !strings.HasPrefix(name, only+"/") && name != "pkg/bench" {
					t.Errorf("%s imports %s: only %s may, so that the library can be replaced in one place", name, imp, only)
				}
			}
			if pure(name) && slices.Contains([]string{"os", "net", "net/http", "database/sql", "io", "context"}, imp) {
				t.Errorf("%s imports %s: the vocabulary and the oracle do no I/O, so that a verdict depends on recorded facts alone", name, imp)
			}
			// The guardian is a process of its own, and its main is in chaos/guardian.
			if imp == "os/signal" && !strings.HasPrefix(name, "cmd/") && name != "chaos/guardian" {
				t.Errorf("%s imports os/signal: only cmd reads flags, environment and signals", name)
			}
			ours, ok := strings.CutPrefix(imp, "amnesia/")
			if !ok {
				continue
			}
			if why := forbidden(name, ours); why != "" {
				t.Errorf("%s imports %s: %s", name, ours, why)
			}
		}
	}
}

func pure(name string) bool {
	return name == "pkg/memory" || name == "pkg/fact" || name == "pkg/oracle"
}

// forbidden says why a package of ours may not import another; empty when it may.
func forbidden(name, imp string) string {
	switch {
	case name == "pkg/memory":
		return "the vocabulary imports nothing of ours, so that everything can speak it"
	case name == "pkg/fact" && imp != "pkg/memory":
		return "facts are plain data over the vocabulary"
	case name == "pkg/oracle" && imp != "pkg/memory" && imp != "pkg/fact":
		return "the oracle judges facts and knows nothing else"
	case strings.HasPrefix(name, "chaos") && (imp == "pkg/ledger" || imp == "pkg/oracle" || strings.HasPrefix(imp, "pkg/view")):
		return "what hurts cannot touch the evidence"
	case name == "pkg/zoo": // a test bench above both: it runs the daemon on the sample target and compares the two
		return ""
	case imp == "pkg/zoo" && !strings.HasPrefix(name, "cmd/"):
		return "the daemon must not know its test bench"
	case name == "pkg/bench" || name == "cmd/bench":
		return "" // it measures the parts from outside, and is in no binary but its own
	case name == "pkg/torture":
		return "" // it kills the daemon from outside, and compares what it left with what it had said
	case imp == "pkg/torture":
		return "the daemon must not know who kills it"
	case imp == "pkg/app" && !strings.HasPrefix(name, "cmd/"):
		return "only cmd calls the wiring"
	case strings.HasPrefix(name, "cmd/") && !slices.Contains([]string{"pkg/app", "pkg/chatapp", "chaos/process", "chaos/docker"}, imp):
		return "cmd reads flags and makes one call; wiring is pkg/app's"
	case strings.HasPrefix(imp, "pkg/chatapp") && !strings.HasPrefix(name, "cmd/") && !strings.HasPrefix(name, "pkg/chatapp"):
		return "the daemon must not know its sample target"
	case name != "pkg/app" && adapter(name) && adapter(imp) && !strings.HasPrefix(imp, name+"/"):
		return "adapters never import each other; pkg/app joins them"
	case name == "pkg/soak" && adapter(imp):
		return "the loop knows roles, not adapters"
	}
	return ""
}

func adapter(name string) bool {
	return slices.ContainsFunc(adapters, func(pattern string) bool {
		ok, _ := path.Match(pattern, name)
		return ok && name != "pkg/view/viewtest"
	})
}

func list(t *testing.T) []pkgInfo {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "amnesia/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var pkgs []pkgInfo
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkgInfo
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}
