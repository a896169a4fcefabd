package web

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

var (
	roleSyntax = regexp.MustCompile(`^([a-z]+)\s*((?:\[.*\])?)$`)
	nameSyntax = regexp.MustCompile(`^\[\s*name\s*([*^$]?=)\s*(.*?)\s*\]$`)
)

// parseRole reads what follows role=: a role, and perhaps [name="…"], which is compared whole and with regard to case
// (with an i behind it, without). Like Playwright it finds only what is visible.
func parseRole(s string) (part, error) {
	m := roleSyntax.FindStringSubmatch(s)
	if m == nil {
		return nil, fmt.Errorf(`%q is no role — fix: write role=button[name="Send"]`, s)
	}
	role, named := m[1], func(string) bool { return true }
	if m[2] != "" {
		n := nameSyntax.FindStringSubmatch(m[2])
		if n == nil {
			return nil, fmt.Errorf(`of a role, only [name="…"] can be told without a browser, not %s — fix: use CSS, or driver: browser`, m[2])
		}
		var err error
		if named, err = parseName(n[1], n[2]); err != nil {
			return nil, err
		}
	}
	return matching(func(p *page, n *html.Node) bool {
		return roleOf(p, n) == role && visible(n) && !ariaHidden(n) && named(p.name(n))
	}), nil
}

func parseName(op, s string) (func(string) bool, error) {
	if strings.HasPrefix(s, "/") && op == "=" {
		re, err := parseRegexp(s)
		if err != nil {
			return nil, err
		}
		return re.MatchString, nil
	}
	want, n, err := quoted(s)
	if err != nil {
		return nil, fmt.Errorf("name: %w", err)
	}
	want = spaced(want)
	fold := func(s string) string { return s }
	switch strings.TrimSpace(s[n:]) {
	case "", "s":
	case "i":
		fold = strings.ToLower
	default:
		return nil, errors.New(`there is something behind the name — fix: write [name="Send"] or [name="send" i]`)
	}
	want = fold(want)
	var match func(s, want string) bool
	switch op {
	case "=":
		match = func(s, want string) bool { return s == want }
	case "*=":
		match = strings.Contains
	case "^=":
		match = strings.HasPrefix
	case "$=":
		match = strings.HasSuffix
	}
	return func(s string) bool { return match(fold(s), want) }, nil
}

func ariaHidden(n *html.Node) bool {
	for ; n != nil; n = n.Parent {
		if attr(n, "aria-hidden") == "true" {
			return true
		}
	}
	return false
}

// roleOf gives the element's role, its own or that of its kind (HTML-AAM, https://www.w3.org/TR/html-aam-1.0).
func roleOf(p *page, n *html.Node) string {
	if r, _, _ := strings.Cut(strings.TrimSpace(attr(n, "role")), " "); r != "" {
		return r
	}
	switch n.DataAtom {
	case atom.A, atom.Area:
		if has(n, "href") {
			return "link"
		}
	case atom.Input:
		return inputRole(n)
	case atom.Select:
		if has(n, "multiple") || (attr(n, "size") != "" && attr(n, "size") != "1") {
			return "listbox"
		}
		return "combobox"
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		return "heading"
	case atom.Form, atom.Section:
		if p.name(n) == "" {
			return ""
		}
		if n.DataAtom == atom.Form {
			return "form"
		}
		return "region"
	}
	return plainRoles(n.DataAtom)
}

func plainRoles(kind atom.Atom) string {
	switch kind {
	case atom.Button, atom.Dialog, atom.Main, atom.Table, atom.Article, atom.Option:
		return kind.String()
	case atom.Textarea:
		return "textbox"
	case atom.Ul, atom.Ol, atom.Menu:
		return "list"
	case atom.Li:
		return "listitem"
	case atom.Img:
		return "img"
	case atom.Nav:
		return "navigation"
	case atom.Aside:
		return "complementary"
	case atom.Header:
		return "banner"
	case atom.Footer:
		return "contentinfo"
	case atom.Tr:
		return "row"
	case atom.Td:
		return "cell"
	case atom.Th:
		return "columnheader"
	case atom.P:
		return "paragraph"
	case atom.Output:
		return "status"
	case atom.Progress:
		return "progressbar"
	case atom.Hr:
		return "separator"
	case atom.Fieldset, atom.Details:
		return "group"
	}
	return ""
}

