package app

import (
	"errors"

	"amnesia/pkg/config"
	"amnesia/pkg/soak"
)

// The exit codes of the command line (interface.md).
const (
	exitNothing      = 0
	exitError        = 1
	exitUsage        = 2
	exitFound        = 3
	exitInconclusive = 4
)

// usageError is a mistake in how the program was called or configured.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Usage marks an error as one of usage.
func Usage(err error) error { return usageError{err} }

// ExitCode gives the exit code of an error.
func ExitCode(err error) int {
	var usage usageError
	var mistakes config.Errors
	var blind *soak.MisconfiguredError
	switch {
	case err == nil:
		return exitNothing
	case errors.As(err, &usage), errors.As(err, &mistakes), errors.As(err, &blind):
		return exitUsage
	}
	return exitError
}

// Explain gives the words for a person. A list of mistakes in a file speaks for itself.
func Explain(err error) string {
	var mistakes config.Errors
	if errors.As(err, &mistakes) {
		return mistakes.Error()
	}
	return "amnesia: " + err.Error()
}
