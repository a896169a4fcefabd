package session

import (
	"strings"
	"time"

	"amnesia/pkg/memory"
)

const (
	evidenceForm = "20060102T150405.000Z"
	// longestEvidence leaves room for an ending within the 255 bytes that file systems take.
	longestEvidence = 160
)

// EvidenceName begins the name of a file of evidence: when it was, and then a name, of which only what every file system
// takes is kept. However a user is called, the file is in its folder.
func EvidenceName(at memory.Instant, name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		}
		return '_'
	}, name)
	return at.Time().UTC().Format(evidenceForm) + "-" + name[:min(len(name), longestEvidence)]
}

// EvidenceTime gives the time that is in a name of EvidenceName; ok is false for any other name.
func EvidenceTime(name string) (at time.Time, ok bool) {
	stamp, rest, found := strings.Cut(name, "-")
	at, err := time.Parse(evidenceForm, stamp)
	ok = found && err == nil
	for _, ending := range []string{".png", ".html", ".zip"} {
		if strings.HasSuffix(rest, ending) {
			return at, ok
		}
	}
	return at, false
}

// StillDocument makes a saved document fit to be opened by a person: whatever is in it, nothing runs and nothing is
// fetched. What stands before <html> belongs to its head, and binds all that follows.
func StillDocument(html string) string {
	return `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'">` +
		"\n" + html
}
