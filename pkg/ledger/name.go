package ledger

import (
	"context"
	"encoding/json"
	"fmt"

	"amnesia/pkg/fact"
)

// maxNames bounds the names held in memory. Accounts and instances come and go over weeks, so the whole table may grow
// past what a daemon should hold; what falls out is looked up again.
const maxNames = 1 << 14

// names gives the numbers of strings to the writer, and new ones to new strings.
type names struct {
	find, add *stmt
	ids       map[string]int64
	next      int64
}

// reset forgets what a transaction that was rolled back may have added.
func (n *names) reset(ctx context.Context, c *conn) error {
	n.ids = map[string]int64{"": 0}
	last, err := c.number(ctx, "SELECT max(id) FROM name")
	n.next = last + 1
	return err
}

func (n *names) id(ctx context.Context, text string) (int64, error) {
	if id, ok := n.ids[text]; ok {
		return id, nil
	}
	r, err := n.find.query(ctx, text)
	if err != nil {
		return 0, err
	}
	found := r.next()
	id := n.next
	if found {
		id = r.int(0)
	}
	r.close()
	if r.err != nil {
		return 0, r.err
	}
	if !found {
		if err := n.add.exec(ctx, id, text); err != nil {
			return 0, err
		}
		n.next++
	}
	if len(n.ids) >= maxNames {
		clear(n.ids)
		n.ids[""] = 0
	}
	n.ids[text] = id
	return id, nil
}

// encoder gives numbers for one fact and keeps the first error, so that a row can be put together in one expression.
type encoder struct {
	ctx   context.Context
	names *names
	err   error
}

func (e *encoder) id(text string) int64 {
	if e.err != nil {
		return 0
	}
	var id int64
	id, e.err = e.names.id(e.ctx, text)
	return id
}

func (e *encoder) list(list []string) any {
	if len(list) == 0 {
		return nil
	}
	return e.id(encodeList(list))
}

// add puts a row into its table, if every name in it was found.
func (e *encoder) add(to *inserter, row []any) error {
	if e.err != nil {
		return e.err
	}
	return to.add(e.ctx, row...)
}

// dictionary gives the strings of numbers to one reader. Lists and healths are decoded once, and shared by the facts
// that hold them.
type dictionary struct {
	find    *stmt
	texts   map[int64]string
	lists   map[int64][]string
	healths map[int64]fact.Health
}

func newDictionary(c *conn) (*dictionary, error) {
	find, err := c.prepare("SELECT text FROM name WHERE id = ?")
	if err != nil {
		return nil, err
	}
	d := &dictionary{find: find}
	d.reset()
	return d, nil
}

func (d *dictionary) reset() {
	d.texts = map[int64]string{0: ""}
	d.lists = map[int64][]string{}
	d.healths = map[int64]fact.Health{}
}

func (d *dictionary) text(ctx context.Context, id int64) (string, error) {
	if text, ok := d.texts[id]; ok {
		return text, nil
	}
	r, err := d.find.query(ctx, id)
	if err != nil {
		return "", err
	}
	defer r.close()
	if !r.next() {
		if r.err != nil {
			return "", r.err
		}
		return "", fmt.Errorf("name %d is missing: %w", id, errDamaged)
	}
	text := r.string(0)
	if len(d.texts) >= maxNames {
		d.reset()
	}
	d.texts[id] = text
	return text, r.err
}

func (d *dictionary) list(ctx context.Context, id int64) ([]string, error) {
	if list, ok := d.lists[id]; ok {
		return list, nil
	}
	text, err := d.text(ctx, id)
	if err != nil {
		return nil, err
	}
	list := decodeList(text)
	d.lists[id] = list
	return list, nil
}

func (d *dictionary) health(ctx context.Context, id int64) (fact.Health, error) {
	if h, ok := d.healths[id]; ok {
		return h, nil
	}
	var h fact.Health
	text, err := d.text(ctx, id)
	if err != nil {
		return h, err
	}
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		return h, fmt.Errorf("a health reading: %w: %w", errDamaged, err)
	}
	d.healths[id] = h
	return h, nil
}