func inputRole(n *html.Node) string {
	switch strings.ToLower(attr(n, "type")) {
	case "button", "submit", "reset", "image":
		return "button"
	case "checkbox":
		return "checkbox"
	case "radio":
		return "radio"
	case "range":
		return "slider"
	case "number":
		return "spinbutton"
	case "password", "hidden", "file", "color", "date", "datetime-local", "month", "time", "week":
		return ""
	case "search":
		if !has(n, "list") {
			return "searchbox"
		}
	}
	if has(n, "list") {
		return "combobox"
	}
	return "textbox"
}

// name gives the accessible name (https://www.w3.org/TR/accname-1.2), as far as it can be told without styles.
func (p *page) name(n *html.Node) string {
	if ids := strings.Fields(attr(n, "aria-labelledby")); len(ids) > 0 {
		var texts []string
		for _, id := range ids {
			if l := p.byID(id); l != nil {
				texts = append(texts, shownText(l))
			}
		}
		if s := spaced(strings.Join(texts, " ")); s != "" {
			return s
		}
	}
	if s := spaced(attr(n, "aria-label")); s != "" {
		return s
	}
	if s := p.ownName(n); s != "" {
		return s
	}
	if s := spaced(attr(n, "title")); s != "" {
		return s
	}
	return spaced(attr(n, "placeholder"))
}

// ownName gives the name that the element's kind provides: labels, values, alternatives, contents.
func (p *page) ownName(n *html.Node) string {
	switch n.DataAtom {
	case atom.Input:
		switch strings.ToLower(attr(n, "type")) {
		case "submit", "reset", "button":
			if v := spaced(attr(n, "value")); v != "" || strings.EqualFold(attr(n, "type"), "button") {
				return v
			}
			return strings.ToUpper(attr(n, "type")[:1]) + strings.ToLower(attr(n, "type")[1:])
		case "image":
			return spaced(attr(n, "alt"))
		}
		return p.label(n)
	case atom.Textarea, atom.Select:
		return p.label(n)
	case atom.Img, atom.Area:
		return spaced(attr(n, "alt"))
	case atom.Form, atom.Section, atom.Ul, atom.Ol, atom.Table, atom.Nav, atom.Main, atom.Dialog, atom.P, atom.Li:
		return ""
	}
	var b strings.Builder
	walk(n, func(c *html.Node) bool {
		switch {
		case c.Type == html.TextNode:
			b.WriteString(c.Data)
		case c.DataAtom == atom.Img:
			b.WriteString(" " + attr(c, "alt") + " ")
		case c != n && c.Type == html.ElementNode && (!shown(c) || attr(c, "aria-hidden") == "true"):
			return false
		}
		return true
	})
	return spaced(b.String())
}

// label gives the text of the labels of a field.
func (p *page) label(n *html.Node) string {
	var texts []string
	id := attr(n, "id")
	around := ancestor(n, atom.Label)
	walk(p.tree(), func(l *html.Node) bool {
		if l.DataAtom == atom.Label && (l == around && !has(l, "for") || id != "" && attr(l, "for") == id) {
			var b strings.Builder
			walk(l, func(c *html.Node) bool {
				if c.Type == html.TextNode {
					b.WriteString(c.Data)
				}
				return c.DataAtom != atom.Select && c.DataAtom != atom.Textarea && c.DataAtom != atom.Button
			})
			texts = append(texts, b.String())
		}
		return true
	})
	return spaced(strings.Join(texts, " "))
}
