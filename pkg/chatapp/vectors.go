package chatapp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
)

// vectors is the vector memory: an index in the process over an append-only file (see record.go) in a directory of its
// own. Without a file it lives in the process only.
type vectors struct {
	mu      sync.RWMutex
	file    *os.File
	size    int64
	synced  bool
	key     func(Memory) string
	entries map[string]entry // by key
}

// vectorOptions say how the vector memory is kept.
type vectorOptions struct {
	dir     string // empty: in the process only
	synced  bool   // call fsync
	counter bool   // CounterID: keys are counted from 0 in every process, and not the ids of the memories
}

// keys says under which key a vector memory keeps a memory. With a counter it must not be called twice at once.
func keys(counter bool) func(Memory) string {
	if !counter {
		return func(m Memory) string { return m.ID }
	}
	n := 0
	return func(Memory) string { n++; return strconv.Itoa(n - 1) }
}

func openVectors(o vectorOptions) (*vectors, error) {
	v := &vectors{synced: o.synced, entries: map[string]entry{}, key: keys(o.counter)}
	if o.dir == "" {
		return v, nil
	}
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return nil, fmt.Errorf("making the directory of the vector memory: %w — fix: let its parent be written", err)
	}
	path := filepath.Join(o.dir, "index")
	if err := v.load(path); err != nil {
		return nil, fmt.Errorf("opening the vector memory %s: %w", path, err)
	}
	return v, nil
}

// load reads the file, cuts off what a kill left half written, and drops dead records when they are the most.
func (v *vectors) load(path string) error {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	records := 0
	for v.size < int64(len(data)) {
		kind, e, n, err := readFrame(data[v.size:])
		if errors.Is(err, errTorn) {
			break
		} else if err != nil {
			return fmt.Errorf("at byte %d: %w — fix: remove the file; it is built again from the database, if that is a home too", v.size, err)
		}
		if kind == recordAdd {
			v.entries[e.Key] = e
		} else {
			delete(v.entries, e.Key)
		}
		v.size += int64(n)
		records++
	}
	if records > 2*len(v.entries)+64 {
		if err := v.compact(path); err != nil {
			return fmt.Errorf("compacting: %w", err)
		}
	}
	if v.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644); err != nil {
		return err
	}
	if err := errors.Join(v.file.Truncate(v.size), v.sync(v.file), v.syncDir(path)); err != nil {
		return errors.Join(err, v.file.Close())
	}
	return nil
}

// compact writes the living entries to a new file and puts it in the place of the old one.
func (v *vectors) compact(path string) error {
	var data []byte
	for _, e := range v.entries {
		data = appendFrame(data, recordAdd, e)
	}
	next, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	_, err = next.Write(data)
	if err := errors.Join(err, v.sync(next), next.Close()); err != nil {
		return err
	}
	v.size = int64(len(data))
	return os.Rename(path+".new", path)
}

func (v *vectors) sync(f *os.File) error {
	if !v.synced {
		return nil
	}
	return f.Sync()
}

// syncDir makes the file's name durable.
func (v *vectors) syncDir(path string) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(v.sync(dir), dir.Close())
}

// append writes frames at the end, durably, or leaves the file as it was. It is called under mu.
func (v *vectors) append(frames []byte) error {
	if v.file == nil || len(frames) == 0 {
		return nil
	}
	_, err := v.file.Write(frames)
	if err == nil {
		err = v.sync(v.file)
	}
	if err != nil {
		return errors.Join(err, v.file.Truncate(v.size))
	}
	v.size += int64(len(frames))
	return nil
}

func (v *vectors) Name() string { return VectorStore }

func (v *vectors) Save(_ context.Context, ms ...Memory) ([]Memory, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	var stored []Memory
	var fresh []entry
	var frames []byte
	for _, m := range ms {
		key := v.key(m)
		if _, there := v.entries[key]; there {
			continue
		}
		e := entry{Memory: m, Key: key, Embedding: embedding(m.Text)}
		stored, fresh, frames = append(stored, m), append(fresh, e), appendFrame(frames, recordAdd, e)
	}
	if err := v.append(frames); err != nil {
		return nil, fmt.Errorf("saving to the vector memory: %w", err)
	}
	for _, e := range fresh {
		v.entries[e.Key] = e
	}
	return stored, nil
}

func (v *vectors) Delete(_ context.Context, ms ...Memory) ([]string, error) {
	ids := idsOf(ms)
	v.mu.Lock()
	defer v.mu.Unlock()
	var deleted, keys []string
	var frames []byte
	for key, e := range v.entries {
		if slices.Contains(ids, e.ID) {
			deleted, keys = append(deleted, e.ID), append(keys, key)
			frames = appendFrame(frames, recordDelete, entry{Key: key})
		}
	}
	if err := v.append(frames); err != nil {
		return nil, fmt.Errorf("deleting from the vector memory: %w", err)
	}
	for _, key := range keys {
		delete(v.entries, key)
	}
	return deleted, nil
}

func (v *vectors) Find(_ context.Context, q Query) ([]Memory, error) {
	v.mu.RLock()
	found := slices.Collect(maps.Values(v.entries))
	v.mu.RUnlock()
	return q.pick(found), nil
}

func (v *vectors) Close() error {
	if v.file == nil {
		return nil
	}
	if err := v.file.Close(); err != nil {
		return fmt.Errorf("closing the vector memory: %w", err)
	}
	return nil
}
