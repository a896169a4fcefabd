package soak

import (
	"sync"

	"amnesia/pkg/fact"
	"amnesia/pkg/oracle"
)

// Docket is the oracle's book for several goroutines: the ledger's tap writes it, the loop and the pages read it.
type Docket struct {
	mu   sync.Mutex
	book *oracle.Book
}

// NewDocket gives an empty docket.
func NewDocket() *Docket { return &Docket{book: oracle.NewBook()} }

// Tap takes entries in the ledger's order, once they are durable.
func (d *Docket) Tap(entries []fact.Entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range entries {
		d.book.Apply(e)
	}
}

// Lend lends the book: see ledger.Fold.
func (d *Docket) Lend(fn func(state any) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return fn(d.book)
}

// Read runs fn with the book to itself. fn must not keep it.
func (d *Docket) Read(fn func(*oracle.Book)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fn(d.book)
}
