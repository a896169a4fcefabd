package chatapp

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"amnesia/pkg/chatapp/truth"
)

// pageSize is how many exchanges one page of the history holds: twice as many messages.
const pageSize = 50

// storeTimeout bounds all that the stores do for one message, undoTimeout what is done about it when that failed.
const (
	storeTimeout = 5 * time.Second
	undoTimeout  = 2 * time.Second
)

// exchange is what a user said and what the app answered.
type exchange struct {
	ID     string
	Text   string
	Answer string
}

// chat is the assistant with its memory pipeline.
type chat struct {
	cfg      Config
	log      *zap.Logger
	record   recorder
	database *database
	vectors  Store   // as it is read: nil when it is no home
	homes    []Store // in the order in which they are written; the first is what the history is read from
	recent   shortTerm
	cache    Store // what recent lies in: nil when that is the process
	queue    *queue
	inbox    *inbox // nil when the homes are written before the answer, or with a bug in another order
	started  time.Time

	mu     sync.Mutex
	lastID int64
}

func openChat(ctx context.Context, cfg Config, log *truth.Log) (*chat, error) {
	record := func(e truth.Event) {
		if err := log.Record(e); err != nil { // spoils a test and not the app
			cfg.Log.Error("the truth log has a hole", zap.Error(err))
		}
	}
	c := &chat{cfg: cfg, log: cfg.Log, record: record, queue: newQueue(), started: cfg.Now()}
	if err := c.open(ctx); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// close writes what is queued or buffered.
func (c *chat) close() error {
	c.queue.close()
	if c.inbox != nil {
		c.inbox.close()
	}
	var errs []error
	for _, s := range slices.Backward(c.homes) {
		errs = append(errs, s.Close())
	}
	if c.cache != nil {
		errs = append(errs, c.cache.Close())
	}
	if c.database != nil {
		errs = append(errs, c.database.Close()) // also when it is no home; closing twice does nothing
	}
	return errors.Join(errs...)
}

// say takes one message and gives the answer, which the caller must pass on: when say returns, the app's word is given.
// It goes on when its caller has gone.
func (c *chat) say(ctx context.Context, user, text string) (exchange, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	at, id := c.next()
	if isQuestion(text) {
		answer, err := c.recall(ctx, user, text)
		if err != nil {
			return exchange{}, err
		}
		e := exchange{id, text, answer}
		return e, c.database.ask(ctx, user, e)
	}
	if m, ok := c.again(ctx, user, text, at); ok {
		c.witness(truth.Acknowledged, m)
		return exchangeOf(m), nil
	}
	m := Memory{ID: id, User: user, Text: text, Summary: summarize(text), At: at}
	c.witness(truth.Told, m)
	if err := c.remember(ctx, m); err != nil {
		return exchange{}, err
	}
	c.log.Info("memory saved", zap.String("user", user), zap.String("id", m.ID))
	c.witness(truth.Acknowledged, m)
	return exchangeOf(m), nil
}

// A browser sends a message once more when the connection that it was sent on, used before, ends without an answer: a POST
// too. So what is told just after a start may have been taken by the process that died.
const (
	resendsWithin = time.Minute
	resendsAmong  = 10 // of the user's newest memories
)

// again gives what an earlier process saved of a message that comes once more. Where that cannot be read now, the message
// is taken as new. (retry-dup is the bug of an app that does not look.)
func (c *chat) again(ctx context.Context, user, text string, at time.Time) (Memory, bool) {
	if at.Sub(c.started) > resendsWithin || c.cfg.Bugs[RetryDup] {
		return Memory{}, false
	}
	ms, err := c.early(c.homes[0]).Find(ctx, Query{User: user, Before: idAt(c.started), Limit: resendsAmong})
	if err != nil {
		c.log.Warn("not known whether a message came before", zap.String("user", user), zap.Error(err))
	}
	i := slices.IndexFunc(ms, func(m Memory) bool { return m.Text == text })
	if i < 0 {
		return Memory{}, false
	}
	return ms[i], true
}

func exchangeOf(m Memory) exchange { return exchange{m.ID, m.Text, "Saved: " + m.Text} }

func isQuestion(text string) bool {
	text = strings.TrimSpace(text)
	return strings.HasSuffix(text, "?") || strings.HasSuffix(text, "？")
}

// summaryRunes is the length of a summary.
const summaryRunes = 120

// summarize gives the beginning of the text on one line.
func summarize(text string) string {
	runes := []rune(strings.Join(strings.Fields(text), " "))
	if len(runes) <= summaryRunes {
		return string(runes)
	}
	return string(runes[:summaryRunes-1]) + "…"
}

// next gives the time and an id that is above every earlier one.
func (c *chat) next() (time.Time, string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.cfg.Now()
	c.lastID = max(at.UnixNano(), c.lastID+1)
	return at, pad(c.lastID)
}

// remember writes the memory to its homes and to short-term memory, now or, with a bug or by way of the inbox, later.
func (c *chat) remember(ctx context.Context, m Memory) error {
	now := c.cfg.Now()
	switch {
	case c.cfg.Bugs.any(AckEarly, LocalEcho):
		// The queue drains at every whole Drain since the start.
		drain := c.started.Add((now.Sub(c.started)/c.cfg.Drain + 1) * c.cfg.Drain)
		c.later(m, drain, func(ctx context.Context) {
			if c.save(ctx, m, c.homes...) == nil {
				c.recent.add(ctx, m)
			}
		})
	case c.cfg.Bugs[DualWriteGap]:
		if err := c.save(ctx, m, c.homes[0]); err != nil {
			return err
		}
		c.recent.add(ctx, m)
		c.later(m, now.Add(c.cfg.Drain), func(ctx context.Context) { _ = c.save(ctx, m, c.homes[1:]...) })
	case c.inbox != nil:
		if err := c.inbox.take(ctx, m); err != nil {
			return c.unsaved(ctx, err, m, c.cache)
		}
	default:
		if err := c.save(ctx, m, c.homes...); err != nil {
			return err
		}
		c.recent.add(ctx, m)
	}
	if c.cfg.Bugs[GhostDelete] {
		c.later(m, now.Add(c.cfg.Drain), func(ctx context.Context) { _ = c.save(ctx, m, c.homes...) })
	}
	return nil
}

// later runs a save from the queue, when nobody waits for the outcome any more: save has logged it, and there is no one
// to tell.
func (c *chat) later(m Memory, due time.Time, save func(context.Context)) {
	c.queue.add(job{memory: m, due: due, run: func() {
		ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
		defer cancel()
		save(ctx)
	}})
}

// save writes to each of the homes, or to none as far as can be: the user is going to be told that it failed.
func (c *chat) save(ctx context.Context, m Memory, homes ...Store) error {
	for i, home := range homes {
		_, err := home.Save(ctx, m)
		if err == nil || c.cfg.Bugs[SwallowedError] {
			continue
		}
		return c.unsaved(ctx, err, m, homes[:i+1]...)
	}
	return nil
}

// unsaved logs that the last of the stores failed to save, and takes back what they may have.
func (c *chat) unsaved(ctx context.Context, err error, m Memory, stores ...Store) error {
	c.log.Error("memory not saved", zap.String("store", stores[len(stores)-1].Name()), zap.String("user", m.User),
		zap.String("id", m.ID), zap.String("text", m.Text), zap.Error(err))
	return errors.Join(err, undo(ctx, m, stores))
}

// undo takes back what save has done, also when its time is up: a store that did not answer may have saved all the same.
func undo(ctx context.Context, m Memory, homes []Store) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	var errs []error
	for _, home := range homes {
		_, err := home.Delete(ctx, m)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// recall answers a question out of the user's memories.
func (c *chat) recall(ctx context.Context, user, question string) (string, error) {
	home := c.homes[0]
	if c.vectors != nil {
		home = c.vectors
	}
	ms, err := c.early(home).Find(ctx, Query{User: c.reader(user), Like: question, Limit: 3})
	if err != nil {
		return "", err
	}
	if len(ms) == 0 {
		last, ok := c.recent.last(ctx, user)
		if !ok {
			return "I do not know: you have told me nothing about that.", nil
		}
		ms = []Memory{last}
	}
	texts := make([]string, len(ms))
	for i, m := range ms {
		texts[i] = m.Text
	}
	return "You told me: " + strings.Join(texts, "\n"), nil
}

// early is a home with what is on its way there.
func (c *chat) early(home Store) Store {
	if c.inbox == nil {
		return home
	}
	return early{home, c.inbox}
}

// reader is whose memories and questions the user may read.
func (c *chat) reader(user string) string {
	if c.cfg.Bugs[Leak] {
		return "" // no filter
	}
	return user
}

// history gives a page of exchanges, oldest first, that ends before an id (empty: the newest page), and where the page
// before it ends; that is empty when there is none.
func (c *chat) history(ctx context.Context, user, before string) (page []exchange, older string, err error) {
	q := Query{User: c.reader(user), Before: before, Limit: pageSize + 1}
	ms, err := c.early(c.homes[0]).Find(ctx, q)
	if err != nil {
		return nil, "", err
	}
	if page, err = c.database.questions(ctx, q); err != nil {
		return nil, "", err
	}
	for _, m := range ms {
		page = append(page, exchangeOf(m))
	}
	slices.SortFunc(page, func(a, b exchange) int { return cmp.Compare(b.ID, a.ID) })
	if len(page) > pageSize {
		page = page[:pageSize]
		older = page[pageSize-1].ID
	}
	slices.Reverse(page)
	return page, older, nil
}

// forget deletes the user's memories and questions that q selects, written or still queued, and every answer that
// repeats such a memory, and gives the ids of the exchanges that are gone. What is not there, or is another's, is none
// of them.
func (c *chat) forget(ctx context.Context, q Query) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	var ms []Memory
	if !c.cfg.Bugs[GhostDelete] {
		ms = c.queue.cancel(q.match)
	}
	found, err := c.early(c.homes[0]).Find(ctx, q)
	if err != nil {
		return nil, err
	}
	for _, m := range found {
		if !slices.ContainsFunc(ms, func(queued Memory) bool { return queued.ID == m.ID }) {
			ms = append(ms, m)
		}
	}
	doomed := ms
	if c.cfg.Bugs[WipeScope] && len(ms) > 0 {
		if doomed, err = c.early(c.homes[0]).Find(ctx, Query{}); err != nil {
			return nil, err
		}
	}
	if c.inbox != nil {
		if err := c.inbox.remove(ctx, doomed); err != nil {
			return nil, err
		}
	}
	// Of the homes the database goes first: reconcile ends what a kill between the two leaves.
	for _, home := range c.homes {
		if _, err := home.Delete(ctx, doomed...); err != nil {
			return nil, err
		}
	}
	asked, err := c.database.unask(ctx, q, ms)
	if err != nil {
		return nil, err
	}
	for _, m := range ms {
		if c.inbox == nil { // which has done it
			c.recent.remove(ctx, m)
		}
		c.witness(truth.Deleted, m)
	}
	return append(idsOf(ms), asked...), nil
}

func idsOf(ms []Memory) []string {
	ids := make([]string, len(ms))
	for i, m := range ms {
		ids[i] = m.ID
	}
	return ids
}

// witness records what the user is about to be told.
func (c *chat) witness(event string, m Memory) {
	c.record(truth.Event{Event: event, User: m.User, ID: m.ID, Text: m.Text})
}
