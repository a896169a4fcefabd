package view

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"strings"

	"amnesia/pkg/memory"
)

// index finds which of many tokens stand in a text, in one pass over the text whatever their number. A token is found
// where strings.Contains would find it in the text with A–Z lowered: also inside a longer word, because stores keep
// text escaped (the n of a JSON \n, the 20 of a URL's %20 stand right before it), and also in capitals, because pages
// and models capitalise. That cannot mistake one memory for another: a token occurs in no other memory.
//
// An index does not change once it is built, so any number of goroutines may use it.
type index struct {
	ms      []memory.Memory
	slots   []slot // a hash table with open addressing, at most half full
	shift   int    // of a hash, to its place
	more    map[int32]int32
	lengths []int // of the tokens, ascending
	prefix  string
	anchor  int // the place in prefix of a pair of neighbours, of which one is its rarest byte
}

// slot is one token: its hash, and the first of its memories, counted from 1; more has the next ones.
type slot struct {
	hash  uint32
	first int32
}

func newIndex(ms []memory.Memory) *index {
	size := max(3, bits.Len(uint(2*len(ms))))
	x := &index{ms: ms, slots: make([]slot, 1<<size), shift: 32 - size, more: map[int32]int32{}}
	none := true
	for i := len(ms) - 1; i >= 0; i-- {
		token := ms[i].Token
		if !isToken(token) {
			continue
		}
		h := hash([]byte(token))
		s := x.slot(h, []byte(token))
		if s.first > 0 {
			x.more[int32(i)] = s.first - 1
		} else if n, ok := slices.BinarySearch(x.lengths, len(token)); !ok {
			x.lengths = slices.Insert(x.lengths, n, len(token))
		}
		s.hash, s.first = h, int32(i)+1
		if none {
			x.prefix, none = token, false
		}
		x.prefix = x.prefix[:common(x.prefix, token)]
	}
	const order = "etaoinsrhldcumfpgwybvkxjqz0123456789" // the most frequent first
	for n := range x.prefix {
		if strings.IndexByte(order, x.prefix[n]) > strings.IndexByte(order, x.prefix[x.anchor]) {
			x.anchor = n
		}
	}
	x.anchor = max(0, min(x.anchor, len(x.prefix)-pair))
	return x
}

// common is how many bytes the beginnings of two texts have in common.
func common(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// slot gives the token's slot, or the empty one where it would be.
func (x *index) slot(h uint32, word []byte) *slot {
	for at := h >> x.shift; ; at = (at + 1) & uint32(len(x.slots)-1) {
		s := &x.slots[at]
		if s.first == 0 || s.hash == h && equal(x.ms[s.first-1].Token, word) {
			return s
		}
	}
}

const (
	// lower, as a bit that is set in letters and digits, lowers the letters and leaves the digits as they are.
	lower = 'a' - 'A'
	ones  = 0x0101010101010101 // times a byte: eight of it
	pair  = 2                  // bytes
)

// equal compares a token with a word.
func equal(token string, word []byte) bool {
	if token == string(word) {
		return true
	}
	if len(token) != len(word) {
		return false
	}
	for i, b := range word {
		if class[b] == 0 || token[i] != b|lower {
			return false
		}
	}
	return true
}

// hash is of the first and the last eight bytes of a word; tokens begin or end in different ones.
func hash(word []byte) uint32 {
	const all = lower * ones
	const spread = 0x9e3779b97f4a7c15 // 2^64 over the golden ratio
	if n := len(word); n >= 8 {
		h := (binary.LittleEndian.Uint64(word)|all)*spread ^ (binary.LittleEndian.Uint64(word[n-8:]) | all)
		return uint32(h * spread >> 32)
	}
	h := uint64(0)
	for _, b := range word {
		h = h<<8 | uint64(b|lower)
	}
	return uint32(h * spread >> 32)
}

// find appends to hits the memories whose token stands in text, each once.
func (x *index) find(text []byte, hits []int32) []int32 {
	if len(x.lengths) == 0 || len(text) < x.lengths[0] {
		return hits
	}
	if len(x.prefix) >= pair && x.lengths[0] > x.anchor+8 {
		return x.begun(text, hits)
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
			hits = x.word(text[start:end], hits, first)
		}
		i = end // no letter or digit
	}
	return hits
}

// begun is find for tokens that begin alike and are longer than a look is wide: it goes from one place where a pair of
// that beginning stands to the next.
func (x *index) begun(text []byte, hits []int32) []int32 {
	first := len(hits)
	a, b := x.prefix[x.anchor], x.prefix[x.anchor+1]
	for at, last := x.anchor, len(text)-x.lengths[0]+x.anchor; ; at += 8 {
		var places uint64
		if at, places = pairs(text, at, last, a, b); places == 0 {
			return hits
		}
		for ; places != 0; places &= places - 1 {
			from := at - x.anchor + bits.TrailingZeros64(places)/8
			for _, n := range x.lengths {
				if from+n > len(text) {
					break
				}
				hits = x.take(text[from:from+n], hits, first)
			}
		}
	}
}

// pairs looks at eight places of a text at a time, from at on to last, where two bytes of tokens may stand beside each
// other, and gives the first such look: where it begins, and the highest bit of each byte where they do, and of some more.
func pairs(text []byte, at, last int, one, two byte) (int, uint64) {
	const all, highest = lower * ones, 0x80 * ones
	a, b := uint64(one)*ones, uint64(two)*ones
	for ; at <= last; at += 8 {
		off := (binary.LittleEndian.Uint64(text[at:]) | all) ^ a | (binary.LittleEndian.Uint64(text[at+1:]) | all) ^ b
		if zero := (off - ones) &^ off & highest; zero != 0 {
			return at, zero
		}
	}
	return at, 0
}

func (x *index) word(word []byte, hits []int32, first int) []int32 {
	for _, n := range x.lengths {
		for k := 0; k+n <= len(word); k++ {
			hits = x.take(word[k:k+n], hits, first)
		}
	}
	return hits
}

// take appends the memories whose token a word is.
func (x *index) take(word []byte, hits []int32, first int) []int32 {
	i := x.slot(hash(word), word).first - 1
	if i < 0 || slices.Contains(hits[first:], i) {
		return hits
	}
	for ok := true; ok; i, ok = x.more[i] {
		hits = append(hits, i)
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
