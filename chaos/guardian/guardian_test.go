//go:build unix

package guardian_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"amnesia/chaos/guardian"
)

const fileKey = "GUARDIAN_TEST_FILE" // a process with it is the daemon of a test

func TestMain(m *testing.M) {
	guardian.Main(map[string]func() guardian.Duty{"note": func() guardian.Duty { return &note{} }})
	if file := os.Getenv(fileKey); file != "" {
		daemon(file)
	}
	os.Exit(m.Run())
}

// note is a duty that writes down what it was told: the file first.
type note struct{ lines []string }

func (n *note) Hear(line []byte) { n.lines = append(n.lines, string(line)) }

func (n *note) End() {
	if err := os.WriteFile(n.lines[0]+".new", []byte(strings.Join(n.lines[1:], " ")), 0o600); err == nil {
		_ = os.Rename(n.lines[0]+".new", n.lines[0])
	}
}

// daemon tells its guardian something, and something else by half, and waits to be killed.
func daemon(file string) {
	g := guardian.New("note")
	if err := g.Ensure(file, "first"); err != nil {
		panic(err)
	}
	if err := g.Tell("second"); err != nil {
		panic(err)
	}
	fmt.Println(g.PID())
	select {}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for until := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("never came true: %s", what)
		}
	}
}

// TestADeadDaemonIsSurvived: what ends the daemon does not end its guardian, which then does its duty and ends.
func TestADeadDaemonIsSurvived(t *testing.T) {
	file := filepath.Join(t.TempDir(), "notes")
	d := exec.Command(os.Args[0])
	d.Env = append(os.Environ(), fileKey+"="+file)
	out, err := d.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscan(bufio.NewReader(out), &pid); err != nil {
		t.Fatal(err)
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT} {
		if err := syscall.Kill(pid, sig); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("it did its duty while its daemon lived")
	}
	if err := d.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = d.Wait()
	eventually(t, "its notes", func() bool { b, _ := os.ReadFile(file); return string(b) == "first second" })
}

func TestOneThatDiedIsReplacedAndToldAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "notes")
	g := guardian.New("note")
	if err := g.Ensure(file, "first"); err != nil {
		t.Fatal(err)
	}
	first := g.PID()
	if err := g.Ensure(file, "again"); err != nil || g.PID() != first {
		t.Fatalf("a second one beside the first that lives: %v", err)
	}
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another one", func() bool {
		if err := g.Ensure(file, "again"); err != nil {
			t.Fatal(err)
		}
		return g.PID() != first
	})
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(file); string(b) != "again" {
		t.Errorf("the notes are %q, %v", b, err)
	}
}

func TestAnUnknownDutyIsRefused(t *testing.T) {
	if err := guardian.New("nothing").Ensure(); err == nil || !strings.Contains(err.Error(), "it did not report ready — fix: ") {
		t.Errorf("it was started: %v", err)
	}
}
