package web

import (
	"bytes"
	"fmt"
	"mime"
	"net/url"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"golang.org/x/net/html/charset"

	"amnesia/pkg/memory"
)

// page is one loaded document. It is read when something on it is first asked for: of many pages a script only wants
// the address. Every document is a tree: what is no HTML stands in a <pre>, as browsers show it.
type page struct {
	url    *url.URL
	base   *url.URL // what addresses on it are relative to; known once it has been read
	kind   string   // the content type that came with it
	body   []byte
	doc    *html.Node
	bad    error // why it could not be read
	status int
	began  memory.Instant
	ended  memory.Instant
	typed  map[*html.Node]string // what was filled in
	ids    map[string]*html.Node // made when first asked for
}

func newPage(u *url.URL, contentType string, body []byte) *page {
	return &page{url: u, base: u, kind: contentType, body: body, typed: map[*html.Node]string{}}
}

// tree gives the document. One that cannot be read is empty, and find says why.
func (p *page) tree() *html.Node {
	if p.doc == nil {
		p.doc, p.bad = parse(p.kind, p.body)
		if b := first(p.doc, func(n *html.Node) bool { return n.DataAtom == atom.Base && has(n, "href") }); b != nil {
			if base, err := p.url.Parse(attr(b, "href")); err == nil {
				p.base = base
			}
		}
	}
	return p.doc
}

// text gives the document as HTML in UTF-8: as it came, if it can be, for that costs nothing.
func (p *page) text() (string, error) {
	if _, name, _ := charset.DetermineEncoding(p.body, p.kind); name == "utf-8" && isHTML(p.kind, p.body) {
		return string(p.body), nil
	}
	var b strings.Builder
	err := html.Render(&b, p.tree())
	return b.String(), err
}

// parse reads a document. A body that claims no type is taken for HTML when it looks like it.
func parse(contentType string, body []byte) (*html.Node, error) {
	empty := &html.Node{Type: html.DocumentNode}
	if !isHTML(contentType, body) {
		pre := &html.Node{Type: html.ElementNode, Data: "pre", DataAtom: atom.Pre}
		pre.AppendChild(&html.Node{Type: html.TextNode, Data: string(body)})
		b := &html.Node{Type: html.ElementNode, Data: "body", DataAtom: atom.Body}
		b.AppendChild(pre)
		empty.AppendChild(b)
		return empty, nil
	}
	r, err := charset.NewReader(bytes.NewReader(body), contentType)
	if err != nil {
		return empty, fmt.Errorf("reading the page: %w", err)
	}
	// Without scripting, the contents of <noscript> are elements like any others.
	doc, err := html.ParseWithOptions(r, html.ParseOptionEnableScripting(false))
	if err != nil {
		return empty, fmt.Errorf("reading the page: %w", err)
	}
	return doc, nil
}

func isHTML(contentType string, body []byte) bool {
	kind, _, _ := mime.ParseMediaType(contentType)
	switch kind {
	case "text/html", "application/xhtml+xml":
		return true
	case "":
		return bytes.HasPrefix(bytes.TrimSpace(body), []byte("<"))
	}
	return false
}

// find gives the elements that the selector matches, in the order of the document.
func (p *page) find(selector string) ([]*html.Node, error) {
	s, err := parseSelector(selector)
	if err != nil {
		return nil, err
	}
	if p.tree(); p.bad != nil {
		return nil, p.bad
	}
	return s.all(p), nil
}

// byID gives the element with that id.
func (p *page) byID(id string) *html.Node {
	if p.ids == nil {
		p.ids = map[string]*html.Node{}
		walk(p.tree(), func(n *html.Node) bool {
			if id := attr(n, "id"); id != "" && p.ids[id] == nil {
				p.ids[id] = n
			}
			return true
		})
	}
	return p.ids[id]
}

// seen is what a person reads on the page.
func (p *page) seen() string {
	var b strings.Builder
	walk(p.tree(), func(n *html.Node) bool {
		if n.Type == html.ElementNode && !shown(n) {
			return false
		}
		if n.Type == html.TextNode {
			b.WriteString(n.Data)
			b.WriteByte(' ')
		}
		return true
	})
	return strings.Join(strings.Fields(b.String()), " ")
}

