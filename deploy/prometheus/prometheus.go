// Package prometheus carries what a person with an alert needs, in the binary: the runbook. It knows nothing of metrics;
// that the rules, the runbook and the dashboard fit them is held by its tests.
package prometheus

import (
	_ "embed"
	"regexp"
	"strings"
)

// It says of every alert what it means, what to look at and how to silence it, in Markdown.
//
//go:embed runbook.md
var runbook string

var heading = regexp.MustCompile(`(?m)^## (\w+)$`)

// Runbook gives the part of the runbook about one alert, without regard to case, and the whole for no name; false when
// there is no such part.
func Runbook(alert string) (text string, ok bool) {
	if alert == "" {
		return runbook, true
	}
	found := heading.FindAllStringSubmatchIndex(runbook, -1)
	for i, at := range found {
		if !strings.EqualFold(runbook[at[2]:at[3]], alert) {
			continue
		}
		end := len(runbook)
		if i+1 < len(found) {
			end = found[i+1][0]
		}
		return strings.TrimSpace(runbook[at[0]:end]) + "\n", true
	}
	return "", false
}

// Alerts names those that the runbook has a part about.
func Alerts() []string {
	var names []string
	for _, found := range heading.FindAllStringSubmatch(runbook, -1) {
		names = append(names, found[1])
	}
	return names
}
