//go:build linux

package leak

import (
	"strings"
	"testing"
)

func TestGrowths(t *testing.T) {
	s := Series{}
	for i := range 40 {
		s["level"] = append(s["level"], float64(100+i%5))
		s["leak"] = append(s["leak"], float64(100+i))
		s["warm"] = append(s["warm"], float64(100+10*min(i, 15)))
	}
	for _, g := range s.Growths() {
		if leaks := g.Name == "leak"; g.Steady != leaks || (g.Share() > 0.05) != leaks {
			t.Errorf("%+v, share %g", g, g.Share())
		}
	}
	if got := (Series{}).Growths(); len(got) > 0 {
		t.Errorf("%+v", got)
	}
}

func TestParse(t *testing.T) {
	m, err := parse(strings.NewReader("# HELP go_goroutines Number.\n# TYPE go_goroutines gauge\ngo_goroutines 12\namnesia_cycles_total{control=\"true\",outcome=\"clean\"} 3\n"))
	if err != nil || len(m) != 2 || m["go_goroutines"] != 12 || m[`amnesia_cycles_total{control="true",outcome="clean"}`] != 3 {
		t.Errorf("%v, %v", m, err)
	}
}
