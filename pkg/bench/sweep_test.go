package bench

import (
	"context"
	"os"
	"strings"
	"testing"

	"amnesia/pkg/view/viewtest/servers"
)

var stores = []struct {
	name  string
	start func() (*servers.Server, error)
	kept  kept
}{{"Redis", servers.Redis, inRedis()}, {"PostgreSQL", servers.Postgres, inPostgres()}, {"Chroma", servers.Chroma, inChroma()}}

// TestSweeping: every store is filled and read in full both ways, or the line says why not.
func TestSweeping(t *testing.T) {
	for _, s := range stores {
		t.Run(s.name, func(t *testing.T) {
			lines, err := sweeping(s.name, s.start, s.kept, 10)(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range lines {
				if l.NotMeasured != "" && os.Getenv("CI") != "true" {
					t.Skip(l.NotMeasured)
				}
				if strings.HasSuffix(l.Unit, "/s") && (l.Ours <= 0 || l.Reference <= 0) {
					t.Errorf("%+v", l)
				}
			}
		})
	}
}

func BenchmarkSweeping(b *testing.B) {
	for _, s := range stores {
		b.Run(s.name, func(b *testing.B) {
			for range b.N {
				lines, err := sweeping(s.name, s.start, s.kept, sweepUsers)(context.Background(), "", "")
				if err != nil {
					b.Fatal(err)
				}
				for _, l := range lines {
					b.Logf("%+v", l)
				}
				b.ReportMetric(lines[0].Ratio, "ratio")
			}
		})
	}
}
