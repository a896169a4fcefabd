package browser_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"amnesia/pkg/clock"
	"amnesia/pkg/session"
	"amnesia/pkg/session/browser"
)

// daemonEnv turns the test binary into a small daemon: a driver with one open surface.
const daemonEnv = "AMNESIA_TEST_BROWSER_DAEMON"

func TestMain(m *testing.M) {
	if config := os.Getenv(daemonEnv); config != "" {
		if err := daemon(config); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func daemon(config string) error {
	var found browser.Installation
	if err := json.Unmarshal([]byte(config), &found); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT)
	defer stop()
	d, err := browser.New(ctx, browser.Config{
		DriverDir: found.DriverDir, ExecutablePath: found.ExecutablePath, Headless: true, Clock: clock.System(), Trace: true,
	})
	if err != nil {
		return err
	}
	s, err := d.Open(ctx, session.User{Name: "somebody"})
	if err != nil {
		return err
	}
	fmt.Println("ready")
	<-ctx.Done()
	// After a Ctrl-C, which the whole process group gets, the browser must still serve.
	if err := s.Goto(context.Background(), "data:text/html,<p>still here"); err != nil {
		return err
	}
	return errors.Join(s.Close(), d.Close())
}

// process is one process, told apart from a later one with the same number by when it began.
type process struct {
	pid   int
	begin string
}

// children gives all processes below one, from /proc.
func children(t *testing.T, of int) (below []process) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	must(t, err)
	parents := map[int]int{}
	begins := map[int]string{}
	for _, f := range files {
		if fields, ok := stat(f); ok {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(f)))
			parents[pid], _ = strconv.Atoi(fields[1])
			begins[pid] = fields[19]
		}
	}
	for pid := range parents {
		for up, depth := parents[pid], 0; up > 1 && depth < 20; up, depth = parents[up], depth+1 {
			if up == of {
				below = append(below, process{pid, begins[pid]})
				break
			}
		}
	}
	return below
}

// stat gives the fields of /proc/pid/stat after the name (proc(5)): state, parent, …; not those of a zombie.
func stat(file string) ([]string, bool) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, false
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	return fields, len(fields) > 19 && fields[0] != "Z"
}

// allGone waits until none of the processes is left, and says how long that took.
func allGone(t *testing.T, all []process) time.Duration {
	t.Helper()
	if len(all) < 3 {
		t.Fatalf("only %d processes: the test looks in the wrong place", len(all))
	}
	begin := time.Now()
	for limit := begin.Add(10 * time.Second); ; {
		var left []int
		for _, p := range all {
			if fields, ok := stat(fmt.Sprintf("/proc/%d/stat", p.pid)); ok && fields[19] == p.begin {
				left = append(left, p.pid)
			}
		}
		if left == nil {
			return time.Since(begin)
		}
		if time.Now().After(limit) {
			t.Errorf("%d of %d processes are left: %v", len(left), len(all), left)
			for _, pid := range left {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			return time.Since(begin)
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-t.Context().Done():
			return time.Since(begin)
		}
	}
}

// driver gives the process of Playwright's driver above the browser: it may have started the browser through a script.
func driver(t *testing.T, browser int) int {
	t.Helper()
	for pid := browser; pid > 1; {
		fields, ok := stat(fmt.Sprintf("/proc/%d/stat", pid))
		if !ok {
			break
		}
		up, err := strconv.Atoi(fields[1])
		must(t, err)
		if command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", up)); err == nil && strings.Contains(string(command), "run-driver") {
			return up
		}
		pid = up
	}
	t.Fatalf("no driver above process %d", browser)
	return 0
}

