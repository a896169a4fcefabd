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

	"amnesia/chaos/process"
	"amnesia/pkg/app"
)

// version is set by the linker.
var version = "dev"

func main() {
	process.GuardianMain() // does not return in the guardian that the process engine starts
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
	var status exitStatus
	switch {
	case err == nil:
		return 0
	case errors.As(err, &status):
		return int(status)
	}
	fmt.Fprintln(os.Stderr, app.Explain(err))
	return app.ExitCode(err)
}

// exitStatus ends the process with a status and no further word: what was found has been printed.
type exitStatus int

func (s exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }
