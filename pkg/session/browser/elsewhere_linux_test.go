package browser_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"amnesia/pkg/session"
	"amnesia/pkg/session/browser"
)

// elsewhere is a browser that somebody else runs.
type elsewhere struct {
	address string
	cmd     *exec.Cmd
}

// listening waits until a program has printed the address that it listens at.
func listening(t *testing.T, cmd *exec.Cmd, at *regexp.Regexp) *elsewhere {
	t.Helper()
	r, w, err := os.Pipe()
	must(t, err)
	cmd.Stdout, cmd.Stderr = w, w
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	must(t, cmd.Start())
	must(t, w.Close())
	e := &elsewhere{cmd: cmd}
	t.Cleanup(func() { e.kill(t); _ = r.Close() })
	var said strings.Builder
	for lines := bufio.NewScanner(r); lines.Scan(); {
		fmt.Fprintln(&said, lines.Text())
		if found := at.FindString(lines.Text()); found != "" {
			e.address = found
			go func() {
				for lines.Scan() { // so that it can go on talking
				}
			}()
			return e
		}
	}
	t.Fatalf("%s printed no address:\n%s", cmd, said.String())
	return nil
}

// kill ends all its processes at once.
func (e *elsewhere) kill(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(-e.cmd.Process.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Error(err)
	}
	_ = e.cmd.Wait()
}

// debugged starts a browser whose debugging port is known.
func debugged(t *testing.T, port int) *elsewhere {
	t.Helper()
	cmd := exec.Command(installation(t).ExecutablePath, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
		fmt.Sprintf("--remote-debugging-port=%d", port), "--user-data-dir="+t.TempDir(), "about:blank")
	e := listening(t, cmd, regexp.MustCompile(`ws://127\S+`))
	e.address = fmt.Sprintf("http://127.0.0.1:%d", port)
	return e
}

// served starts a Playwright server.
func served(t *testing.T) *elsewhere {
	t.Helper()
	found := installation(t)
	config := filepath.Join(t.TempDir(), "server.json")
	text, err := json.Marshal(map[string]any{"executablePath": found.ExecutablePath, "headless": true, "host": "127.0.0.1", "chromiumSandbox": false})
	must(t, err)
	must(t, os.WriteFile(config, text, 0o600))
	return listening(t, exec.Command(filepath.Join(found.DriverDir, "node"), filepath.Join(found.DriverDir, "package", "cli.js"),
		"launch-server", "--browser", "chromium", "--config", config), regexp.MustCompile(`ws://\S+`))
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// pages counts what is open in a browser by its debugging port, apart from its own first page.
func (e *elsewhere) pages(t *testing.T) (n int) {
	t.Helper()
	resp, err := http.Get(e.address + "/json/list")
	must(t, err)
	defer resp.Body.Close()
	var list []struct{ Type, URL string }
	must(t, json.NewDecoder(resp.Body).Decode(&list))
	for _, one := range list {
		if one.Type == "page" && one.URL != "about:blank" {
			n++
		}
	}
	return n
}

// greeter greets who is logged in by a cookie that it gives.
func greeter(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := "nobody"
		if c, err := r.Cookie("name"); err == nil {
			name = c.Value
		} else {
			http.SetCookie(w, &http.Cookie{Name: "name", Value: r.FormValue("name")})
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<p>hello <b>%s</b></p>", name)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func greets(t *testing.T, s session.Surface, name string) {
	t.Helper()
	must(t, s.Goto(t.Context(), "/?name="+name))
	must(t, s.Goto(t.Context(), "/"))
	texts, complete, err := s.Read(t.Context(), session.Read{Selector: "b"})
	if err != nil || !complete || !slices.Equal(texts, []string{name}) {
		t.Fatalf("%s is greeted as %q (%v)", name, texts, err)
	}
}

// TestElsewhere: users are played in a browser that somebody else runs, each in a context of their own, with evidence here;
// and it goes on running when they are done.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(*testing.T) *elsewhere{
		"a Playwright server": served,
		"a debugging port":    func(t *testing.T) *elsewhere { return debugged(t, freePort(t)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := begin(t)
			d := start(t, greeter(t), func(c *browser.Config) { c.Connect, c.ExecutablePath, c.Trace = []string{e.address}, "", true })
			ann, ben := open(t, d, "ann"), open(t, d, "ben")
			greets(t, ann, "ann")
			greets(t, ben, "ben")
			greets(t, ann, "ann")
			kept := ann.Evidence(t.Context(), "because")
			for _, want := range []string{".png", ".zip"} {
				found := false
				for _, file := range kept {
					info, err := os.Stat(file)
					found = found || err == nil && info.Size() > 0 && strings.HasSuffix(file, want)
				}
				if !found {
					t.Errorf("no %s among the evidence %q", want, kept)
				}
			}
			must(t, ann.Close())
			must(t, ben.Close())
			must(t, d.Close())
			again := start(t, greeter(t), func(c *browser.Config) { c.Connect = []string{e.address} })
			greets(t, open(t, again, "cem"), "cem")
		})
	}
}

