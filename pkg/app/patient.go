package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"amnesia/pkg/fact"
	"amnesia/pkg/ledger"
	"amnesia/pkg/memory"
)

const (
	leastPatience = 100 * time.Millisecond
	mostPatience  = 2 * time.Second // between two tries
	lastPatience  = 5 * time.Second // with what is still unwritten when the daemon is told to end
)

// patient is the ledger as the loop and the injector have it. An append that fails because its file cannot be written now
// (the disk is full, or gives errors) is tried again until it can: what was seen is not lost, nobody is told anything that
// is not in the books, and whoever appends waits. So nothing goes on but what has begun, and nothing is injected.
type patient struct {
	*ledger.Ledger
	clock memory.Clock
	log   *zap.Logger
	over  context.Context // the daemon's end, and lastPatience after it

	mu      sync.Mutex
	trouble error // nil: none
	since   memory.Instant
}

func newPatient(l *ledger.Ledger, clock memory.Clock, log *zap.Logger) *patient {
	return &patient{Ledger: l, clock: clock, log: log, over: context.Background()}
}

// until bounds every later append by the end of ctx and lastPatience more. It is called before the first goroutine
// appends.
func (p *patient) until(ctx context.Context) (done func()) {
	over, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p.over = over
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(lastPatience):
			cancel()
		case <-over.Done():
		}
	})
	return func() { stop(); cancel() }
}

// Append is that of ledger.Ledger, with patience.
func (p *patient) Append(ctx context.Context, facts ...fact.Fact) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.over, cancel)()
	for wait := leastPatience; ; wait = min(2*wait, mostPatience) {
		err := p.once(ctx, facts...)
		if !ledger.Temporary(err) {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// once tries once, and knows from then on how the file is.
func (p *patient) once(ctx context.Context, facts ...fact.Fact) error {
	err := p.Ledger.Append(ctx, facts...)
	switch {
	case ledger.Temporary(err):
		p.begin(err)
	case err == nil:
		if gap, was := p.end(); was {
			// That this one fails says only that the trouble is back.
			if err := p.Ledger.Append(ctx, gap); ledger.Temporary(err) {
				p.begin(err)
			}
		}
	}
	return err
}

func (p *patient) begin(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.trouble == nil {
		p.since = p.clock.Now()
		p.log.Error("the ledger cannot be written: nothing is injected, and all waits until it can", zap.Error(err))
	}
	p.trouble = err
}

func (p *patient) end() (gap fact.Gap, was bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.trouble == nil {
		return gap, false
	}
	p.trouble = nil
	gap = fact.Gap{Of: "ledger", From: p.since, To: p.clock.Now()}
	p.log.Info("the ledger can be written again: nothing was lost meanwhile", zap.Duration("after", gap.To.Sub(gap.From)))
	return gap, true
}

// stuck says why facts wait; nil: they do not.
func (p *patient) stuck() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.trouble == nil {
		return nil
	}
	return fmt.Errorf("nothing can be recorded since %s: %w", p.since.Time().UTC().Format(time.RFC3339), p.trouble)
}

// journal gives the injector the ledger.
type journal struct{ *patient }

func (j journal) Step(ctx context.Context, steps ...fact.Step) error {
	facts := make([]fact.Fact, len(steps))
	for i, s := range steps {
		facts[i] = s
	}
	switch steps[len(steps)-1].Name {
	case fact.StepGated, fact.StepFiring:
		// What is about to be done is recorded now or is not done: the health that was read and the moment would pass.
		return j.once(ctx, facts...)
	}
	return j.Append(context.WithoutCancel(ctx), facts...)
}
