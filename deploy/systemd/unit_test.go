// Package systemd_test holds the unit to what systemd and the command know.
package systemd_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const installed = "/usr/local/bin/amnesia"

func unit(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("amnesia.service")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestVerify has systemd look for what it would ignore or refuse.
func TestVerify(t *testing.T) {
	verify, err := exec.LookPath("systemd-analyze")
	if err != nil {
		why := "no systemd-analyze — fix: apt-get install systemd"
		if os.Getenv("CI") == "true" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	// What is installed elsewhere is not looked for: a program must be there.
	path := filepath.Join(t.TempDir(), "amnesia.service")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(unit(t), installed, "/bin/true")), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(verify, "verify", "--man=no", path).CombinedOutput()
	if err != nil || strings.Contains(string(out), path) || strings.Contains(string(out), "amnesia.service:") {
		t.Errorf("%v\n%s", err, out)
	}
}

var commands = regexp.MustCompile(`(?m)^Exec\w+=-?` + installed + ` (.*)$`)

// TestCommands holds that the command knows what the unit calls it with.
func TestCommands(t *testing.T) {
	amnesia := filepath.Join(t.TempDir(), "amnesia")
	if out, err := exec.Command("go", "build", "-o", amnesia, "amnesia/cmd/amnesia").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	found := commands.FindAllStringSubmatch(unit(t), -1)
	if len(found) != 2 {
		t.Fatalf("%d commands, want those to run and to revert", len(found))
	}
	for _, c := range found {
		// An unknown flag is refused before help is given.
		if out, err := exec.Command(amnesia, append(strings.Fields(c[1]), "--help")...).CombinedOutput(); err != nil || !strings.Contains(string(out), "Usage:") {
			t.Errorf("amnesia %s: %v\n%s", c[1], err, out)
		}
	}
}
