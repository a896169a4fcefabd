package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"amnesia/pkg/view"
)

// contentError is a key that was read and cannot be what the view is about, or did not hold still.
type contentError struct{ what string }

func (e *contentError) Error() string { return e.what }

// cursor is how far the reading of one key has come.
type cursor struct {
	*view.Reading
	key  string
	kind string // as TYPE says; "" until it is known
	odd  bool   // it is of another type than was guessed
	ttl  int64  // as in memory.Observation

	read  int    // records so far
	first []byte // of them, its beginning
	last  string // list: the last element; stream: the id of the last entry
	scan  string // hash, set, sorted set
	tries int
	ended bool
}

func (c *cursor) end(err error) {
	c.End(err)
	c.ended = true
}

func (v *View) cursors(rs []*view.Reading) []*cursor {
	out := make([]*cursor, len(rs))
	for i, r := range rs {
		out[i] = &cursor{Reading: r, key: v.key(r.User()), scan: "0"}
	}
	return out
}

// again begins anew, which forgets what was found.
func (c *cursor) again() {
	*c = cursor{Reading: c.Reading, key: c.key, scan: "0", tries: c.tries + 1}
	c.Restart()
}

// question is what is asked of one key in one exchange.
type question struct {
	c    *cursor
	kind bool   // which type it is, and nothing else
	ttl  bool   // its time to live, before the page
	of   string // the type that the page is for
	n    int    // the records that the page may have
}

// exchanges is one connection and what is needed to look at what comes through it.
type exchanges struct {
	*View
	*conn
	doc   document
	nth   []byte // which record it is, as its key
	field []byte // of a hash
}

// follow reads the keys to their ends, all that are left in one exchange at a time, and ends their readings. An error is
// the connection's, and leaves some of them unended.
func (x *exchanges) follow(ctx context.Context, left []*cursor) error {
	for len(left) > 0 {
		asked := make([]question, len(left))
		for i, c := range left {
			asked[i] = x.question(c, max(least, x.cfg.Page/len(left)))
		}
		if err := x.send(); err != nil {
			return err
		}
		left = nil
		for _, q := range asked {
			more, err := x.take(q)
			var reply replyError
			var content *contentError
			switch {
			case errors.As(err, &reply) || errors.As(err, &content):
				q.c.end(x.explain(ctx, q.c.key, err))
			case err != nil:
				return err
			case more:
				left = append(left, q.c)
			default:
				if q.c.Missing() > 0 {
					q.c.Note(q.c.summary())
				}
				q.c.end(context.Cause(ctx))
			}
		}
	}
	return nil
}

// question puts the next question about a key. The first one is a guess, since users' keys are of one type.
func (x *exchanges) question(c *cursor, n int) question {
	q := question{c: c, of: c.kind, n: n}
	if c.odd {
		q.kind = true
		x.ask("TYPE", c.key)
		return q
	}
	if c.kind == "" {
		q.of, q.ttl = x.last.Load().(string), true
		x.ask("PTTL", c.key)
	}
	count := strconv.Itoa(n)
	switch q.of {
	case "list":
		from := max(0, c.read-1) // the last one once more, to see that the list has not moved
		x.ask("LRANGE", c.key, strconv.Itoa(from), strconv.Itoa(from+n-1))
	case "string":
		x.ask("GETRANGE", c.key, "0", strconv.FormatInt(x.cfg.MaxString, 10))
	case "hash":
		x.ask("HSCAN", c.key, c.scan, "COUNT", count)
	case "set":
		x.ask("SSCAN", c.key, c.scan, "COUNT", count)
	case "zset":
		x.ask("ZSCAN", c.key, c.scan, "COUNT", count)
	case "stream":
		from := "-"
		if c.last != "" {
			from = "(" + c.last
		}
		x.ask("XRANGE", c.key, from, "+", "COUNT", count)
	}
	return q
}

// take reads an answer and reports whether there is more to ask.
func (x *exchanges) take(q question) (more bool, err error) {
	c := q.c
	if q.kind {
		return x.known(c)
	}
	gone := error(nil)
	if q.ttl {
		left, err := x.number(':')
		var reply replyError
		switch {
		case errors.As(err, &reply):
			gone = err
		case err != nil:
			return false, err
		case left == -2:
			c.kind = "none"
		case left == -1:
			c.ttl = -1
		default:
			c.ttl = max(1, int64(left)) // 0 would say that it has none
		}
	}
	if gone != nil || c.kind == "none" {
		// The other answer comes all the same. What has come into being in between was not there when the read began.
		if err := x.skip(q.of); err != nil {
			return false, err
		}
		return false, gone
	}
	was := c.kind
	c.kind = q.of
	more, err = x.page(q)
	switch {
	case says(err, "WRONGTYPE") && was == "":
		c.kind, c.odd = "", true
		return true, nil
	case says(err, "WRONGTYPE"):
		return c.moved()
	}
	return more, err
}

