package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	sqlite3 "modernc.org/sqlite/lib"

	"amnesia/pkg/fact"
)

var (
	// ErrClosed is returned by Append after Close.
	ErrClosed = errors.New("the ledger is closed")
	// ErrReadOnly is returned by Append on a ledger from OpenReadOnly.
	ErrReadOnly = errors.New("the ledger is open for reading only")
)

// maxBatch bounds the facts of one transaction, and so how long its first Append waits and how much a WAL may grow
// before it can be moved into the file.
const maxBatch = 4096

// request is one Append on its way.
type request struct {
	facts []prepared
	done  chan error
	state atomic.Int32
}

// The states of a request. The appender and the committer race for a request whose context ends; one of them wins.
const (
	waiting int32 = iota
	taken
	withdrawn
)

// Append records facts: all of them, in this order and with nothing between them, or none. They are durable when it
// returns nil. When ctx ends first, the error says whether they may have been recorded all the same. After another error
// they are not, and the ledger can be used on: a disk that was full may have room again.
//
// The ledger keeps the values that it is given and hands them to Tap: do not change what they point to.
func (l *Ledger) Append(ctx context.Context, facts ...fact.Fact) error {
	if l.lock == nil {
		return l.wrap("appending to", refusal(ErrReadOnly.Error()+" — fix: append through the daemon that holds it"))
	}
	if len(facts) == 0 {
		return nil
	}
	start := l.opts.Clock.Now()
	err := l.append(ctx, facts)
	switch {
	case err == nil:
		l.appends.Add(1)
	case ctx.Err() == nil:
		l.errors.Add(1)
	}
	if l.opts.ObserveAppend != nil {
		l.opts.ObserveAppend(l.opts.Clock.Now().Sub(start), err)
	}
	return err
}

func (l *Ledger) append(ctx context.Context, facts []fact.Fact) error {
	p, err := prepare(facts)
	if err != nil {
		return l.wrap("appending to", err)
	}
	r := &request{facts: p, done: make(chan error, 1)}
	select {
	case <-ctx.Done():
		return l.unrecorded(ctx)
	case <-l.closing:
		return ErrClosed
	case l.queue <- r:
	}
	select {
	case err := <-r.done:
		return err
	case <-l.stopped:
		// The committer's last look at the queue may have come before this request, or after.
		select {
		case err := <-r.done:
			return err
		default:
			return ErrClosed
		}
	case <-ctx.Done():
		if r.state.CompareAndSwap(waiting, withdrawn) {
			return l.unrecorded(ctx)
		}
		return fmt.Errorf("appending to the ledger %s: %w while it was being written: it may or may not be recorded",
			l.path, ctx.Err())
	}
}

func (l *Ledger) unrecorded(ctx context.Context) error {
	return fmt.Errorf("appending to the ledger %s: %w before it was written: it is not recorded", l.path, ctx.Err())
}

// commitLoop is the only goroutine that writes.
func (l *Ledger) commitLoop(ctx context.Context) {
	defer close(l.stopped)
	var batch []*request
	for {
		batch = l.gather(batch[:0], len(batch))
		if len(batch) == 0 {
			return
		}
		l.commit(ctx, batch)
	}
}

// patience is how long a batch waits for the writers that were there last time. When many write, each waits for its
// commit and comes back right after it; without a little patience the first one back would get an fsync for itself
// alone, and the others would wait through it.
const patience = 200 * time.Microsecond

// gather waits for a request and takes with it what else is there, and what the size of the batch before says is about
// to come. It gives none when the ledger is closing and the queue is empty.
func (l *Ledger) gather(batch []*request, before int) []*request {
	facts := 0
	add := func(r *request) {
		if r.state.CompareAndSwap(waiting, taken) {
			batch = append(batch, r)
			facts += len(r.facts)
		}
	}
	for len(batch) == 0 {
		select {
		case r := <-l.queue:
			add(r)
		case <-l.closing:
			select {
			case r := <-l.queue:
				add(r)
			default:
				return nil
			}
		}
	}
	var late <-chan time.Time
	for facts < maxBatch {
		select {
		case r := <-l.queue:
			add(r)
			continue
		default:
		}
		if len(batch) >= before {
			break
		}
		if late == nil {
			late = time.After(patience)
		}
		select {
		case r := <-l.queue:
			add(r)
		case <-late:
			return batch
		case <-l.closing:
			return batch
		}
	}
	return batch
}

// commit writes a batch and answers its requests.
func (l *Ledger) commit(ctx context.Context, batch []*request) {
	entries, err := l.writer.write(ctx, batch)
	if code(err) == sqlite3.SQLITE_CONSTRAINT && len(batch) > 1 {
		// One of them contradicts the ledger. The others must not suffer for it.
		for i := range batch {
			l.commit(ctx, batch[i:i+1])
		}
		return
	}
	if err != nil {
		err = l.wrap("appending to", err)
		l.opts.Logger.Error("facts were not recorded", zap.Int("appends", len(batch)), zap.Error(err))
	} else {
		l.count(entries)
		if l.opts.Tap != nil {
			l.opts.Tap(entries)
		}
	}
	for _, r := range batch {
		r.done <- err
	}
}

// count keeps the counters ahead of numbers that were not taken from them.
func (l *Ledger) count(entries []fact.Entry) {
	for _, e := range entries {
		switch f := e.Fact.(type) {
		case fact.Begun:
			raise(&l.memory, int64(f.Memory.ID))
		case fact.Step:
			raise(&l.injection, f.Injection)
		case fact.Sweep:
			raise(&l.sweep, f.ID)
		case fact.Cycle:
			raise(&l.cycle, int64(f.N))
		}
	}
}

func raise(counter *atomic.Int64, to int64) {
	for n := counter.Load(); n < to && !counter.CompareAndSwap(n, to); n = counter.Load() {
	}
}
