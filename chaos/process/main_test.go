//go:build unix

package process_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"amnesia/chaos"
	"amnesia/chaos/process"
	"amnesia/pkg/clock"
	"amnesia/pkg/fact"
)

// The test binary plays the services and the daemon too; roleKey says which.
const roleKey = "PROCESS_TEST_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv("PROCESS_TEST_NO_HOOK") == "" {
		process.GuardianMain()
	}
	// The race detector holds every process up for a second at its end, guardians too.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	switch os.Getenv(roleKey) {
	case "service":
		serve()
	case "daemon":
		daemon()
	case "sleeper":
		select {}
	default:
		os.Exit(m.Run())
	}
}

// serve is a small HTTP service: PROCESS_TEST_ADDR is where, PROCESS_TEST_CHILDREN which children it starts first: child,
// stray (in a session of its own), bare (without the environment that marks it).
func serve() {
	fmt.Println("starting with pid", os.Getpid())
	for kind := range strings.FieldsSeq(os.Getenv("PROCESS_TEST_CHILDREN")) {
		child := exec.Command(os.Args[0])
		child.Env = []string{roleKey + "=sleeper"}
		if kind != "bare" { // it keeps the marker
			child.Env = append(os.Environ(), child.Env...)
		}
		child.Stdout = os.Stdout
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: kind == "stray"}
		if err := child.Start(); err != nil {
			panic(err)
		}
		fmt.Println(kind, child.Process.Pid)
	}
	if n, err := strconv.Atoi(os.Getenv("PROCESS_TEST_LONG_LINE")); err == nil {
		fmt.Println(strings.Repeat("x", n))
		fmt.Println("after the long line")
	}
	if n, err := strconv.Atoi(os.Getenv("PROCESS_TEST_LINES")); err == nil {
		for i := range n {
			fmt.Println("line", i)
		}
	}
	l, err := net.Listen("tcp", os.Getenv("PROCESS_TEST_ADDR"))
	if err != nil {
		fmt.Println("fatal:", err)
		os.Exit(7)
	}
	http.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	http.HandleFunc("/exit", func(http.ResponseWriter, *http.Request) { fmt.Println("told to exit"); os.Exit(3) })
	panic(http.Serve(l, nil))
}

// daemon runs an engine until it is killed, and prints what it runs.
func daemon() {
	e, err := process.New(process.Config{Clock: clock.System(), Services: []process.Service{
		{Name: "app", Command: []string{os.Args[0]}, Health: "http://" + os.Getenv("PROCESS_TEST_ADDR") + "/healthz", Env: []string{roleKey + "=service"}},
		{Name: "other", Command: []string{os.Args[0]}, Env: []string{roleKey + "=sleeper"}},
	}})
	if err == nil {
		err = e.StartAll(context.Background())
	}
	if err == nil {
		_, err = chaos.NewProber(clock.System(), 0).Await(context.Background(), e, nil)
	}
	if err == nil && os.Getenv("PROCESS_TEST_FREEZE") != "" {
		err = e.Freeze(context.Background(), "app")
	}
	if err == nil && os.Getenv("PROCESS_TEST_REPLACE") != "" {
		first := e.Guardian()
		err = syscall.Kill(first, syscall.SIGKILL)
		for err == nil && e.Guardian() == first { // a start finds it dead and makes a new one
			err = errors.Join(e.Kill(context.Background(), "other"), e.Start(context.Background(), "other"))
		}
	}
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	fmt.Println("guardian", e.Guardian())
	for _, line := range e.Tail("app") {
		fmt.Println(line)
	}
	fmt.Println("up")
	select {}
}

func address(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// app declares the test service.
func app(t *testing.T, name string) process.Service {
	t.Helper()
	addr := address(t)
	return process.Service{
		Name: name, Command: []string{os.Args[0]}, Dir: t.TempDir(), Health: "http://" + addr + "/healthz",
		Env: []string{roleKey + "=service", "PROCESS_TEST_ADDR=" + addr}, Grace: time.Second,
	}
}

func engine(t *testing.T, services ...process.Service) *process.Engine {
	t.Helper()
	e, err := process.New(process.Config{Clock: clock.System(), Services: services})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func startAll(t *testing.T, e *process.Engine) {
	t.Helper()
	if err := e.StartAll(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := prober().Await(testContext(t), e, nil); err != nil {
		t.Fatal(err)
	}
}

func prober() *chaos.Prober { return chaos.NewProber(clock.System(), 300*time.Millisecond) }

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for until := time.Now().Add(10 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("never came true: %s", what)
		}
	}
}

// lives reports whether the process is there and no zombie.
func lives(pid int) bool {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(after, "Z") && !strings.HasPrefix(after, "X")
}

// pidOf finds the process id that a service printed after the word.
func pidOf(t *testing.T, e *process.Engine, service, word string) int {
	t.Helper()
	var pid int
	eventually(t, word+" in the log", func() bool {
		for _, line := range e.Tail(service) {
			if rest, ok := strings.CutPrefix(line, word+" "); ok {
				pid, _ = strconv.Atoi(rest)
			}
		}
		return pid != 0
	})
	return pid
}

// discard is a journal that keeps nothing.
type discard struct{}

func (discard) Step(context.Context, ...fact.Step) error { return nil }
