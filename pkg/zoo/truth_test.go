package zoo

import (
	"strings"
	"testing"
	"time"

	"amnesia/pkg/chatapp/truth"
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
	lost, torn, kept := word{kind: "lost"}, word{kind: "torn"}, word{kind: "kept"}
	for _, c := range []struct {
		name              string
		said, right       word
		precision, recall float64
	}{
		{"right", lost, lost, 1, 1},
		{"false alarm", lost, kept, 0.5, 1},
		{"missed", kept, lost, 1, 0.5},
		{"wrong word", torn, lost, 0.5, 0.5},
		{"defect not said", kept, word{kind: "kept", defects: "leaked"}, 1, 0.5},
	} {
		var tally Tally
		for _, pair := range [][2]word{{lost, lost}, {c.said, c.right}} {
			tally.Add(Result{Case: "x", Memories: []Compared{{Said: pair[0].String(), Right: pair[1].String(),
				OK: pair[0] == pair[1], finding: [2]bool{pair[0].finding(), pair[1].finding()}}}})
		}
		if tally.Precision() != c.precision || tally.Recall() != c.recall {
			t.Errorf("%s: precision %v, recall %v, want %v and %v", c.name, tally.Precision(), tally.Recall(), c.precision, c.recall)
		}
	}
}
