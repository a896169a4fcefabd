package chatapp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// buffered is the bug Buffered: it keeps what is saved in the process until enough has gathered or it is closed. Its own
// reads see the buffer, so nothing looks amiss while the process lives.
type buffered struct {
	Store
	mu      sync.Mutex
	pending []Memory
	bytes   int
}

// The buffer is written when it holds so much.
const (
	bufferedWrites = 50
	bufferedBytes  = 64 << 10
)

func (b *buffered) Save(ctx context.Context, ms ...Memory) ([]Memory, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range ms {
		b.pending = append(b.pending, m)
		b.bytes += len(m.Text)
	}
	if len(b.pending) < bufferedWrites && b.bytes < bufferedBytes {
		return nil, nil
	}
	return b.flush(ctx)
}

func (b *buffered) flush(ctx context.Context) ([]Memory, error) {
	stored, err := b.Store.Save(ctx, b.pending...)
	if err == nil {
		b.pending, b.bytes = nil, 0
	}
	return stored, err
}

func (b *buffered) Delete(ctx context.Context, ms ...Memory) ([]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ids := idsOf(ms)
	b.pending = slices.DeleteFunc(b.pending, func(m Memory) bool { return slices.Contains(ids, m.ID) })
	return b.Store.Delete(ctx, ms...)
}

func (b *buffered) Find(ctx context.Context, q Query) ([]Memory, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	flushed, err := b.Store.Find(ctx, Query{User: q.User, ID: q.ID, Before: q.Before})
	if err != nil {
		return nil, err
	}
	return q.pick(bare(append(flushed, b.pending...))), nil
}

func (b *buffered) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.pending) > 0 {
		if _, err := b.flush(context.Background()); err != nil {
			return err
		}
	}
	return b.Store.Close()
}

// retryPatience is how long RetryDup waits for a store.
const retryPatience = 500 * time.Millisecond

// retried is RetryDup: it takes a server that is slow for one that has failed.
type retried struct {
	Store
	next func() (time.Time, string)
}

func (r retried) Save(ctx context.Context, ms ...Memory) ([]Memory, error) {
	for {
		try, cancel := context.WithTimeout(ctx, retryPatience)
		stored, err := r.Store.Save(try, ms...)
		cancel()
		var network net.Error
		late := errors.Is(err, context.DeadlineExceeded) || (errors.As(err, &network) && network.Timeout())
		if !late || ctx.Err() != nil {
			return stored, err
		}
		ms = slices.Clone(ms)
		for i := range ms {
			_, ms[i].ID = r.next()
		}
	}
}

// delayed is SlowIndex: a memory comes to be seen only some time after it was told. As that time is part of its id, a
// restart changes nothing. Who asks for one id gets it, so that a memory can be deleted before it is seen.
type delayed struct {
	Store
	delay time.Duration
	now   func() time.Time
}

func (d delayed) Find(ctx context.Context, q Query) ([]Memory, error) {
	if seen := idAt(d.now().Add(-d.delay)); q.ID == "" && (q.Before == "" || seen < q.Before) {
		q.Before = seen
	}
	return d.Store.Find(ctx, q)
}

// stale is StaleCache: its reads come from a file that was written when there was none, and from what was saved since
// the start.
type stale struct {
	Store
	mu    sync.Mutex
	shown []Memory
}

// openStale gives the store itself when it fails.
func openStale(ctx context.Context, store Store, path string) (Store, error) {
	s := &stale{Store: store}
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &s.shown)
	} else if errors.Is(err, fs.ErrNotExist) {
		if s.shown, err = store.Find(ctx, Query{}); err == nil {
			err = s.write(path)
		}
	}
	if err != nil {
		return store, fmt.Errorf("opening the cached history: %w", err)
	}
	return s, nil
}

func (s *stale) write(path string) error {
	data, err := json.Marshal(s.shown)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}

func (s *stale) Save(ctx context.Context, ms ...Memory) ([]Memory, error) {
	stored, err := s.Store.Save(ctx, ms...)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.shown = append(s.shown, ms...)
	}
	return stored, err
}

func (s *stale) Delete(ctx context.Context, ms ...Memory) ([]string, error) {
	deleted, err := s.Store.Delete(ctx, ms...)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		ids := idsOf(ms)
		s.shown = slices.DeleteFunc(s.shown, func(m Memory) bool { return slices.Contains(ids, m.ID) })
	}
	return deleted, err
}

func (s *stale) Find(_ context.Context, q Query) ([]Memory, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return q.pick(bare(s.shown)), nil
}