// TestPool: users spread over the browsers of a pool; those of one that dies have errors of ours, new ones go to the
// others, and when it is back it has its share again.
func TestPool(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	first, second := debugged(t, port), debugged(t, freePort(t))
	var now dial
	d := start(t, greeter(t), func(c *browser.Config) {
		c.Connect, c.Clock = []string{first.address, second.address}, &now
	})
	var all []session.Surface
	for _, name := range []string{"ann", "ben", "cem", "dan"} {
		all = append(all, open(t, d, name))
		greets(t, all[len(all)-1], name)
	}
	if a, b := first.pages(t), second.pages(t); a != 2 || b != 2 {
		t.Fatalf("%d and %d pages, want 2 in each", a, b)
	}
	first.kill(t)
	lost := 0
	for _, s := range all {
		if err := s.Goto(t.Context(), "/"); session.IsRig(err) {
			lost++
			must(t, s.Close())
		} else {
			must(t, err)
		}
	}
	if lost != 2 {
		t.Fatalf("%d users lost their browser, want 2", lost)
	}
	for _, name := range []string{"eva", "fay"} {
		greets(t, open(t, d, name), name)
	}
	if n, s := second.pages(t), d.Stats(); n != 4 || s.Browsers != 1 || s.Restarts["browser_died"] != 1 || s.Open != 4 {
		t.Fatalf("%d pages in the browser that is left, %+v", n, s)
	}
	first = debugged(t, port)
	now.move(time.Minute)
	for _, name := range []string{"gil", "hal"} {
		greets(t, open(t, d, name), name)
	}
	if a, b, s := first.pages(t), second.pages(t), d.Stats(); a != 2 || b != 4 || s.Browsers != 2 {
		t.Errorf("%d and %d pages, %+v", a, b, s)
	}
}

// TestNobodyElsewhere: a browser that is not there is said so, with its address and without what may be secret in that.
func TestNobodyElsewhere(t *testing.T) {
	t.Parallel()
	nobody := fmt.Sprintf("ws://127.0.0.1:%d/?token=hush", freePort(t))
	_, err := browser.New(t.Context(), browser.Config{Connect: []string{nobody}, DriverDir: installation(t).DriverDir, Clock: &dial{}})
	if !session.IsRig(err) || !strings.Contains(err.Error(), "ws://127.0.0.1:") || !strings.Contains(err.Error(), "fix: ") || strings.Contains(err.Error(), "hush") {
		t.Errorf("%v", err)
	}
	there := debugged(t, freePort(t))
	d := start(t, greeter(t), func(c *browser.Config) { c.Connect = []string{nobody, there.address} })
	greets(t, open(t, d, "ann"), "ann")
}
