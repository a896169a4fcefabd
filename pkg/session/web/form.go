package web

import (
	"bytes"
	"errors"
	"fmt"
	"mime/multipart"
	"net/textproto"
	"net/url"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// errScript says that only the page's script could do what was asked.
var errScript = errors.New("nothing happens there without the page's script — fix: use request steps, or driver: browser")

// entry is one name and value of a form.
type entry struct {
	name, value string
	file        bool
}

// form gives the form that the control belongs to: by its form attribute, or the closest around it.
func (p *page) form(n *html.Node) *html.Node {
	if id := attr(n, "form"); has(n, "form") {
		if f := p.byID(id); f != nil && f.DataAtom == atom.Form {
			return f
		}
		return nil
	}
	return ancestor(n, atom.Form)
}

// controls gives the controls of a form, in the order of the document.
func (p *page) controls(form *html.Node) (out []*html.Node) {
	walk(p.tree(), func(n *html.Node) bool {
		switch n.DataAtom {
		case atom.Input, atom.Button, atom.Select, atom.Textarea:
			if p.form(n) == form {
				out = append(out, n)
			}
		case atom.Template, atom.Datalist:
			return false
		}
		return true
	})
	return out
}

// disabled reports whether the control is, by itself or by what is around it
// (https://html.spec.whatwg.org/#concept-fe-disabled); of a link, whether it says so.
func disabled(n *html.Node) bool {
	switch n.DataAtom {
	case atom.Option:
		return has(n, "disabled") || n.Parent != nil && n.Parent.DataAtom == atom.Optgroup && has(n.Parent, "disabled")
	case atom.Input, atom.Button, atom.Select, atom.Textarea, atom.Fieldset:
	default:
		return attr(n, "aria-disabled") == "true"
	}
	if has(n, "disabled") {
		return true
	}
	for c := n; c.Parent != nil; c = c.Parent {
		f := c.Parent
		if f.DataAtom == atom.Fieldset && has(f, "disabled") && c != firstLegend(f) {
			return true
		}
	}
	return false
}

func firstLegend(f *html.Node) *html.Node {
	for c := f.FirstChild; c != nil; c = c.NextSibling {
		if c.DataAtom == atom.Legend {
			return c
		}
	}
	return nil
}

// inputType gives the type of an <input>, text where it says none.
func inputType(n *html.Node) string {
	if t := strings.ToLower(strings.TrimSpace(attr(n, "type"))); t != "" {
		return t
	}
	return "text"
}

// submits reports whether the control submits its form.
func submits(n *html.Node) bool {
	switch n.DataAtom {
	case atom.Button:
		t := strings.ToLower(attr(n, "type"))
		return t != "button" && t != "reset"
	case atom.Input:
		t := inputType(n)
		return t == "submit" || t == "image"
	}
	return false
}

// value gives what stands in a field.
func (p *page) value(n *html.Node) string {
	if v, ok := p.typed[n]; ok {
		return v
	}
	if n.DataAtom == atom.Textarea {
		return textContent(n)
	}
	return attr(n, "value")
}

// entries is the form's entry list (https://html.spec.whatwg.org/#constructing-the-form-data-set).
func (p *page) entries(form, submitter *html.Node) (out []entry) {
	for _, n := range p.controls(form) {
		name := attr(n, "name")
		if disabled(n) || ((n.DataAtom == atom.Button || submits(n)) && n != submitter) {
			continue
		}
		switch n.DataAtom {
		case atom.Select:
			if name != "" {
				for _, o := range selected(n) {
					out = append(out, entry{name: name, value: optionValue(o)})
				}
			}
			continue
		case atom.Input:
			switch inputType(n) {
			case "checkbox", "radio":
				if !has(n, "checked") || name == "" {
					continue
				}
				v := "on"
				if has(n, "value") {
					v = attr(n, "value")
				}
				out = append(out, entry{name: name, value: v})
				continue
			case "image":
				prefix := ""
				if name != "" {
					prefix = name + "."
				}
				out = append(out, entry{name: prefix + "x", value: "0"}, entry{name: prefix + "y", value: "0"})
				continue
			case "button", "reset":
				continue
			case "file":
				if name != "" {
					out = append(out, entry{name: name, file: true})
				}
				continue
			case "hidden":
				if strings.EqualFold(name, "_charset_") {
					out = append(out, entry{name: name, value: "UTF-8"})
					continue
				}
			}
		}
		if name != "" {
			out = append(out, entry{name: name, value: p.value(n)})
		}
	}
	return out
}

// selected gives the chosen options; a plain drop-down without a choice shows its first option.
func selected(n *html.Node) (out []*html.Node) {
	opts := options(n)
	multiple := has(n, "multiple")
	for _, o := range opts {
		if has(o, "selected") {
			if !multiple {
				out = out[:0] // of several, the last one counts
			}
			out = append(out, o)
		}
	}
	if len(out) == 0 && !multiple {
		for _, o := range opts {
			if !disabled(o) {
				return []*html.Node{o}
			}
		}
	}
	live := out[:0]
	for _, o := range out {
		if !disabled(o) {
			live = append(live, o)
		}
	}
	return live
}

func options(n *html.Node) (out []*html.Node) {
	walk(n, func(c *html.Node) bool {
		if c.DataAtom == atom.Option {
			out = append(out, c)
		}
		return true
	})
	return out
}

func optionValue(o *html.Node) string {
	if has(o, "value") {
		return attr(o, "value")
	}
	return spaced(textContent(o))
}

var crlf = strings.NewReplacer("\r\n", "\r\n", "\r", "\r\n", "\n", "\r\n")

// submission is the request that submitting the form sends; submitter may be nil.
func (p *page) submission(form, submitter *html.Node) (*outgoing, error) {
	own := func(key, formKey string) string {
		if submitter != nil && has(submitter, formKey) {
			return attr(submitter, formKey)
		}
		return attr(form, key)
	}
	action := strings.TrimSpace(own("action", "formaction"))
	to := p.url // an empty action is the page's own address, and not its base
	if action != "" {
		var err error
		if to, err = p.base.Parse(action); err != nil {
			return nil, fmt.Errorf("the form's action %q: %w", action, err)
		}
	}
	if to.Scheme != "http" && to.Scheme != "https" {
		return nil, errScript
	}
	to = &url.URL{Scheme: to.Scheme, User: to.User, Host: to.Host, Path: to.Path, RawPath: to.RawPath, RawQuery: to.RawQuery}
	list := p.entries(form, submitter)
	for i := range list {
		list[i].name, list[i].value = crlf.Replace(list[i].name), crlf.Replace(list[i].value)
	}
	switch strings.ToLower(own("method", "formmethod")) {
	case "post":
	case "dialog":
		return nil, errScript
	default:
		to.RawQuery = urlencode(list)
		return &outgoing{method: "GET", url: to, referer: p.url}, nil
	}
	o := &outgoing{method: "POST", url: to, referer: p.url}
	switch strings.ToLower(own("enctype", "formenctype")) {
	case "multipart/form-data":
		return o, o.multipart(list)
	case "text/plain":
		var b bytes.Buffer
		for _, e := range list {
			fmt.Fprintf(&b, "%s=%s\r\n", e.name, e.value)
		}
		o.body, o.kind = b.Bytes(), "text/plain"
	default:
		o.body, o.kind = []byte(urlencode(list)), "application/x-www-form-urlencoded"
	}
	return o, nil
}

// urlencode keeps the order of the entries, which url.Values would not.
func urlencode(list []entry) string {
	var b strings.Builder
	for i, e := range list {
		if i > 0 {
			b.WriteByte('&')
		}
		b.WriteString(url.QueryEscape(e.name) + "=" + url.QueryEscape(e.value))
	}
	return b.String()
}

func (o *outgoing) multipart(list []entry) error {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	quote := strings.NewReplacer("\r\n", "%0D%0A", `"`, "%22")
	for _, e := range list {
		h := textproto.MIMEHeader{}
		disposition := `form-data; name="` + quote.Replace(e.name) + `"`
		if e.file { // a file field that was left empty
			disposition += `; filename=""`
			h.Set("Content-Type", "application/octet-stream")
		}
		h.Set("Content-Disposition", disposition)
		part, err := w.CreatePart(h)
		if err != nil {
			return err
		}
		if _, err := part.Write([]byte(e.value)); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	o.body, o.kind = b.Bytes(), w.FormDataContentType()
	return nil
}

// follow is the request that a click on the element sends. No request and no error: the click changed the page alone.
func (p *page) follow(n *html.Node) (*outgoing, error) {
	for ; n != nil; n = n.Parent {
		switch n.DataAtom {
		case atom.A, atom.Area:
			if has(n, "href") {
				return p.link(attr(n, "href"))
			}
		case atom.Button, atom.Input:
			return p.press(n)
		case atom.Label:
			if c := p.labelled(n); c != nil {
				return p.press(c)
			}
		case atom.Summary:
			if d := n.Parent; d != nil && d.DataAtom == atom.Details {
				toggle(d, "open")
				return nil, nil
			}
		}
	}
	return nil, errScript
}

func (p *page) link(href string) (*outgoing, error) {
	to, err := p.base.Parse(strings.TrimSpace(href))
	if err != nil {
		return nil, fmt.Errorf("the link %q: %w", href, err)
	}
	if (to.Scheme != "http" && to.Scheme != "https") || strings.HasPrefix(strings.TrimSpace(href), "#") {
		return nil, errScript
	}
	return &outgoing{method: "GET", url: to, referer: p.url}, nil
}

// labelled gives the control of a label.
func (p *page) labelled(l *html.Node) *html.Node {
	if has(l, "for") {
		return p.byID(attr(l, "for"))
	}
	return first(l, func(n *html.Node) bool {
		return n.DataAtom == atom.Button || n.DataAtom == atom.Textarea || n.DataAtom == atom.Select ||
			n.DataAtom == atom.Input && inputType(n) != "hidden"
	})
}

// press is a click on a control.
func (p *page) press(n *html.Node) (*outgoing, error) {
	if disabled(n) {
		return nil, errDisabled
	}
	if submits(n) {
		form := p.form(n)
		if form == nil {
			return nil, errScript
		}
		return p.submission(form, n)
	}
	if n.DataAtom != atom.Input {
		if n.DataAtom == atom.Button {
			return nil, errScript
		}
		return nil, nil // a click into a field gives it the focus
	}
	switch inputType(n) {
	case "checkbox":
		toggle(n, "checked")
	case "radio":
		for _, o := range p.controls(p.form(n)) {
			if o.DataAtom == atom.Input && inputType(o) == "radio" && attr(o, "name") == attr(n, "name") {
				dropAttr(o, "checked")
			}
		}
		setAttr(n, "checked", "")
	case "button", "reset":
		return nil, errScript
	}
	return nil, nil
}

var errDisabled = errors.New("it is disabled")

func toggle(n *html.Node, key string) {
	if has(n, key) {
		dropAttr(n, key)
	} else {
		setAttr(n, key, "")
	}
}

// enter is what Enter in the element sends (https://html.spec.whatwg.org/#implicit-submission).
func (p *page) enter(n *html.Node) (*outgoing, error) {
	if n.DataAtom == atom.A || n.DataAtom == atom.Button || submits(n) {
		return p.follow(n)
	}
	form := p.form(n)
	if n.DataAtom != atom.Input || form == nil {
		return nil, errScript
	}
	blocking := 0
	for _, c := range p.controls(form) {
		if submits(c) {
			if disabled(c) {
				return nil, fmt.Errorf("the form's button: %w", errDisabled)
			}
			return p.submission(form, c)
		}
		if c.DataAtom == atom.Input && textField(c) {
			blocking++
		}
	}
	if blocking > 1 {
		return nil, errScript
	}
	return p.submission(form, nil)
}

// textField reports whether an <input> takes typed text.
func textField(n *html.Node) bool {
	switch inputType(n) {
	case "hidden", "checkbox", "radio", "submit", "image", "button", "reset", "file", "range", "color":
		return false
	}
	return true
}
