package session

import (
	"context"

	"amnesia/pkg/memory"
)

// Glance is what a surface holds at a moment, in memory: little enough to be taken of every session, so that there is
// something from before a fault when a loss is found after it.
type Glance struct {
	URL      string
	Document string         // as HTML
	Loaded   memory.Instant // when the document was asked for
	At       memory.Instant
}

// glancer is a surface that can be glanced at.
type glancer interface {
	// Loaded says when the document was asked for that the page shows; zero where there is none.
	Loaded() memory.Instant
	Glance(ctx context.Context) (Glance, error)
}

// tracer is a surface whose trace can be saved.
type tracer interface {
	SaveTrace(ctx context.Context, name string) (file string)
}

// Glance takes what the surface holds; ok is false where there is nothing to be had, or not in time, or where it is still
// the document of another glance, loaded then.
func (s *Session) Glance(ctx context.Context, loaded memory.Instant) (g Glance, ok bool) {
	if sf, can := s.surface.(glancer); can && (loaded.IsZero() || sf.Loaded() != loaded) {
		g, err := sf.Glance(ctx)
		return g, err == nil
	}
	return g, false
}

// SaveTrace saves the trace of the session so far, where one is recorded, and names the file; empty where there is none.
func (s *Session) SaveTrace(ctx context.Context, name string) (file string) {
	if sf, can := s.surface.(tracer); can {
		return sf.SaveTrace(ctx, name)
	}
	return ""
}
