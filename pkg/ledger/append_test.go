package ledger_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"amnesia/pkg/fact"
	"amnesia/pkg/ledger"
	"amnesia/pkg/memory"
)

func begun(id memory.ID) fact.Begun {
	return fact.Begun{Memory: memory.Memory{ID: id, Run: "r", User: "u", Token: fmt.Sprint("t", int64(id)), Text: "t"}, At: at(int64(id))}
}

// TestRedact: what is redacted is nowhere in the file, in what is read or in what is tapped.
func TestRedact(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	var tapped []fact.Entry
	l := open(t, path, ledger.Options{Tap: func(e []fact.Entry) { tapped = append(tapped, e...) },
		Redact: func(s string) string { return strings.ReplaceAll(s, "sesame", "*") }})
	facts := []fact.Fact{fact.Log{Service: "app", Line: "a sesame b"}, fact.Sweep{ID: 1, View: "page", Error: "sesame", Read: memory.SetOf(1),
		Before: &fact.Health{Detail: "sesame"}, Observations: []memory.Observation{{Memory: 1, View: "page", State: memory.Unreadable, Detail: "sesame"}}}}
	if err := l.Append(t.Context(), facts...); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(tapped, entries(t, l, 0)); diff != "" || len(tapped) != 2 || tapped[0].Fact.(fact.Log).Line != "a * b" {
		t.Errorf("tapped and read (-, +):\n%s%+v", diff, tapped)
	}
	if facts[0].(fact.Log).Line != "a sesame b" {
		t.Error("the caller's fact was changed")
	}
	for _, file := range []string{path, path + "-wal"} {
		if data, err := os.ReadFile(file); err != nil || bytes.Contains(data, []byte("sesame")) {
			t.Errorf("%s holds it: %v", file, err)
		}
	}
}

func TestAppendsAreWholeAndInOrder(t *testing.T) {
	const writers, each = 16, 20
	var tapped []fact.Entry
	var inTap sync.Mutex
	l := open(t, filepath.Join(t.TempDir(), "a.db"), ledger.Options{Tap: func(e []fact.Entry) {
		if !inTap.TryLock() {
			t.Error("two taps at once")
			return
		}
		defer inTap.Unlock()
		tapped = append(tapped, e...)
	}})
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				user, n := fmt.Sprint(w), at(int64(i))
				if err := l.Append(t.Context(), fact.Session{User: user, Began: n}, fact.Session{User: user, Ended: n}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	got := entries(t, l, 0)
	if len(got) != 2*writers*each {
		t.Fatalf("%d facts", len(got))
	}
	if d := diff(got, tapped); d != "" {
		t.Errorf("(-read +tapped):\n%s", d)
	}
	count := map[string]int64{}
	for i := 0; i < len(got); i += 2 {
		a, b := got[i].Fact.(fact.Session), got[i+1].Fact.(fact.Session)
		if a.User != b.User || a.Began != at(count[a.User]) || b.Ended != a.Began {
			t.Fatalf("facts %d and %d are %+v and %+v; this user's appends before: %d", got[i].Seq, got[i+1].Seq, a, b, count[a.User])
		}
		count[a.User]++
	}
	if s := l.Stats(); s.Appends != writers*each || s.Errors != 0 || s.Bytes < 4096 {
		t.Errorf("stats are %+v", s)
	}
}

// TestRefusals holds that what could not be given back is refused before it is written, and that nothing of it is kept.
func TestRefusals(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "a.db"), ledger.Options{})
	observed := func(list ...memory.Observation) fact.Sweep { return fact.Sweep{View: "page", Observations: list} }
	for want, f := range map[string]fact.Fact{
		"memory numbers start at 1":              begun(0),
		"m4 is observed twice":                   observed(memory.Observation{Memory: 4, View: "page"}, memory.Observation{Memory: 4, View: "page"}),
		`in the view "redis"`:                    observed(memory.Observation{Memory: 4, View: "redis"}),
		"one observed is 0":                      observed(memory.Observation{View: "page"}),
		"the range 5-3 of a set":                 fact.Sweep{Read: memory.Set{{First: 5, Last: 3}}},
		"the range 2-3 of a set":                 fact.Retired{Memories: memory.Set{{First: 1, Last: 2}, {First: 2, Last: 3}}},
		"a *fact.Gap is no fact that the ledger": &fact.Gap{},
	} {
		err := l.Append(t.Context(), fact.Gap{Of: "clock"}, f)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q in it", err, want)
		}
	}
	if got := entries(t, l, 0); len(got) > 0 {
		t.Errorf("kept %v", got)
	}
}

// held opens a ledger whose committer stands in Tap, after a first append is durable, until release is called.
func held(t *testing.T) (l *ledger.Ledger, release func()) {
	t.Helper()
	reached, gate := make(chan struct{}), make(chan struct{})
	var once sync.Once
	l = open(t, filepath.Join(t.TempDir(), "a.db"), ledger.Options{Tap: func([]fact.Entry) {
		once.Do(func() { close(reached); <-gate })
	}})
	go func() { _ = l.Append(context.Background(), begun(1)) }()
	<-reached
	release = sync.OnceFunc(func() { close(gate) })
	t.Cleanup(release) // before the ledger is closed
	return l, release
}

