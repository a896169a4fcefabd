// Package viewtest is the suite that every view must pass: it holds an adapter, with a real store behind it, to the
// contract of view.View.
package viewtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"amnesia/pkg/memory"
	"amnesia/pkg/view"
)

// Store is what a view under test reads. Each method fails the test when it cannot do what it says.
type Store interface {
	// Open gives a new view of the store. The suite closes it.
	Open(t *testing.T) view.View
	// Put stores one record of the user for each text, through another connection than the view's.
	Put(t *testing.T, user string, texts ...string)
	// Delete removes all records of the user that have this text.
	Delete(t *testing.T, user, text string)
	// Break breaks the store in one of the ways that the harness names, and gives a function that mends it.
	Break(t *testing.T, how Trouble) (mend func())
}

// Trouble is a way to break a store.
type Trouble string

const (
	Hang    Trouble = "hang"    // reads do not end until it is mended
	Refuse  Trouble = "refuse"  // every read fails at once
	Vanish  Trouble = "vanish"  // what is read is not there at all
	Garbage Trouble = "garbage" // what is read is not what it should be
	Cut     Trouble = "cut"     // a read of a user with many records fails after some, but not all, of them
	Short   Trouble = "short"   // the same, but the store says itself that it did not give all
)

// Harness is one adapter with a real store.
type Harness struct {
	// New gives an empty store; it registers its own clean-up.
	New      func(t *testing.T) Store
	Troubles []Trouble
	// NoCopies: the view does not count copies (every memory found has one).
	NoCopies bool
	// NoText: the view knows a memory by its token alone, and calls none altered.
	NoText bool
}

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	before := runtime.NumGoroutine()
	t.Run("bulk", h.bulk)
	t.Run("empty", h.empty)
	t.Run("nothing asked", h.nothing)
	t.Run("fresh", h.fresh)
	t.Run("others", h.others)
	t.Run("leak", h.leak)
	t.Run("copies", h.copies)
	t.Run("altered", h.altered)
	t.Run("asked twice", h.twice)
	t.Run("ended context", h.ended)
	t.Run("concurrent", h.concurrent)
	for _, how := range h.Troubles {
		t.Run(string(how), func(t *testing.T) { h.trouble(t, how) })
	}
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<20)
			t.Fatalf("%d goroutines before the suite, %d after it:\n%s", before, runtime.NumGoroutine(), buf[:runtime.Stack(buf, true)])
		}
	}
}

// Memories gives n memories for each of the users, with texts of every payload. The same seed gives the same ones.
func Memories(seed uint64, users, n int) []memory.Memory {
	rnd := rand.New(rand.NewPCG(seed, 0))
	var ms []memory.Memory
	for i := range n {
		for u := range users {
			id := memory.ID(len(ms) + 1)
			token := fmt.Sprintf("k%06d%04x", id, rnd.IntN(1<<16))
			payload := memory.Payloads[i%len(memory.Payloads)]
			ms = append(ms, memory.Memory{
				ID: id, Run: "r", Cycle: 1, User: fmt.Sprintf("user %d+ü&%%'/", u), Token: token, Payload: payload,
				Text: text(payload, token), Question: fmt.Sprintf("What did I tell you in message %d?", i),
			})
		}
	}
	return ms
}

func text(p memory.Payload, token string) string {
	switch p {
	case memory.PayloadLong:
		return strings.Repeat("It was a long day and there is much to say. ", 45) + "The code is " + token + "."
	case memory.PayloadChinese:
		return "我的储物柜密码是" + token + "，请记住。"
	case memory.PayloadEmoji:
		return "👩‍👩‍👧‍👦🏳️‍🌈" + token + "🧑🏽‍🚀"
	case memory.PayloadMarkup:
		return `<b>"` + token + `"</b>'); DROP TABLE chat_memory; -- &amp; {{.User}} \n %20`
	case memory.PayloadMultiline:
		return "first line\n" + token + "\n\n  and a last one"
	}
	return "My locker code is " + token + "."
}

const seed = 20261130

// find reads, and checks what holds of every Find.
func find(t *testing.T, v view.View, ms []memory.Memory) []memory.Observation {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	out, err := v.Find(ctx, ms)
	if err != nil {
		t.Fatalf("Find: %v", err)
	}
	check(t, v, ms, out)
	for i, o := range out {
		if o.State == memory.Unreadable {
			t.Fatalf("%s is unreadable in a healthy store: %s", ms[i].ID, o.Detail)
		}
	}
	return out
}

