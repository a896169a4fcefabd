package session

import "context"

// Inspector is a surface that also says what its page has, for whoever has yet to write a script for it.
type Inspector interface {
	Surface
	// Elements gives the elements that a person could act on, or is told something by, in the page's order, with the
	// roles and names that the browser gives to assistive technology.
	Elements(ctx context.Context) ([]Element, error)
	// Places says where the page shows each of some texts, which are like one another: one Place for each kind of element
	// that shows them all. A text is looked for by its mark, which nothing else on the page holds.
	Places(ctx context.Context, texts, marks []string) ([]Place, error)
	// Traffic gives what the page has requested since the last action, as far as that can be its doing.
	Traffic() []Exchange
	// Address is that of the page.
	Address() string
}

// Element is one element of a page.
type Element struct {
	Role     string // textbox, button, link, alert, …
	Name     string // accessible name
	Tag      string
	Type     string // of an input
	Field    string // its name in a form
	Selector string // that finds this element alone, and may be expected to after a reload; Playwright's
	Form     int    // the number of the form that it is in; -1: none
	Required bool
	Disabled bool
}

// Place is a kind of element that shows texts.
type Place struct {
	Selector string
	Exact    bool   // an element's text is the text, and nothing else
	Text     string // of the first of them, in short
}

// Exchange is one request of a page.
type Exchange struct {
	Method, URL string
	Kind        string // document, xhr, fetch, frame (of a WebSocket), …
	Status      int    // 0: no answer yet
	Ended       bool
}