// until waits for a condition.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// TestOneBadAppendHarmsNoOther puts a memory that exists already into one transaction with other facts.
func TestOneBadAppendHarmsNoOther(t *testing.T) {
	l, release := held(t)
	sweep := fact.Sweep{ID: 1, View: "page", Read: memory.SetOf(1, 2), Observations: []memory.Observation{
		{Memory: 1, View: "page", State: memory.Present}, {Memory: 2, View: "page", State: memory.Absent}}}
	facts := []fact.Fact{sweep, begun(1), begun(2)}
	errs := make([]error, len(facts))
	var wg sync.WaitGroup
	for i, f := range facts {
		wg.Go(func() { errs[i] = l.Append(t.Context(), f) })
		until(t, "the append waits", func() bool { return l.Waiting() == i+1 })
	}
	release()
	wg.Wait()
	if errs[0] != nil || errs[2] != nil || errs[1] == nil || !strings.Contains(errs[1].Error(), "fix: give each memory a number of its own") {
		t.Errorf("errors are %v", errs)
	}
	want := []fact.Entry{{Seq: 1, Fact: begun(1)}, {Seq: 2, Fact: sweep}, {Seq: 3, Fact: begun(2)}}
	if d := diff(want, entries(t, l, 0)); d != "" {
		t.Errorf("(-want +read):\n%s", d)
	}
}

func TestContextEndsWhileWaiting(t *testing.T) {
	l, release := held(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- l.Append(ctx, begun(2)) }()
	until(t, "the append waits", func() bool { return l.Waiting() == 1 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "it is not recorded") {
		t.Errorf("error is %v", err)
	}
	if err := l.Append(ctx, begun(3)); !errors.Is(err, context.Canceled) {
		t.Errorf("error of an append with an ended context is %v", err)
	}
	release()
	if err := l.Append(t.Context(), begun(4)); err != nil {
		t.Fatal(err)
	}
	want := []fact.Entry{{Seq: 1, Fact: begun(1)}, {Seq: 2, Fact: begun(4)}}
	if d := diff(want, entries(t, l, 0)); d != "" {
		t.Errorf("(-want +read):\n%s", d)
	}
}

func TestContextEndsWhileWriting(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	gate := make(chan struct{})
	l := open(t, filepath.Join(t.TempDir(), "a.db"), ledger.Options{Tap: func([]fact.Entry) { cancel(); <-gate }})
	err := l.Append(ctx, begun(1))
	close(gate)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "may or may not be recorded") {
		t.Errorf("error is %v", err)
	}
	if got := entries(t, l, 0); len(got) != 1 {
		t.Errorf("the ledger has %v", got)
	}
}

func TestAppendAfterClose(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "a.db"), ledger.Options{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for n := l.NextMemory(); ; n = l.NextMemory() {
				if err := l.Append(context.Background(), begun(n)); err != nil {
					if !errors.Is(err, ledger.ErrClosed) {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	until(t, "some are appended", func() bool { return l.Stats().Appends > 20 })
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
	appends := l.Stats().Appends
	l = open(t, l.Path(), ledger.Options{})
	if got := int64(len(entries(t, l, 0))); got != appends {
		t.Errorf("%d appends returned without an error, %d are recorded", appends, got)
	}
}

// TestFullDisk fills the ledger, and holds that the error says what to do, that nothing is torn, that a sweep which
// failed is recorded whole the next time, and that all goes on when there is room.
func TestFullDisk(t *testing.T) {
	var tapped []fact.Entry
	l := open(t, filepath.Join(t.TempDir(), "a.db"), ledger.Options{Tap: func(e []fact.Entry) { tapped = append(tapped, e...) }})
	if err := l.Append(t.Context(), begun(1)); err != nil {
		t.Fatal(err)
	}
	if err := l.LimitPages(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	sweep := fact.Sweep{ID: 1, View: "page", Read: memory.SetOf(1), Observations: []memory.Observation{
		{Memory: 1, View: "page", State: memory.Present, Detail: strings.Repeat("x", 20_000)}}}
	err := l.Append(t.Context(), sweep, fact.Run{ID: "a name that the next append needs"})
	if err == nil || !strings.Contains(err.Error(), l.Path()) || !strings.Contains(err.Error(), "fix: make room") {
		t.Errorf("error is %v", err)
	}
	if s := l.Stats(); s.Errors != 1 {
		t.Errorf("stats are %+v", s)
	}
	if err := l.LimitPages(t.Context(), 1<<30); err != nil {
		t.Fatal(err)
	}
	if err := l.Append(t.Context(), sweep); err != nil {
		t.Fatal(err)
	}
	want := []fact.Entry{{Seq: 1, Fact: begun(1)}, {Seq: 2, Fact: sweep}}
	if d := diff(want, entries(t, l, 0)); d != "" {
		t.Errorf("(-want +read):\n%s", d)
	}
	if d := diff(want, tapped); d != "" {
		t.Errorf("(-want +tapped):\n%s", d)
	}
}

func TestObserveAppend(t *testing.T) {
	now := tick{}
	var took []time.Duration
	var errs []error
	l := open(t, filepath.Join(t.TempDir(), "a.db"), ledger.Options{Clock: &now, ObserveAppend: func(d time.Duration, err error) {
		took, errs = append(took, d), append(errs, err)
	}})
	_ = l.Append(t.Context(), begun(1))
	_ = l.Append(t.Context(), begun(1))
	if len(took) != 2 || took[0] != time.Second || errs[0] != nil || errs[1] == nil {
		t.Errorf("observed %v, %v", took, errs)
	}
}

// tick is a clock that moves by a second with each look.
type tick struct{ n int64 }

func (c *tick) Now() memory.Instant { c.n++; return at(c.n * 1000) }
