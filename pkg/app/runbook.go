package app

import (
	"fmt"
	"io"
	"strings"

	runbook "amnesia/deploy/prometheus"
)

// Runbook prints what is to be done about an alert, or about all of them for no name: the same text that the daemon serves,
// for when it does not run.
func Runbook(c Console, alert string) error {
	text, ok := runbook.Runbook(alert)
	if !ok {
		return Usage(fmt.Errorf("the runbook has no alert %q — fix: choose from %s", alert, strings.Join(runbook.Alerts(), ", ")))
	}
	if _, err := io.WriteString(c.Out, text); err != nil {
		return fmt.Errorf("writing the runbook: %w", err)
	}
	return nil
}
