package ledger

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	sqlite3 "modernc.org/sqlite/lib"

	"amnesia/pkg/fact"
)

const (
	// ErrClosed is in the error of Append after Close.
	ErrClosed = refusal("it is closed — fix: open it again")
	// ErrReadOnly is in the error of Append on a ledger from OpenReadOnly.
	ErrReadOnly = refusal("it is open for reading only — fix: append through the daemon that writes it")
)

// Append records facts: all of them, in this order and with nothing between them, or none. They are durable when it
// returns nil. When ctx ends first, the error says whether they may have been recorded all the same. After another error
// they are not, and the ledger can be used on: a disk that was full may have room again.
//
// The ledger keeps the values that it is given and hands them to Tap: do not change what they point to.
func (l *Ledger) Append(ctx context.Context, facts ...fact.Fact) error {
	if l.lock == nil {
		return l.wrap("appending to", ErrReadOnly)
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
	if l.opts.Redact != nil {
		facts = slices.Clone(facts)
		for i := range facts {
			facts[i] = fact.Redact(facts[i], l.opts.Redact)
		}
	}
	p, err := prepare(facts)
	if err != nil {
		return fmt.Errorf("appending to the ledger %s: %w", l.path, err)
	}
	if ctx.Err() != nil {
		return l.unrecorded(ctx)
	}
	r := &request{facts: p, done: make(chan error, 1)}
	if !l.queue.put(r) {
		return l.wrap("appending to", ErrClosed)
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		if l.queue.withdraw(r) {
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
		before := len(batch)
		clear(batch) // let go of their facts
		if batch = l.queue.take(batch[:0], before); len(batch) == 0 {
			return
		}
		appends := slices.DeleteFunc(slices.Clone(batch), func(r *request) bool { return r.run != nil })
		if len(appends) > 0 {
			l.commit(ctx, appends)
		}
		for _, r := range batch {
			if r.run != nil {
				r.done <- r.run(ctx)
			}
		}
	}
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
	} else {
		l.count(entries)
		l.last.Store(l.writer.seq)
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
