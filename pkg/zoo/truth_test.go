package zoo

import (
	"strings"
	"testing"
	"time"

	"amnesia/pkg/chatapp/truth"
	"amnesia/pkg/memory"
)

// story is a memory that was stored in the database, was in the vector store when the app was killed before it could say
// so, and was destroyed there at the next start; one that the vector store
// ignored; and one whose removal crosses a second save, with the lines in either order.
const story = `{"at":"2026-01-01T00:00:00Z","event":"holds","store":"short_term"}
{"at":"2026-01-01T00:00:00Z","event":"holds","store":"database"}
{"at":"2026-01-01T00:00:00Z","event":"holds","store":"vectors"}
{"at":"2026-01-01T00:00:01Z","event":"told","user":"ada","id":"1","text":"one"}
{"at":"2026-01-01T00:00:02Z","event":"storing","store":"database","user":"ada","id":"1","text":"one"}
{"at":"2026-01-01T00:00:04Z","event":"stored","store":"database","user":"ada","id":"1","text":"one"}
{"at":"2026-01-01T00:00:05Z","event":"storing","store":"vectors","user":"ada","id":"1","text":"one"}
{"at":"2026-01-01T00:00:10Z","event":"holds","store":"database","ids":["1"]}
{"at":"2026-01-01T00:00:11Z","event":"holds","store":"vectors","ids":["1"]}
{"at":"2026-01-01T00:00:12Z","event":"storing","store":"vectors","user":"ada","id":"2","text":"two"}
{"at":"2026-01-01T00:00:20Z","event":"holds","store":"database","ids":["1"]}
{"at":"2026-01-01T00:00:21Z","event":"holds","store":"vectors"}
{"at":"2026-01-01T00:00:22Z","event":"removing","store":"database","ids":["1"]}
{"at":"2026-01-01T00:00:24Z","event":"removed","store":"database","id":"1"}
{"at":"2026-01-01T00:01:00Z","event":"told","user":"ada","id":"3","text":"three"}
{"at":"2026-01-01T00:01:01Z","event":"storing","store":"database","user":"ada","id":"3","text":"three"}
{"at":"2026-01-01T00:01:02Z","event":"stored","store":"database","user":"ada","id":"3","text":"three"}
{"at":"2026-01-01T00:01:02Z","event":"storing","store":"vectors","user":"ada","id":"3","text":"three"}
{"at":"2026-01-01T00:01:03Z","event":"stored","store":"vectors","user":"ada","id":"3","text":"three"}
{"at":"2026-01-01T00:01:04Z","event":"removing","store":"database","ids":["3"]}
{"at":"2026-01-01T00:01:05Z","event":"storing","store":"database","user":"ada","id":"3","text":"three"}
{"at":"2026-01-01T00:01:06Z","event":"removed","store":"database","id":"3"}
{"at":"2026-01-01T00:01:07Z","event":"removing","store":"vectors","ids":["3"]}
{"at":"2026-01-01T00:01:08Z","event":"stored","store":"database","user":"ada","id":"3","text":"three"}
{"at":"2026-01-01T00:01:08Z","event":"storing","store":"vectors","user":"ada","id":"3","text":"three"}
{"at":"2026-01-01T00:01:10Z","event":"stored","store":"vectors","user":"ada","id":"3","text":"three"}
{"at":"2026-01-01T00:01:11Z","event":"removed","store":"vectors","id":"3"}
`

func TestHear(t *testing.T) {
	log, err := truth.Parse(strings.NewReader(story))
	if err != nil {
		t.Fatal(err)
	}
	w := hear(log, database)
	if len(w.starts) != 3 {
		t.Errorf("%d starts, want 3", len(w.starts))
	}
	at := func(s float64) time.Time {
		return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(s * float64(time.Second)))
	}
	for _, c := range []struct {
		id, store string
		from, to  float64
		want      seen
	}{
		{"1", database, 0, 1.9, gone},
		{"1", database, 1.9, 2.1, open},
		{"1", database, 3, 3.5, open},
		{"1", database, 4, 9, here},
		{"1", database, 11, 21.9, here},
		{"1", database, 22.5, 23, open},
		{"1", database, 24.1, 30, gone},
		{"1", vectors, 4, 4.9, gone},
		{"1", vectors, 6, 7, open},
		{"1", vectors, 11, 12, here},
		{"1", vectors, 13, 14, open}, // it was destroyed at some time between the last word of the process and the start
		{"1", vectors, 21.1, 30, gone},
		{"2", vectors, 0, 30, gone},
		{"3", database, 62, 64, here},
		{"3", database, 65, 66, open},
		{"3", database, 68, 90, here},
		{"3", vectors, 63, 67, here},
		{"3", vectors, 68, 69, open},
		{"3", vectors, 70, 90, here},
	} {
		if got := look(w.byID[c.id].stores[c.store], at(c.from), at(c.to)); got != c.want {
			t.Errorf("%s in %s from %vs to %vs: got %d, want %d", c.id, c.store, c.from, c.to, got, c.want)
		}
	}
}

