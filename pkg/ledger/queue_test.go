package ledger

import (
	"runtime"
	"testing"
)

// A request that is withdrawn while the committer waits for more is none, and ends nothing: the next one is taken.
func TestWithdrawnWhileItIsTaken(t *testing.T) {
	t.Parallel()
	q := newQueue()
	late := 0
	// wants waits until the committer waits for so many, and gives what it took instead.
	wants := func(n int, taken chan []*request) (got []*request, took bool) {
		for {
			q.mu.Lock()
			want := q.want
			q.mu.Unlock()
			select {
			case got = <-taken:
				return got, true
			default:
			}
			if want == n {
				return nil, false
			}
			runtime.Gosched()
		}
	}
	for range 100 {
		first, second := &request{}, &request{}
		taken := make(chan []*request)
		go func() { taken <- q.take(nil, 2) }()
		q.put(first)
		if _, took := wants(2, taken); took {
			late++
			continue
		}
		if !q.withdraw(first) {
			<-taken
			late++
			continue
		}
		if got, took := wants(1, taken); took {
			t.Fatalf("%d requests were taken of none", len(got))
		}
		q.put(second)
		if got := <-taken; len(got) != 1 || got[0] != second {
			t.Fatalf("%d requests were taken", len(got))
		}
	}
	if late == 100 {
		t.Error("nothing was withdrawn in time")
	}
	q.close()
	if got := q.take(nil, 1); len(got) != 0 {
		t.Errorf("%d requests were taken from a closed queue", len(got))
	}
}
