package config

import (
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// The shortest texts that are taken out of others: a shorter one, or a word such as "memory" or "postgres", is in too much
// that has to be read.
const (
	leastSecret = 4
	leastWord   = 12 // of letters alone
)

func distinctive(s string) bool {
	return len(s) >= leastWord || len(s) >= leastSecret && strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsLetter(r) })
}

// Redact takes the secrets that the file names out of a text that others wrote: a service's log, the error of a store, a
// page. It finds them as they are, within a JSON text and within an address, and the passwords of addresses alone too.
func (c *Config) Redact(text string) string {
	if c.hidden == nil {
		return text
	}
	return c.hidden.Replace(text)
}

// keyword finds the password among the keywords of libpq.
var keyword = regexp.MustCompile(`(?i)\bpassword\s*=\s*(?:'((?:[^'\\]|\\.)*)'|(\S+))`)

// hide makes what Redact works with.
func hide(secrets []Secret) *strings.Replacer {
	var texts []string
	add := func(s string) {
		quoted, _ := json.Marshal(s)
		for _, form := range []string{s, strings.Trim(string(quoted), `"`), url.QueryEscape(s), url.PathEscape(s)} {
			if distinctive(form) {
				texts = append(texts, form)
			}
		}
	}
	for _, secret := range secrets {
		s := secret.Reveal()
		add(s)
		if u, err := url.Parse(s); err == nil && u.User != nil {
			if p, ok := u.User.Password(); ok {
				add(p)
			}
		}
		if m := keyword.FindStringSubmatch(s); m != nil {
			add(m[1] + m[2])
		}
		if scheme, token, ok := strings.Cut(s, " "); ok && (scheme == "Bearer" || scheme == "Basic" || scheme == "Token") { // of a header
			add(token)
		}
	}
	if len(texts) == 0 {
		return nil
	}
	slices.SortFunc(texts, func(a, b string) int { return len(b) - len(a) }) // of two that begin alike, the whole one
	var pairs []string
	for _, s := range texts {
		pairs = append(pairs, s, redacted)
	}
	return strings.NewReplacer(pairs...)
}
