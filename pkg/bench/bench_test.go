package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestGoals: a figure beyond its bound has not met it, and one on it has where the bound is inclusive.
func TestGoals(t *testing.T) {
	for _, c := range []struct {
		line Line
		want Line
	}{
		{atMost("n", "ms", 3, 2, 1.5), Line{Name: "n", Unit: "ms", Ours: 3, Reference: 2, Ratio: 1.5, Goal: "<= 1.50 x", Met: true}},
		{atMost("n", "ms", 4, 2, 1.5), Line{Name: "n", Unit: "ms", Ours: 4, Reference: 2, Ratio: 2, Goal: "<= 1.50 x"}},
		{atLeast("n", "1/s", 2, 4, 0.5), Line{Name: "n", Unit: "1/s", Ours: 2, Reference: 4, Ratio: 0.5, Goal: ">= 0.50 x", Met: true}},
		{atLeast("n", "1/s", 1, 4, 0.5), Line{Name: "n", Unit: "1/s", Ours: 1, Reference: 4, Ratio: 0.25, Goal: ">= 0.50 x"}},
		{below("n", "MiB", 63, 64), Line{Name: "n", Unit: "MiB", Ours: 63, Goal: "< 64", Met: true}},
		{below("n", "MiB", 64, 64), Line{Name: "n", Unit: "MiB", Ours: 64, Goal: "< 64"}},
		{reaching("n", "1/s", 1_000_000, 1_000_000), Line{Name: "n", Unit: "1/s", Ours: 1_000_000, Goal: ">= 1000000", Met: true}},
		{reaching("n", "1/s", 999_999, 1_000_000), Line{Name: "n", Unit: "1/s", Ours: 999_999, Goal: ">= 1000000"}},
	} {
		if c.line != c.want {
			t.Errorf("got  %+v\nwant %+v", c.line, c.want)
		}
	}
}

// TestRun: what is measured is in the table and, a line each, for programs; what could not be is said; an error names what
// was measured.
func TestRun(t *testing.T) {
	measured := func(context.Context, string, string) ([]Line, error) {
		return []Line{atMost("slow", "ms", 3, 1, 1.5), below("small", "MiB", 1, 64), unmeasured("absent", errors.New("no such server"))}, nil
	}
	var out bytes.Buffer
	lines, err := Run(t.Context(), &out, []Measurement{{"some", measured}}, "", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"slow   3.0        1.0   ms   3.00  <= 1.50 x   NO", "small   1.0          -  MiB      -       < 64  yes", "not measured: absent: no such server"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table is\n%s\nwithout %q", out.String(), want)
		}
	}
	if n := Unmeasured(lines); n != 1 {
		t.Errorf("%d lines are said to be unmeasured, want 1", n)
	}
	written, err := Written(lines)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"name":"slow","unit":"ms","ours":3,"reference":1,"ratio":3,"goal":"<= 1.50 x","met":false}` + "\n"
	if !strings.HasPrefix(string(written), want) || bytes.Count(written, []byte("\n")) != 3 {
		t.Errorf("written is\n%s\nwant three lines, the first\n%s", written, want)
	}
	for line := range bytes.Lines(written) {
		if err := json.Unmarshal(line, new(Line)); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	broken := func(context.Context, string, string) ([]Line, error) { return nil, errors.New("no disk") }
	if _, err := Run(t.Context(), &out, []Measurement{{"some", broken}}, "", ""); err == nil || err.Error() != "some: no disk" {
		t.Errorf("the error is %v", err)
	}
}

// TestForms: every line of the full form is in the short one too, but for what takes minutes.
func TestForms(t *testing.T) {
	short := map[string]bool{}
	for _, m := range Short() {
		short[m.Name] = true
	}
	for _, m := range Full() {
		if onlyInFull := m.Name == "living" || m.Name == "start"; short[m.Name] == onlyInFull {
			t.Errorf("%s in the short form: %t", m.Name, short[m.Name])
		}
	}
}

// built is the folder of what the tests build.
var built string

// program gives the daemon to measure.
var program = sync.OnceValues(func() (string, error) {
	program := filepath.Join(built, "amnesia")
	out, err := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, "amnesia/cmd/amnesia").CombinedOutput()
	if err != nil {
		return "", errors.Join(err, errors.New(string(out)))
	}
	return program, nil
})

// TestMeasurements: each can be measured, at a small size.
func TestMeasurements(t *testing.T) {
	amnesia, err := program()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []struct {
		Measurement
		lines int
	}{
		{Measurement{"cycle", cycling(1)}, 2}, {Measurement{"idle", idling}, 1}, {Measurement{"growth", growing(3, 100)}, 1},
		{Measurement{"judge", judging(1_000)}, 3}, {Measurement{"crowd", crowded(3)}, 1}, {Measurement{"living", living(100, 500)}, 2},
	} {
		t.Run(m.Name, func(t *testing.T) {
			start := time.Now()
			lines, err := m.measure(t.Context(), amnesia, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			if runtime.GOOS == "linux" && len(lines) != m.lines {
				t.Errorf("%d lines, want %d", len(lines), m.lines)
			}
			for _, l := range lines {
				switch relative := strings.HasSuffix(l.Goal, " x"); {
				case l.NotMeasured != "" && runtime.GOOS == "linux":
					t.Errorf("%s was not measured: %s", l.Name, l.NotMeasured)
				case l.Ours < 0, relative && l.Reference < 0:
					t.Errorf("%+v", l)
				}
				t.Logf("%.0fs %+v", time.Since(start).Seconds(), l)
			}
		})
	}
}
