package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// note is what one person noted. Refs rise.
type note struct {
	Ref  string `json:"ref"`
	Who  string `json:"who"`
	Text string `json:"text"`
}

// entry is a line of the journal: a note, or the ref of one that is struck out.
type entry struct {
	Note   *note  `json:"note,omitempty"`
	Strike string `json:"strike,omitempty"`
}

// book keeps notes in their two places.
type book struct {
	journal, cache string // file and folder
	size           int    // of each person's feed; 0: no end
	flaws          map[string]bool
	lag            time.Duration
	witness        *witness

	mu    sync.Mutex
	feed  map[string][]note // by person, rising
	hoard map[string][]note // by person: to be written yet
	last  int64             // the number of the latest ref
}

func openBook(home, cache string, size int, flaws map[string]bool, lag time.Duration, w *witness) (*book, error) {
	b := &book{journal: filepath.Join(home, "journal.ndjson"), cache: cache, size: size, flaws: flaws, lag: lag, witness: w,
		feed: map[string][]note{}, hoard: map[string][]note{}}
	if flaws[journalInCache] {
		b.journal = filepath.Join(cache, "journal.ndjson")
	}
	for _, dir := range []string{home, cache} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	kept, struck, err := b.readJournal()
	if err != nil {
		return nil, err
	}
	if !flaws[feedInMemory] {
		if err := b.loadFeed(); err != nil {
			return nil, err
		}
	}
	w.write("up")
	w.write("found", "journal", refs(kept))
	var shown []note
	for _, ns := range b.feed {
		shown = append(shown, ns...)
	}
	w.write("found", "feed", refs(shown))
	w.write("found", "hoard", "")
	if flaws[feedInMemory] || flaws[feedNotRebuilt] {
		return b, nil
	}
	if flaws[undead] {
		kept = append(kept, struck...)
	}
	return b, b.rebuild(kept)
}

func refs(ns []note) string {
	var words []string
	for _, n := range ns {
		words = append(words, n.Ref)
	}
	return strings.Join(words, " ")
}