// walk visits n and what is below it, in the order of the document; where fn says false it goes no deeper.
func walk(n *html.Node, fn func(*html.Node) bool) {
	if !fn(n) {
		return
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		walk(c, fn)
	}
}

// first gives the first element below n for which ok holds.
func first(n *html.Node, ok func(*html.Node) bool) (found *html.Node) {
	walk(n, func(n *html.Node) bool {
		if found == nil && n.Type == html.ElementNode && ok(n) {
			found = n
		}
		return found == nil
	})
	return found
}

func attr(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key && a.Namespace == "" {
			return a.Val
		}
	}
	return ""
}

func has(n *html.Node, key string) bool {
	for _, a := range n.Attr {
		if a.Key == key && a.Namespace == "" {
			return true
		}
	}
	return false
}

func setAttr(n *html.Node, key, val string) {
	for i, a := range n.Attr {
		if a.Key == key && a.Namespace == "" {
			n.Attr[i].Val = val
			return
		}
	}
	n.Attr = append(n.Attr, html.Attribute{Key: key, Val: val})
}

func dropAttr(n *html.Node, key string) {
	for i, a := range n.Attr {
		if a.Key == key && a.Namespace == "" {
			n.Attr = append(n.Attr[:i], n.Attr[i+1:]...)
			return
		}
	}
}

// textContent is that of the DOM: all text below n, except that of templates, which are not part of the document.
func textContent(n *html.Node) string {
	if c := n.FirstChild; c != nil && c.NextSibling == nil && c.Type == html.TextNode {
		return c.Data
	}
	var b strings.Builder
	walk(n, func(n *html.Node) bool {
		if n.Type == html.TextNode {
			b.WriteString(n.Data)
		}
		return n.DataAtom != atom.Template
	})
	return b.String()
}

// visible reports whether a person could see the element, as far as that can be told without styles: nothing around it
// is hidden, and there is something in it to see.
func visible(n *html.Node) bool {
	for a := n; a != nil; a = a.Parent {
		if a.Type != html.ElementNode {
			continue
		}
		if !shown(a) {
			return false
		}
		if d := a.Parent; d != nil && d.DataAtom == atom.Details && !has(d, "open") && a.DataAtom != atom.Summary {
			return false
		}
	}
	return paints(n)
}

// shown reports whether the element itself is not hidden.
func shown(n *html.Node) bool {
	switch n.DataAtom {
	case atom.Head, atom.Script, atom.Style, atom.Template, atom.Datalist, atom.Title, atom.Meta, atom.Link, atom.Base:
		return false
	case atom.Input:
		if strings.EqualFold(attr(n, "type"), "hidden") {
			return false
		}
	case atom.Dialog:
		if !has(n, "open") {
			return false
		}
	}
	if has(n, "hidden") {
		return false
	}
	style := attr(n, "style")
	if style == "" {
		return true
	}
	for decl := range strings.SplitSeq(strings.ToLower(style), ";") {
		k, v, _ := strings.Cut(decl, ":")
		switch v, _, _ = strings.Cut(strings.TrimSpace(v), "!"); strings.TrimSpace(k) + ":" + strings.TrimSpace(v) {
		case "display:none", "visibility:hidden", "visibility:collapse":
			return false
		}
	}
	return true
}

// paints reports whether there is something to see in n: an empty element has no size.
func paints(n *html.Node) bool {
	switch n.DataAtom {
	case atom.Input, atom.Textarea, atom.Select, atom.Button, atom.Img, atom.Svg, atom.Video, atom.Audio, atom.Canvas,
		atom.Iframe, atom.Object, atom.Embed, atom.Hr, atom.Progress, atom.Meter, atom.Option:
		return true
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if c.Type == html.TextNode && strings.TrimSpace(c.Data) != "" {
			return true
		}
		if c.Type == html.ElementNode && shown(c) && paints(c) {
			return true
		}
	}
	return false
}

// ancestor gives the closest element that is n or around it and of that kind.
func ancestor(n *html.Node, kind atom.Atom) *html.Node {
	for ; n != nil; n = n.Parent {
		if n.DataAtom == kind {
			return n
		}
	}
	return nil
}
