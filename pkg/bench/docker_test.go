package bench

import "testing"

// BenchmarkInContainers measures the binary that make build has made.
func BenchmarkInContainers(b *testing.B) {
	b.Chdir("../..")
	for range b.N {
		lines, err := inContainers(2)(b.Context(), "bin/amnesia", b.TempDir())
		if err != nil {
			b.Fatal(err)
		}
		for _, l := range lines {
			b.Logf("%+v", l)
		}
	}
}