// check checks what holds of whatever Find gives.
func check(t *testing.T, v view.View, ms []memory.Memory, out []memory.Observation) {
	t.Helper()
	if len(out) != len(ms) {
		t.Fatalf("%d observations of %d memories", len(out), len(ms))
	}
	here := map[string]int{}
	for i, o := range out {
		if o.State.Here() {
			here[ms[i].User]++
		}
	}
	for i, o := range out {
		switch {
		case o.Memory != ms[i].ID:
			t.Fatalf("observation %d is of %s, not of %s", i, o.Memory, ms[i].ID)
		case o.View != v.Name():
			t.Fatalf("observation %d is of the view %q, not %q", i, o.View, v.Name())
		case o.State.Here() != (o.Copies > 0):
			t.Fatalf("%s is %s with %d copies", o.Memory, o.State, o.Copies)
		case o.Siblings != here[ms[i].User]:
			t.Fatalf("%s has %d siblings, want %d", o.Memory, o.Siblings, here[ms[i].User])
		case o.Began.IsZero() || o.Ended.Before(o.Began):
			t.Fatalf("%s was read from %v to %v", o.Memory, o.Began, o.Ended)
		case !slices.IsSorted(o.Strangers):
			t.Fatalf("%s has unsorted strangers %q", o.Memory, o.Strangers)
		case o.State == memory.Unreadable && o.Detail == "":
			t.Fatalf("%s is unreadable without a reason", o.Memory)
		case o.Rig && o.State != memory.Unreadable:
			t.Fatalf("%s is %s by trouble of ours", o.Memory, o.State)
		}
	}
}

// want checks state, copies and strangers of one observation.
func want(t *testing.T, o memory.Observation, state memory.State, copies int, strangers ...string) {
	t.Helper()
	if o.State != state || o.Copies != copies || !slices.Equal(o.Strangers, strangers) {
		t.Errorf("%s is %s with %d copies and strangers %q (%s), want %s with %d and %q",
			o.Memory, o.State, o.Copies, o.Strangers, o.Detail, state, copies, strangers)
	}
}

func (h Harness) open(t *testing.T) (Store, view.View) {
	t.Helper()
	s := h.New(t)
	return s, h.view(t, s)
}

func (h Harness) view(t *testing.T, s Store) view.View {
	v := s.Open(t)
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return v
}

func put(t *testing.T, s Store, ms ...memory.Memory) {
	t.Helper()
	texts := map[string][]string{}
	var users []string
	for _, m := range ms {
		if texts[m.User] == nil {
			users = append(users, m.User)
		}
		texts[m.User] = append(texts[m.User], m.Text)
	}
	for _, u := range users {
		s.Put(t, u, texts[u]...)
	}
}

func (h Harness) bulk(t *testing.T) {
	s, v := h.open(t)
	ms := Memories(seed, 24, 50)
	var there []memory.Memory
	for i, m := range ms {
		if i%3 != 0 {
			there = append(there, m)
		}
	}
	put(t, s, there...)
	rand.New(rand.NewPCG(seed, 1)).Shuffle(len(ms), func(i, j int) { ms[i], ms[j] = ms[j], ms[i] })
	for i, o := range find(t, v, ms) {
		if (ms[i].ID-1)%3 != 0 {
			want(t, o, memory.Present, 1)
		} else {
			want(t, o, memory.Absent, 0)
		}
	}
}

func (h Harness) empty(t *testing.T) {
	_, v := h.open(t)
	for _, o := range find(t, v, Memories(seed, 3, 3)) {
		want(t, o, memory.Absent, 0)
	}
}

func (h Harness) nothing(t *testing.T) {
	_, v := h.open(t)
	if out := find(t, v, nil); len(out) != 0 {
		t.Errorf("%d observations of no memory", len(out))
	}
}

// fresh: a view that was opened long ago sees what was written, and what was deleted, just now.
func (h Harness) fresh(t *testing.T) {
	s, v := h.open(t)
	ms := Memories(seed, 1, 2)
	want(t, find(t, v, ms)[0], memory.Absent, 0)
	s.Put(t, ms[0].User, ms[0].Text)
	want(t, find(t, v, ms)[0], memory.Present, 1)
	s.Put(t, ms[1].User, ms[1].Text)
	s.Delete(t, ms[0].User, ms[0].Text)
	out := find(t, v, ms)
	want(t, out[0], memory.Absent, 0)
	want(t, out[1], memory.Present, 1)
}

// others: what another user has is no find, and nobody else's token is mistaken for one that was asked for.
func (h Harness) others(t *testing.T) {
	s, v := h.open(t)
	ms := Memories(seed, 2, 6)
	put(t, s, ms...)
	s.Delete(t, ms[0].User, ms[0].Text)
	out := find(t, v, ms)
	want(t, out[0], memory.Absent, 0)
	for _, o := range out[1:] {
		want(t, o, memory.Present, 1)
	}
	want(t, find(t, v, ms[:1])[0], memory.Absent, 0)
}

