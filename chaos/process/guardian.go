//go:build unix

package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"amnesia/chaos/guardian"
	"amnesia/pkg/memory"
)

const (
	// GuardianDuty is the name of what the guardian of an engine does: see Guard.
	GuardianDuty = "process"
	// markerKey is in the environment of every service, so that what leaves its group is found again.
	markerKey = "AMNESIA_PROCESS_ENGINE"
)

// engineID tells the engines of a machine apart, also those of one process.
func engineID(now memory.Instant) string { return fmt.Sprintf("%d-%d", os.Getpid(), now.Mono) }

// GuardianMain is guardian.Main for a program that uses no other engine.
func GuardianMain() {
	guardian.Main(map[string]func() guardian.Duty{GuardianDuty: Guard})
}

// Guard gives the duty of an engine's guardian: when the daemon has gone, to end every service that it has started.
func Guard() guardian.Duty { return &ward{groups: make(map[int]bool)} }

// ward is what the guardian is told: "engine ID" first, then the groups that live, ID and -ID.
type ward struct {
	engine string
	groups map[int]bool
}

const engineLine = "engine "

func (w *ward) Hear(line []byte) {
	if id, ok := strings.CutPrefix(string(line), engineLine); ok {
		w.engine = id
	}
	if n, err := strconv.Atoi(string(line)); err == nil && n != 0 {
		w.groups[max(n, -n)] = n > 0
	}
}

func (w *ward) End() {
	var wg sync.WaitGroup
	for group, lives := range w.groups {
		if lives {
			wg.Go(func() { endGroup(group) })
		}
	}
	wg.Wait()
	if w.engine != "" {
		killMarked(w.engine)
	}
}

// guarded sees to it that a guardian lives, and knows the groups that do.
func (e *Engine) guarded() error {
	first := []string{engineLine + e.id}
	for _, group := range e.groups() {
		first = append(first, strconv.Itoa(group))
	}
	if err := e.guardian.Ensure(first...); err != nil {
		return fmt.Errorf("no service may run without a guardian: %w", err)
	}
	return nil
}

// tell tells the guardian of a group, below zero of one that is dead. It fails only when the guardian has died; guarded
// tells the next one everything.
func (e *Engine) tell(group int) { _ = e.guardian.Tell(strconv.Itoa(group)) }
