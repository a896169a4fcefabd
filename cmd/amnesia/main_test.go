//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"amnesia/pkg/app"
)

// TestMain makes the test binary the command: testscript puts a copy of it into PATH as amnesia, and that copy is also
// what the command starts as guardian and as sample.
func TestMain(m *testing.M) {
	app.GuardianMain()
	testscript.Main(m, map[string]func(){"amnesia": main})
}

// TestScripts plays the sessions of testdata/script. Beside testscript's own commands they have:
//
//	code N CMD ARGS…           runs CMD, which must end with exit code N, and without a stack trace
//	until CMD ARGS…            runs CMD again and again until it succeeds
//	start NAME CMD ARGS…       starts CMD in the background; its output goes to NAME.out and NAME.err
//	await FILE REGEXP          waits until FILE matches
//	signal NAME TERM|KILL|HUP  sends a signal to what was started
//	ended NAME N               waits until what was started has ended, with exit code N (-1: by a signal)
//	gone                       waits for no more than 2 s until no process of this session lives
//	config FILE [KEY=VALUE…]   writes testdata/amnesia.yaml to FILE, filled in
//	same A B KEY…              two JSON objects must be equal, but for these keys
func TestScripts(t *testing.T) {
	template, err := os.ReadFile("testdata/amnesia.yaml")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			// Every process of the session inherits it: by this gone knows them.
			env.Setenv("AMNESIA_TEST_SESSION", env.WorkDir)
			for _, name := range []string{"APP", "WEB"} {
				addr, err := free()
				if err != nil {
					return err
				}
				env.Setenv(name, addr)
			}
			env.Values[backgroundKey{}] = &background{env: env.Vars, cmds: map[string]*exec.Cmd{}}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code":   code,
			"until":  until,
			"start":  start,
			"await":  await,
			"signal": signalTo,
			"ended":  wait,
			"gone":   gone,
			"config": func(ts *testscript.TestScript, _ bool, args []string) { writeConfig(ts, string(template), args) },
			"same":   same,
		},
	})
}

// stack is what Go prints of itself when a program breaks.
var stack = regexp.MustCompile(`(?m)^(panic:|fatal error:|goroutine \d+ \[|WARNING: DATA RACE)`)

func code(ts *testscript.TestScript, _ bool, args []string) {
	want, args := number(ts, args), args[1:]
	ts.Check(checkEnd(ts.Exec(args[0], args[1:]...), want))
	if out := ts.ReadFile("stderr"); stack.MatchString(out) {
		ts.Fatalf("a stack trace is no message:\n%s", out)
	}
}

func until(ts *testscript.TestScript, _ bool, args []string) {
	within(ts, 30*time.Second, func() error { return ts.Exec(args[0], args[1:]...) })
}

func number(ts *testscript.TestScript, args []string) int {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	return n
}

// checkEnd compares how a command ended with the exit code that it should have.
func checkEnd(err error, want int) error {
	got := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	} else if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("the exit code is %d, not %d", got, want)
	}
	return nil
}

// background is what a session has started, by name.
type background struct {
	env  []string
	cmds map[string]*exec.Cmd
}

type backgroundKey struct{}

func of(ts *testscript.TestScript) *background { return ts.Value(backgroundKey{}).(*background) }

func start(ts *testscript.TestScript, _ bool, args []string) {
	name, args := args[0], args[1:]
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env = ts.MkAbs("."), of(ts).env
	for _, f := range []struct {
		suffix string
		to     *io.Writer
	}{{".out", &cmd.Stdout}, {".err", &cmd.Stderr}} {
		file, err := os.Create(ts.MkAbs(name + f.suffix))
		ts.Check(err)
		defer file.Close()
		*f.to = file
	}
	ts.Check(cmd.Start())
	of(ts).cmds[name] = cmd
	ts.Defer(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
}

func await(ts *testscript.TestScript, _ bool, args []string) {
	re := regexp.MustCompile(args[1])
	within(ts, 30*time.Second, func() error {
		if text := ts.ReadFile(args[0]); !re.MatchString(text) {
			return fmt.Errorf("%s does not match %s:\n%s", args[0], args[1], text)
		}
		return nil
	})
}

func signalTo(ts *testscript.TestScript, _ bool, args []string) {
	sig := map[string]os.Signal{"TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL, "HUP": syscall.SIGHUP}[args[1]]
	ts.Check(of(ts).cmds[args[0]].Process.Signal(sig))
}

// wait gives what was started the ten seconds that a clean end may take.
func wait(ts *testscript.TestScript, _ bool, args []string) {
	cmd := of(ts).cmds[args[0]]
	late := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
	err := cmd.Wait()
	if !late.Stop() {
		ts.Fatalf("%s did not end within 10 s:\n%s", args[0], ts.ReadFile(args[0]+".err"))
	}
	out := ts.ReadFile(args[0] + ".err")
	if err := checkEnd(err, number(ts, args[1:])); err != nil {
		ts.Fatalf("%s: %v:\n%s", args[0], err, out)
	}
	if stack.MatchString(out) {
		ts.Fatalf("a stack trace is no message:\n%s", out)
	}
}

func gone(ts *testscript.TestScript, _ bool, _ []string) {
	marker := []byte("AMNESIA_TEST_SESSION=" + ts.Getenv("WORK") + "\x00")
	within(ts, 2*time.Second, func() error {
		files, err := filepath.Glob("/proc/[0-9]*/environ")
		if err != nil || len(files) == 0 {
			return fmt.Errorf("no /proc to look into: %w", err)
		}
		for _, f := range files {
			if env, err := os.ReadFile(f); err == nil && bytes.Contains(env, marker) {
				cmdline, _ := os.ReadFile(filepath.Join(filepath.Dir(f), "cmdline"))
				return fmt.Errorf("a process still lives: %s: %q", f, cmdline)
			}
		}
		return nil
	})
}

// within asks again until ok, or fails the session with what ok said last.
func within(ts *testscript.TestScript, d time.Duration, ok func() error) {
	for deadline := time.Now().Add(d); ; time.Sleep(5 * time.Millisecond) {
		err := ok()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("after %s: %v", d, err)
		}
	}
}

// free gives an address that is free now.
func free() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func writeConfig(ts *testscript.TestScript, template string, args []string) {
	values := defaults(ts.Getenv("APP"), ts.Getenv("WEB"), ts.Getenv("WORK"))
	for _, a := range args[1:] {
		k, v, _ := strings.Cut(a, "=")
		if _, ok := values[k]; !ok {
			ts.Fatalf("testdata/amnesia.yaml has no %s", k)
		}
		values[k] = v
	}
	text := os.Expand(template, func(k string) string { return values[k] })
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

// defaults are the values of testdata/amnesia.yaml for a target and a daemon at these addresses.
func defaults(app, web, work string) map[string]string {
	return map[string]string{
		"URL": "http://" + app, "APP": app, "WEB": web, "WORK": work, "COMMAND": "[amnesia, sample]", "BUGS": `""`,
		"READ": ".message.user .text", "LEDGER": "amnesia.db", "RECOVERY": "20s", "EVERY": "0s", "PACE": "0s",
	}
}

func same(ts *testscript.TestScript, _ bool, args []string) {
	var objects [2]map[string]any
	for i := range objects {
		ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[i])), &objects[i]))
		for _, k := range args[2:] {
			delete(objects[i], k)
		}
	}
	if diff := cmp.Diff(objects[0], objects[1]); diff != "" {
		ts.Fatalf("%s and %s differ (-, +):\n%s", args[0], args[1], diff)
	}
}
