package ledger

import (
	"time"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

// appearance is what of an observation is compared: all but the clocks and the length of the TTL.
type appearance struct {
	state            memory.State
	copies, siblings int
	strangers        string
	rig              bool
	ttl              int8 // its sign
	detail           string
	records          int
}

// cache knows how every memory that is still swept last looked in every view, so that a sweep can be reduced to what is
// new. A million memories in four views take 16 MB: a cell is an index into the few distinct appearances. A cell that
// was forgotten costs one row more and nothing else.
type cache struct {
	views map[string]map[memory.ID]*page // by view, then by id>>pageBits
	index map[appearance]uint32
	looks []look // looks[0] is none
	free  []uint32
}

type look struct {
	appearance
	cells int // how many cells show it; 0 frees the place
}

const pageBits = 8

type page struct {
	cells [1 << pageBits]cell
	used  int
	ends  *[1 << pageBits]uint32 // when the TTL ends, in Unix seconds; nil until one is seen
}

// cell is an index into looks, and in its lowest bit whether the state has been confirmed by a second row. 0: unknown.
type cell uint32

func newCache() *cache {
	return &cache{views: map[string]map[memory.ID]*page{}, index: map[appearance]uint32{}, looks: make([]look, 1)}
}

// note takes an observation in and reports whether it says anything new (see the package comment).
func (c *cache) note(o *memory.Observation) bool {
	a := appearance{state: o.State, copies: o.Copies, siblings: o.Siblings, rig: o.Rig, detail: o.Detail, records: o.Records}
	switch {
	case o.TTL > 0:
		a.ttl = 1
	case o.TTL < 0:
		a.ttl = -1
	}
	if len(o.Strangers) > 0 {
		a.strangers = encodeList(o.Strangers)
	}
	p, at := c.at(o.View, o.Memory)
	was := p.cells[at]
	old := &c.looks[was>>1]
	needsSecond := o.State == memory.Absent || o.State == memory.Unreadable
	repeated := was != 0 && old.state == o.State
	if repeated && old.appearance == a && (was&1 == 1 || !needsSecond) && !p.renewed(at, o) {
		return false
	}
	c.release(p, at)
	n := c.take(a)
	p.cells[at] = cell(n << 1)
	p.used++
	if repeated && needsSecond {
		p.cells[at] |= 1
	}
	if o.TTL > 0 {
		if p.ends == nil {
			p.ends = new([1 << pageBits]uint32)
		}
		p.ends[at] = ends(o)
	}
	return true
}

// ends gives when the record of o goes, in Unix seconds.
func ends(o *memory.Observation) uint32 {
	return uint32((o.Ended.Wall + o.TTL*int64(time.Millisecond)) / int64(time.Second))
}

// renewed reports whether the end of the TTL has moved by more than a sixteenth of what is left (and two seconds, for
// the length of the read itself): a sliding key was written or read, and the judge must know the new end.
func (p *page) renewed(at memory.ID, o *memory.Observation) bool {
	if o.TTL <= 0 || p.ends == nil {
		return false
	}
	moved := int64(ends(o)) - int64(p.ends[at])
	return max(moved, -moved) > max(2, o.TTL/1000/16)
}

func (c *cache) at(view string, id memory.ID) (*page, memory.ID) {
	pages := c.views[view]
	if pages == nil {
		pages = map[memory.ID]*page{}
		c.views[view] = pages
	}
	p := pages[id>>pageBits]
	if p == nil {
		p = &page{}
		pages[id>>pageBits] = p
	}
	return p, id & (1<<pageBits - 1)
}

func (c *cache) take(a appearance) uint32 {
	n, ok := c.index[a]
	if !ok {
		if last := len(c.free) - 1; last >= 0 {
			n, c.free = c.free[last], c.free[:last]
		} else {
			n = uint32(len(c.looks))
			c.looks = append(c.looks, look{})
		}
		c.looks[n].appearance = a
		c.index[a] = n
	}
	c.looks[n].cells++
	return n
}

// release makes a cell unknown.
func (c *cache) release(p *page, at memory.ID) {
	n := p.cells[at] >> 1
	if n == 0 {
		return
	}
	p.cells[at] = 0
	p.used--
	if l := &c.looks[n]; l.cells > 1 {
		l.cells--
	} else {
		delete(c.index, l.appearance)
		*l = look{}
		c.free = append(c.free, uint32(n))
	}
}

// forget makes the memories of set unknown in every view.
func (c *cache) forget(set memory.Set) {
	for _, pages := range c.views {
		for _, r := range set {
			first, last := r.First>>pageBits, r.Last>>pageBits
			if int64(last-first) < int64(len(pages)) {
				for key := first; key <= last; key++ {
					c.forgetIn(pages, key, r)
				}
				continue
			}
			for key := range pages {
				if key >= first && key <= last {
					c.forgetIn(pages, key, r)
				}
			}
		}
	}
}

func (c *cache) forgetIn(pages map[memory.ID]*page, key memory.ID, r memory.Range) {
	p := pages[key]
	if p == nil {
		return
	}
	for at := range memory.ID(len(p.cells)) {
		if id := key<<pageBits | at; id >= r.First && id <= r.Last {
			c.release(p, at)
		}
	}
	if p.used == 0 {
		delete(pages, key)
	}
}

// reduce leaves of a sweep's observations those that say something new. What the caller holds stays as it is: a batch
// that failed may be written again.
func (c *cache) reduce(s *fact.Sweep) {
	var kept []memory.Observation
	for i := range s.Observations {
		if c.note(&s.Observations[i]) {
			kept = append(kept, s.Observations[i])
		}
	}
	s.Observations = kept
}

// undo forgets what a sweep that was not recorded had put in.
func (c *cache) undo(s *fact.Sweep) {
	for i := range s.Observations {
		o := &s.Observations[i]
		p, at := c.at(o.View, o.Memory)
		c.release(p, at)
	}
}
