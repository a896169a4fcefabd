package session

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"amnesia/pkg/memory"
)

// TestEvidenceName: whatever users are called, evidence of them is a plain file in its folder, and is known again.
func TestEvidenceName(t *testing.T) {
	at := memory.Instant{Wall: time.Date(2026, 11, 3, 4, 5, 6, 789e6, time.UTC).UnixNano()}
	for _, name := range []string{"ann", "../../etc/passwd", "..", "", ".", "a/b", `a\b`, "c:con", "a\x00b", "-rf", "a\nb", "\x1b[2J", "*?", "~", "$(rm -rf .)",
		strings.Repeat("x", 1000), strings.Repeat("日本", 300)} {
		file := EvidenceName(at, "cycle3-"+name) + ".png"
		if filepath.Base(file) != file || !filepath.IsLocal(file) || len(file) > 255 || !strings.HasPrefix(file, "20261103T040506.789Z-cycle3-") {
			t.Errorf("%q makes the file %q", name, file)
		}
		if strings.Trim(file, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != "" {
			t.Errorf("%q makes the file %q", name, file)
		}
		if back, ok := EvidenceTime(file); !ok || back.UnixNano() != at.Wall {
			t.Errorf("%q is not known again: %v", file, back)
		}
	}
	for _, name := range []string{"notes.png", "20261103T040506.789Z.png", "20261103T040506.789Z-ann.txt", "20261303T040506.789Z-ann.png", "2026-ann.png", "amnesia.db", ""} {
		if _, ok := EvidenceTime(name); ok {
			t.Errorf("%q is taken for evidence of ours", name)
		}
	}
}
