// Package truth is the sample target's own record of what it really did, for tests: which memories were told,
// acknowledged and deleted, and which store held which of them. The log lies outside everything that a fault touches.
//
// It knows nothing of verdicts. A test derives from it what a judge ought to say; so it shares no code with any judge.
//
// The log is JSON lines, each written by one append:
//
//	{"at":…,"event":"told","user":…,"id":…,"text":…}            the app has the message; nothing is stored yet
//	{"at":…,"event":"acknowledged","user":…,"id":…,"text":…}    the app is about to answer that it is saved
//	{"at":…,"event":"storing","store":…,"user":…,"id":…,"text":…} the store is about to be given it
//	{"at":…,"event":"stored","store":…,"user":…,"id":…,"text":…} the store has it (database, vectors, short_term)
//	{"at":…,"event":"removing","store":…,"ids":[…]}             the store is about to be told to remove them
//	{"at":…,"event":"removed","store":…,"id":…}                 the store no longer has it
//	{"at":…,"event":"deleted","user":…,"id":…,"text":…}         the app is about to answer that it is forgotten
//	{"at":…,"event":"holds","store":…,"ids":[…]}                at every start: all that the store was found to hold
//
// A memory that was stored and is not held at the next start was destroyed in between. Storing and removing bound the
// moment of a change from below, as stored and removed do from above.
package truth

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// The events.
const (
	Told         = "told"
	Acknowledged = "acknowledged"
	Storing      = "storing"
	Stored       = "stored"
	Removing     = "removing"
	Removed      = "removed"
	Deleted      = "deleted"
	Holds        = "holds"
)

// Event is one line.
type Event struct {
	At    time.Time `json:"at"`
	Event string    `json:"event"`
	Store string    `json:"store,omitempty"`
	User  string    `json:"user,omitempty"`
	ID    string    `json:"id,omitempty"`
	Text  string    `json:"text,omitempty"`
	IDs   []string  `json:"ids,omitempty"`
}

// Log appends events. A nil Log drops them.
type Log struct {
	mu   sync.Mutex
	file *os.File
	now  func() time.Time
}

// Open opens or creates the log; an empty path gives a nil Log.
func Open(path string, now func() time.Time) (*Log, error) {
	if path == "" {
		return nil, nil
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the truth log: %w — fix: set CHATAPP_TRUTH to a file that can be written", err)
	}
	// A kill in the middle of an append leaves a piece of a line: end it, so that it spoils no other.
	last := make([]byte, 1)
	info, err := file.Stat()
	if err == nil && info.Size() > 0 {
		if _, err = file.ReadAt(last, info.Size()-1); err == nil && last[0] != '\n' {
			_, err = file.WriteString("\n")
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("ending the last line of the truth log: %w", err), file.Close())
	}
	return &Log{file: file, now: now}, nil
}

// Record appends the event with the present time.
func (l *Log) Record(e Event) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e.At = l.now().UTC()
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encoding a line of the truth log: %w", err)
	}
	if _, err := l.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("writing the truth log: %w", err)
	}
	return nil
}

// Close closes the file.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	return l.file.Close()
}

// Memory is what became of one memory, as the log ends.
type Memory struct {
	ID, User, Text string
	Acknowledged   bool // the app set out to say so; whether the user saw it, only the user knows
	Deleted        bool // the user asked for it, and the app set out to say so
	// Stores names the stores that hold it at the end, Once those that ever did; both sorted.
	Stores, Once []string
}

// In reports whether the store holds it at the end.
func (m Memory) In(store string) bool { return slices.Contains(m.Stores, store) }

// Truth is a log that was read.
type Truth struct {
	memories map[string]*Memory
	stores   map[string]map[string]bool
	once     map[string]map[string]bool
	events   []Event
	torn     int
}

// Read reads the log of the file.
func Read(path string) (*Truth, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the truth log: %w", err)
	}
	defer file.Close()
	return Parse(file)
}

// Parse reads a log. A line that is no event was torn by a kill and is skipped (Torn counts them): whatever it said of
// a store, the next start says again.
func Parse(r io.Reader) (*Truth, error) {
	t := &Truth{memories: map[string]*Memory{}, stores: map[string]map[string]bool{}, once: map[string]map[string]bool{}}
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 1 {
			var e Event
			if json.Unmarshal(line, &e) != nil {
				t.torn++
			} else {
				t.events = append(t.events, e)
				t.apply(e)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return t, nil
		case err != nil:
			return nil, fmt.Errorf("reading the truth log: %w", err)
		}
	}
}

func (t *Truth) apply(e Event) {
	if e.ID != "" && e.Event != Removed && t.memories[e.ID] == nil {
		t.memories[e.ID] = &Memory{ID: e.ID, User: e.User, Text: e.Text}
	}
	if e.Store != "" && t.stores[e.Store] == nil {
		t.stores[e.Store], t.once[e.Store] = map[string]bool{}, map[string]bool{}
	}
	switch e.Event {
	case Acknowledged:
		t.memories[e.ID].Acknowledged = true
	case Deleted:
		t.memories[e.ID].Deleted = true
	case Stored:
		t.stores[e.Store][e.ID], t.once[e.Store][e.ID] = true, true
	case Removed:
		delete(t.stores[e.Store], e.ID)
	case Holds:
		clear(t.stores[e.Store])
		for _, id := range e.IDs {
			t.stores[e.Store][id], t.once[e.Store][id] = true, true
		}
	}
}

// Torn counts the lines that could not be read.
func (t *Truth) Torn() int { return t.torn }

// Events gives every line that could be read, in order.
func (t *Truth) Events() []Event { return t.events }

// Memories gives every memory that was told, oldest first.
func (t *Truth) Memories() []Memory {
	var ms []Memory
	for _, id := range slices.Sorted(maps.Keys(t.memories)) {
		ms = append(ms, t.memory(id))
	}
	return ms
}

// Of gives the memories whose text contains s, a token or a whole text. An app that saved one message twice gives two.
func (t *Truth) Of(s string) []Memory {
	return slices.DeleteFunc(t.Memories(), func(m Memory) bool { return !strings.Contains(m.Text, s) })
}

func (t *Truth) memory(id string) Memory {
	m := *t.memories[id]
	m.Stores, m.Once = holders(t.stores, id), holders(t.once, id)
	return m
}

func holders(stores map[string]map[string]bool, id string) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(stores)) {
		if stores[name][id] {
			names = append(names, name)
		}
	}
	return names
}
