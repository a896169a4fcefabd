//go:build unix

package app

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/zap"

	"amnesia/pkg/fact"
	"amnesia/pkg/incident"
	"amnesia/pkg/ledger"
	"amnesia/pkg/memory"
	"amnesia/pkg/session/browser"
)

// TestFrozen runs a target with a planted loss, and reads from the ledger and the folder of evidence alone, as anybody
// could whose daemon is long gone, what was frozen.
func TestFrozen(t *testing.T) {
	for _, driver := range []string{"http", "browser"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			dir := os.Getenv("AMNESIA_BROWSER_DIR")
			if _, err := browser.Find(browser.InstallOptions{Dir: dir}); driver == "browser" && err != nil {
				if os.Getenv("CI") == "true" {
					t.Fatal(err)
				}
				t.Skip(err)
			}
			l := newLives(t, "ack-early")
			l.rewrite(t, "driver: http", "driver: "+driver)
			l.losing(t)
			cfg, err := LoadConfig([]string{l.config}, os.Getenv)
			if err != nil {
				t.Fatal(err)
			}
			const seed = 7
			t.Logf("seed %d", seed)
			if _, err := soakOnce(t.Context(), cfg, Options{Seed: seed, Cycles: 4, BrowserDir: dir, Log: zap.NewNop()}, "sample"); err != nil {
				t.Fatal(err)
			}
			checkFrozen(t, l.ledger, cfg.Evidence.Dir, driver)
		})
	}
}

func checkFrozen(t *testing.T, path, evidence, driver string) {
	led, err := ledger.OpenReadOnly(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer led.Close()
	log := incident.NewLog(nil)
	told, fired, closed := map[memory.ID]memory.Memory{}, map[int64]memory.Instant{}, map[int]int64{}
	judged := map[memory.ID]int64{}
	frozen := map[int64]fact.Frozen{} // by their place
	for e, err := range led.Facts(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		log.Apply(e)
		switch f := e.Fact.(type) {
		case fact.Begun:
			told[f.Memory.ID] = f.Memory
		case fact.Step:
			if !f.Fired.IsZero() {
				fired[f.Injection] = f.Fired
			}
		case fact.Judged:
			judged[f.Verdict.Memory] = e.Seq
		case fact.Cycle:
			if f.Phase == fact.PhaseClosed {
				closed[f.N] = e.Seq
			}
		case fact.Frozen:
			frozen[e.Seq] = f
		}
	}
	incidents := log.All(memory.Instant{})
	if len(incidents) == 0 {
		t.Fatal("nothing was lost")
	}
	for _, i := range incidents {
		if len(i.Evidence) == 0 {
			t.Errorf("nothing was frozen of %s", i.Fingerprint)
		}
	}
	kept := map[string]bool{}
	var befores, afters int
	for seq, f := range frozen {
		if seq > closed[f.Cycle] || f.Memories.Len() == 0 {
			t.Errorf("%s was frozen after cycle %d was closed, or of %d memories", f.Incident, f.Cycle, f.Memories.Len())
		}
		at := fired[f.Injection]
		if at.IsZero() {
			continue // with several suspects
		}
		checkService(t, f, at)
		for _, p := range f.Pictures {
			kept[p.File] = true
			data, err := os.ReadFile(filepath.Join(evidence, p.File))
			if err != nil {
				t.Error(err)
			}
			token := told[p.Memory].Token
			if !f.Memories.Has(p.Memory) || told[p.Memory].User != p.User {
				t.Errorf("%s is of %s of %s", p.File, p.Memory, p.User)
			}
			switch {
			case p.Kind == "screenshot" && !bytes.HasPrefix(data, []byte("\x89PNG")):
				t.Errorf("%s is no picture", p.File)
			case p.Kind == "document" && strings.Contains(string(data), token) != (p.When == "before"):
				t.Errorf("%s: that the page of %s from %s the fault shows it is %v", p.File, p.Memory, p.When, p.When != "before")
			}
			if want := map[string]string{"browser": "screenshot", "http": "document"}[driver]; p.Kind == want {
				if p.When == "before" {
					befores++
				} else {
					afters++
				}
			}
		}
	}
	if befores == 0 || afters == 0 {
		t.Errorf("%d pictures from before a fault and %d from after one", befores, afters)
	}
	files, err := os.ReadDir(evidence)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if name := file.Name(); !kept[name] && (strings.Contains(name, "-after") || strings.Contains(name, "-before") || strings.Contains(name, "-session")) {
			t.Errorf("%s belongs to nothing and stays", name)
		}
	}
}

// checkService wants the app as it was when the loss was found, with its lines and events from before the fault on.
func checkService(t *testing.T, f fact.Frozen, fired memory.Instant) {
	if len(f.Services) != 1 {
		t.Fatalf("%s has %d services", f.Incident, len(f.Services))
	}
	s := f.Services[0]
	if _, err := strconv.Atoi(s.Instance.ID); err != nil || s.Service != "app" || s.State != "running" || len(s.Command) != 2 || len(s.Mounts) != 1 || s.Mounts[0].Kind != "scratch" {
		t.Errorf("%s: %+v", f.Incident, s)
	}
	var early, unnamed, died bool
	for _, l := range f.Logs {
		early = early || l.At.Before(fired)
		unnamed = unnamed || l.Memory == 0 && l.Level != "error"
		if fired.Sub(l.At) > incident.BeforeFault {
			t.Errorf("a line of %s before the fault: %s", fired.Sub(l.At), l.Line)
		}
	}
	for _, e := range f.Events {
		died = died || e.Kind == "die" && e.Ours && e.Exit == 137
	}
	if !early || !unnamed || !died {
		t.Errorf("%s: lines from before the fault: %v, beside those that name a memory: %v; its death: %v", f.Incident, early, unnamed, died)
	}
}
