package chatapp

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestFrameRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		want := entry{Key: rapid.String().Draw(t, "key"), Embedding: embedding(text), Memory: Memory{ID: rapid.String().Draw(t, "id"),
			User: rapid.String().Draw(t, "user"), Text: text, Summary: summarize(text), At: time.Unix(0, rapid.Int64().Draw(t, "at"))}}
		frame := appendFrame(nil, recordAdd, want)
		kind, got, n, err := readFrame(append(frame, "more"...))
		if err != nil || kind != recordAdd || n != len(frame) {
			t.Fatalf("kind %q, %d of %d bytes, %v", kind, n, len(frame), err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
		// Wherever a kill cuts the frame, it is torn and nothing else.
		cut := rapid.IntRange(0, len(frame)-1).Draw(t, "cut")
		if _, _, _, err := readFrame(frame[:cut]); !errors.Is(err, errTorn) {
			t.Fatalf("cut at %d: %v", cut, err)
		}
	})
}

func FuzzReadFrame(f *testing.F) {
	f.Add(appendFrame(nil, recordAdd, entry{Key: "k", Embedding: embedding("two words"), Memory: Memory{ID: "1", Text: "two words"}}))
	f.Add(appendFrame(nil, recordDelete, entry{Key: "k"}))
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, _, n, err := readFrame(data); err == nil && (n <= frameHead || n > len(data)) {
			t.Errorf("a frame of %d bytes in %d", n, len(data))
		}
		// The same bytes as a payload with a right sum reach the decoder behind it.
		frame := appendFrame(nil, recordDelete, entry{Key: string(data)})
		if _, e, n, err := readFrame(frame); err != nil || e.Key != string(data) || n != len(frame) {
			t.Errorf("key %q, %d of %d bytes, %v", e.Key, n, len(frame), err)
		}
	})
}

func mustOpen(t *testing.T, dir string) *vectors {
	t.Helper()
	v, err := openVectors(vectorOptions{dir: dir, synced: true})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func memories(n int) []Memory {
	ms := make([]Memory, n)
	for i := range ms {
		ms[i] = Memory{ID: pad(int64(i + 1)), User: "ada", Text: fmt.Sprintf("fact %d", i), At: time.Unix(int64(i), 0)}
	}
	return ms
}

// TestDamage tells a file that a kill cut off, which is lawful, from one that is broken in the middle, which must not be
// taken for a short one.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	v := mustOpen(t, dir)
	if _, err := v.Save(t.Context(), memories(3)...); err != nil {
		t.Fatal(err)
	}
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "index")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write := func(data []byte) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(data[:len(data)-1])
	v = mustOpen(t, dir)
	stored, err := v.Save(t.Context(), memories(3)...)
	if err != nil || len(stored) != 1 {
		t.Errorf("after the cut %d memories were new (%v), want the last", len(stored), err)
	}
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(path); err != nil || !cmp.Equal(again, data) {
		t.Errorf("the mended file differs (%v)", err)
	}
	data[frameHead+2] ^= 1
	write(data)
	if _, err := openVectors(vectorOptions{dir: dir}); !errors.Is(err, errDamaged) || !strings.Contains(err.Error(), " — fix: ") {
		t.Errorf("a broken file opens with %v", err)
	}
}

// TestCompact deletes nearly everything and wants a small file that still holds the rest.
func TestCompact(t *testing.T) {
	dir := t.TempDir()
	v := mustOpen(t, dir)
	ms := memories(200)
	if _, err := v.Save(t.Context(), ms...); err != nil {
		t.Fatal(err)
	}
	if deleted, err := v.Delete(t.Context(), ms[1:]...); err != nil || len(deleted) != 199 {
		t.Fatalf("%d deleted, %v", len(deleted), err)
	}
	before := v.size
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		v = mustOpen(t, dir)
		if got, err := v.Find(t.Context(), Query{}); err != nil || !cmp.Equal(got, ms[:1]) {
			t.Errorf("left: %+v, %v", got, err)
		}
		if v.size*50 > before {
			t.Errorf("%d bytes of %d are left for 1 memory of 200", v.size, before)
		}
		if err := v.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRecall asks for facts in words of a person; the right one must come first.
func TestRecall(t *testing.T) {
	t.Parallel()
	texts := []string{
		"Please remember: my favourite tea is oolong, code zq17k.",
		"Please remember: my favourite colour is teal, code m2xx9.",
		"Please remember: my dog is called Rex and he is seven.",
		"我最喜欢的城市是杭州，口令是 k88a。",
		"我最喜欢的水果是荔枝，口令是 p31b。",
		strings.Repeat("It was a long day at the harbour and the gulls were loud. ", 30) + "The locker opens with 9931.",
	}
	var entries []entry
	for i, text := range texts {
		entries = append(entries, entry{Memory: Memory{ID: pad(int64(i)), Text: text}})
	}
	for question, want := range map[string]int{
		"What is my favourite tea?":     0,
		"Which colour is my favourite?": 1,
		"How is my dog called?":         2,
		"我最喜欢的城市是什么？":                   3,
		"我最喜欢的水果是什么？":                   4,
		"What opens the locker?":        5,
	} {
		got := Query{Like: question}.pick(append([]entry(nil), entries...))
		if len(got) == 0 || got[0].Text != texts[want] {
			t.Errorf("%s → %+v", question, got)
		}
	}
	if got := (Query{Like: "Xylophone?"}).pick(append([]entry(nil), entries...)); len(got) != 0 {
		t.Errorf("nothing resembles a xylophone, but %+v", got)
	}
}
