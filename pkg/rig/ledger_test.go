//go:build unix

package rig_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"amnesia/pkg/fact"
	"amnesia/pkg/ledger"
)

// TestDiskFull fills the disk of the ledger while cycles with faults go on.
func TestDiskFull(t *testing.T) {
	d := smallDisk(t)
	r := start(t, setup{Ledger: filepath.Join(d.dir, "amnesia.db"), Faults: true})
	d.fill(t)
	r.stuck()
	durable := len(r.seen())
	d.empty(t)
	gap := r.fact("the gap is recorded", durable, func(f fact.Fact) bool { g, ok := f.(fact.Gap); return ok && g.Of == "ledger" }).(fact.Gap)
	if !gap.To.After(gap.From) {
		t.Errorf("the gap is %+v", gap)
	}
	r.conclusive()
	if got := r.metric(`amnesia_paused{reason="ledger"}`); got != "0" {
		t.Errorf("paused is %s", got)
	}
	if code, why := r.get("/readyz"); code != http.StatusOK {
		t.Errorf("/readyz says %d %s", code, why)
	}
	r.stop()
	err := <-r.ended
	r.ended <- err
	r.inTheFile()
}

// stuck holds what a daemon does and says whose ledger cannot be written.
func (r *rig) stuck() {
	t := r.t
	t.Helper()
	r.until("the daemon says that faults are held back", func() bool { return r.metric(`amnesia_paused{reason="ledger"}`) == "1" })
	code, why := r.get("/readyz")
	if code != http.StatusServiceUnavailable || !strings.Contains(why, "nothing can be recorded") || !strings.Contains(why, "room") {
		t.Errorf("/readyz says %d %s", code, why)
	}
	if code, _ := r.get("/healthz"); code != http.StatusOK {
		t.Errorf("/healthz says %d: a supervisor would restart the daemon for nothing", code)
	}
	if n := r.logs.FilterMessageSnippet("the ledger cannot be written").Len(); n == 0 {
		t.Error("nothing is logged")
	}
	failed := func() (n int) {
		_, _ = fmt.Sscan(r.metric("amnesia_ledger_errors_total"), &n)
		return n
	}
	before, was := len(r.seen()), failed()
	if was == 0 {
		t.Error("no failed append is counted")
	}
	r.until("it is tried again, and again", func() bool { return failed() > was+2 })
	for _, f := range r.seen()[before:] {
		if s, ok := f.(fact.Step); ok {
			t.Errorf("while nothing can be recorded, an injection is %s", s.Name)
		}
	}
}

// inTheFile holds that every fact that was durable is in the ledger.
func (r *rig) inTheFile() {
	r.t.Helper()
	known := len(r.seen())
	ro, err := ledger.OpenReadOnly(r.t.Context(), r.ledger)
	if err != nil {
		r.t.Fatal(err)
	}
	n := 0
	for _, err := range ro.Facts(r.t.Context(), 0) {
		if err != nil {
			r.t.Fatal(err)
		}
		n++
	}
	if n != known {
		r.t.Errorf("%d facts are in the ledger, %d were durable", n, known)
	}
}

// TestEndWhileFull: a daemon that is told to end while nothing can be recorded ends in time, and says why it could not
// record its end.
func TestEndWhileFull(t *testing.T) {
	d := smallDisk(t)
	r := start(t, setup{Ledger: filepath.Join(d.dir, "amnesia.db"), Faults: true})
	d.fill(t)
	r.stuck()
	began := time.Now()
	r.stop()
	err := <-r.ended
	r.ended <- nil
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it ended after %s", took)
	}
	if err == nil || !strings.Contains(err.Error(), "room") {
		t.Errorf("it ended with %v", err)
	}
	d.empty(t)
	r.inTheFile()
}

// disk is where the ledger lies.
type disk struct {
	dir   string
	fill  func(*testing.T)
	empty func(*testing.T)
}

// stuff fills a file system with a file, to the last byte.
func stuff(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 16; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
}
