package config

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
)

// nameForm is what a service or a view may be called: the names become labels of metrics and parts of paths.
var nameForm = regexp.MustCompile(nameAllowed)

// number matches a whole number.
var number = regexp.MustCompile(`^[0-9]+$`)

func keysOf(t reflect.Type) []string {
	var out []string
	for _, f := range fieldsOf(t, "") {
		out = append(out, f.key)
	}
	return out
}

// choice says which word to write instead: the one meant, where that can be guessed, else all.
func choice(word string, words []string) string {
	if near := nearest(word, words); near != "" {
		return fmt.Sprintf("write %s", near)
	}
	return "write " + oneOf(words)
}

func oneOf(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	return "one of " + strings.Join(words, ", ")
}

// nearest gives the word that was probably meant, or "".
func nearest(word string, words []string) string {
	best, least := "", len(word)/3+1
	for _, w := range words {
		if d := distance(strings.ToLower(word), strings.ToLower(w)); d <= least && (best == "" || d < least) {
			best, least = w, d
		}
	}
	return best
}

// distance counts the letters to insert, delete, replace or swap with their neighbour (optimal string alignment).
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
