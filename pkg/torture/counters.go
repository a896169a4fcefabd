//go:build linux

package torture

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// ownLife are the counters of the process and not of the ledger: they begin anew with each daemon.
var ownLife = []string{"go_", "process_", "promhttp_", "amnesia_ledger_append_seconds", "amnesia_ledger_errors_total",
	"amnesia_engine_", "amnesia_browser_restarts_total", "amnesia_oracle_selftest_failures_total"}

// counters are the series that may only rise, as Prometheus shows them, without those of ownLife.
type counters map[string]float64

// parse reads the text format of Prometheus.
func parse(r io.Reader) (counters, error) {
	c, rising := counters{}, false
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		text := lines.Text()
		if what, ok := strings.CutPrefix(text, "# TYPE "); ok {
			name, kind, _ := strings.Cut(what, " ")
			rising = (kind == "counter" || kind == "histogram") && !slices.ContainsFunc(ownLife, func(own string) bool { return strings.HasPrefix(name, own) })
		}
		if !rising || strings.HasPrefix(text, "#") {
			continue
		}
		end := strings.LastIndexByte(text, ' ')
		if end < 0 {
			return nil, fmt.Errorf("a line of metrics without a value: %q", text)
		}
		v, err := strconv.ParseFloat(text[end+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("a line of metrics: %q: %w", text, err)
		}
		c[text[:end]] = v
	}
	return c, lines.Err()
}

// behind names the series that have less than they had.
func (c counters) behind(before counters) (back []string) {
	for _, name := range slices.Sorted(maps.Keys(before)) {
		// Sums are floating point, and added up in another order after a restart.
		if now := c[name]; now < before[name]*(1-1e-9) {
			back = append(back, fmt.Sprintf("%s was %v and is %v", name, before[name], now))
		}
	}
	return back
}
