package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"amnesia/pkg/memory"
)

// Match says how much of a memory's text must have survived for it to be Present and not Altered.
type Match string

const (
	MatchExact Match = "exact" // the whole text (Same); the default
	MatchToken Match = "token" // the token alone: for an app that rewrites what it is told
)

// Same reports whether a text that was found is the one that was told: line ends count as one kind, and space around
// the text does not count, since forms and stores change both without anybody losing anything.
func Same(told, found string) bool { return told == found || trim(told) == trim(found) }

func trim(s string) string {
	return strings.TrimSpace(strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n"))
}

// Matcher makes the observations of one Find out of what an adapter reads. It holds what was asked, not what was read:
// its size does not grow with the store's.
//
// It knows the memories that it was asked about and no others: a record with the token of any other memory says nothing
// here, so a leak shows only in a Find that asks about the leaked memory.
//
// Its methods may be called by several goroutines.
type Matcher struct {
	opt   Options
	ms    []memory.Memory
	index *index
	users []string  // each once, in the order of the memories
	of    [][]int32 // the places of each user's memories

	mu    sync.Mutex
	items []item
	odd   map[int32]*odd // what few memories have
}

// Options are what a Matcher needs to know of its view.
type Options struct {
	View  string
	Clock memory.Clock
	Match Match // default MatchExact
	// Same says what MatchExact takes for the same text; default Same.
	Same func(told, found string) bool
	// Rig reports whether a failed read is trouble of ours rather than the target's; nil: never. A read that the end
	// of its context ended always is.
	Rig func(error) bool
}

// item is what is known of one memory.
type item struct {
	reading *Reading // the last one
	key     string   // of the first copy that has one
	ttl     int64    // of the copy that stays longest
	copies  int32
	user    int32
	exact   bool
}

// odd is what is known of few memories.
type odd struct {
	keys      []string // of further copies
	strangers []string
	note      string
}

// NewMatcher makes a matcher for one Find.
func NewMatcher(ms []memory.Memory, opt Options) *Matcher {
	if opt.Same == nil {
		opt.Same = Same
	}
	m := &Matcher{opt: opt, ms: ms, index: newIndex(ms), items: make([]item, len(ms)), odd: map[int32]*odd{}}
	number := map[string]int32{}
	var sizes []int
	for i := range ms {
		n, ok := int32(0), false
		if i > 0 && ms[i].User == ms[i-1].User { // as a rule
			n, ok = m.items[i-1].user, true
		} else {
			n, ok = number[ms[i].User]
		}
		if !ok {
			n = int32(len(m.users))
			number[ms[i].User] = n
			m.users, sizes = append(m.users, ms[i].User), append(sizes, 0)
		}
		m.items[i].user = n
		sizes[n]++
	}
	places := make([]int32, len(ms))
	m.of = make([][]int32, len(m.users))
	for n, size := range sizes {
		m.of[n], places = places[:0:size], places[size:]
	}
	for i := range m.items {
		of := &m.of[m.items[i].user]
		*of = append(*of, int32(i))
	}
	return m
}

// oddly gives what is odd about a memory, to write to.
func (m *Matcher) oddly(i int32) *odd {
	o := m.odd[i]
	if o == nil {
		o = &odd{}
		m.odd[i] = o
	}
	return o
}

// Reading is one read of what a view holds for one user (or for all of them, or on one memory).
type Reading struct {
	m     *Matcher
	user  string // "": all
	items []int32
	began memory.Instant
	ended memory.Instant
	done  bool
	err   error  // why it did not reach its end
	note  string // what there is instead of what is absent
	count int    // of the user's records
}

// Each reads for every user, at most parallel of them at once, and returns when all reads have ended or ctx has,
// whichever is first: a read that ignores ctx is left behind and cannot hold up the others. A nil error of read says
// that it reached the end of what the view holds for that user.
func (m *Matcher) Each(ctx context.Context, parallel int, read func(context.Context, *Reading) error) {
	m.Batches(ctx, parallel, 1, func(ctx context.Context, rs []*Reading) error { return read(ctx, rs[0]) })
}

// Batches is like Each for up to size users in one read, for stores that answer many questions in one exchange. The
// error of read is that of every reading that it has not ended itself.
func (m *Matcher) Batches(ctx context.Context, parallel, size int, read func(context.Context, []*Reading) error) {
	todo := make(chan [2]int) // from and to
	var workers sync.WaitGroup
	for range max(1, min(parallel, len(m.users))) {
		workers.Go(func() {
			for users := range todo {
				m.batch(ctx, users[0], users[1], read)
			}
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer workers.Wait()
		defer close(todo)
		for from := 0; from < len(m.users); from += size {
			select {
			case todo <- [2]int{from, min(from+size, len(m.users))}:
			case <-ctx.Done():
				return
			}
		}
	}()
	m.wait(ctx, done)
}

// All reads once for all users together; the records must name their owners. Otherwise it is like Each.
func (m *Matcher) All(ctx context.Context, read func(context.Context, *Reading) error) {
	all := make([]int32, len(m.ms))
	for i := range all {
		all[i] = int32(i)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.read(ctx, []*Reading{m.begin("", all, m.opt.Clock.Now())}, func(ctx context.Context, rs []*Reading) error { return read(ctx, rs[0]) })
	}()
	m.wait(ctx, done)
}

func (m *Matcher) wait(ctx context.Context, done <-chan struct{}) {
	select {
	case <-done:
	case <-ctx.Done():
	}
}

func (m *Matcher) batch(ctx context.Context, from, to int, read func(context.Context, []*Reading) error) {
	rs, now := make([]*Reading, to-from), m.opt.Clock.Now()
	for n := range rs {
		rs[n] = m.begin(m.users[from+n], m.of[from+n], now)
	}
	m.read(ctx, rs, read)
}

func (m *Matcher) read(ctx context.Context, rs []*Reading, read func(context.Context, []*Reading) error) {
	err := read(ctx, rs)
	for _, r := range rs {
		if r.done {
			continue
		}
		if err == nil {
			// A read that looks finished only because its context ended under it is no proof of absence.
			err = context.Cause(ctx)
		}
		r.End(err)
	}
}

func (m *Matcher) begin(user string, items []int32, now memory.Instant) *Reading {
	r := &Reading{m: m, user: user, items: items}
	r.restart(now)
	return r
}

// One begins a reading of a single memory, by its place in what Memories gives. It takes that memory out of r, and must
// be ended by End.
func (r *Reading) One(n int) *Reading {
	return r.m.begin(r.user, r.items[n:n+1], r.m.opt.Clock.Now())
}

// User is the user it reads for; empty for all.
func (r *Reading) User() string { return r.user }

// Users are the users it reads for, each once.
func (r *Reading) Users() []string {
	if r.user != "" {
		return []string{r.user}
	}
	return slices.Clone(r.m.users)
}

// Memories gives the memories that it is about, in the order in which they were asked.
func (r *Reading) Memories() []memory.Memory {
	out := make([]memory.Memory, len(r.items))
	for n, i := range r.items {
		out[n] = r.m.ms[i]
	}
	return out
}

// Restart begins it anew, now: what it found so far is forgotten.
func (r *Reading) Restart() { r.restart(r.m.opt.Clock.Now()) }

func (r *Reading) restart(now memory.Instant) {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	r.began, r.note, r.count = now, "", 0
	for _, i := range r.items {
		it := &r.m.items[i]
		*it = item{reading: r, user: it.user}
		if o := r.m.odd[i]; o != nil {
			*o = odd{strangers: o.strangers}
		}
	}
}

// End ends it. A nil error says that it reached the end of what there is.
func (r *Reading) End(err error) {
	now := r.m.opt.Clock.Now()
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	r.ended, r.err, r.done = now, err, true
}

// Note says what there is instead of a memory of its that is absent, for the person who looks for the reason. A word on
// the memory itself, such as that only an echo has its token, is kept.
func (r *Reading) Note(text string) {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	r.note = text
}

// Count says how many records of the user's it went through, whatever they say: whoever finds as many as the user was
// told of, and none of them right, is not looking in the wrong place.
func (r *Reading) Count(n int) {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	r.count = n
}

// Found counts its memories that have been found so far.
func (r *Reading) Found() int {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	n := 0
	for _, i := range r.items {
		if it := &r.m.items[i]; it.reading == r && it.copies > 0 {
			n++
		}
	}
	return n
}

// Missing counts those that have not.
func (r *Reading) Missing() int { return len(r.items) - r.Found() }

// Absent gives those that have not.
func (r *Reading) Absent() (ids []memory.ID) {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	for _, i := range r.items {
		if it := &r.m.items[i]; it.reading != r || it.copies == 0 {
			ids = append(ids, r.m.ms[i].ID)
		}
	}
	return ids
}

// Mentions reports whether a text holds the token of any memory that was asked about.
func (r *Reading) Mentions(text string) bool {
	var room [8]int32
	return len(r.m.index.find([]byte(text), room[:0])) > 0
}

// Record is called for each record that was read. One without an owner belongs to the user who was read for. Records of
// one memory with the same non-empty key are one copy, however often a moving page showed them.
//
// A record that names another user as its owner and holds that user's own memory is neither a leak nor a find here: it
// is counted where that user is read for.
func (r *Reading) Record(rec Record) {
	r.match(Bytes{[]byte(rec.Key), []byte(rec.Owner), []byte(rec.Text), rec.TTL}, false)
}

// Echo is called for text that is no record of a memory, such as the assistant's words: a token in it proves nothing
// for its own user, and a leak for any other.
func (r *Reading) Echo(text string) { r.match(Bytes{Text: []byte(text)}, true) }

// Bytes is a Record in buffers that may be used again as soon as it was looked at.
type Bytes struct {
	Key, Owner, Text []byte
	TTL              int64
}

// RecordBytes is Record for those.
func (r *Reading) RecordBytes(rec Bytes) { r.match(rec, false) }

// EchoBytes is Echo for a text in a buffer.
func (r *Reading) EchoBytes(text []byte) { r.match(Bytes{Text: text}, true) }

func (r *Reading) match(rec Bytes, echo bool) {
	var room [8]int32
	for _, i := range r.m.index.find(rec.Text, room[:0]) {
		told := &r.m.ms[i]
		own := r.user == told.User
		if len(rec.Owner) > 0 {
			own = string(rec.Owner) == told.User
		}
		// Texts are long: nobody waits while two are compared.
		exact := own && !echo && (r.m.opt.Match == MatchToken || string(rec.Text) == told.Text || r.m.same(i, rec.Text))
		r.m.mu.Lock()
		r.hit(i, rec, own, exact, echo)
		r.m.mu.Unlock()
	}
}

// same reports whether a memory's text is there, here or in a record before: one text of several is enough.
func (m *Matcher) same(i int32, text []byte) bool {
	m.mu.Lock()
	exact := m.items[i].exact
	m.mu.Unlock()
	return exact || m.opt.Same(m.ms[i].Text, string(text))
}

// hit takes a record with the token of a memory, whose own it is or not.
func (r *Reading) hit(i int32, rec Bytes, own, exact, echo bool) {
	it := &r.m.items[i]
	switch {
	case len(rec.Owner) == 0 && r.user == "":
		r.m.oddly(i).note = "its token stands in a record without an owner"
	case !own:
		o, owner := r.m.oddly(i), cmp.Or(string(rec.Owner), r.user)
		if n, ok := slices.BinarySearch(o.strangers, owner); !ok {
			o.strangers = slices.Insert(o.strangers, n, owner)
		}
	case it.reading != r: // counted where that memory is read for
	case echo:
		r.m.oddly(i).note = "its token stands only in an echo, not in the user's own words"
	default:
		it.exact = it.exact || exact
		if len(rec.Key) > 0 && !r.m.another(i, rec.Key) {
			return
		}
		if it.ttl >= 0 && (rec.TTL < 0 || rec.TTL > it.ttl) {
			it.ttl = rec.TTL
		}
		it.copies++
	}
}

// another reports whether a memory has no copy yet with this key, and keeps the key.
func (m *Matcher) another(i int32, key []byte) bool {
	it := &m.items[i]
	if it.key == "" {
		it.key = string(key)
		return true
	}
	if it.key == string(key) {
		return false
	}
	o := m.oddly(i)
	if slices.Contains(o.keys, string(key)) {
		return false
	}
	o.keys = append(o.keys, string(key))
	return true
}

// Observations gives one observation for each memory, in order. A read that has not ended is unreadable.
func (m *Matcher) Observations(ctx context.Context) []memory.Observation {
	now := m.opt.Clock.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	siblings := make([]int, len(m.users))
	out := make([]memory.Observation, len(m.ms))
	for i := range m.ms {
		m.observe(ctx, &out[i], i, now)
		if out[i].State.Here() {
			siblings[m.items[i].user]++
		}
	}
	for i := range out {
		out[i].Siblings = siblings[m.items[i].user]
	}
	return out
}

func (m *Matcher) observe(ctx context.Context, o *memory.Observation, i int, now memory.Instant) {
	it := &m.items[i]
	o.Memory, o.View, o.Copies, o.TTL, o.Began, o.Ended = m.ms[i].ID, m.opt.View, int(it.copies), it.ttl, now, now
	note := ""
	if odd := m.odd[int32(i)]; odd != nil {
		o.Strangers, note = slices.Clone(odd.strangers), odd.note
	}
	if it.reading != nil {
		o.Began = it.reading.began
		if it.reading.done {
			o.Ended = it.reading.ended
		}
	}
	switch {
	case it.copies > 0 && it.exact:
		o.State = memory.Present
	case it.copies > 0:
		o.State = memory.Altered
	case !isToken(m.ms[i].Token):
		o.State, o.Detail = memory.Unreadable, fmt.Sprintf("%q cannot be looked for: a token is lower-case letters and digits", m.ms[i].Token)
	case it.reading == nil:
		o.State, o.Rig, o.Detail = memory.Unreadable, true, fmt.Sprintf("not read: %v", context.Cause(ctx))
	case !it.reading.done:
		o.State, o.Rig, o.Detail = memory.Unreadable, true, fmt.Sprintf("the read did not end: %v", context.Cause(ctx))
	case it.reading.err != nil:
		err := it.reading.err
		o.State, o.Detail = memory.Unreadable, err.Error()
		o.Rig = ctx.Err() != nil || m.opt.Rig != nil && m.opt.Rig(err)
	default:
		o.State, o.Detail, o.Records = memory.Absent, cmp.Or(note, it.reading.note), it.reading.count
	}
}
