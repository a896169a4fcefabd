package app

import (
	"errors"

	"amnesia/pkg/config"
	"amnesia/pkg/soak"
	"amnesia/pkg/terminal"
)

// Exit codes of the command line; those of a judgement are report.Summary's.
const (
	exitNothing = 0
	exitError   = 1
	exitUsage   = 2
	exitFound   = 3
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

// ended gives what a command ends with: the code of what was found, unless the error weighs more (interface.md:
// 2, 3, 1, 4).
func ended(found int, err error) (int, error) {
	if code := ExitCode(err); err != nil && (code == exitUsage || found != exitFound) {
		return code, err
	}
	return found, err
}

// Explain gives the words for a person, fit for a terminal: they may quote what the target says. A list of mistakes in a
// file speaks for itself.
func Explain(err error) string {
	text := "amnesia: " + err.Error()
	var mistakes config.Errors
	if errors.As(err, &mistakes) {
		text = mistakes.Error()
	}
	return terminal.Text(text)
}
