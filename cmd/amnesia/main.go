// Command amnesia finds out whether an application forgets what its users told it. This package is the command line:
// flags, environment and signals; all else is one call into pkg/app.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"amnesia/chaos/docker"
	"amnesia/pkg/app"
)

// version is set by the linker.
var version = "dev"

func main() {
	app.GuardianMain()  // does not return in the guardian that a run starts
	docker.HelperMain() // nor in the helper that the Docker engine runs
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal ends the process at once: the guardian cleans up.
	go func() {
		<-ctx.Done()
		stop()
	}()
	err := root().ExecuteContext(ctx)
	code := app.ExitCode(err)
	if status, ok := errors.AsType[exitStatus](err); ok {
		code, err = status.code, status.err
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, app.Explain(err))
	}
	return code
}

// exitStatus is the exit code of a command that has told what it found, and what went wrong beside that, or nil.
type exitStatus struct {
	code int
	err  error
}

func (s exitStatus) Error() string { return fmt.Sprintf("exit status %d: %v", s.code, s.err) }
