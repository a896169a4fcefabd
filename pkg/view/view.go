// Package view is the contract of a place where a memory can be looked for. Its sub-packages are one adapter each;
// viewtest is the suite that every one of them must pass. What they all do alike, from a record that was read to an
// observation, is Matcher's.
package view

import (
	"context"

	"amnesia/pkg/memory"
)

// View looks for memories in one place.
type View interface {
	Name() string
	// Find reads the view for the memories, in bulk, and gives exactly one observation each, in their order. A memory
	// of which the read says nothing is Unreadable with the reason in Detail; Absent only after a read that ended
	// without error and reached the end of what the view holds for that user. An error says that nothing at all could
	// be read; the observations are then nil. Find honours ctx and never outlives it.
	Find(ctx context.Context, ms []memory.Memory) ([]memory.Observation, error)
	Close() error
}

// Batch is how many memories a sweep should ask of one Find, in the order of their users: what a Find costs beside its
// reading no longer counts, and what it holds is a few megabytes, however many memories there are.
const Batch = 10_000

// Counter is a view that can count all its records cheaply.
type Counter interface {
	Count(ctx context.Context) (int, error)
}

// Record is one record of a view as Scan meets it.
type Record struct {
	Key   string
	Owner string
	Text  string
	// TTL is the remaining time to live, as in memory.Observation.
	TTL int64
}

// Scanner is a view that can stream all records of our users: finds duplicates, strangers and leaks.
type Scanner interface {
	Scan(ctx context.Context, fn func(Record) error) error
}