// TestTally holds that a false alarm costs precision, a missed loss recall, and a wrong word both.
func TestTally(t *testing.T) {
	lost, torn, kept := Word{Kind: "lost"}, Word{Kind: "torn"}, Word{Kind: "kept"}
	for _, c := range []struct {
		name              string
		said, right       Word
		precision, recall float64
	}{
		{"right", lost, lost, 1, 1},
		{"false alarm", lost, kept, 0.5, 1},
		{"missed", kept, lost, 1, 0.5},
		{"wrong word", torn, lost, 0.5, 0.5},
		{"defect not said", kept, Word{Kind: "kept", Defects: "leaked"}, 1, 0.5},
	} {
		var tally Tally
		for _, pair := range [][2]Word{{lost, lost}, {c.said, c.right}} {
			tally.Add(Result{Case: "x", Memories: []Compared{{Said: pair[0], Right: pair[1]}}})
		}
		if tally.Precision() != c.precision || tally.Recall() != c.recall {
			t.Errorf("%s: precision %v, recall %v, want %v and %v", c.name, tally.Precision(), tally.Recall(), c.precision, c.recall)
		}
	}
}

// TestCheck sets the ends of a server beside what was found in it.
func TestCheck(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	instant := func(s float64) memory.Instant { return memory.Instant{Wall: at(s).UnixNano()} }
	ends := []*injected{{fired: instant(10), over: instant(12)}, {fired: instant(20), over: instant(22)}}
	for _, c := range []struct {
		name     string
		spans    []span
		tried    time.Time
		left     time.Time
		there    bool
		from, to float64
		want     seen
		fails    bool
	}{
		{"kept", []span{{soon: at(1), sure: at(2)}}, time.Time{}, time.Time{}, true, 5, 50, here, false},
		{"went with the first end", []span{{soon: at(1), sure: at(2)}}, time.Time{}, time.Time{}, false, 13, 14, gone, false},
		{"was there until then", []span{{soon: at(1), sure: at(2)}}, time.Time{}, time.Time{}, false, 5, 9, here, false},
		{"given between the ends", []span{{soon: at(11), sure: at(11.5)}}, time.Time{}, time.Time{}, false, 13, 19, here, false},
		{"given just when the last began", []span{{soon: at(20.5), sure: at(20.6)}}, time.Time{}, time.Time{}, false, 23, 24, gone, false},
		{"went by itself", []span{{soon: at(30), sure: at(31)}}, time.Time{}, time.Time{}, false, 0, 0, gone, true},
		{"its answer was lost", nil, at(3), time.Time{}, true, 2, 60, open, false},
		{"it failed", nil, at(3), time.Time{}, false, 2, 60, gone, false},
		{"never given", nil, time.Time{}, time.Time{}, true, 0, 0, gone, true},
		{"its removal was undone", nil, time.Time{}, at(15), true, 23, 60, here, false},
		{"it was removed, and not yet back", nil, time.Time{}, at(15), true, 16, 19, gone, false},
		{"came back with nothing", nil, time.Time{}, at(25), true, 0, 0, gone, true},
	} {
		m := newTruthOf("1", redisServer)
		m.stores[redisServer] = c.spans
		if !c.tried.IsZero() {
			m.tried[redisServer] = c.tried
		}
		if !c.left.IsZero() {
			m.left[redisServer] = c.left
		}
		w := &witness{byID: map[string]*truthOf{"1": m}, ends: map[string]time.Time{}}
		h := holding{at: at(50)}
		if c.there {
			h.ids = []string{"1"}
		}
		if err := w.check(redisServer, h, ends); (err != nil) != c.fails {
			t.Errorf("%s: error %v", c.name, err)
		} else if got := look(m.stores[redisServer], at(c.from), at(c.to)); err == nil && got != c.want {
			t.Errorf("%s: from %vs to %vs got %d, want %d", c.name, c.from, c.to, got, c.want)
		}
	}
}

// TestExpire holds that a list lives on with each write before its end, and no longer.
func TestExpire(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	w := &witness{byID: map[string]*truthOf{}}
	for id, s := range map[string]int{"1": 0, "2": 2, "3": 10, "4": 100} {
		m := newTruthOf(id, redisServer)
		told := start.Add(time.Duration(s) * time.Second)
		m.user, m.stores[redisServer] = "ada", []span{{soon: told, sure: told}}
		w.byID[id] = m
	}
	w.expire(3*time.Second, start.Add(102*time.Second))
	for id, want := range map[string]int{"1": 5, "2": 5, "3": 13} {
		if got := w.byID[id].stores[redisServer][0].gone.Sub(start); got != time.Duration(want)*time.Second {
			t.Errorf("%s went after %v, want %ds", id, got, want)
		}
	}
	if s := w.byID["4"].stores[redisServer][0]; !s.until.IsZero() || !s.gone.IsZero() {
		t.Errorf("4 went at %v, though its list still lives", s.gone)
	}
}
