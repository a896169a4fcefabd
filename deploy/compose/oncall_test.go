package compose_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/playwright-community/playwright-go"

	"amnesia/pkg/session/browser/browsertest"
)

// TestOnCall goes the way of whoever is woken up: Redis on the stack has no append-only file, the alert fires in a real
// Prometheus, its link leads to the daemon's pages, and the first thing there says what was lost by which fault, and what
// to change.
func TestOnCall(t *testing.T) {
	chromium := browsertest.Chromium(t)
	s := newStack(t, "amnesia-oncall-test")
	over := filepath.Join(t.TempDir(), "over.yaml")
	if err := os.WriteFile(over, []byte(faults("kill of redis")+quick), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "./soak")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	interrupt := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.Cancel, cmd.WaitDelay = interrupt, 30*time.Second
	cmd.Env = append(slices.Clone(s.env), "BUGS=redis-rdb", "HOMES=redis", "AMNESIA_FLAGS=-o json -c "+over)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.Wait()
		cancel() // whoever still waits for something of it waits in vain
	}()
	defer func() {
		_ = interrupt() // it may have ended
		err := <-ended
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 3 {
			t.Errorf("after SIGTERM: %v, want exit code 3", err)
		}
		if t.Failed() {
			t.Logf("%s\n%s", stdout.Bytes(), tail(stderr.String(), 60))
		}
	}()

	alert := s.awaitAlert(ctx, t, "AmnesiaMemoriesLost")
	if l := alert.Labels; l["fault"] != "kill" || l["service"] != "redis" || l["severity"] != "critical" {
		t.Errorf("the alert's labels: %v", l)
	}
	link := ""
	for _, text := range alert.Annotations {
		if l := regexp.MustCompile(`https?://\S*/incidents\S*`).FindString(text); l != "" {
			link = l
		}
	}
	if link == "" {
		t.Fatalf("no annotation leads to an incident: %v", alert.Annotations)
	}

	page, err := chromium.NewPage(playwright.BrowserNewPageOptions{Viewport: &playwright.Size{Width: 1280, Height: 800}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := page.Goto(link); err != nil {
		t.Fatal(err)
	}
	// One click, where the link leads to more than one incident.
	if strings.HasSuffix(strings.SplitN(page.URL(), "?", 2)[0], "/incidents") {
		if err := page.Locator("main table a", playwright.PageLocatorOptions{HasText: "redis"}).First().Click(); err != nil {
			t.Fatal(err)
		}
	}
	cause, err := page.Locator("h1").InnerText()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"silently", "SIGKILL of redis"} {
		if !strings.Contains(cause, want) {
			t.Errorf("the headline is %q: no %q", cause, want)
		}
	}
	// What is seen without scrolling.
	seen, err := page.Evaluate(`() => [...document.querySelectorAll('main *')].filter(e => e.childElementCount === 0 &&
		e.getBoundingClientRect().bottom <= innerHeight && e.getBoundingClientRect().top >= 0).map(e => e.innerText).join('\n')`)
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprint(seen)
	for _, want := range []string{"append-only file", "appendonly yes", "amnesia replay", "redis"} {
		if !strings.Contains(text, want) {
			t.Errorf("what is seen first has no %q:\n%s", want, text)
		}
	}
	// Two minutes are some 400 words.
	if words := len(strings.Fields(text)); words > 400 {
		t.Errorf("what is seen first has %d words", words)
	}
	for _, want := range []string{"The memories", "amnesia-oncall-test-redis-1", "/data"} {
		if n, err := page.GetByText(want).Count(); err != nil || n == 0 {
			t.Errorf("the page does not show %q (%v)", want, err)
		}
	}
}

type alert struct {
	Labels, Annotations map[string]string
	State               string
}

// awaitAlert waits until Prometheus has an alert fire.
func (s *stack) awaitAlert(ctx context.Context, t *testing.T, name string) alert {
	t.Helper()
	last := ""
	for ctx.Err() == nil {
		var all struct{ Data struct{ Alerts []alert } }
		resp, err := http.Get(s.prometheus + "/api/v1/alerts")
		if err == nil {
			err = json.NewDecoder(resp.Body).Decode(&all)
			resp.Body.Close()
		}
		for _, a := range all.Data.Alerts {
			if a.Labels["alertname"] == name && a.State == "firing" {
				return a
			}
		}
		last = fmt.Sprint(all.Data.Alerts, err)
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	t.Fatalf("%s never fired: %s", name, last)
	return alert{}
}
