package chatapp

import (
	"testing"
	"time"
)

// TestQueueOrder runs jobs by their time and not by their arrival, and those of one time as they came.
func TestQueueOrder(t *testing.T) {
	t.Parallel()
	q := newQueue()
	start := time.Now()
	ran := make(chan string, 4)
	for _, j := range []struct {
		id  string
		due time.Duration
	}{{"late", time.Hour}, {"second", 20 * time.Millisecond}, {"third", 20 * time.Millisecond}, {"first", 0}} {
		q.add(job{memory: Memory{ID: j.id}, due: start.Add(j.due), run: func() { ran <- j.id }})
	}
	for _, want := range []string{"first", "second", "third"} {
		if got := <-ran; got != want {
			t.Errorf("%s ran, want %s", got, want)
		}
	}
	if elapsed := time.Since(start); elapsed < 20*time.Millisecond {
		t.Errorf("the third ran after %v already", elapsed)
	}
	q.close()
	if got := <-ran; got != "late" {
		t.Errorf("closing ran %s, want late", got)
	}
}

func TestQueueCancel(t *testing.T) {
	t.Parallel()
	q := newQueue()
	for _, id := range []string{"a", "b"} {
		q.add(job{memory: Memory{ID: id}, due: time.Now().Add(time.Hour), run: func() {
			if id == "a" {
				t.Error("a cancelled job ran")
			}
		}})
	}
	if got := idsOf(q.cancel(Query{ID: "a"}.match)); len(got) != 1 || got[0] != "a" {
		t.Errorf("cancelled %q", got)
	}
	q.close()
}
