package report

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
	"amnesia/pkg/oracle"
)

// golden compares with a file in testdata; AMNESIA_UPDATE_GOLDEN=1 rewrites it.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("AMNESIA_UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", path, diff)
	}
}

func ptr[T any](v T) *T { return &v }

// TestFieldNames holds the contract: the documented summary is read without an unknown field, and written with the same
// names and values. A name may be added to testdata/summary.json, none changed or removed.
func TestFieldNames(t *testing.T) {
	doc, err := os.ReadFile("testdata/summary.json")
	if err != nil {
		t.Fatal(err)
	}
	var s Summary
	d := json.NewDecoder(bytes.NewReader(doc))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		t.Fatal(err)
	}
	back, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(object(t, doc), object(t, back)); diff != "" {
		t.Errorf("the documented summary and what is written of it differ (-documented +written):\n%s", diff)
	}

	// A summary of nothing has every name too: programs read them without asking.
	empty, err := json.Marshal(Summarize(oracle.NewBook(), memory.Instant{}))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(names(object(t, doc)), names(object(t, empty))); diff != "" {
		t.Errorf("the names of an empty summary differ (-documented +empty):\n%s", diff)
	}

	// The verdicts are of all memories, each once.
	sum := 0
	for _, n := range s.Verdicts {
		sum += n
	}
	if writes := s.Writes.Acknowledged + s.Writes.Rejected + s.Writes.Unknown; sum != writes {
		t.Errorf("the documented verdicts sum to %d, the writes to %d", sum, writes)
	}
}

func object(t *testing.T, b []byte) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// names replaces every value by nothing, and drops what lists hold.
func names(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return nil
	}
	out := map[string]any{}
	for k, v := range m {
		out[k] = names(v)
	}
	return out
}

func TestExitCode(t *testing.T) {
	for _, tc := range []struct {
		name string
		s    Summary
		want int
	}{
		{"all clean", Summary{Cycles: Cycles{Clean: 10}}, 0},
		{"nine of ten conclusive", Summary{Cycles: Cycles{Clean: 9, Inconclusive: 1}}, 0},
		{"eight of ten conclusive", Summary{Cycles: Cycles{Clean: 8, Inconclusive: 2}}, 4},
		{"no cycle at all", Summary{}, 4},
		{"a silent loss", Summary{Cycles: Cycles{Clean: 9, Losses: 1}, Losses: map[memory.Class]int{memory.Silent: 1}}, 3},
		{"a reported loss", Summary{Cycles: Cycles{Losses: 1}, Losses: map[memory.Class]int{memory.Reported: 1}}, 3},
		{"losses that are permitted or unsure", Summary{Cycles: Cycles{Clean: 1},
			Losses: map[memory.Class]int{memory.Permitted: 5, memory.Unsure: 2}}, 0},
		{"a defect", Summary{Cycles: Cycles{Defects: 1}, Defects: map[memory.Defect]int{memory.Leaked: 1}}, 3},
		{"a target that did not recover", Summary{Cycles: Cycles{Clean: 1, Unrecovered: 1}}, 3},
		{"a loss outweighs too little evidence", Summary{Cycles: Cycles{Losses: 1, Inconclusive: 9},
			Losses: map[memory.Class]int{memory.Silent: 1}}, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.s.ExitCode(0.9); got != tc.want {
				t.Errorf("ExitCode(0.9) = %d, want %d", got, tc.want)
			}
		})
	}
	if got := (Summary{}).ExitCode(0); got != 0 {
		t.Errorf("where no evidence is asked for, ExitCode(0) = %d, want 0", got)
	}
}

