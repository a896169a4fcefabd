package chatapp

import (
	"cmp"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"
)

// dimensions of the embedding. Words that share one are taken for the same word, so it is large; vectors are sparse.
const dimensions = 1 << 14

// feature is one non-zero dimension of an embedding.
type feature struct {
	Dimension uint16
	Weight    float32
}

// entry is a memory with its embedding, as the vector memory keeps it under a key.
type entry struct {
	Memory
	Key       string
	Embedding []feature
}

// embedding gives the hashed bag of words of a text: one dimension a word, weighted by how often it occurs, sorted by
// dimension. Chinese and the like, which put no spaces between words, count each pair of characters as a word.
func embedding(text string) []feature {
	count := map[uint16]int{}
	for _, word := range bag(text) {
		h := fnv.New32a()
		h.Write([]byte(word))
		count[uint16(h.Sum32()%dimensions)]++
	}
	features := make([]feature, 0, len(count))
	for _, d := range slices.Sorted(maps.Keys(count)) {
		features = append(features, feature{d, float32(1 + math.Log(float64(count[d])))})
	}
	return features
}

func bag(text string) []string {
	var out []string
	for _, word := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) }) {
		var ideographs []rune
		rest := strings.Map(func(r rune) rune {
			if unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana) {
				ideographs = append(ideographs, r)
				return -1
			}
			return r
		}, word)
		if rest != "" {
			out = append(out, rest)
		}
		for i := range max(0, len(ideographs)-1) {
			out = append(out, string(ideographs[i:i+2]))
		}
	}
	return out
}

// rank orders entries by the cosine of their angle to the query, best first, and drops those that share no word with it.
// Each dimension is weighted by its inverse document frequency among the entries (Spärck Jones 1972): what a user says
// in every message tells none of them apart.
func rank(query string, entries []entry) []Memory {
	frequency := map[uint16]float64{}
	for i, e := range entries {
		if e.Embedding == nil { // from a store that keeps none
			e.Embedding = embedding(e.Text)
			entries[i] = e
		}
		for _, f := range e.Embedding {
			frequency[f.Dimension]++
		}
	}
	weight := func(f feature) float64 {
		return float64(f.Weight) * math.Log(float64(len(entries)+1)/max(1, frequency[f.Dimension]))
	}
	asked := map[uint16]float64{}
	for _, f := range embedding(query) {
		asked[f.Dimension] = weight(f)
	}
	type scored struct {
		memory Memory
		score  float64
	}
	var hits []scored
	for _, e := range entries {
		var dot, norm float64
		for _, f := range e.Embedding {
			w := weight(f)
			dot += w * asked[f.Dimension]
			norm += w * w
		}
		if dot > 0 {
			hits = append(hits, scored{e.Memory, dot / math.Sqrt(norm)}) // the query's norm is the same for all
		}
	}
	slices.SortFunc(hits, func(a, b scored) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.memory.ID, a.memory.ID))
	})
	ms := make([]Memory, len(hits))
	for i, h := range hits {
		ms[i] = h.memory
	}
	return ms
}
