package view

import (
	"slices"

	"amnesia/pkg/memory"
)

// index finds which of many tokens stand in a text, in one pass over the text whatever their number. A token is found
// where strings.Contains would find it in the text with A–Z lowered: also inside a longer word, because stores keep
// text escaped (the n of a JSON \n, the 20 of a URL's %20 stand right before it), and also in capitals, because pages
// and models capitalise. That cannot mistake one memory for another: a token occurs in no other memory.
//
// An index does not change once it is built, so any number of goroutines may use it.
type index struct {
	at      map[string]int32 // token → the first of its memories
	more    map[int32]int32  // memory → the next one with the same token
	lengths []int            // of the tokens, ascending
}

func newIndex(ms []memory.Memory) *index {
	x := &index{at: make(map[string]int32, len(ms)), more: map[int32]int32{}}
	for i := len(ms) - 1; i >= 0; i-- {
		token := ms[i].Token
		if !isToken(token) {
			continue
		}
		if next, ok := x.at[token]; ok {
			x.more[int32(i)] = next
		} else if n, ok := slices.BinarySearch(x.lengths, len(token)); !ok {
			x.lengths = slices.Insert(x.lengths, n, len(token))
		}
		x.at[token] = int32(i)
	}
	return x
}

// find appends to hits the memories whose token stands in text, each once.
func (x *index) find(text string, hits []int32) []int32 {
	if len(x.lengths) == 0 {
		return hits
	}
	first, least := len(hits), x.lengths[0]
	// A word that can hold a token is at least as long as the shortest one, so no such word lies between two looks that
	// are that far apart.
	for i := least - 1; i < len(text); i += least {
		if class[text[i]] == 0 {
			continue
		}
		start, end := i, i+1
		for start > 0 && class[text[start-1]] != 0 {
			start--
		}
		for end < len(text) && class[text[end]] != 0 {
			end++
		}
		if end-start >= least {
			hits = x.word(lower(text[start:end]), hits, first)
		}
		i = end // no letter or digit
	}
	return hits
}

func (x *index) word(word string, hits []int32, first int) []int32 {
	for _, n := range x.lengths {
		for k := 0; k+n <= len(word); k++ {
			i, ok := x.at[word[k:k+n]]
			if !ok || slices.Contains(hits[first:], i) {
				continue
			}
			for hits = append(hits, i); ; hits = append(hits, i) {
				if i, ok = x.more[i]; !ok {
					break
				}
			}
		}
	}
	return hits
}

// class tells the bytes of tokens from all others.
var class = func() (c [256]byte) {
	for b := range 256 {
		switch {
		case 'a' <= b && b <= 'z', '0' <= b && b <= '9':
			c[b] = isLower
		case 'A' <= b && b <= 'Z':
			c[b] = isUpper
		}
	}
	return c
}()

const (
	isLower = 1 // as it stands in a token
	isUpper = 2
)

func isToken(s string) bool {
	for i := range len(s) {
		if class[s[i]] != isLower {
			return false
		}
	}
	return s != ""
}

// lower lowers a word of ASCII letters and digits.
func lower(word string) string {
	for i := range len(word) {
		if class[word[i]] == isUpper {
			b := []byte(word)
			for ; i < len(b); i++ {
				if class[b[i]] == isUpper {
					b[i] += 'a' - 'A'
				}
			}
			return string(b)
		}
	}
	return word
}
