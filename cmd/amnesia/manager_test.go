//go:build unix

package main

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"amnesia/pkg/fact"
	"amnesia/pkg/ledger"
)

// home is a folder with an amnesia.yaml for a target of its own.
type home struct{ dir, amnesia string }

func newHome(t *testing.T, values ...string) home {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// As testscript has it: under its name the test binary is the command.
	h := home{dir, filepath.Join(dir, "amnesia")}
	if err := os.Symlink(self, h.amnesia); err != nil {
		t.Fatal(err)
	}
	app, err := free()
	if err != nil {
		t.Fatal(err)
	}
	template, err := os.ReadFile("testdata/amnesia.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all := defaults(app, "127.0.0.1:0", dir)
	all["COMMAND"] = "[" + h.amnesia + ", sample]"
	for i := 0; i < len(values); i += 2 {
		all[values[i]] = values[i+1]
	}
	config := os.Expand(string(template), func(k string) string { return all[k] })
	if err := os.WriteFile(filepath.Join(dir, "amnesia.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return h
}

// daemon starts the daemon there; what it logs is shown when the test fails.
func (h home) daemon(t *testing.T, env ...string) (cmd *exec.Cmd, log string) {
	t.Helper()
	f, err := os.CreateTemp(h.dir, "log")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd = exec.Command(h.amnesia, "run")
	cmd.Dir, cmd.Env, cmd.Stderr = h.dir, append(os.Environ(), env...), f
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		if text, err := os.ReadFile(f.Name()); t.Failed() {
			t.Logf("%s (%v)", text, err)
		}
	})
	return cmd, f.Name()
}

// TestSystemd is a manager to a real daemon: it hears that it is ready, that it lives, that it reads its configuration
// again, and that it ends.
func TestSystemd(t *testing.T) {
	h := newHome(t)
	socket := filepath.Join(h.dir, "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	cmd, _ := h.daemon(t, "NOTIFY_SOCKET="+socket, "WATCHDOG_USEC=100000")
	var heard []string
	hear := func(until string) {
		t.Helper()
		for b := make([]byte, 256); ; {
			n, err := conn.Read(b)
			if err != nil {
				t.Fatalf("waiting for %s: %v; heard %q", until, err, heard)
			}
			if heard = append(heard, string(b[:n])); heard[len(heard)-1] == until {
				return
			}
		}
	}
	signal := func(s os.Signal) {
		t.Helper()
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	hear("READY=1")
	hear("WATCHDOG=1")
	hear("WATCHDOG=1")
	signal(syscall.SIGHUP)
	hear("RELOADING=1")
	hear("READY=1")
	signal(syscall.SIGTERM)
	hear("STOPPING=1")
	if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() != 4 { // 4: it had no time for more
		t.Error(err)
	}
}

// TestTermAtAnyMoment: SIGTERM ends whatever goes on within ten seconds, with every injection and every cycle closed and
// nothing said against the target.
func TestTermAtAnyMoment(t *testing.T) {
	const seed, rounds = 1, 8
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	h := newHome(t, "PACE", "20ms")
	for round := range rounds {
		cmd, log := h.daemon(t)
		ready := time.Now().Add(30 * time.Second)
		for text := ""; !strings.Contains(text, "ready"); time.Sleep(time.Millisecond) {
			b, err := os.ReadFile(log)
			if err != nil || time.Now().After(ready) {
				t.Fatalf("round %d: it is not ready: %v", round, err)
			}
			text = string(b)
		}
		time.Sleep(time.Duration(r.Int64N(int64(500 * time.Millisecond)))) // the moment
		told := time.Now()
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		err := cmd.Wait()
		if code, took := cmd.ProcessState.ExitCode(), time.Since(told); code != 0 && code != 4 || took > 10*time.Second {
			t.Fatalf("round %d: exit code %d after %s: %v", round, code, took, err)
		}
		if why := openIn(t, filepath.Join(h.dir, "amnesia.db")); why != "" {
			t.Fatalf("round %d: %s", round, why)
		}
	}
}

// openIn says what a ledger leaves open; empty when nothing is.
func openIn(t *testing.T, path string) string {
	t.Helper()
	l, err := ledger.OpenReadOnly(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	open, err := l.OpenInjections(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(open) > 0 {
		return fmt.Sprintf("open injections: %+v", open)
	}
	var last fact.Cycle
	for e, err := range l.Facts(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if c, ok := e.Fact.(fact.Cycle); ok {
			last = c
		}
	}
	if last.Phase != fact.PhaseClosed {
		return fmt.Sprintf("the last cycle is open: %+v", last)
	}
	return ""
}
