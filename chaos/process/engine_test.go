//go:build linux

package process_test

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"amnesia/chaos"
	"amnesia/chaos/process"
	"amnesia/pkg/clock"
)

func TestKillEndsTheGroupAndStartGivesANewIdentity(t *testing.T) {
	s := app(t, "app")
	s.Env = append(s.Env, "PROCESS_TEST_CHILDREN=child")
	e := engine(t, s)
	startAll(t, e)
	ctx := testContext(t)
	before, err := e.Instances(ctx, "app")
	if err != nil || len(before) != 1 || before[0].Started == "" {
		t.Fatalf("instances: %v, %v", before, err)
	}
	child := pidOf(t, e, "app", "child")

	if err := e.Kill(ctx, "app"); err != nil {
		t.Fatal(err)
	}
	if lives(child) {
		t.Error("the child outlived the kill of its group")
	}
	if down, err := e.Instances(ctx, "app"); err != nil || len(down) != 0 {
		t.Errorf("instances after the kill: %v, %v", down, err)
	}
	if err := e.Kill(ctx, "app"); err != nil {
		t.Errorf("killing what is dead: %v", err)
	}
	startAll(t, e)
	after, err := e.Instances(ctx, "app")
	if err != nil || len(after) != 1 || after[0] == before[0] {
		t.Errorf("identity before %v, after %v, %v", before, after, err)
	}
	if err := e.Start(ctx, "app"); err != nil {
		t.Fatal(err)
	}
	if again, _ := e.Instances(ctx, "app"); again[0] != after[0] {
		t.Errorf("start of what runs made %v of %v", again, after)
	}
}