// lossy is a summary with one of everything.
func lossy() Summary {
	return Summary{
		Target: "http://127.0.0.1:8080", Seed: 42, Outcome: fact.CycleLosses,
		Cycles:          Cycles{Clean: 2, Losses: 7, Inconclusive: 1, Control: 1},
		Writes:          Writes{Acknowledged: 240, Rejected: 3, Unknown: 9},
		Verdicts:        map[memory.Kind]int{memory.Kept: 233, memory.Late: 4, memory.Lost: 3, memory.Indeterminate: 12},
		Defects:         map[memory.Defect]int{memory.Resurfaced: 1},
		Losses:          map[memory.Class]int{memory.Silent: 2, memory.Reported: 1},
		Faults:          []Fault{{"kill", "app", 10, 2}, {"none", "app", 0, 1}, {"wipe", "cache", 3, 0}},
		Rates:           Rates{Control: Rate{20, 1}, Struck: Rate{220, 2}},
		Exposure:        Exposure{P50: ptr(4.125), Max: ptr(187.4)},
		Windows:         []Window{{"kill", "app", 204, 187.4, ptr(251.)}, {"kill", "redis", 9000, 9000, nil}},
		DurationSeconds: 21.44, Ledger: "amnesia.db",
		Found: []memory.Verdict{
			{Memory: 7, Kind: memory.Lost, Class: memory.Silent, Fault: "kill", Service: "app", Exposure: ptr(4125 * time.Microsecond)},
			{Memory: 8, Kind: memory.Lost, Class: memory.Silent, Fault: "kill", Service: "app", During: true},
			{Memory: 9, Kind: memory.Lost, Class: memory.Reported, Fault: "none", Service: "app"},
			{Memory: 12, Kind: memory.Late, Defects: []memory.Defect{memory.Resurfaced}},
		},
		Told: map[memory.ID]string{7: "My blue notebook no. 3 is labelled amn1.", 8: "红色房间14的门禁卡号是 amn2。", 9: "two\nlines",
			12: strings.Repeat("long ", 20)},
	}
}

func text(t *testing.T, s Summary) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := s.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestText(t *testing.T) {
	golden(t, "losses.txt", text(t, lossy()))
	golden(t, "clean.txt", text(t, Summary{Target: "sample", Seed: 1, Outcome: fact.CycleClean, Cycles: Cycles{Clean: 1},
		Writes: Writes{Acknowledged: 2}, Verdicts: map[memory.Kind]int{memory.Kept: 2}, DurationSeconds: 1, Ledger: "a.db"}))
}

// TestHeadline: of what is known the headline says so, unless something is not.
func TestHeadline(t *testing.T) {
	s := lossy()
	s.Known = []Known{{Fingerprint: "silent/kill/app/page", Found: 2}, {Fingerprint: "reported/none/app/page", Found: 1}}
	if got, want := headline(s), "2 memories were lost SILENTLY"; got != want { // and a defect that nobody knows of
		t.Errorf("got %q, want %q", got, want)
	}
	s.Known = append(s.Known, Known{Fingerprint: "resurfaced/-/-/-", Found: 1})
	if got, want := headline(s), "2 memories were lost SILENTLY, all of them known"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	s = Summary{Outcome: fact.CycleLosses, Losses: map[memory.Class]int{memory.Silent: 1}, Known: []Known{{Fingerprint: "silent/kill/app/page", Found: 1}}}
	if got, want := headline(s), "1 memory was lost SILENTLY, which is known"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestTextOfMany lists the first memories, and of the others only the numbers.
func TestTextOfMany(t *testing.T) {
	s := lossy()
	s.Found = nil
	for id := range memory.ID(300) {
		s.Found = append(s.Found, memory.Verdict{Memory: 1000 + id, Kind: memory.Lost, Class: memory.Silent})
	}
	got := string(text(t, s))
	if n := strings.Count(got, "\n"); n > 40 {
		t.Errorf("%d lines are more than a person reads:\n%s", n, got)
	}
	if want := "… and 280 more, by number: 1020-1299\n"; !strings.HasSuffix(got, want) {
		t.Errorf("%q does not end with %q", got, want)
	}
}

// Many kinds of injections take several lines, and what was lost to none of them is said too.
func TestTextOfManyFaults(t *testing.T) {
	s := lossy()
	s.Faults = []Fault{{"foreign", "redis", 0, 4}, {"several", "app+redis", 0, 2}}
	for _, service := range []string{"app", "chroma", "postgres", "redis"} {
		for _, kind := range []string{"kill", "recreate", "restart"} {
			s.Faults = append(s.Faults, Fault{kind, service, 2, 0})
		}
	}
	golden(t, "faults.txt", text(t, s))
}

// TestHostileText: a text moves no cursor, sets no title, turns no line round and forges no row.
func TestHostileText(t *testing.T) {
	s := lossy()
	s.Told[7] = "a\x1b]0;owned\x07b\x1b[2J\x9b31m\u009b1m c\r\nm99  kept\u202ereversed\u2066\u200f\x00\x7f"
	got := text(t, s)
	for _, r := range string(got) {
		if r != '\n' && (r < ' ' || r >= 0x7f && r < 0xa0) || strings.ContainsRune("\u200f\u202e\u2066", r) {
			t.Errorf("%U reaches the terminal:\n%q", r, got)
		}
	}
	if plain := text(t, lossy()); bytes.Count(got, []byte("\n")) != bytes.Count(plain, []byte("\n")) {
		t.Errorf("the text forged a line:\n%q", got)
	}
}
