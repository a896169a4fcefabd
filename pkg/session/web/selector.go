package web

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/andybalholm/cascadia"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// selector is a Playwright selector: a chain of parts, each looked for within what the one before found.
// https://playwright.dev/docs/other-locators
type selector []part

// part picks among the descendants of the scopes.
type part func(p *page, scopes []*html.Node) []*html.Node

const browserOnly = "fix: use CSS, :has-text(), text=, role=, or driver: browser"

var engine = regexp.MustCompile(`^[a-zA-Z_0-9:*+-]+=`)

// parseSelector reads a selector, or says what of it needs a browser.
func parseSelector(s string) (selector, error) {
	var sel selector
	for _, text := range splitChain(s) {
		text = strings.TrimSpace(text)
		if text == "" {
			return nil, fmt.Errorf("the selector %q has an empty part — fix: write it out", s)
		}
		p, err := parsePart(text)
		if err != nil {
			return nil, fmt.Errorf("the selector %q: %w", s, err)
		}
		sel = append(sel, p)
	}
	return sel, nil
}

// splitChain cuts at every >> outside of quotes.
func splitChain(s string) []string {
	var parts []string
	var quote byte
	begin := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '>' && i+1 < len(s) && s[i+1] == '>':
			parts = append(parts, s[begin:i])
			i++
			begin = i + 1
		}
	}
	return append(parts, s[begin:])
}

func parsePart(s string) (part, error) {
	if s[0] == '"' || s[0] == '\'' {
		return parseText(s)
	}
	if strings.HasPrefix(s, "//") || strings.HasPrefix(s, "..") || strings.HasPrefix(s, "(//") {
		return nil, errors.New("XPath needs a browser — " + browserOnly)
	}
	name := engine.FindString(s)
	body := strings.TrimSpace(s[len(name):])
	switch name {
	case "":
		return parseCSS(s)
	case "css=":
		return parseCSS(body)
	case "text=":
		return parseText(body)
	case "role=":
		return parseRole(body)
	case "id=", "data-testid=", "data-test-id=", "data-test=":
		key := strings.TrimSuffix(name, "=")
		return matching(func(_ *page, n *html.Node) bool { return has(n, key) && attr(n, key) == body }), nil
	case "nth=":
		i, err := strconv.Atoi(body)
		if err != nil {
			return nil, fmt.Errorf("nth=%s is no number — fix: count from 0, or from the end with -1", body)
		}
		return func(_ *page, in []*html.Node) []*html.Node {
			k := i
			if k < 0 {
				k += len(in)
			}
			if k < 0 || k >= len(in) {
				return nil
			}
			return in[k : k+1]
		}, nil
	case "visible=":
		want := body != "false"
		return func(_ *page, in []*html.Node) (out []*html.Node) {
			for _, n := range in {
				if visible(n) == want {
					out = append(out, n)
				}
			}
			return out
		}, nil
	}
	return nil, fmt.Errorf("the engine %q needs a browser — "+browserOnly, name)
}

// matching picks every descendant for which ok holds.
func matching(ok func(*page, *html.Node) bool) part {
	return func(p *page, scopes []*html.Node) (out []*html.Node) {
		met := map[*html.Node]bool{}
		for _, scope := range scopes {
			walk(scope, func(n *html.Node) bool {
				if n != scope && n.Type == html.ElementNode {
					if met[n] { // scopes may lie within one another
						return false
					}
					met[n] = true
					if ok(p, n) {
						out = append(out, n)
					}
				}
				return true
			})
		}
		return out
	}
}

func (s selector) all(p *page) []*html.Node {
	nodes := []*html.Node{p.tree()}
	for _, part := range s {
		if nodes = part(p, nodes); len(nodes) == 0 {
			return nil
		}
	}
	return nodes
}

// pseudo finds the pseudo-classes that mean something else, or nothing, outside of a browser or of cascadia.
var pseudo = regexp.MustCompile(`(?i)^:(contains|containsown|matches|matchesown|haschild|input|text|text-is|text-matches|visible|nth-match|is|where|above|below|left-of|right-of|near|light)\b`)

var hasText = regexp.MustCompile(`(?i)^:has-text\(\s*`)