func (h Harness) leak(t *testing.T) {
	s, v := h.open(t)
	ms := Memories(seed, 3, 1)
	a, b, c := ms[0], ms[1], ms[2]
	put(t, s, b, c)
	s.Put(t, c.User, a.Text)
	s.Put(t, b.User, a.Text)
	strangers := []string{b.User, c.User}
	slices.Sort(strangers)
	out := find(t, v, ms)
	want(t, out[0], memory.Absent, 0, strangers...)
	want(t, out[1], memory.Present, 1)
	want(t, out[2], memory.Present, 1)
	put(t, s, a)
	want(t, find(t, v, ms)[0], memory.Present, 1, strangers...)
}

func (h Harness) copies(t *testing.T) {
	s, v := h.open(t)
	ms := Memories(seed, 1, 3)
	put(t, s, ms...)
	s.Put(t, ms[1].User, ms[1].Text, ms[1].Text)
	n := 3
	if h.NoCopies {
		n = 1
	}
	out := find(t, v, ms)
	want(t, out[0], memory.Present, 1)
	want(t, out[1], memory.Present, n)
	want(t, out[2], memory.Present, 1)
}

func (h Harness) altered(t *testing.T) {
	s, v := h.open(t)
	ms := Memories(seed, 1, 6)
	for _, m := range ms {
		s.Put(t, m.User, "The user said something about "+m.Token)
	}
	state := memory.Altered
	if h.NoText {
		state = memory.Present
	}
	for _, o := range find(t, v, ms) {
		want(t, o, state, 1)
	}
	// One right copy is enough for the memory to be there as it was told.
	put(t, s, ms[0])
	if o := find(t, v, ms)[0]; o.State != memory.Present {
		t.Errorf("%s is %s, want present", o.Memory, o.State)
	}
}

// twice: a memory that is asked for twice is observed twice.
func (h Harness) twice(t *testing.T) {
	s, v := h.open(t)
	ms := Memories(seed, 2, 1)
	put(t, s, ms...)
	for _, o := range find(t, v, []memory.Memory{ms[0], ms[1], ms[0]}) {
		want(t, o, memory.Present, 1)
	}
}

// noProof checks that a Find under trouble proves no absence.
func noProof(t *testing.T, v view.View, ms []memory.Memory, out []memory.Observation, err error) {
	t.Helper()
	if err != nil {
		if out != nil {
			t.Error("an error with observations")
		}
		return
	}
	check(t, v, ms, out)
	for _, o := range out {
		if o.State == memory.Absent {
			t.Errorf("%s is absent, which a failed read cannot prove (%s)", o.Memory, o.Detail)
		}
	}
}

func (h Harness) ended(t *testing.T) {
	_, v := h.open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ms := Memories(seed, 2, 2)
	out, err := v.Find(ctx, ms)
	noProof(t, v, ms, out, err)
}

func (h Harness) concurrent(t *testing.T) {
	s, v := h.open(t)
	ms := Memories(seed, 4, 5)
	put(t, s, ms...)
	first := find(t, v, ms)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			out, err := v.Find(t.Context(), ms)
			if err != nil {
				t.Errorf("Find: %v", err)
				return
			}
			for i := range out {
				out[i].Began, out[i].Ended = first[i].Began, first[i].Ended
			}
			if !reflect.DeepEqual(out, first) {
				t.Errorf("a concurrent Find gives %v, a lone one %v", out, first)
			}
		})
	}
	wg.Wait()
}

// trouble: a broken store proves nothing, Find ends with its context, and all is well once the store is mended.
func (h Harness) trouble(t *testing.T, how Trouble) {
	s, v := h.open(t)
	ms := Memories(seed, 1, 120)
	put(t, s, ms...)
	find(t, v, ms)
	mend := s.Break(t, how)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	if how == Hang {
		ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
	}
	defer cancel()
	began := time.Now()
	out, err := v.Find(ctx, ms)
	if how == Hang && time.Since(began) > 2*time.Second {
		t.Errorf("Find outlived its context by %s", time.Since(began)-300*time.Millisecond)
	}
	noProof(t, v, ms, out, err)
	found := 0
	for _, o := range out {
		if o.State.Here() {
			found++
		}
	}
	half := how == Cut || how == Short
	if half && (found == 0 || found == len(ms)) || !half && found > 0 {
		t.Errorf("%d of %d memories found under the trouble %s", found, len(ms), how)
	}
	mend()
	for _, o := range find(t, v, ms) {
		want(t, o, memory.Present, 1)
	}
}
