package chatapp

import (
	"slices"
	"sync"

	"amnesia/pkg/chatapp/truth"
)

// shortTermSize is how many memories of each user stay in short-term memory.
const shortTermSize = 20

// shortTerm is the newest of what each user told this process: a cache, in which the answer to "what did I just say?"
// is looked up. Nothing depends on it.
type shortTerm struct {
	mu     sync.Mutex
	record recorder
	byUser map[string][]Memory
}

// newShortTerm records that the cache is empty in a new process.
func newShortTerm(record recorder) *shortTerm {
	record(truth.Event{Event: truth.Holds, Store: ShortTermStore})
	return &shortTerm{record: record, byUser: map[string][]Memory{}}
}

func (s *shortTerm) add(m Memory) {
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

func (s *shortTerm) remove(m Memory) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.IndexFunc(s.byUser[m.User], func(k Memory) bool { return k.ID == m.ID })
	if at < 0 {
		return
	}
	s.byUser[m.User] = slices.Delete(s.byUser[m.User], at, at+1)
	s.record(truth.Event{Event: truth.Removed, Store: ShortTermStore, ID: m.ID})
}

func (s *shortTerm) last(user string) (Memory, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ms := s.byUser[user]
	if len(ms) == 0 {
		return Memory{}, false
	}
	return ms[len(ms)-1], true
}