// page takes the records of an answer.
func (x *exchanges) page(q question) (more bool, err error) {
	c := q.c
	switch q.of {
	case "list":
		return x.elements(c, q.n)
	case "string":
		text, err := x.text()
		if err != nil {
			return false, err
		}
		if int64(len(text)) > x.cfg.MaxString {
			return false, &contentError{fmt.Sprintf("it is longer than %d bytes — fix: raise the limit, or let old memories retire", x.cfg.MaxString)}
		}
		x.look(c, []byte("value"), text)
		return false, nil
	case "stream":
		return x.entries(c, q.n)
	}
	return x.scanned(c)
}

// skip reads over a page, or over the error in its place.
func (x *exchanges) skip(of string) error {
	_, err := x.page(question{c: &cursor{}, of: of})
	var reply replyError
	var content *contentError
	if errors.As(err, &reply) || errors.As(err, &content) {
		return nil
	}
	return err
}

// known takes the type of a key.
func (x *exchanges) known(c *cursor) (more bool, err error) {
	kind, err := x.line('+')
	if err != nil {
		return false, err
	}
	c.odd = false
	switch kind := string(kind); kind {
	case "list", "string", "hash", "set", "zset", "stream":
		c.kind = kind
		x.last.Store(kind)
		return true, nil
	case "none":
		return c.moved()
	default:
		return false, &contentError{fmt.Sprintf("it is of the type %s, which is not read here — fix: check the view's key", kind)}
	}
}

func (c *cursor) moved() (more bool, err error) {
	const most = 10
	if c.tries == most {
		return false, &contentError{fmt.Sprintf("it changed under each of %d reads", most+1)}
	}
	c.again()
	return true, nil
}

// elements takes a page of a list. Its places move when something is pushed or trimmed at its head, so each page begins
// with the last element of the one before it: when that is another one now, the list is read anew.
func (x *exchanges) elements(c *cursor, n int) (more bool, err error) {
	again := c.read > 0 // the first one is known
	moved := again
	err = x.texts(func(i, of int, text []byte) {
		if i == 0 && again {
			moved = c.last != string(text)
			return
		}
		if moved {
			return
		}
		x.look(c, nil, text)
		if more = of == n; more && i == n-1 {
			c.last = string(text)
		}
	})
	if err == nil && moved {
		return c.moved()
	}
	return more, err
}

// scanned takes what a scan gives, in which an item may come twice.
func (x *exchanges) scanned(c *cursor) (more bool, err error) {
	n, err := x.list()
	if err != nil {
		return false, err
	}
	next, err := x.text()
	if err != nil || n != 2 {
		return false, within(err)
	}
	c.scan = string(next)
	err = x.texts(func(i, _ int, text []byte) {
		switch {
		case c.kind == "hash" && i%2 == 0:
			x.field = append(x.field[:0], text...)
		case c.kind == "hash":
			x.look(c, x.field, text)
		case c.kind == "set" || i%2 == 0: // of a sorted set, each second one is a score
			x.look(c, text, text)
		}
	})
	if err != nil {
		return false, within(err)
	}
	return c.scan != "0", nil
}

// entries takes a page of a stream.
func (x *exchanges) entries(c *cursor, n int) (more bool, err error) {
	of, err := x.list()
	for range of {
		if parts, err := x.list(); err != nil || parts != 2 {
			return false, within(err)
		}
		id, err := x.text()
		if err != nil {
			return false, within(err)
		}
		c.last = string(id)
		x.doc.begin()
		if err := x.texts(func(i, _ int, text []byte) { x.doc.piece(i, text) }); err != nil {
			return false, within(err)
		}
		c.note(x.doc.text)
		x.give(c, []byte(c.last))
	}
	return of == n, err
}

// note counts a record, and keeps the beginning of the first one.
func (c *cursor) note(record []byte) {
	const most = 80 // bytes that help a person
	if c.read++; c.read == 1 {
		c.first = slices.Clone(record[:min(most, len(record))])
	}
}

// summary says what the key is, for the person who misses something in it.
func (c *cursor) summary() string {
	if c.kind == "none" {
		return "there is no key " + c.key
	}
	return fmt.Sprintf("the %s %s has %d records, the first: %q", c.kind, c.key, c.read, c.first)
}
