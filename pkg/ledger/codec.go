package ledger

import (
	"fmt"
	"strconv"
	"strings"

	"amnesia/pkg/memory"
)

// encodeList joins strings by commas; a comma or backslash within one is escaped, so that every list but an empty one
// comes back exactly. An empty list is stored as NULL.
func encodeList(list []string) string {
	if len(list) == 1 && !strings.ContainsAny(list[0], `,\`) {
		return list[0]
	}
	var b strings.Builder
	for i, s := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		for i := range len(s) {
			if s[i] == ',' || s[i] == '\\' {
				b.WriteByte('\\')
			}
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

func decodeList(text string) []string {
	if !strings.Contains(text, `\`) {
		return strings.Split(text, ",")
	}
	var list []string
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == ',':
			list = append(list, b.String())
			b.Reset()
			continue
		case text[i] == '\\' && i+1 < len(text):
			i++
		}
		b.WriteByte(text[i])
	}
	return append(list, b.String())
}

func encodeNumbers(list []int64) string {
	var b []byte
	for i, n := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, n, 10)
	}
	return string(b)
}

func decodeNumbers(list []string) ([]int64, error) {
	numbers := make([]int64, len(list))
	for i, s := range list {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%q in a list of numbers: %w", s, errDamaged)
		}
		numbers[i] = n
	}
	return numbers, nil
}

// parseSet reads the form that memory.Set.String gives, and insists on what memory.Set promises: ranges that rise and do
// not meet.
func parseSet(text string) (memory.Set, error) {
	if text == "" {
		return nil, nil
	}
	set := make(memory.Set, 0, strings.Count(text, ",")+1)
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		a, err := strconv.ParseInt(first, 10, 64)
		b := a
		if err == nil && isRange {
			b, err = strconv.ParseInt(last, 10, 64)
		}
		if err != nil {
			return nil, fmt.Errorf("%q in a set: %w", part, errDamaged)
		}
		set = append(set, memory.Range{First: memory.ID(a), Last: memory.ID(b)})
	}
	return set, checkSet(set)
}

// checkSet reports a set that is not sorted and disjoint, or has an id below 1.
func checkSet(set memory.Set) error {
	last := memory.ID(0)
	for _, r := range set {
		if r.First <= last || r.Last < r.First {
			return fmt.Errorf("the range %d-%d of a set is not in its order", r.First, r.Last)
		}
		last = r.Last
	}
	return nil
}
