package chaos

import (
	"time"

	"amnesia/pkg/memory"
)

// Observer is told of every operation of an engine: how long it took, and what became of it. A nil one is not.
type Observer func(operation string, took time.Duration, err error)

// Time begins an operation; what it gives ends it, with the error that it returned:
//
//	defer e.observe.Time(e.clock, "kill")(&err)
func (o Observer) Time(clock memory.Clock, operation string) (end func(err *error)) {
	if o == nil {
		return func(*error) {}
	}
	began := clock.Now()
	return func(err *error) { o(operation, clock.Now().Sub(began), *err) }
}
