package chatapp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/zap"
)

// open opens the stores with the bugs that are planted in them, and mends what a crash left.
func (c *chat) open(ctx context.Context) (err error) {
	if err := os.MkdirAll(c.cfg.Data, 0o755); err != nil {
		return fmt.Errorf("making the data directory: %w — fix: set CHATAPP_DATA to a directory that can be written", err)
	}
	if c.database, err = openServer(ctx, c.log, c.openDatabase); err != nil {
		return err
	}
	durable := map[string]Store{}
	for _, home := range c.cfg.Homes {
		store, err := openServer(ctx, c.log, func(ctx context.Context) (Store, error) { return c.openHome(ctx, home) })
		if err != nil {
			return err
		}
		witness := newWitness(store, c.record)
		durable[home] = witness
		c.homes = append(c.homes, c.plantIn(witness))
		if home == VectorStore {
			c.vectors = c.homes[len(c.homes)-1]
		}
		if err = witness.holds(ctx); err != nil {
			return err
		}
	}
	if err := c.openShortTerm(ctx); err != nil {
		return err
	}
	if c.cfg.Bugs[StaleCache] {
		if c.homes[0], err = openStale(ctx, c.homes[0], filepath.Join(c.cfg.Scratch, "history.json")); err != nil {
			return err
		}
	}
	// A healthy app mends what a crash left; with these bugs nobody thought of it.
	database, vectors := durable[DatabaseStore], durable[VectorStore]
	if database != nil && vectors != nil && !c.cfg.NoRebuild && !c.cfg.Bugs.any(CounterID, DualWriteGap, EphemeralClient, EphemeralVolume, GhostDelete, RetryDup, SwallowedError) {
		if err = reconcile(ctx, database, vectors); err != nil {
			return fmt.Errorf("building the vector memory again: %w", err)
		}
	}
	if c.inbox != nil {
		c.inbox.start(c.homes)
	}
	return nil
}

// startPatience is how long the app waits for a server that is being started too; storeRetry lies between two tries.
const (
	startPatience = 30 * time.Second
	storeRetry    = 200 * time.Millisecond
)

// openServer opens a store. It waits for one that is not there yet, as after a crash of the whole host, when all come up
// at once.
func openServer[S any](ctx context.Context, log *zap.Logger, open func(context.Context) (S, error)) (S, error) {
	deadline := time.Now().Add(startPatience)
	for {
		try, cancel := context.WithTimeout(ctx, storeTimeout)
		store, err := open(try)
		cancel()
		if err == nil || !unreachable(err) || time.Now().After(deadline) {
			return store, err
		}
		log.Warn("waiting for a store", zap.Error(err))
		select {
		case <-ctx.Done():
			return store, errors.Join(err, ctx.Err())
		case <-time.After(storeRetry):
		}
	}
}

// unreachable tells a server that may come from one that refuses what it is asked for.
func unreachable(err error) bool {
	var file *fs.PathError // whose cause passes for a net.Error too
	if errors.As(err, &file) {
		return false
	}
	var network net.Error // also a refused connection and a time that ran out
	var starting *pgconn.PgError
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(err.Error(), "LOADING ") ||
		(errors.As(err, &starting) && starting.Code == "57P03") // cannot_connect_now
}

func (c *chat) openDatabase(ctx context.Context) (*database, error) {
	if c.cfg.Postgres != "" {
		return openPostgres(ctx, c.cfg.Postgres)
	}
	return openDatabase(ctx, c.cfg.Data, !c.cfg.Bugs[Unsynced])
}

func (c *chat) openHome(ctx context.Context, home string) (Store, error) {
	bugs := c.cfg.Bugs
	switch {
	case home == RedisStore:
		return c.openRedis(ctx)
	case home == DatabaseStore:
		return c.database, nil
	case bugs[EphemeralClient]:
		return openVectors(vectorOptions{counter: bugs[CounterID]})
	case c.cfg.Chroma != "":
		return openChroma(ctx, c.cfg.Chroma, bugs[CounterID])
	case bugs[EphemeralVolume]:
		return openVectors(vectorOptions{dir: filepath.Join(c.cfg.Scratch, "vectors"), synced: !bugs[Unsynced], counter: bugs[CounterID]})
	default:
		return openVectors(vectorOptions{dir: filepath.Join(c.cfg.Data, "vectors"), synced: !bugs[Unsynced], counter: bugs[CounterID]})
	}
}

func (c *chat) openRedis(ctx context.Context) (*redisStore, error) {
	o := redisOptions{ttl: c.cfg.RedisTTL, refresh: !c.cfg.Bugs[TTLShort], inbox: c.cfg.Writes == Async}
	switch {
	case c.cfg.Bugs[TTLLong]:
		o.ttl *= 1000
	case c.cfg.Bugs[TTLNone]:
		o.ttl = 0
	}
	return openRedis(ctx, c.cfg.Redis, o)
}

// impatient plants RetryDup.
func (c *chat) impatient(s Store) Store {
	if c.cfg.Bugs[RetryDup] && s.Name() == RedisStore {
		return retried{Store: s, next: c.next}
	}
	return s
}

// openShortTerm takes Redis where there is one that is no home already.
func (c *chat) openShortTerm(ctx context.Context) error {
	if c.cfg.Redis == "" || slices.Contains(c.cfg.Homes, RedisStore) {
		c.recent = newShortTerm(c.record)
		return nil
	}
	store, err := openServer(ctx, c.log, c.openRedis)
	if err != nil {
		return err
	}
	witness := newWitness(store, c.record)
	c.cache = c.impatient(witness)
	c.recent = redisShortTerm{store: c.cache, log: c.log}
	if c.cfg.Writes == Async {
		if c.inbox, err = openInbox(ctx, c.cache, store, c.log); err != nil {
			return err
		}
	}
	return witness.holds(ctx)
}

// plantIn wraps a store in the bugs that lie between the app and it.
func (c *chat) plantIn(s Store) Store {
	s = c.impatient(s)
	if c.cfg.Bugs[Buffered] {
		s = &buffered{Store: s}
	}
	if c.cfg.Bugs[SlowIndex] {
		s = delayed{Store: s, delay: c.cfg.IndexDelay, now: c.cfg.Now}
	}
	return s
}
