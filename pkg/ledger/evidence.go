package ledger

import (
	"context"
	"iter"

	"amnesia/pkg/fact"
)

// evidenceSources are the sources without what earlier daemons made of them: of a verdict only its seq is read, so that a
// gap is still noticed.
func evidenceSources() []source {
	all := sources()
	for i := range all {
		if all[i].query == judgedQuery {
			all[i] = source{"SELECT seq FROM judged" + within, "", func(*reader, *rows, *rows) fact.Fact { return nil }}
		}
	}
	return all
}

// How far Evidence reads ahead of who takes it: so many facts at a time, so many times.
const (
	aheadFacts = 256
	aheadTimes = 4
)

// Evidence streams what Facts does but the verdicts on record, for whoever judges again. It reads ahead, so that reading
// and judging each have a core; what it holds does not depend on the ledger.
func (l *Ledger) Evidence(ctx context.Context) iter.Seq2[fact.Entry, error] {
	return func(yield func(fact.Entry, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		ahead, done := make(chan []fact.Entry, aheadTimes), make(chan error, 1)
		defer func() {
			cancel()
			for range ahead { // until the reader has left
			}
		}()
		go func() {
			defer close(ahead)
			var some []fact.Entry
			give := func() bool {
				select {
				case ahead <- some:
					some = nil
					return true
				case <-ctx.Done():
					return false
				}
			}
			err := l.reading(ctx, func(c *conn) error {
				return stream(ctx, c, evidenceSources(), 0, func(e fact.Entry) bool {
					if e.Fact == nil {
						return true
					}
					if some == nil {
						some = make([]fact.Entry, 0, aheadFacts)
					}
					some = append(some, e)
					return len(some) < aheadFacts || give()
				})
			})
			if len(some) > 0 {
				give()
			}
			if err == nil {
				err = ctx.Err() // what was read ahead may not have been given
			}
			done <- err
		}()
		for some := range ahead {
			for _, e := range some {
				if !yield(e, nil) {
					return
				}
			}
		}
		if err := <-done; err != nil {
			yield(fact.Entry{}, l.wrap("reading", err))
		}
	}
}