// parseCSS translates Playwright's :has-text to cascadia's :matches, which takes a regular expression.
func parseCSS(s string) (part, error) {
	var b strings.Builder
	var quote byte
	for i := 0; i < len(s); {
		rest := s[i:]
		c := s[i]
		switch {
		case c == '\\' && i+1 < len(s):
			b.WriteString(s[i : i+2])
			i += 2
			continue
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == ':':
			if m := hasText.FindString(rest); m != "" {
				text, n, err := quoted(rest[len(m):])
				if err != nil {
					return nil, fmt.Errorf(":has-text: %w", err)
				}
				end := strings.TrimLeft(rest[len(m)+n:], " \t\n")
				if !strings.HasPrefix(end, ")") {
					return nil, errors.New(`:has-text is not closed — fix: write :has-text("…")`)
				}
				b.WriteString(":matches(" + textPattern(text) + ")")
				i = len(s) - len(end) + 1
				continue
			}
			if m := pseudo.FindString(rest); m != "" {
				return nil, fmt.Errorf("%s needs a browser — %s", m, browserOnly)
			}
		}
		b.WriteByte(c)
		i++
	}
	group, err := cascadia.ParseGroup(b.String())
	if err != nil {
		return nil, fmt.Errorf("%w — %s", err, browserOnly)
	}
	return matching(func(_ *page, n *html.Node) bool { return group.Match(n) }), nil
}

// quoted reads a CSS string and says how long it was written.
func quoted(s string) (text string, n int, err error) {
	if s == "" || (s[0] != '"' && s[0] != '\'') {
		return "", 0, errors.New(`its text is not quoted — fix: write "…"`)
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		case s[i] == s[0]:
			return b.String(), i + 1, nil
		default:
			b.WriteByte(s[i])
		}
	}
	return "", 0, errors.New(`its text is not closed — fix: write "…"`)
}

// textPattern is a pattern for text without regard to case and to how it is spaced. Whatever has a meaning in a pattern
// or to cascadia's reader is written by its number.
func textPattern(text string) string {
	words := strings.Fields(text)
	for i, w := range words {
		var b strings.Builder
		for _, r := range w {
			if unicode.IsLetter(r) || unicode.IsDigit(r) {
				b.WriteRune(r)
			} else {
				fmt.Fprintf(&b, `\x{%x}`, r)
			}
		}
		words[i] = b.String()
	}
	return `(?i)` + strings.Join(words, `[\s\v\x{85}\p{Z}]+`)
}

// parseText reads what follows text=: quoted, it must be a whole text node; else any text that holds it, in the
// smallest element.
func parseText(s string) (part, error) {
	var match func(*html.Node) bool
	switch {
	case s != "" && (s[0] == '"' || s[0] == '\''):
		text, n, err := quoted(s)
		if err != nil || n != len(s) {
			return nil, errors.New(`text= is not closed — fix: write text="…"`)
		}
		want := spaced(text)
		match = func(n *html.Node) bool {
			return slices.Contains(ownTexts(n), want)
		}
	case len(s) > 1 && s[0] == '/':
		re, err := parseRegexp(s)
		if err != nil {
			return nil, err
		}
		match = func(n *html.Node) bool { return re.MatchString(shownText(n)) }
	default:
		want := strings.ToLower(spaced(s))
		match = func(n *html.Node) bool { return strings.Contains(strings.ToLower(shownText(n)), want) }
	}
	return matching(func(_ *page, n *html.Node) bool {
		if n.DataAtom == atom.Script || n.DataAtom == atom.Style || n.DataAtom == atom.Head || !match(n) {
			return false
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			if c.Type == html.ElementNode && match(c) {
				return false
			}
		}
		return true
	}), nil
}

// parseRegexp reads /pattern/flags.
func parseRegexp(s string) (*regexp.Regexp, error) {
	i := strings.LastIndexByte(s, '/')
	flags := s[i+1:]
	if i == 0 || strings.Trim(flags, "imsu") != "" {
		return nil, fmt.Errorf("%q is no pattern — fix: write /…/ or /…/i", s)
	}
	pattern := s[1:i]
	if f := strings.ReplaceAll(flags, "u", ""); f != "" {
		pattern = "(?" + f + ")" + pattern
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("the pattern %q: %w — %s", s, err, browserOnly)
	}
	return re, nil
}

func spaced(s string) string { return strings.Join(strings.Fields(s), " ") }

// shownText is an element's text as Playwright compares it: a button of an <input> reads as its value.
func shownText(n *html.Node) string {
	if n.DataAtom == atom.Input {
		switch strings.ToLower(attr(n, "type")) {
		case "submit", "button":
			return spaced(attr(n, "value"))
		}
	}
	var b strings.Builder
	walk(n, func(c *html.Node) bool {
		if c.Type == html.TextNode {
			b.WriteString(c.Data)
		}
		return c.DataAtom != atom.Script && c.DataAtom != atom.Style && c.DataAtom != atom.Template
	})
	return spaced(b.String())
}

// ownTexts gives the runs of text directly in n.
func ownTexts(n *html.Node) []string {
	if n.DataAtom == atom.Input {
		return []string{shownText(n)}
	}
	var texts []string
	var run strings.Builder
	flush := func() {
		if run.Len() > 0 {
			texts = append(texts, spaced(run.String()))
			run.Reset()
		}
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		switch c.Type {
		case html.TextNode:
			run.WriteString(c.Data)
		case html.ElementNode:
			flush()
		}
	}
	flush()
	return texts
}
