package chatapp

import (
	"errors"
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
	truth  *truth.Log
	byUser map[string][]Memory
}

func newShortTerm(log *truth.Log) *shortTerm {
	return &shortTerm{truth: log, byUser: map[string][]Memory{}}
}

// open records that the cache is empty in a new process.
func (s *shortTerm) open() error {
	return s.truth.Record(truth.Event{Event: truth.Holds, Store: ShortTermStore})
}

func (s *shortTerm) add(m Memory) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ms := append(s.byUser[m.User], m)
	var err error
	if len(ms) > shortTermSize {
		err = s.truth.Record(truth.Event{Event: truth.Removed, Store: ShortTermStore, ID: ms[0].ID})
		ms = ms[1:]
	}
	s.byUser[m.User] = ms
	return errors.Join(err, s.truth.Record(truth.Event{Event: truth.Stored, Store: ShortTermStore, User: m.User, ID: m.ID, Text: m.Text}))
}

func (s *shortTerm) remove(m Memory) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ms := s.byUser[m.User]
	left := slices.DeleteFunc(slices.Clone(ms), func(k Memory) bool { return k.ID == m.ID })
	if s.byUser[m.User] = left; len(left) == len(ms) {
		return nil
	}
	return s.truth.Record(truth.Event{Event: truth.Removed, Store: ShortTermStore, ID: m.ID})
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
