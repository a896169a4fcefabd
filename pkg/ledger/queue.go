package ledger

import (
	"context"
	"slices"
	"sync"
	"time"
)

// maxBatch bounds the facts of one transaction, and so how long its first Append waits and how much a WAL may grow
// before it can be moved into the file. A single Append may be larger.
const maxBatch = 4096

// patience is how long a batch waits for the writers that were there last time. When many write, each waits for its
// commit and comes back right after it; without a little patience the first one back would get an fsync for itself
// alone, and the others would wait through it.
const patience = 200 * time.Microsecond

// request is one Append on its way, or something that the committer is to do after the appends before it.
type request struct {
	facts []prepared
	run   func(context.Context) error // nil for an Append
	done  chan error                  // has room for the answer
}

// queue holds the requests that no transaction has taken yet.
type queue struct {
	mu      sync.Mutex
	waiting []*request
	want    int // wake the committer when so many wait
	closed  bool
	wake    chan struct{}
	timer   *time.Timer
}

func newQueue() *queue {
	q := &queue{want: 1, wake: make(chan struct{}, 1), timer: time.NewTimer(0)}
	q.timer.Stop()
	return q
}

// put reports whether the request was taken in; not so after close. What was taken in is answered.
func (q *queue) put(r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	if q.waiting = append(q.waiting, r); len(q.waiting) >= q.want {
		q.signal()
	}
	return true
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// withdraw takes a request back, and reports whether that came in time.
func (q *queue) withdraw(r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting, r)
	if i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
	return i >= 0
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.signal()
}

// take waits for requests and moves them to batch: all that wait, up to maxBatch facts. For a short time it waits until
// there are as many as the batch before had. It gives none only when the queue is closed and empty: what it waited for may
// have been withdrawn meanwhile.
func (q *queue) take(batch []*request, before int) []*request {
	for {
		open := q.await(1)
		if open && before > 1 {
			q.timer.Reset(patience)
			q.await(before)
			q.timer.Stop()
		}
		if batch = q.move(batch); len(batch) > 0 || !open {
			return batch
		}
	}
}

// move moves the first that wait to batch, up to maxBatch facts or one.
func (q *queue) move(batch []*request) []*request {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, facts := 0, 0
	for n < len(q.waiting) && (n == 0 || facts+len(q.waiting[n].facts) <= maxBatch) {
		facts += len(q.waiting[n].facts)
		n++
	}
	batch = append(batch, q.waiting[:n]...)
	q.waiting = slices.Delete(q.waiting, 0, n)
	return batch
}

// await waits until n requests wait or the timer fires, and reports whether the queue is still open.
func (q *queue) await(n int) bool {
	for {
		q.mu.Lock()
		q.want = n
		enough, closed := len(q.waiting) >= n, q.closed
		q.mu.Unlock()
		if enough || closed {
			return !closed
		}
		select {
		case <-q.wake:
		case <-q.timer.C:
			return true
		}
	}
}
