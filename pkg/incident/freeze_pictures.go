package incident

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.uber.org/zap"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
	"amnesia/pkg/session"
)

const (
	// glanceBytes bounds one document that is held until the cycle is closed, glancesBytes all of them, and glancesOfUser how
	// many there are of one user: the newest.
	glanceBytes   = 1 << 20
	glancesBytes  = 16 << 20
	glancesOfUser = 8
	// missesPictured bounds the pictures that are taken of pages that miss memories in one cycle.
	missesPictured = 8
)

// album is what pages showed in the cycle under way. Documents are in memory, and files of which nothing came are removed
// when the cycle is closed.
type album struct {
	glances map[string][]session.Glance // by user, oldest first
	bytes   int
	misses  []miss
	passed  []string           // traces of ours that a later one has taken the place of
	seen    map[memory.ID]bool // missed, and pictured
	shown
}

// shown is what of an album facts may tell.
type shown struct {
	traces map[string]picture // by user
	used   map[string]bool    // files that belong to evidence
}

// miss is a picture of a page that does not show memories that it owes.
type miss struct {
	user     string
	memories []memory.ID
	files    []string
	at       memory.Instant
}

type picture struct {
	file string
	at   memory.Instant
	ours bool // to be removed when nothing came of it
}

// use remembers that pictures belong to evidence.
func (s *shown) use(list []fact.Picture) {
	for _, p := range list {
		if s.used == nil {
			s.used = map[string]bool{}
		}
		s.used[p.File] = true
	}
}

// traces gives those that a session left.
func traces(f fact.Session) (out []picture) {
	for _, file := range f.Files {
		if filepath.Ext(file) == ".zip" {
			out = append(out, picture{file: file, at: f.Ended})
		}
	}
	return out
}

func (s *shown) trace(user string, p picture) {
	if s.traces == nil {
		s.traces = map[string]picture{}
	}
	s.traces[user] = p
}

func (a *album) trace(user string, p picture) {
	if old, ok := a.traces[user]; ok && old.ours {
		a.passed = append(a.passed, old.file)
	}
	a.shown.trace(user, p)
}

// close begins anew with the next cycle.
func (a *album) close(dir string, log *zap.Logger) {
	files := a.passed
	for _, m := range a.misses {
		files = append(files, m.files...)
	}
	for _, p := range a.traces {
		if p.ours {
			files = append(files, p.file)
		}
	}
	for _, file := range files {
		if a.used[filepath.Base(file)] {
			continue
		}
		if err := os.Remove(filepath.Join(dir, filepath.Base(file))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			log.Debug("a picture of which nothing came stays until it is old", zap.Error(err))
		}
	}
	*a = album{}
}

// Seen takes what a user's page shows.
func (z *Freezer) Seen(user string, g session.Glance) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.album.see(user, g)
}

func (a *album) see(user string, g session.Glance) {
	if a.glances == nil {
		a.glances = map[string][]session.Glance{}
	}
	if own := a.glances[user]; len(own) == glancesOfUser {
		a.bytes -= len(own[0].Document)
		a.glances[user] = slices.Delete(own, 0, 1)
	}
	if n := len(g.Document); n <= glanceBytes && a.bytes+n <= glancesBytes {
		a.bytes += n
		a.glances[user] = append(a.glances[user], g)
	}
}

// Traced takes the trace of a user's session, a file that is removed when nothing comes of it.
func (z *Freezer) Traced(user, file string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.album.trace(user, picture{file: file, at: z.Clock.Now(), ours: true})
}

// Missed is told of memories that a page does not show which is still open. take saves it under a name, if it is to be kept:
// when it owed one of them, the first time.
func (z *Freezer) Missed(user string, ids []memory.ID, take func(name string) (files []string)) {
	if z.Dir == "" || z.Owes == nil {
		return
	}
	now := z.Clock.Now()
	ids = slices.DeleteFunc(ids, func(id memory.ID) bool { return !z.Owes(id, now) })
	z.mu.Lock()
	ids = slices.DeleteFunc(ids, func(id memory.ID) bool { return z.album.seen[id] })
	if len(ids) == 0 || len(z.album.misses) >= missesPictured {
		z.mu.Unlock()
		return
	}
	if z.album.seen == nil {
		z.album.seen = map[memory.ID]bool{}
	}
	for _, id := range ids {
		z.album.seen[id] = true
	}
	name := fmt.Sprintf("cycle%d-%s-after", z.cycle.N, user)
	z.mu.Unlock()
	m := miss{user: user, memories: ids, files: take(name), at: now}
	z.mu.Lock()
	defer z.mu.Unlock()
	z.album.misses = append(z.album.misses, m)
}