func TestDeaths(t *testing.T) {
	t.Parallel()
	srv := site(t, map[string]string{"/": `<p>here</p>`}, nil)
	d := start(t, srv.URL, func(c *browser.Config) { c.MaxContexts = 2 })
	chromium := d.Stats().Browser
	node := driver(t, chromium)

	// Each death is found by a surface that waits, except the last: that one only the next Open can find.
	for _, death := range []struct {
		reason, victim string
		watched        bool
	}{{"browser_died", "browser", true}, {"driver_died", "node", true}, {"driver_died", "node", false}} {
		s, err := d.Open(t.Context(), session.User{Name: "witness"})
		must(t, err)
		must(t, s.Goto(t.Context(), "/"))
		pid := chromium
		if death.victim == "node" {
			pid = node
		}
		below := children(t, node)
		if !death.watched {
			must(t, s.Close())
		}
		result := make(chan error, 1)
		if death.watched {
			go func() {
				_, err := s.Await(t.Context(), []session.Condition{{Selector: "#never", Timeout: 20 * time.Second}})
				result <- err
			}()
		}
		must(t, syscall.Kill(pid, syscall.SIGKILL))
		if death.watched {
			begin := time.Now()
			if err := <-result; !session.IsRig(err) || time.Since(begin) > 5*time.Second {
				t.Errorf("%s killed: after %v %v, want an error of the rig", death.victim, time.Since(begin), err)
			}
			if err := s.Goto(t.Context(), "/"); !session.IsRig(err) {
				t.Errorf("%s killed: then %v, want an error of the rig", death.victim, err)
			}
			must(t, s.Close())
		}
		before := d.Stats().Restarts[death.reason]
		again, err := d.Open(t.Context(), session.User{Name: "next"})
		must(t, err)
		must(t, again.Goto(t.Context(), "/"))
		must(t, again.Close())
		if n := d.Stats().Restarts[death.reason]; n != before+1 {
			t.Errorf("%s killed: %d restarts are counted, want %d: %v", death.victim, n, before+1, d.Stats().Restarts)
		}
		t.Logf("%s killed: its %d processes are gone after %v", death.victim, len(below), allGone(t, below))
		chromium = d.Stats().Browser
		node = driver(t, chromium)
	}
	if s := d.Stats(); s.Open != 0 || s.Opened != 6 {
		t.Errorf("%+v", s)
	}
	all := append(children(t, node), process{node, begin(t, node)})
	must(t, d.Close())
	t.Logf("closed: %d processes are gone after %v", len(all), allGone(t, all))
	if _, err := d.Open(t.Context(), session.User{}); !session.IsRig(err) {
		t.Errorf("opening on a closed driver: %v", err)
	}
}

func begin(t *testing.T, pid int) string {
	t.Helper()
	fields, _ := stat(fmt.Sprintf("/proc/%d/stat", pid))
	return fields[19]
}

func TestDaemonDies(t *testing.T) {
	t.Parallel()
	config, err := json.Marshal(installation(t))
	must(t, err)
	for name, kill := range map[string]func(pid int) error{
		"SIGKILL":                   func(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) },
		"SIGINT to the whole group": func(pid int) error { return syscall.Kill(-pid, syscall.SIGINT) },
	} {
		cmd := exec.Command(os.Args[0])
		temp := t.TempDir()
		cmd.Env = append(os.Environ(), daemonEnv+"="+string(config), "TMPDIR="+temp)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Stderr = t.Output()
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
			t.Fatalf("the daemon says %q, %v", line, err)
		}
		below := children(t, cmd.Process.Pid)
		must(t, kill(cmd.Process.Pid))
		if err := cmd.Wait(); (err == nil) != (name != "SIGKILL") {
			t.Errorf("%s: the daemon ended with %v", name, err)
		}
		t.Logf("%s: its %d processes are gone after %v", name, len(below), allGone(t, below))
		left, err := os.ReadDir(temp)
		must(t, err)
		for _, f := range left {
			if name != "SIGKILL" || !strings.HasPrefix(f.Name(), "playwright-tracing-") { // a few bytes, of open surfaces only
				t.Errorf("%s: %s is left behind", name, f.Name())
			}
		}
	}
}
