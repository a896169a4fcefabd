package chatapp

import (
	"context"
	"slices"
	"sync"

	"go.uber.org/zap"

	"amnesia/pkg/chatapp/truth"
)

// shortTermSize is how many memories of each user stay in short-term memory.
const shortTermSize = 20

// shortTerm is the newest of what each user told: a cache, in which the answer to "what did I just say?" is looked up.
// Nothing depends on it.
type shortTerm interface {
	add(ctx context.Context, m Memory)
	remove(ctx context.Context, m Memory)
	last(ctx context.Context, user string) (Memory, bool)
}

// redisShortTerm keeps it in Redis, where it outlives the process and grows old by the list's TTL. An error is logged
// and otherwise as if nothing was there.
type redisShortTerm struct {
	store Store
	log   *zap.Logger
}

func (s redisShortTerm) add(ctx context.Context, m Memory) {
	if _, err := s.store.Save(ctx, m); err != nil {
		s.log.Warn("not in short-term memory", zap.String("id", m.ID), zap.Error(err))
	}
}

func (s redisShortTerm) remove(ctx context.Context, m Memory) {
	if _, err := s.store.Delete(ctx, m); err != nil {
		s.log.Error("still in short-term memory", zap.String("id", m.ID), zap.Error(err))
	}
}

func (s redisShortTerm) last(ctx context.Context, user string) (Memory, bool) {
	ms, err := s.store.Find(ctx, Query{User: user, Limit: 1})
	if err != nil {
		s.log.Warn("short-term memory not read", zap.Error(err))
	}
	if len(ms) == 0 {
		return Memory{}, false
	}
	return ms[0], true
}

// localShortTerm keeps it in the process.
type localShortTerm struct {
	mu     sync.Mutex
	record recorder
	byUser map[string][]Memory
}

// newShortTerm records that the cache is empty in a new process.
func newShortTerm(record recorder) *localShortTerm {
	record(truth.Event{Event: truth.Holds, Store: ShortTermStore})
	return &localShortTerm{record: record, byUser: map[string][]Memory{}}
}

func (s *localShortTerm) add(_ context.Context, m Memory) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ms := append(s.byUser[m.User], m)
	if len(ms) > shortTermSize {
		s.record(truth.Event{Event: truth.Removed, Store: ShortTermStore, ID: ms[0].ID})
		ms = ms[1:]
	}
	s.byUser[m.User] = ms
	s.record(truth.Event{Event: truth.Stored, Store: ShortTermStore, User: m.User, ID: m.ID, Text: m.Text})
}

func (s *localShortTerm) remove(_ context.Context, m Memory) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.IndexFunc(s.byUser[m.User], func(k Memory) bool { return k.ID == m.ID })
	if at < 0 {
		return
	}
	s.byUser[m.User] = slices.Delete(s.byUser[m.User], at, at+1)
	s.record(truth.Event{Event: truth.Removed, Store: ShortTermStore, ID: m.ID})
}

func (s *localShortTerm) last(_ context.Context, user string) (Memory, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ms := s.byUser[user]
	if len(ms) == 0 {
		return Memory{}, false
	}
	return ms[len(ms)-1], true
}
