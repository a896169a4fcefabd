// Package clock reads the system's clocks as memory.Instant values. It is apart from pkg/memory, which reads none.
package clock

import (
	"os"
	"strings"
	"sync"
	"time"

	"amnesia/pkg/memory"
)

// System is the machine's own clock.
func System() memory.Clock { return system{boot: bootID()} }

type system struct{ boot string }

func (s system) Now() memory.Instant {
	wall := time.Now()
	return memory.Instant{Mono: monotonic(wall), Wall: wall.UnixNano(), Boot: s.boot}
}

// bootID names the current boot (random(4) on Linux). Elsewhere each process counts as a boot of its own, so that
// instants of two processes are never compared as exact.
var bootID = sync.OnceValue(func() string {
	if b, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		return strings.TrimSpace(string(b))
	}
	return "process-" + time.Now().UTC().Format(time.RFC3339Nano)
})