// pictures gives what pages showed before and after: of one user before all, the trace of their session too, and then the
// pages of others.
func (z *Freezer) pictures(ctx context.Context, cycle int, f *finding, told func(memory.ID) memory.Memory) (out []fact.Picture) {
	if z.Dir == "" {
		return nil
	}
	byUser := map[string][]memory.Memory{}
	var users []string
	for _, v := range f.verdicts {
		m := told(v.Memory)
		if byUser[m.User] == nil {
			users = append(users, m.User)
		}
		byUser[m.User] = append(byUser[m.User], m)
	}
	z.mu.Lock()
	misses, traces := slices.Clone(z.album.misses), z.album.traces
	z.mu.Unlock()
	missed := func(user string) int {
		return slices.IndexFunc(misses, func(m miss) bool {
			return m.user == user && slices.ContainsFunc(byUser[user], func(t memory.Memory) bool { return slices.Contains(m.memories, t.ID) })
		})
	}
	// Whose page was caught without it comes first.
	slices.SortStableFunc(users, func(a, b string) int { return min(missed(b), 0) - min(missed(a), 0) })
	for n, user := range users {
		if len(out) >= frozenPictures {
			break
		}
		about := byUser[user][0].ID
		i := missed(user)
		if i >= 0 {
			m := misses[i]
			about = m.memories[slices.IndexFunc(m.memories, func(id memory.ID) bool { return f.memories.Has(id) })]
			for _, file := range m.files {
				out = append(out, fact.Picture{File: filepath.Base(file), Kind: kindOf(file), When: "after", Memory: about, User: user, At: m.at})
			}
		}
		if n > 0 && i < 0 {
			continue
		}
		if n == 0 {
			out = append(out, z.before(ctx, cycle, f, told(about))...)
			z.mu.Lock()
			p, ok := traces[user]
			z.mu.Unlock()
			if ok {
				out = append(out, fact.Picture{File: filepath.Base(p.file), Kind: kindOf(p.file), When: when(p.at, f.fault), Memory: about, User: user, At: p.at})
			}
		}
	}
	return out[:min(len(out), frozenPictures)]
}

// before gives the last page of its user's that showed a memory, of those that were loaded before the fault if there is one,
// drawn again where there is a browser.
func (z *Freezer) before(ctx context.Context, cycle int, f *finding, m memory.Memory) []fact.Picture {
	z.mu.Lock()
	glances := slices.Clone(z.album.glances[m.User])
	z.mu.Unlock()
	var g *session.Glance
	for i := range glances {
		if c := &glances[i]; m.Token != "" && strings.Contains(c.Document, m.Token) && (g == nil || c.Loaded.Before(f.fault) || !g.Loaded.Before(f.fault)) {
			g = c
		}
	}
	if g == nil {
		return nil
	}
	shown := *g
	shown.Document = z.clean(g.Document)
	stem := session.EvidenceName(g.At, fmt.Sprintf("cycle%d-%s-before", cycle, m.User))
	p := fact.Picture{File: stem + ".png", Kind: "screenshot", When: when(g.Loaded, f.fault), Memory: m.ID, User: m.User, At: g.At}
	err := os.MkdirAll(z.Dir, 0o700)
	if err == nil && z.Draw != nil {
		if err := z.Draw(ctx, shown, filepath.Join(z.Dir, p.File)); err == nil {
			return []fact.Picture{p}
		}
		z.Log.Debug("a page is kept as a document: it could not be drawn", zap.Error(err))
	}
	p.File, p.Kind = stem+".html", "document"
	if err == nil {
		err = os.WriteFile(filepath.Join(z.Dir, p.File), []byte(session.StillDocument(shown.Document)), 0o600)
	}
	if err != nil {
		z.Log.Warn("the evidence has no page from before", zap.Error(err))
		return nil
	}
	return []fact.Picture{p}
}

func when(at, fault memory.Instant) string {
	if at.Before(fault) {
		return "before"
	}
	return "after"
}

func kindOf(file string) string {
	switch filepath.Ext(file) {
	case ".png":
		return "screenshot"
	case ".zip":
		return "trace"
	}
	return "document"
}
