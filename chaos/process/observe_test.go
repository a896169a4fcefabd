package process_test

import (
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"amnesia/chaos/process"
	"amnesia/pkg/clock"
)

// TestOperationsAreObserved: every operation is told of, with its error.
func TestOperationsAreObserved(t *testing.T) {
	var mu sync.Mutex
	var told []string
	e, err := process.New(process.Config{Clock: clock.System(), Services: []process.Service{
		{Name: "app", Command: []string{os.Args[0]}, Env: []string{roleKey + "=sleeper"}}},
		Observe: func(operation string, took time.Duration, err error) {
			mu.Lock()
			defer mu.Unlock()
			if took < 0 {
				t.Errorf("%s took %s", operation, took)
			}
			if err != nil {
				operation += ": failed"
			}
			told = append(told, operation)
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := e.StartAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := e.Kill(t.Context(), "app"); err != nil {
		t.Fatal(err)
	}
	if err := e.Kill(t.Context(), "another"); err == nil {
		t.Error("a service that there is not was killed")
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"start", "kill", "kill: failed"}; !slices.Equal(told, want) {
		t.Errorf("told of %q, want %q", told, want)
	}
}
