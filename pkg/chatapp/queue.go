package chatapp

import (
	"slices"
	"sync"
	"time"
)

// queue runs jobs when they are due, in a goroutine of its own. It lives in memory: a killed process forgets it, close
// runs what is left.
type queue struct {
	running sync.Mutex // held while a job runs
	mu      sync.Mutex
	jobs    []job         // the next that is due first
	wake    chan struct{} // of capacity 1: a job came, or close was called
	closed  bool
	done    chan struct{}
}

type job struct {
	memory Memory
	due    time.Time
	run    func()
}

func newQueue() *queue {
	q := &queue{wake: make(chan struct{}, 1), done: make(chan struct{})}
	go q.work()
	return q
}

// add returns at once, whatever runs.
func (q *queue) add(j job) {
	q.mu.Lock()
	at, _ := slices.BinarySearchFunc(q.jobs, j.due, func(k job, due time.Time) int {
		if k.due.After(due) {
			return 1
		}
		return -1 // also at the same time: first come, first run
	})
	q.jobs = slices.Insert(q.jobs, at, j)
	q.mu.Unlock()
	q.poke()
}

// cancel drops the jobs of the memories that match, and gives these; none of the jobs runs any more when it returns.
func (q *queue) cancel(match func(Memory) bool) []Memory {
	q.running.Lock()
	defer q.running.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	var dropped []Memory
	q.jobs = slices.DeleteFunc(q.jobs, func(j job) bool {
		if !match(j.memory) {
			return false
		}
		dropped = append(dropped, j.memory)
		return true
	})
	return dropped
}

func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.poke()
	<-q.done
}

func (q *queue) poke() {
	select {
	case q.wake <- struct{}{}:
	default: // it is awake already
	}
}

func (q *queue) work() {
	defer close(q.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		wait, last := q.runDue()
		if last {
			return
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-q.wake:
		}
	}
}

// runDue runs every job that is due (all of them, once closed) and says how long until the next.
func (q *queue) runDue() (wait time.Duration, last bool) {
	for {
		q.running.Lock()
		q.mu.Lock()
		if len(q.jobs) == 0 {
			last = q.closed
			q.mu.Unlock()
			q.running.Unlock()
			return time.Hour, last
		}
		j := q.jobs[0]
		if wait = time.Until(j.due); wait > 0 && !q.closed {
			q.mu.Unlock()
			q.running.Unlock()
			return wait, false
		}
		q.jobs = slices.Delete(q.jobs, 0, 1)
		q.mu.Unlock()
		j.run()
		q.running.Unlock()
	}
}
