package rig_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"amnesia/pkg/fact"
	"amnesia/pkg/session/browser"
)

// TestBrowserKilled kills Chromium, and then its driver, while users are at work in it.
func TestBrowserKilled(t *testing.T) {
	t.Parallel()
	if _, err := browser.Find(browser.InstallOptions{Dir: os.Getenv("AMNESIA_BROWSER_DIR")}); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	// No faults: when the app is killed, Chromium may send a message twice by itself, and the app keeps both.
	r := start(t, setup{Driver: "browser"})
	for _, k := range []struct {
		reason string
		victim func(*testing.T) int
	}{
		{"browser_died", func(t *testing.T) int { return child(t, driver(t), "--remote-debugging-pipe") }},
		{"driver_died", driver},
	} {
		from := len(r.seen())
		r.fact("a user is in the middle of a message", from, func(f fact.Fact) bool { _, ok := f.(fact.Begun); return ok })
		if err := syscall.Kill(k.victim(t), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		r.fact("a session that failed by our own fault", from, func(f fact.Fact) bool {
			s, ok := f.(fact.Session)
			return ok && s.Outcome == "rig_error"
		})
		r.conclusive()
		if n := r.metric(fmt.Sprintf("amnesia_browser_restarts_total{reason=%q}", k.reason)); n != "1" {
			t.Errorf("%s: %s restarts are counted", k.reason, n)
		}
	}
}

// driver gives the process of Playwright's driver, a child of ours.
func driver(t *testing.T) int { return child(t, os.Getpid(), "run-driver") }

// child gives the process below another, at whatever depth, whose command line has the word.
func child(t *testing.T, of int, word string) int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	parents := map[int]int{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:])) // proc(5): state, parent, …
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		parents[pid], _ = strconv.Atoi(fields[1])
	}
	var matches []int
	for pid := range parents {
		for up, depth := parents[pid], 0; up > 1 && depth < 20; up, depth = parents[up], depth+1 {
			if up != of {
				continue
			}
			line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if err == nil && strings.Contains(string(line), word) && !strings.Contains(string(line), "--type=") {
				matches = append(matches, pid)
			}
		}
	}
	for _, pid := range matches {
		// A script may have started it, with the same words: the process is the one below.
		if !slices.ContainsFunc(matches, func(other int) bool { return parents[other] == pid }) {
			return pid
		}
	}
	t.Fatalf("no process below %d has %s in its command line", of, word)
	return 0
}
