package chatapp

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
)

// inbox is how memories come to their homes when they are written asynchronously: Redis takes a memory at once, in the
// user's list and, as one step with that, in a hash of all that is still on its way (redisPending). A goroutine brings it
// from there to the homes, in the order in which it was told, and tries again until it is done. What a kill cuts off lies
// in Redis and is done after the next start: so nothing is lost that Redis keeps, and a Redis that lost all costs nothing
// that has arrived.
type inbox struct {
	shelf Store // Redis, as it is written
	redis *redisStore
	homes []Store
	log   *zap.Logger

	trying  sync.Mutex // held during a try
	mu      sync.Mutex
	waiting []Memory // oldest first
	batch   int      // how many of the first are being brought
	station int      // where the batch is due: the place in homes, and their number for its end in Redis
	closed  bool

	wake chan struct{} // of capacity 1: a memory came, or close was called
	done chan struct{} // closed at the end of the goroutine; nil: it was never started
}

// Bounds of one try and of the pause after one that failed; the most memories in one batch.
const (
	deliveryTimeout  = 2 * time.Second
	deliveryPause    = 20 * time.Millisecond
	deliveryPauseMax = 500 * time.Millisecond
	deliveryBatch    = 200
)

// openInbox finds what an earlier process left on its way. start must follow once the homes are ready.
func openInbox(ctx context.Context, shelf Store, redis *redisStore, log *zap.Logger) (*inbox, error) {
	b := &inbox{shelf: shelf, redis: redis, log: log, wake: make(chan struct{}, 1)}
	left, err := redis.pending(ctx)
	if err != nil {
		return nil, err
	}
	if len(left) > 0 {
		log.Info("memories are still on their way", zap.Int("memories", len(left)))
	}
	b.waiting = left
	return b, nil
}

func (b *inbox) start(homes []Store) {
	b.homes, b.done = homes, make(chan struct{})
	go b.work()
}

// take takes a memory in; with an error it has not, as far as can be.
func (b *inbox) take(ctx context.Context, m Memory) error {
	if _, err := b.shelf.Save(ctx, m); err != nil {
		return err
	}
	b.mu.Lock()
	b.waiting = append(b.waiting, m)
	b.mu.Unlock()
	b.poke()
	return nil
}

// remove forgets memories, first in Redis, so that no later start finds them. When it returns without an error none of
// them is on its way to a home any more.
func (b *inbox) remove(ctx context.Context, ms []Memory) error {
	if _, err := b.shelf.Delete(ctx, ms...); err != nil {
		return err
	}
	ids := idsOf(ms)
	b.trying.Lock()
	defer b.trying.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	doomed := func(m Memory) bool { return slices.Contains(ids, m.ID) }
	for _, m := range b.waiting[:b.batch] {
		if doomed(m) {
			b.batch--
		}
	}
	b.waiting = slices.DeleteFunc(b.waiting, doomed)
	return nil
}

// match gives the memories on their way that match.
func (b *inbox) match(match func(Memory) bool) []Memory {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(b.waiting), func(m Memory) bool { return !match(m) })
}

// close brings what can be brought at once. The rest stays in Redis.
func (b *inbox) close() {
	if b.done == nil {
		return
	}
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.poke()
	<-b.done
}

func (b *inbox) poke() {
	select {
	case b.wake <- struct{}{}:
	default: // it is awake already
	}
}

func (b *inbox) work() {
	defer close(b.done)
	pause := deliveryPause
	for {
		more, err := b.try()
		b.mu.Lock()
		closed := b.closed
		b.mu.Unlock()
		switch {
		case closed && (err != nil || !more):
			return
		case err != nil:
			b.log.Warn("memories are late", zap.Error(err))
			select {
			case <-b.wake: // or closed; the pause keeps its length
			case <-time.After(pause):
			}
			pause = min(2*pause, deliveryPauseMax)
		case more:
			pause = deliveryPause
		default:
			<-b.wake
		}
	}
}

// try brings the batch to its next station, or begins one. more is false when nothing is on its way.
func (b *inbox) try() (more bool, err error) {
	b.trying.Lock()
	defer b.trying.Unlock()
	b.mu.Lock()
	if b.batch == 0 {
		b.batch, b.station = min(len(b.waiting), deliveryBatch), 0
	}
	ms, station := slices.Clone(b.waiting[:b.batch]), b.station
	b.mu.Unlock()
	if len(ms) == 0 {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), deliveryTimeout)
	defer cancel()
	if station < len(b.homes) {
		_, err = b.homes[station].Save(ctx, ms...)
	} else {
		err = b.redis.arrived(ctx, ms)
	}
	if err != nil {
		return true, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.station++; b.station > len(b.homes) {
		b.waiting, b.batch = slices.Delete(b.waiting, 0, b.batch), 0
	}
	return true, nil
}

// early is a home as it is read: with what is on its way there.
type early struct {
	Store
	inbox *inbox
}

func (e early) Find(ctx context.Context, q Query) ([]Memory, error) {
	waiting := e.inbox.match(q.match) // first: what arrives meanwhile is then found twice and not missed
	if len(waiting) == 0 {
		return e.Store.Find(ctx, q)
	}
	exact := q
	if q.Like != "" {
		exact.Like, exact.Limit = "", 0 // what resembles it most is seen among all
	}
	found, err := e.Store.Find(ctx, exact)
	if err != nil {
		return nil, err
	}
	ids := idsOf(found)
	waiting = slices.DeleteFunc(waiting, func(m Memory) bool { return slices.Contains(ids, m.ID) })
	return q.pick(bare(append(found, waiting...))), nil
}