func TestPauseStopsAndThaws(t *testing.T) {
	s := app(t, "app")
	s.Env = append(s.Env, "PROCESS_TEST_CHILDREN=child")
	e := engine(t, s)
	startAll(t, e)
	ctx := testContext(t)
	child := pidOf(t, e, "app", "child")
	if err := e.Freeze(ctx, "app"); err != nil {
		t.Fatal(err)
	}
	who, err := e.Instances(ctx, "app")
	if err != nil || len(who) != 1 {
		t.Fatalf("a frozen service is not gone: %v, %v", who, err)
	}
	leader, _ := strconv.Atoi(who[0].ID)
	for _, pid := range []int{leader, child} {
		stat, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if !strings.Contains(string(stat), ") T ") {
			t.Errorf("process %d is not stopped: %s", pid, stat)
		}
	}
	if h := prober().Check(ctx, e, nil); h[0].Healthy {
		t.Error("a frozen service answered")
	}
	for range 2 { // the second has nothing to do
		if err := e.Thaw(ctx, "app"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := prober().Await(ctx, e, nil); err != nil {
		t.Error(err)
	}
	if err := e.Freeze(ctx, "app"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := e.Stop(ctx, "app", 15*time.Second); err != nil || time.Since(began) > 10*time.Second {
		t.Errorf("stopping a frozen service: %v after %s", err, time.Since(began))
	}
	if err := e.Thaw(ctx, "app"); err != nil {
		t.Errorf("thawing one that is down: %v", err)
	}
	if err := e.Freeze(ctx, "app"); err == nil {
		t.Error("froze one that is down")
	}
}

func TestAForeignDeathIsSeen(t *testing.T) {
	s := app(t, "app")
	s.Env = append(s.Env, "PROCESS_TEST_CHILDREN=child")
	e := engine(t, s)
	ctx := testContext(t)
	events := e.Events(ctx)
	next := func(kind string) chaos.Event {
		t.Helper()
		for {
			select {
			case ev := <-events:
				if ev.Kind == kind {
					return ev
				}
			case <-ctx.Done():
				t.Fatalf("no event %s", kind)
			}
		}
	}
	startAll(t, e)
	if ev := next("start"); !ev.Ours || ev.Service != "app" || ev.Instance.ID == "" {
		t.Errorf("start: %+v", ev)
	}
	if err := e.Kill(ctx, "app"); err != nil {
		t.Fatal(err)
	}
	if ev := next("die"); !ev.Ours || ev.Exit != 137 {
		t.Errorf("our kill: %+v", ev)
	}

	startAll(t, e)
	who, _ := e.Instances(ctx, "app")
	pid, _ := strconv.Atoi(who[0].ID)
	child := pidOf(t, e, "app", "child")
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if ev := next("die"); ev.Ours || ev.Exit != 137 || ev.Instance != who[0] {
		t.Errorf("a foreign kill: %+v", ev)
	}
	if lives(child) {
		t.Error("the group outlived its leader")
	}

	startAll(t, e)
	if _, err := http.Get(strings.Replace(e.Services()[0].Health, "healthz", "exit", 1)); err == nil {
		t.Error("the service answered while it exited")
	}
	if ev := next("die"); ev.Ours || ev.Exit != 3 {
		t.Errorf("an exit of its own: %+v", ev)
	}
	if tail := e.Tail("app"); len(tail) == 0 || tail[len(tail)-1] != "told to exit" {
		t.Errorf("its last words: %q", tail)
	}
}

func TestNothingIsLeftWhenTheDaemonIsKilled(t *testing.T) {
	for name, env := range map[string][]string{
		"running":   {"PROCESS_TEST_CHILDREN=child stray bare"},
		"frozen":    {"PROCESS_TEST_CHILDREN=child stray bare", "PROCESS_TEST_FREEZE=1"},
		"unguarded": {"PROCESS_TEST_CHILDREN="}, // the kernel alone, for the leader
		"replaced":  {"PROCESS_TEST_CHILDREN=child stray bare", "PROCESS_TEST_REPLACE=1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := address(t)
			d := exec.Command(os.Args[0])
			d.Env = append(append(os.Environ(), roleKey+"=daemon", "PROCESS_TEST_ADDR="+addr), env...)
			out, err := d.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = d.Process.Kill(); _ = d.Wait() })
			var pids []int
			in := bufio.NewScanner(out)
			for in.Scan() && in.Text() != "up" {
				fields := strings.Fields(in.Text())
				if pid, err := strconv.Atoi(fields[len(fields)-1]); err == nil {
					pids = append(pids, pid)
				}
			}
			if in.Text() != "up" || len(pids) != 2+len(strings.Fields(strings.TrimPrefix(env[0], "PROCESS_TEST_CHILDREN="))) {
				t.Fatalf("the daemon said %q and named %v", in.Text(), pids)
			}
			for _, pid := range pids {
				if !lives(pid) {
					t.Fatalf("%d does not live", pid)
				}
			}
			if name == "unguarded" {
				if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
			killed := time.Now()
			if err := d.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			for _, pid := range pids {
				eventually(t, "the end of "+strconv.Itoa(pid), func() bool { return !lives(pid) })
			}
			if took := time.Since(killed); took > 2*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}

func TestCloseEndsStraysAndTheGuardian(t *testing.T) {
	s := app(t, "app")
	s.Env = append(s.Env, "PROCESS_TEST_CHILDREN=child stray")
	e := engine(t, s)
	startAll(t, e)
	ctx := testContext(t)
	child, stray := pidOf(t, e, "app", "child"), pidOf(t, e, "app", "stray")
	logs := e.Logs(ctx)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if lives(child) || lives(stray) {
		t.Errorf("after Close: child lives %t, stray lives %t", lives(child), lives(stray))
	}
	for range logs { // closed with the engine
	}
	if err := e.Start(ctx, "app"); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("start after Close: %v", err)
	}
}

func TestAGuardianThatDiedIsReplaced(t *testing.T) {
	s := app(t, "app")
	s.Env = append(s.Env, "PROCESS_TEST_CHILDREN=stray")
	e := engine(t, s, app(t, "other"))
	ctx := testContext(t)
	if err := e.Start(ctx, "app"); err != nil {
		t.Fatal(err)
	}
	first := e.Guardian()
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a new guardian", func() bool {
		if err := e.Kill(ctx, "other"); err != nil {
			t.Fatal(err)
		}
		if err := e.Start(ctx, "other"); err != nil {
			t.Fatal(err)
		}
		return e.Guardian() != first
	})
	if !lives(e.Guardian()) {
		t.Error("the new guardian does not live")
	}
	stray := pidOf(t, e, "app", "stray")
	if err := syscall.Kill(e.Guardian(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil || lives(stray) {
		t.Errorf("Close without a guardian: %v; the stray lives: %t", err, lives(stray))
	}
}

func TestAProgramWithoutTheHookIsTold(t *testing.T) {
	d := exec.Command(os.Args[0])
	d.Env = append(os.Environ(), roleKey+"=daemon", "PROCESS_TEST_NO_HOOK=1", "PROCESS_TEST_ADDR="+address(t))
	out, err := d.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "it did not report ready — fix: call GuardianMain first in main") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestLogsAreFollowedAndCut(t *testing.T) {
	s := app(t, "app")
	s.Env = append(s.Env, "PROCESS_TEST_LONG_LINE=200000")
	e := engine(t, s)
	ctx := testContext(t)
	logs := e.Logs(ctx)
	startAll(t, e)
	var texts []string
	for line := range logs {
		if line.Service != "app" || line.At.IsZero() {
			t.Errorf("line %+v", line)
		}
		texts = append(texts, line.Text)
		if line.Text == "after the long line" {
			break
		}
	}
	if len(texts) != 3 || !strings.HasPrefix(texts[0], "starting with pid") || len(texts[1]) != 64<<10 {
		t.Errorf("%d lines, the second of %d bytes", len(texts), len(texts[1]))
	}
}

func TestASlowReaderLosesLinesAndHoldsNobodyUp(t *testing.T) {
	s := app(t, "app")
	s.Env = append(s.Env, "PROCESS_TEST_LINES=20000") // more than any buffer and pipe hold
	e := engine(t, s)
	ctx, leave := context.WithCancel(testContext(t))
	defer leave()
	logs := e.Logs(ctx)
	startAll(t, e)
	eventually(t, "the end of the log, and no more than 20 lines of it kept", func() bool {
		tail := e.Tail("app")
		return len(tail) == 20 && tail[19] == "line 19999"
	})
	if e.Dropped() < 10_000 {
		t.Errorf("%d lines were dropped", e.Dropped())
	}
	leave()
	for range logs { // closed with its context
	}
}

func TestAPortInUseIsRefused(t *testing.T) {
	t.Parallel() // it waits for an earlier daemon's remains
	s := app(t, "app")
	addr := strings.TrimSuffix(strings.TrimPrefix(s.Health, "http://"), "/healthz")
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	err = engine(t, s).Start(testContext(t), "app")
	if err == nil || !strings.Contains(err.Error(), "is in use by another program — fix: ") {
		t.Errorf("got %v", err)
	}
}

func TestALateServiceTellsItsLastLines(t *testing.T) {
	s := app(t, "app")
	s.Health = "http://" + address(t) + "/healthz" // nobody is there
	e := engine(t, s)
	if err := e.StartAll(testContext(t)); err != nil {
		t.Fatal(err)
	}
	pidOf(t, e, "app", "starting with pid")
	if err := e.Kill(testContext(t), "app"); err != nil {
		t.Fatal(err)
	}
	ctx := testContext(t)
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, err := prober().Await(short, e, nil)
	if err == nil || !strings.Contains(err.Error(), "app never became healthy: it is not running; its last lines were:\n\tstarting with pid") {
		t.Errorf("got %v", err)
	}
}

func TestMistakesAreNamedWithAFix(t *testing.T) {
	dir := t.TempDir()
	plain := dir + "/plain"
	if err := os.WriteFile(plain, []byte("data"), 0o644); err != nil {
		t.Fatal(err)
	}
	script := dir + "/script"
	if err := os.WriteFile(script, []byte("#!/no/such/interpreter\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	ok := []string{os.Args[0]}
	for name, tc := range map[string]struct {
		services []process.Service
		want     string
	}{
		"none":                 {nil, "no services — fix: "},
		"no name":              {[]process.Service{{Command: ok}}, "a service without a name — fix: "},
		"twice":                {[]process.Service{{Name: "a", Command: ok}, {Name: "a", Command: ok}}, "a: declared twice — fix: "},
		"no command":           {[]process.Service{{Name: "a"}}, "a: it has no command — fix: "},
		"not in PATH":          {[]process.Service{{Name: "a", Command: []string{"no-such-command-here"}}}, `a: the command "no-such-command-here" is not found in PATH — fix: `},
		"no such file":         {[]process.Service{{Name: "a", Command: []string{"./nothing"}, Dir: dir}}, "nothing is not found — fix: "},
		"not executable":       {[]process.Service{{Name: "a", Command: []string{plain}}}, "is not executable — fix: chmod +x"},
		"no directory":         {[]process.Service{{Name: "a", Command: ok, Dir: dir + "/none"}}, "no such file or directory — fix: create it"},
		"scratch under a file": {[]process.Service{{Name: "a", Command: ok, Scratch: []string{plain + "/x"}}}, "not a directory — fix: make it writable"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := process.New(process.Config{Clock: clock.System(), Services: tc.services})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
	e := engine(t, process.Service{Name: "a", Command: []string{script}})
	if err := e.Start(testContext(t), "a"); err == nil || !strings.Contains(err.Error(), "interpreter") {
		t.Errorf("a script without its interpreter: %v", err)
	}
}
