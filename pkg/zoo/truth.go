package zoo

import (
	"slices"
	"strconv"
	"time"

	"amnesia/pkg/chatapp/truth"
)

// span is a stretch of time in which a memory was in a place: certainly from sure to until, certainly not before soon
// and after gone. Between soon and sure, and between until and gone, it came or went. A zero until: it is there still.
type span struct{ soon, sure, until, gone time.Time }

// seen says what a look at a place, from a to b, must have found.
type seen int

const (
	gone seen = iota
	here
	open // it came or went during the look
)

func look(spans []span, a, b time.Time) seen {
	out := gone
	for _, s := range spans {
		switch {
		case b.Before(s.soon), !s.until.IsZero() && a.After(s.gone):
		case !s.sure.IsZero() && !a.Before(s.sure) && (s.until.IsZero() || !b.After(s.until)):
			return here
		default:
			out = open
		}
	}
	return out
}

// truthOf is what the truth log says of one memory.
type truthOf struct {
	id     string
	told   time.Time
	taken  time.Time // the app set out to say that it is saved; zero: never
	stores map[string][]span
	starts []start // of the app
	first  string  // the first home
}

// start is a start of the app; the process before it was last heard of at died.
type start struct{ died, at time.Time }

// witness is a whole truth log.
type witness struct {
	starts []start
	byID   map[string]*truthOf
}

// hear reads the log as a story of each memory.
func hear(log *truth.Truth, first string) *witness {
	w := &witness{byID: map[string]*truthOf{}}
	held := map[string]map[string]bool{} // by store and id
	found := map[string]bool{}           // stores of which the latest process has said so
	// By store and id: a save and a removal of the same memory may cross.
	storing, removing, removed := map[string]time.Time{}, map[string]time.Time{}, map[string]bool{}
	of := func(e truth.Event) *truthOf {
		m := w.byID[e.ID]
		if m == nil {
			m = &truthOf{id: e.ID, stores: map[string][]span{}, first: first}
			w.byID[e.ID] = m
		}
		return m
	}
	end := func(id, store string, until, gone time.Time) {
		if spans := w.byID[id].stores[store]; len(spans) > 0 && spans[len(spans)-1].until.IsZero() {
			spans[len(spans)-1].until, spans[len(spans)-1].gone = until, gone
		}
		delete(held[store], id)
	}
	var before time.Time
	for _, e := range log.Events() {
		if e.Store != "" && held[e.Store] == nil {
			held[e.Store] = map[string]bool{}
		}
		switch e.Event {
		case truth.Told:
			of(e).told = e.At
		case truth.Acknowledged:
			of(e).taken = e.At
		case truth.Storing:
			storing[e.Store+e.ID] = e.At
			if m := of(e); !held[e.Store][e.ID] {
				m.stores[e.Store] = append(m.stores[e.Store], span{soon: e.At})
			}
		case truth.Stored:
			m, key := of(e), e.Store+e.ID
			if held[e.Store][e.ID] { // new all the same: it was removed meanwhile, and the line that says so comes late
				end(e.ID, e.Store, removing[key], e.At)
				removed[key] = true
			}
			if n := len(m.stores[e.Store]); n > 0 && m.stores[e.Store][n-1].sure.IsZero() {
				m.stores[e.Store][n-1].sure = e.At
			} else {
				m.stores[e.Store] = append(m.stores[e.Store], span{soon: storing[key], sure: e.At})
			}
			held[e.Store][e.ID] = true
		case truth.Removing:
			for _, id := range e.IDs {
				removing[e.Store+id] = e.At
			}
		case truth.Removed:
			if key := e.Store + e.ID; removed[key] {
				delete(removed, key)
			} else {
				end(e.ID, e.Store, removing[key], e.At)
			}
		case truth.Holds:
			// Every process first says once of each store what it found there.
			if n := len(w.starts); n == 0 || found[e.Store] {
				w.starts, found = append(w.starts, start{before, e.At}), map[string]bool{}
			}
			found[e.Store] = true
			died := w.starts[len(w.starts)-1].died
			for id, m := range w.byID {
				spans := m.stores[e.Store]
				if len(spans) == 0 || !spans[len(spans)-1].until.IsZero() {
					continue
				}
				if last := &spans[len(spans)-1]; !slices.Contains(e.IDs, id) {
					if last.sure.IsZero() { // it was never stored
						m.stores[e.Store] = spans[:len(spans)-1]
						continue
					}
					end(id, e.Store, died, e.At)
				} else if last.sure.IsZero() { // killed before it could say so
					last.sure = e.At
					held[e.Store][id] = true
				}
			}
		}
		before = e.At
	}
	for _, m := range w.byID {
		m.starts = w.starts
		for store, spans := range m.stores {
			// What a living process set out to store and did not say that it has, the store ignored.
			m.stores[store] = slices.DeleteFunc(spans, func(s span) bool { return s.sure.IsZero() })
		}
	}
	return w
}

// life gives the end of the process that took the memory; zero: it lives.
func (m *truthOf) life() start {
	for _, s := range m.starts {
		if s.at.After(m.told) {
			return s
		}
	}
	return start{}
}

// What pages show with some bugs planted.

// nowhere is a page that never shows it.
func nowhere(*truthOf) []span { return nil }

// inProcess is a page that shows what its process was told, stored or not, and what is stored.
func inProcess(m *truthOf) []span {
	mine := span{soon: m.told, sure: m.taken}
	if s := m.life(); !s.at.IsZero() {
		mine.until, mine.gone = s.died, s.at
	}
	return append([]span{mine}, m.stores[m.first]...)
}

// sinceStart is a page that shows only what its process has stored.
func sinceStart(m *truthOf) []span {
	spans := slices.Clone(m.stores[m.first])
	if s := m.life(); !s.at.IsZero() && len(spans) > 0 {
		spans = spans[:1]
		spans[0].until, spans[0].gone = s.died, s.at
	}
	return spans
}

// delayed moves the begin of each stretch to the moment from which a slow index shows it. The id of a memory is the time
// at which it was told.
func delayed(spans []span, id string, delay time.Duration) []span {
	ns, err := strconv.ParseInt(id, 16, 64)
	if err != nil {
		return nil // no id of the sample's: the comparison will say so
	}
	from := time.Unix(0, ns).Add(delay)
	out := slices.Clone(spans)
	for i := range out {
		out[i].soon = later(out[i].soon, from)
		if !out[i].sure.IsZero() {
			out[i].sure = later(out[i].sure, from)
		}
	}
	return out
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
