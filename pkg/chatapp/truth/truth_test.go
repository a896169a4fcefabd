package truth_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"amnesia/pkg/chatapp/truth"
)

const log = `{"event":"holds","store":"database"}
{"event":"told","user":"ada","id":"1","text":"kept k1"}
{"event":"stored","store":"database","user":"ada","id":"1","text":"kept k1"}
{"event":"stored","store":"vectors","user":"ada","id":"1","text":"kept k1"}
{"event":"acknowledged","user":"ada","id":"1","text":"kept k1"}
{"event":"told","user":"ada","id":"2","text":"destroyed d2"}
{"event":"stored","store":"database","user":"ada","id":"2","text":"destroyed d2"}
{"event":"acknowledged","user":"ada","id":"2","text":"destroyed d2"}
{"event":"told","user":"ada","id":"3","text":"deleted"}
{"event":"stored","store":"vectors","user":"ada","id":"3","text":"deleted"}
{"event":"removed","store":"vectors","id":"3"}
{"event":"deleted","user":"ada","id":"3","text":"deleted"}
{"event":"told","user":"ada","id":"4","text":"landed unseen"}
{"event":"stor
{"event":"holds","store":"database","ids":["1","4"]}
{"event":"holds","store":"vectors","ids":["1"]}
`

func TestParse(t *testing.T) {
	got, err := truth.Parse(strings.NewReader(log))
	if err != nil {
		t.Fatal(err)
	}
	want := []truth.Memory{
		{ID: "1", User: "ada", Text: "kept k1", Acknowledged: true, Stores: []string{"database", "vectors"}, Once: []string{"database", "vectors"}},
		{ID: "2", User: "ada", Text: "destroyed d2", Acknowledged: true, Once: []string{"database"}},
		{ID: "3", User: "ada", Text: "deleted", Deleted: true, Once: []string{"vectors"}},
		{ID: "4", User: "ada", Text: "landed unseen", Stores: []string{"database"}, Once: []string{"database"}},
	}
	if diff := cmp.Diff(want, got.Memories()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if of := got.Of("d2"); len(of) != 1 || of[0].ID != "2" || of[0].In("database") {
		t.Errorf("of the token d2: %+v", of)
	}
	if events := got.Events(); len(events) != 15 || events[2].Event != truth.Stored || events[2].ID != "1" || len(events[13].IDs) != 2 {
		t.Errorf("the events: %+v", events)
	}
	if got.Torn() != 1 {
		t.Errorf("%d torn lines, want 1", got.Torn())
	}
}

// TestTornLine appends to a log that a kill cut off: the next line must stand alone.
func TestTornLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "truth.jsonl")
	if err := os.WriteFile(path, []byte(`{"event":"told","id":"1","text":"on`), 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := truth.Open(path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Record(truth.Event{Event: truth.Told, User: "ada", ID: "2", Text: "two"}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := truth.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if ms := got.Memories(); len(ms) != 1 || ms[0].Text != "two" || got.Torn() != 1 {
		t.Errorf("memories %+v, %d torn", ms, got.Torn())
	}
}

func TestNoLog(t *testing.T) {
	l, err := truth.Open("", time.Now)
	if err == nil {
		err = l.Record(truth.Event{Event: truth.Told})
	}
	if err == nil {
		err = l.Close()
	}
	if err != nil {
		t.Error(err)
	}
}
