package chatapp

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"amnesia/pkg/chatapp/truth"
)

// Memory is one thing that a user told the app.
type Memory struct {
	ID      string // grows with the time at which the memory was told (idAt)
	User    string
	Text    string
	Summary string
	At      time.Time
}

// Query selects memories. The zero value selects all, newest first.
type Query struct {
	User   string // only this user's
	ID     string // only this one
	Before string // only ids below this one
	Like   string // only those that resemble this text, best first
	Limit  int    // at most so many; 0: no limit
}

// Store is a home of memories. Its methods may be called at the same time.
type Store interface {
	Name() string
	// Save writes the memories, durably when it returns, all or none, and gives those that were new: a memory whose
	// id the store has is ignored.
	Save(ctx context.Context, ms ...Memory) (stored []Memory, err error)
	// Delete removes them durably, by user and id, and gives the ids that were there.
	Delete(ctx context.Context, ms ...Memory) (deleted []string, err error)
	Find(ctx context.Context, q Query) ([]Memory, error)
	Close() error
}

// idAt is the id of a memory told at t. chat.next makes those of one process distinct.
func idAt(t time.Time) string { return pad(t.UnixNano()) }

func pad(n int64) string {
	s := strconv.FormatInt(n, 16)
	return "0000000000000000"[min(len(s), 16):] + s
}

// match reports whether the query selects m by its exact conditions.
func (q Query) match(m Memory) bool {
	return (q.User == "" || m.User == q.User) && (q.ID == "" || m.ID == q.ID) && (q.Before == "" || m.ID < q.Before)
}

// pick gives the answer to the query out of entries: those that match, in order, cut to the limit.
func (q Query) pick(entries []entry) []Memory {
	entries = slices.DeleteFunc(entries, func(e entry) bool { return !q.match(e.Memory) })
	var ms []Memory
	if q.Like != "" {
		ms = rank(q.Like, entries)
	} else {
		for _, e := range entries {
			ms = append(ms, e.Memory)
		}
		slices.SortFunc(ms, func(a, b Memory) int { return cmp.Compare(b.ID, a.ID) })
	}
	if q.Limit > 0 && len(ms) > q.Limit {
		ms = ms[:q.Limit]
	}
	return ms
}

// bare makes entries without embeddings; rank adds them.
func bare(ms []Memory) []entry {
	entries := make([]entry, len(ms))
	for i, m := range ms {
		entries[i].Memory = m
	}
	return entries
}

// recorder writes to the truth log.
type recorder func(truth.Event)

// witnessed tells the truth log what a store really did.
type witnessed struct {
	Store
	record recorder

	mu       sync.Mutex
	doubtful map[string]bool // ids of which a failed save leaves open whether the store has them
}

func (w *witnessed) Save(ctx context.Context, ms ...Memory) ([]Memory, error) {
	for _, m := range ms {
		w.record(truth.Event{Event: truth.Storing, Store: w.Name(), User: m.User, ID: m.ID, Text: m.Text})
	}
	stored, err := w.Store.Save(ctx, ms...)
	has := stored
	if doubtful := w.doubt(ms, err != nil); err == nil && len(doubtful) > 0 {
		has = append(slices.Clone(stored), w.found(ctx, doubtful, stored)...)
	}
	for _, m := range has {
		w.record(truth.Event{Event: truth.Stored, Store: w.Name(), User: m.User, ID: m.ID, Text: m.Text})
	}
	return stored, err
}

// doubt notes which of the memories are in doubt from now on, and gives those that were.
func (w *witnessed) doubt(ms []Memory, failed bool) (were []Memory) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range ms {
		if w.doubtful[m.ID] {
			were = append(were, m)
		}
		if failed {
			w.doubtful[m.ID] = true
		} else {
			delete(w.doubtful, m.ID)
		}
	}
	return were
}

// found gives those of the memories that the store has although the last save did not store them: an earlier one did,
// whose answer was lost.
func (w *witnessed) found(ctx context.Context, ms, stored []Memory) (has []Memory) {
	ids := idsOf(stored)
	for _, m := range ms {
		if slices.Contains(ids, m.ID) {
			continue
		}
		switch found, err := w.Find(ctx, Query{User: m.User, ID: m.ID}); {
		case err != nil:
			w.doubt([]Memory{m}, true)
		case len(found) > 0:
			has = append(has, m)
		}
	}
	return has
}

func (w *witnessed) Delete(ctx context.Context, ms ...Memory) ([]string, error) {
	w.record(truth.Event{Event: truth.Removing, Store: w.Name(), IDs: idsOf(ms)})
	deleted, err := w.Store.Delete(ctx, ms...)
	if err == nil {
		w.doubt(ms, false)
	}
	for _, id := range deleted {
		w.record(truth.Event{Event: truth.Removed, Store: w.Name(), ID: id})
	}
	return deleted, err
}

// holds tells the truth log what the store holds as it was found.
func (w *witnessed) holds(ctx context.Context) error {
	ms, err := w.Find(ctx, Query{})
	if err != nil {
		return err
	}
	w.record(truth.Event{Event: truth.Holds, Store: w.Name(), IDs: idsOf(ms)})
	return nil
}

func newWitness(s Store, record recorder) *witnessed {
	return &witnessed{Store: s, record: record, doubtful: map[string]bool{}}
}

// reconcile makes the vector memory hold exactly what the database holds. A process that was killed between the two
// writes (or the two deletes) of one message leaves them apart; the user was not told yet, and the database decides.
func reconcile(ctx context.Context, database, vectors Store) error {
	want, err := database.Find(ctx, Query{})
	if err != nil {
		return err
	}
	have, err := vectors.Find(ctx, Query{})
	if err != nil {
		return err
	}
	orphans := make(map[string]Memory, len(have))
	for _, m := range have {
		orphans[m.ID] = m
	}
	var missing []Memory
	for _, m := range want {
		if _, there := orphans[m.ID]; !there {
			missing = append(missing, m)
		}
		delete(orphans, m.ID)
	}
	if len(missing) > 0 {
		if _, err := vectors.Save(ctx, missing...); err != nil {
			return err
		}
	}
	_, err = vectors.Delete(ctx, slices.Collect(maps.Values(orphans))...)
	return err
}
