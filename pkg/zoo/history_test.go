package zoo_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"amnesia/pkg/zoo"
)

var histories = filepath.Join("testdata", "histories")

// TestHistories judges recorded runs by today's oracle: one of each case, of which all that was said was right. With
// -record it records the cases of which there is none; the others stay as they are, ledgers of older formats among them.
func TestHistories(t *testing.T) {
	t.Parallel()
	if *record {
		z := bench(t)
		t.Run("record", func(t *testing.T) {
			for _, c := range zoo.Cases() {
				if zoo.Recorded(histories, c) {
					continue
				}
				t.Run(c.Name, func(t *testing.T) {
					t.Parallel()
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
					defer cancel()
					r, err := z.Run(ctx, c, 1)
					if err == nil {
						err = r.Record(ctx, histories)
					}
					if err != nil {
						t.Errorf("%v; %s", err, r.Dir)
					}
				})
			}
		})
	}
	files, err := filepath.Glob(filepath.Join(histories, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, file := range files {
		h, err := zoo.Rejudge(t.Context(), file, t.TempDir())
		if err != nil {
			t.Errorf("%s, seed %d: %v", file, h.Seed, err)
		}
		seen[h.Case] = len(h.Memories) > 0
	}
	for _, c := range zoo.Cases() {
		if !seen[c.Name] {
			t.Errorf("no history of %s is recorded", c.Name)
		}
	}
}
