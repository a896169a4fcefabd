package oracle

import (
	"iter"
	"slices"

	"amnesia/pkg/memory"
)

// include adds an id to a set, in constant time for the next higher one.
func include(s memory.Set, id memory.ID) memory.Set {
	i, found := slices.BinarySearchFunc(s, id, func(r memory.Range, id memory.ID) int {
		switch {
		case r.Last < id:
			return -1
		case r.First > id:
			return 1
		}
		return 0
	})
	if found {
		return s
	}
	below, above := i > 0 && s[i-1].Last == id-1, i < len(s) && s[i].First == id+1
	switch {
	case below && above:
		s[i-1].Last = s[i].Last
		return slices.Delete(s, i, i+1)
	case below:
		s[i-1].Last = id
	case above:
		s[i].First = id
	default:
		s = slices.Insert(s, i, memory.Range{First: id, Last: id})
	}
	return s
}

// each gives the ids of a set, rising.
func each(s memory.Set) iter.Seq[memory.ID] {
	return func(yield func(memory.ID) bool) {
		for _, r := range s {
			for id := r.First; id <= r.Last; id++ {
				if !yield(id) {
					return
				}
			}
		}
	}
}
