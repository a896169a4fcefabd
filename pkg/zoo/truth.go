package zoo

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"amnesia/pkg/chatapp/truth"
	"amnesia/pkg/memory"
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
	id, user string
	told     time.Time
	taken    time.Time // the app set out to say that it is saved; zero: never
	stores   map[string][]span
	tried    map[string]time.Time // by store: a save whose outcome is not known began
	left     map[string]time.Time // by store: when it was last about to be removed
	copies   map[string]int       // by store that was looked into at the end: the records that it has
	starts   []start              // of the app
	first    string               // the first home
}

func newTruthOf(id, first string) *truthOf {
	return &truthOf{id: id, first: first, stores: map[string][]span{}, tried: map[string]time.Time{}, left: map[string]time.Time{}, copies: map[string]int{}}
}

// start is a start of the app; the process before it was last heard of at died.
type start struct{ died, at time.Time }

// witness is a whole truth log.
type witness struct {
	starts []start
	byID   map[string]*truthOf
	of     map[memory.ID]*truthOf // as the ledger calls the memories
	ends   map[string]time.Time   // of the users' lists in Redis, as these were found at the end; zero: they live for ever
}

// hear reads the log as a story of each memory.
func hear(log *truth.Truth, first string) *witness {
	w := &witness{byID: map[string]*truthOf{}, of: map[memory.ID]*truthOf{}, ends: map[string]time.Time{}}
	held := map[string]map[string]bool{} // by store and id
	found := map[string]bool{}           // stores of which the latest process has said so
	// By store and id: a save and a removal of the same memory may cross.
	storing, removing, removed := map[string]time.Time{}, map[string]time.Time{}, map[string]bool{}
	of := func(e truth.Event) *truthOf {
		m := w.byID[e.ID]
		if m == nil {
			m = newTruthOf(e.ID, first)
			w.byID[e.ID] = m
		}
		if e.User != "" {
			m.user = e.User
		}
		return m
	}
	end := func(id, store string, until, gone time.Time) {
		if spans := w.byID[id].stores[store]; len(spans) > 0 && spans[len(spans)-1].until.IsZero() {
			spans[len(spans)-1].until, spans[len(spans)-1].gone = until, gone
		}
		w.byID[id].left[store] = until
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
			m := of(e)
			// A save that failed may have stored it: then it has been there since that.
			if n := len(m.stores[e.Store]); !held[e.Store][e.ID] && (n == 0 || !m.stores[e.Store][n-1].until.IsZero()) {
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
			// What a living process set out to store and did not say that it has, the store ignored, or it failed.
			if n := len(spans); n > 0 && spans[n-1].sure.IsZero() && spans[n-1].until.IsZero() {
				m.tried[store] = spans[n-1].soon
			}
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

// check sets what a server was found to hold at the end beside what the log says that it was given. What is missing went
// with the first sudden end of the server after that: what is there after an end was saved. What is there though it was
// removed came back with an end: the server fell back on what it had saved before.
func (w *witness) check(store string, h holding, ends []*injected) error {
	for id, m := range w.byID {
		spans := m.stores[store]
		last := len(spans) - 1
		held, there := last >= 0 && spans[last].until.IsZero(), slices.Contains(h.ids, id)
		switch tried := m.tried[store]; {
		case there && !held && tried.IsZero() && !m.left[store].IsZero() && after(ends, m.left[store]) >= 0:
			back := ends[after(ends, m.left[store])]
			m.stores[store] = append(spans, span{soon: back.fired.Time(), sure: back.over.Time()})
		case there && !held && tried.IsZero():
			return fmt.Errorf("%s has %s, and the truth log says that it has not", store, id)
		case there && !held:
			m.stores[store] = append(spans, span{soon: tried, sure: h.at})
		case !there && held:
			i := after(ends, spans[last].soon)
			if i < 0 && len(ends) > 0 && ends[len(ends)-1].over.Time().After(spans[last].soon) {
				i = len(ends) - 1 // it was given just when that began
			}
			if i < 0 {
				return fmt.Errorf("%s has not %s, and nothing ended it since", store, id)
			}
			spans[last].until, spans[last].gone = ends[i].fired.Time(), ends[i].over.Time()
		}
		if there {
			m.copies[store]++
		}
	}
	for user, end := range h.ends {
		w.ends[user] = end
	}
	return nil
}

// after gives the place of the first end that was let loose after the moment, -1 when none was.
func after(ends []*injected, at time.Time) int {
	return slices.IndexFunc(ends, func(i *injected) bool { return i.fired.Time().After(at) })
}

// expire ends what Redis held for as long as a user's list lives after its last write. At the moment at nobody had
// anything else to say of it.
func (w *witness) expire(ttl time.Duration, at time.Time) {
	byUser := map[string][]*truthOf{}
	for _, m := range w.byID {
		if len(m.stores[redisServer]) > 0 {
			byUser[m.user] = append(byUser[m.user], m)
		}
	}
	for _, ms := range byUser {
		slices.SortFunc(ms, func(a, b *truthOf) int { return a.stores[redisServer][0].sure.Compare(b.stores[redisServer][0].sure) })
		for i := len(ms) - 1; i >= 0; i-- {
			s := &ms[i].stores[redisServer][0]
			s.until, s.gone = s.soon.Add(ttl), s.sure.Add(ttl)
			if i+1 < len(ms) && ms[i+1].stores[redisServer][0].soon.Before(s.until) { // which prolonged it
				s.until, s.gone = ms[i+1].stores[redisServer][0].until, ms[i+1].stores[redisServer][0].gone
			}
		}
	}
	for _, m := range w.byID {
		for i, s := range m.stores[redisServer] {
			if s.until.After(at) {
				m.stores[redisServer][i].until, m.stores[redisServer][i].gone = time.Time{}, time.Time{}
			}
		}
	}
}

// unsaved is the longest time for which a memory that the app had confirmed was in no first home.
func (w *witness) unsaved() (longest time.Duration) {
	for _, m := range w.byID {
		end := m.life().died
		if spans := m.stores[m.first]; len(spans) > 0 && (end.IsZero() || spans[0].sure.Before(end)) {
			end = spans[0].sure
		}
		if !m.taken.IsZero() {
			longest = max(longest, end.Sub(m.taken))
		}
	}
	return longest
}

// written is when the user's list in Redis was written last.
func (w *witness) written(user string) (last time.Time) {
	for _, m := range w.byID {
		for _, s := range m.stores[redisServer] {
			if m.user == user {
				last = later(last, s.sure)
			}
		}
	}
	return last
}

// all draws together what the app saved of one message under several ids.
func (w *witness) all(of []truth.Memory) *truthOf {
	if len(of) == 1 {
		return w.byID[of[0].ID]
	}
	first := w.byID[of[0].ID]
	m := newTruthOf(first.id, first.first)
	m.user, m.starts, m.told = first.user, first.starts, first.told
	for _, o := range of {
		one := w.byID[o.ID]
		m.taken = later(m.taken, one.taken)
		for store, spans := range one.stores {
			m.stores[store] = append(m.stores[store], spans...)
		}
		for store, n := range one.copies {
			m.copies[store] += n
		}
	}
	return m
}

// What pages show with some bugs planted, and where writes are asynchronous.

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

// onItsWay is a page that shows what the app was told, at the latest when it says that it has it, and also before that has
// come to its first home.
func onItsWay(m *truthOf) []span {
	spans := slices.Clone(m.stores[m.first])
	if len(spans) == 0 && m.taken.IsZero() {
		return nil
	} else if len(spans) == 0 {
		return []span{{soon: m.told, sure: m.taken}}
	}
	spans[0].soon = m.told
	if !m.taken.IsZero() && m.taken.Before(spans[0].sure) {
		spans[0].sure = m.taken
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
