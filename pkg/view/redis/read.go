package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

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
	first any    // of them
	last  string // list: the last element, stream: the id of the last entry
	scan  uint64 // hash, set, sorted set
	tries int
}

func (v *View) cursors(rs []*view.Reading) []*cursor {
	out := make([]*cursor, len(rs))
	for i, r := range rs {
		out[i] = &cursor{Reading: r, key: v.key(r.User())}
	}
	return out
}

// again begins anew, which forgets what was found.
func (c *cursor) again() {
	*c = cursor{Reading: c.Reading, key: c.key, tries: c.tries + 1}
	c.Restart()
}

// question is what is asked of one key in one exchange. Nil is what is not asked.
type question struct {
	c    *cursor
	kind *redis.StatusCmd
	ttl  *redis.DurationCmd
	page redis.Cmder
	of   string // the type that page is for
	n    int    // the records that page may have
}

// follow reads the keys to their ends, all that are left in one exchange at a time, and ends their readings.
func (v *View) follow(ctx context.Context, client *redis.Client, left []*cursor) {
	for len(left) > 0 {
		pipe := client.Pipeline()
		asked := make([]question, len(left))
		for i, c := range left {
			asked[i] = v.ask(ctx, pipe, c, max(least, v.cfg.Page/len(left)))
		}
		// Each answer has its own error, but for a connection that could not even be opened: then all are empty.
		cmds, err := pipe.Exec(ctx)
		if slices.ContainsFunc(cmds, func(c redis.Cmder) bool { return c.Err() != nil }) {
			err = nil
		}
		left = nil
		for _, q := range asked {
			if err != nil {
				q.c.End(v.explain(ctx, q.c.key, err))
				continue
			}
			switch more, err := v.take(q); {
			case err != nil:
				q.c.End(v.explain(ctx, q.c.key, err))
			case more:
				left = append(left, q.c)
			default:
				if q.c.Missing() > 0 {
					q.c.Note(q.c.summary())
				}
				q.c.End(context.Cause(ctx))
			}
		}
	}
}

// ask puts the next question about a key. The first one is a guess, since users' keys are of one type.
func (v *View) ask(ctx context.Context, pipe redis.Pipeliner, c *cursor, n int) question {
	q := question{c: c, of: c.kind, n: n}
	if c.odd {
		q.kind = pipe.Type(ctx, c.key)
		return q
	}
	if c.kind == "" {
		q.of, q.ttl = v.last.Load().(string), pipe.PTTL(ctx, c.key)
	}
	switch q.of {
	case "list":
		from := int64(max(0, c.read-1)) // the last one once more, to see that the list has not moved
		q.page = pipe.LRange(ctx, c.key, from, from+int64(n)-1)
	case "string":
		q.page = pipe.GetRange(ctx, c.key, 0, v.cfg.MaxString)
	case "hash":
		q.page = pipe.HScan(ctx, c.key, c.scan, "", int64(n))
	case "set":
		q.page = pipe.SScan(ctx, c.key, c.scan, "", int64(n))
	case "zset":
		q.page = pipe.ZScan(ctx, c.key, c.scan, "", int64(n))
	case "stream":
		from := "-"
		if c.last != "" {
			from = "(" + c.last
		}
		q.page = pipe.XRangeN(ctx, c.key, from, "+", int64(n))
	}
	return q
}

// take reads an answer and reports whether there is more to ask.
func (v *View) take(q question) (more bool, err error) {
	c := q.c
	if q.kind != nil {
		return v.known(c, q.kind)
	}
	if q.ttl != nil {
		left, err := q.ttl.Result()
		switch {
		case err != nil:
			return false, err
		case left == -2: // go-redis gives these two as they are
			c.kind = "none"
			return false, nil
		case left == -1:
			c.ttl = -1
		default:
			c.ttl = max(1, left.Milliseconds()) // 0 would say that it has none
		}
	}
	switch err := q.page.Err(); {
	case redis.HasErrorPrefix(err, "WRONGTYPE") && c.kind == "":
		c.odd = true
		return true, nil
	case redis.HasErrorPrefix(err, "WRONGTYPE"):
		return v.moved(c)
	case err != nil:
		return false, err
	}
	c.kind = q.of
	switch page := q.page.(type) {
	case *redis.StringSliceCmd:
		return v.list(c, page.Val(), q.n)
	case *redis.StringCmd:
		text := page.Val()
		if int64(len(text)) > v.cfg.MaxString {
			return false, &contentError{fmt.Sprintf("it is longer than %d bytes — fix: raise the limit, or let old memories retire", v.cfg.MaxString)}
		}
		c.text("value", text)
		return false, nil
	case *redis.ScanCmd:
		var items []string
		items, c.scan = page.Val()
		c.scanned(items)
		return c.scan != 0, nil
	case *redis.XMessageSliceCmd:
		for _, entry := range page.Val() {
			c.last = entry.ID
			c.note(entry.Values)
			c.walk(entry.ID, entry.Values, false)
		}
		return len(page.Val()) == q.n, nil
	}
	return false, errors.New("no answer of a known kind")
}

// known takes the type of a key.
func (v *View) known(c *cursor, kind *redis.StatusCmd) (more bool, err error) {
	c.odd = false
	switch kind.Val() {
	case "list", "string", "hash", "set", "zset", "stream":
		c.kind = kind.Val()
		v.last.Store(c.kind)
		return true, nil
	case "none":
		return v.moved(c)
	}
	if err := kind.Err(); err != nil {
		return false, err
	}
	return false, &contentError{fmt.Sprintf("it is of the type %s, which is not read here — fix: check the view's key", kind.Val())}
}

// list takes a page of a list. Its places move when something is pushed or trimmed at its head, so each page begins with
// the last element of the one before it: when that is another one now, the list is read anew.
func (v *View) list(c *cursor, page []string, n int) (more bool, err error) {
	full := len(page) == n
	if c.read > 0 {
		if len(page) == 0 || page[0] != c.last {
			return v.moved(c)
		}
		page = page[1:]
	}
	for _, text := range page {
		c.text("", text)
		c.last = text
	}
	return full, nil
}

func (v *View) moved(c *cursor) (more bool, err error) {
	const most = 10
	if c.tries == most {
		return false, &contentError{fmt.Sprintf("it changed under each of %d reads", most+1)}
	}
	c.again()
	return true, nil
}

// scanned takes what a scan gives, in which an item may come twice.
func (c *cursor) scanned(items []string) {
	if c.kind == "set" {
		for _, text := range items {
			c.text(text, text)
		}
		return
	}
	for i := 0; i+1 < len(items); i += 2 {
		key, text := items[i], items[i+1] // of a hash; of a sorted set member and score
		if c.kind == "zset" {
			text = key
		}
		c.text(key, text)
	}
}

// summary says what the key is, for the person who misses something in it.
func (c *cursor) summary() string {
	if c.kind == "none" {
		return "there is no key " + c.key
	}
	const most = 80 // bytes of the first that help a person
	first := fmt.Sprint(c.first)
	return fmt.Sprintf("the %s %s has %d records, the first: %q", c.kind, c.key, c.read, first[:min(most, len(first))])
}
