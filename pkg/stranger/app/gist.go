package main

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

var (
	sentenceEnd = regexp.MustCompile(`\n+|[.!?] +|[。！？]`)
	code        = regexp.MustCompile(`\b[a-z0-9]{12,}\b`) // what people want to be reminded of
)

// gist is the clause of a text that holds a code or number; without one the text itself.
func gist(text string) string {
	for _, clause := range sentenceEnd.Split(text, -1) {
		if code.MatchString(clause) {
			return strings.TrimSpace(clause)
		}
	}
	return text
}

// matter is what a note is about, at a glance: too short a glance.
func matter(text string) string {
	runes := []rune(text)
	return string(runes[:min(12, len(runes))])
}

// newRef gives a ref that no process gave before. The caller holds the lock.
func (b *book) newRef() string {
	b.last = max(b.last+1, time.Now().UnixNano())
	return "n" + strconv.FormatInt(b.last, 36)
}