// rebuild makes the feed what the journal says.
func (b *book) rebuild(kept []note) error {
	right, newer := map[string]bool{}, map[string]int{}
	for _, n := range slices.Backward(kept) {
		if newer[n.Who]++; b.size > 0 && newer[n.Who] > b.size {
			continue
		}
		right[n.Ref] = true
		if !slices.ContainsFunc(b.feed[n.Who], func(f note) bool { return f.Ref == n.Ref }) {
			if err := b.show(n); err != nil {
				return err
			}
		}
	}
	for _, ns := range b.feed {
		for _, n := range slices.Clone(ns) {
			if !right[n.Ref] {
				if err := b.hide(n); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// readJournal gives the notes that the journal has, and those that were struck out of it.
func (b *book) readJournal() (kept, struck []note, err error) {
	content, err := os.ReadFile(b.journal)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	for line := range bytes.Lines(content) {
		var e entry
		if json.Unmarshal(line, &e) != nil {
			continue // cut off by the end of a process
		}
		if e.Note != nil {
			kept = append(kept, *e.Note)
			continue
		}
		if i := slices.IndexFunc(kept, func(n note) bool { return n.Ref == e.Strike }); i >= 0 {
			struck = append(struck, kept[i])
			kept = slices.Delete(kept, i, i+1)
		}
	}
	return kept, struck, nil
}

// append adds a line to the journal, which is in the file when it returns.
func (b *book) append(e entry) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(b.journal, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

func (b *book) feedFile(who string) string {
	return filepath.Join(b.cache, hex.EncodeToString([]byte(who))+".feed")
}

func (b *book) loadFeed() error {
	files, err := filepath.Glob(filepath.Join(b.cache, "*.feed"))
	if err != nil {
		return err
	}
	for _, file := range files {
		ns, err := readFeed(file)
		if err != nil {
			return err
		}
		if len(ns) > 0 {
			b.feed[ns[0].Who] = ns
		}
	}
	return nil
}

func readFeed(file string) (ns []note, err error) {
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	return ns, json.Unmarshal(content, &ns)
}

// storeFeed writes a person's feed as a whole.
func (b *book) storeFeed(who string) error {
	if b.flaws[feedInMemory] {
		return nil
	}
	content, err := json.Marshal(b.feed[who])
	if err != nil {
		return err
	}
	file := b.feedFile(who)
	if err := os.WriteFile(file+".new", content, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// show puts a note into the feed.
func (b *book) show(n note) error {
	b.witness.write("put>", "feed", n.Ref)
	ns := b.feed[n.Who]
	at, _ := slices.BinarySearchFunc(ns, n.Ref, func(f note, ref string) int { return strings.Compare(f.Ref, ref) })
	b.feed[n.Who] = slices.Insert(ns, at, n)
	if err := b.storeFeed(n.Who); err != nil {
		return err
	}
	b.witness.write("put<", "feed", n.Ref)
	if ns = b.feed[n.Who]; b.size > 0 && len(ns) > b.size {
		return b.hide(ns[0])
	}
	return nil
}

// hide takes a note out of the feed.
func (b *book) hide(n note) error {
	b.witness.write("cut>", "feed", n.Ref)
	b.feed[n.Who] = slices.DeleteFunc(slices.Clone(b.feed[n.Who]), func(f note) bool { return f.Ref == n.Ref })
	if err := b.storeFeed(n.Who); err != nil {
		return err
	}
	b.witness.write("cut<", "feed", n.Ref)
	return nil
}

// A write that took longer than slow is taken for one that failed by an app that stutters; the disk takes its time for it.
const (
	slow = 350 * time.Millisecond
	disk = 60 * time.Millisecond
)

// keep puts a note into its places. When it returns it is in the journal.
func (b *book) keep(n note) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.flaws[overwrite] {
		for _, old := range b.feed[n.Who] {
			if matter(old.Text) == matter(n.Text) {
				if err := b.strike(old); err != nil {
					return err
				}
				break
			}
		}
	}
	if b.flaws[hoarding] {
		return b.hoardUp(n)
	}
	began := time.Now()
	if err := b.write(n); err != nil || !b.flaws[stutter] {
		return err
	}
	time.Sleep(disk)
	if time.Since(began) < slow {
		return nil
	}
	again := n
	again.Ref = b.newRef()
	b.witness.told(again, again.Text)
	return b.write(again)
}

// hoardUp writes what a person has noted once it is worth it.
func (b *book) hoardUp(n note) error {
	b.witness.write("put>", "hoard", n.Ref)
	b.hoard[n.Who] = append(b.hoard[n.Who], n)
	b.witness.write("put<", "hoard", n.Ref)
	if len(b.hoard[n.Who]) < 3 {
		return nil
	}
	for _, n := range b.hoard[n.Who] {
		if err := b.write(n); err != nil {
			return err
		}
	}
	delete(b.hoard, n.Who)
	return nil
}

// write puts it into the journal, then into the feed.
func (b *book) write(n note) error {
	b.witness.write("put>", "journal", n.Ref)
	if err := b.append(entry{Note: &n}); err != nil {
		return err
	}
	b.witness.write("put<", "journal", n.Ref)
	if !b.flaws[lazyFeed] {
		return b.show(n)
	}
	time.AfterFunc(b.lag, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if err := b.show(n); err != nil {
			panic(err)
		}
	})
	return nil
}

// strike takes a note out of both places.
func (b *book) strike(n note) error {
	b.witness.write("cut>", "journal", n.Ref)
	if err := b.append(entry{Strike: n.Ref}); err != nil {
		return err
	}
	b.witness.write("cut<", "journal", n.Ref)
	return b.hide(n)
}

// remove strikes out the person's own note. It reports whether there was one.
func (b *book) remove(who, ref string) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, n := range b.feed[who] {
		if n.Ref == ref {
			return true, b.strike(n)
		}
	}
	return false, nil
}

// shown is what a person sees.
func (b *book) shown(who string) []note {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.flaws[openDoor] {
		return slices.Concat(b.feed[who], b.hoard[who])
	}
	var all []note
	for _, ns := range b.feed {
		all = append(all, ns...)
	}
	slices.SortFunc(all, func(a, b note) int { return strings.Compare(a.Ref, b.Ref) })
	return all
}

// inJournal is what the journal's file has of a person.
func (b *book) inJournal(who string) ([]note, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	kept, _, err := b.readJournal()
	return slices.DeleteFunc(kept, func(n note) bool { return n.Who != who }), err
}

// inFeed is what the feed's file has of a person.
func (b *book) inFeed(who string) ([]note, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.flaws[feedInMemory] {
		return slices.Clone(b.feed[who]), nil
	}
	return readFeed(b.feedFile(who))
}
