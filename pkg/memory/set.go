package memory

import (
	"slices"
	"strconv"
	"strings"
)

// Set is an exact set of ids as sorted, disjoint, inclusive ranges: a sweep of a million memories is a few bytes.
type Set []Range

// Range is the ids First..Last, both included.
type Range struct {
	First ID `json:"first"`
	Last  ID `json:"last"`
}

// SetOf makes a set; the ids may come in any order and repeat.
func SetOf(ids ...ID) Set {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	var s Set
	for _, id := range ids {
		switch n := len(s); {
		case n > 0 && id <= s[n-1].Last:
		case n > 0 && id == s[n-1].Last+1:
			s[n-1].Last = id
		default:
			s = append(s, Range{id, id})
		}
	}
	return s
}

// Has reports whether id is in the set, in O(log ranges).
func (s Set) Has(id ID) bool {
	_, ok := slices.BinarySearchFunc(s, id, func(r Range, id ID) int {
		switch {
		case r.Last < id:
			return -1
		case r.First > id:
			return 1
		}
		return 0
	})
	return ok
}

// Len counts the ids.
func (s Set) Len() int {
	n := 0
	for _, r := range s {
		n += int(r.Last-r.First) + 1
	}
	return n
}

// String gives the compact form 1-40,44,50-61.
func (s Set) String() string {
	var b strings.Builder
	for i, r := range s {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.FormatInt(int64(r.First), 10))
		if r.Last > r.First {
			b.WriteByte('-')
			b.WriteString(strconv.FormatInt(int64(r.Last), 10))
		}
	}
	return b.String()
}
