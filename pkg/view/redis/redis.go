// Package redis is the view of what the target keeps for each user under a key of Redis: a list, a string, a hash, a
// set, a sorted set or a stream, whichever it finds. Texts may be plain or JSON. Beside the texts it reads the key's
// remaining time to live.
//
// It only reads. A user of its own with these rights is enough; without the last line it cannot say, of a key that is
// not there, which ones are:
//
//	ACL SETUSER amnesia on >PASSWORD resetkeys %R~chat:memory:* resetchannels -@all
//	    +select +type +pttl +lrange +getrange +hscan +sscan +zscan +xrange
//	    +scan +dbsize
//
// It knows nothing of the app's ways with a key but what the type says, and of clusters nothing at all.
package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"amnesia/pkg/memory"
	"amnesia/pkg/view"
)

// Config says what to read.
type Config struct {
	Name string
	// URL is redis://user:password@host:port/database, or the same with rediss:// or unix://. It never appears in an
	// error; its host and port may.
	URL string
	// Key is a user's key; {user} stands for the user.
	Key     string
	Match   view.Match
	Timeout time.Duration // of one exchange; default 10s
	// Page is how many records are asked for in one exchange, of all users that are read together; default 16,384. None
	// of them is held.
	Page int
	// MaxString is the longest string value that is read, in bytes; default 16 MiB.
	MaxString int64
	Clock     memory.Clock
}

// View is the view of one key pattern.
type View struct {
	cfg  Config
	opts *redis.Options
	// last is the type of the last key that was read: the first guess for the next one.
	last atomic.Value
}

const userSign = "{user}"

// New makes the view, or says what is wrong with its address or key; Redis is first asked by Find.
func New(cfg Config) (*View, error) {
	var errs []error
	opts, err := redis.ParseURL(cfg.URL)
	if err != nil {
		// Its own words may hold the password.
		errs = append(errs, errors.New("url: it is no address of Redis — fix: write it as redis://user:password@host:6379/0"))
	}
	if !strings.Contains(cfg.Key, userSign) {
		errs = append(errs, fmt.Errorf("key: %q is the same for all users, whose records cannot be told apart — fix: put {user} into it, as in chat:memory:{user}", cfg.Key))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 10 * time.Second
	}
	if cfg.Page <= 0 {
		cfg.Page = 16_384
	}
	if cfg.MaxString <= 0 {
		cfg.MaxString = 16 << 20
	}
	v := &View{cfg: cfg, opts: opts}
	v.last.Store("list")
	return v, nil
}

const (
	// connections is how many exchanges are on their way at once: while one answer is being looked through, Redis works
	// on the next.
	connections = 2
	// together is how many users are asked about in one exchange, and least how many records of each at least. One of
	// each page of a list was read before.
	together = 25
	least    = 32
)

// Name is the name in the configuration.
func (v *View) Name() string { return v.cfg.Name }

// Close ends the view.
func (v *View) Close() error { return nil }

// Find reads every user's key through connections of its own: older ones could be those of a process that has been
// replaced since.
func (v *View) Find(ctx context.Context, ms []memory.Memory) ([]memory.Observation, error) {
	m := view.NewMatcher(ms, view.Options{View: v.cfg.Name, Clock: v.cfg.Clock, Match: v.cfg.Match, Rig: isRig})
	idle := make(chan *conn, connections)
	defer func() {
		for len(idle) > 0 {
			(<-idle).hangUp()
		}
	}()
	var (
		mu    sync.Mutex
		empty []*view.Reading
		found bool
	)
	m.Batches(ctx, connections, together, func(ctx context.Context, rs []*view.Reading) error {
		cursors := v.cursors(rs)
		if err := v.exchange(ctx, idle, func(c *conn) error {
			return (&exchanges{View: v, conn: c}).follow(ctx, cursors)
		}); err != nil {
			for _, c := range cursors {
				if !c.ended {
					c.end(v.explain(ctx, c.key, err))
				}
			}
		}
		mu.Lock()
		defer mu.Unlock()
		for _, c := range cursors {
			if found = found || c.kind != "none"; c.kind == "none" {
				empty = append(empty, c.Reading)
			}
		}
		return nil
	})
	mu.Lock()
	defer mu.Unlock()
	if !found && len(empty) > 0 && ctx.Err() == nil {
		there := v.instead(ctx, idle, empty[0].User())
		for _, r := range empty {
			r.Note(fmt.Sprintf("there is no key %s%s", v.key(r.User()), there))
		}
	}
	return m.Observations(ctx), nil
}

// exchange does something with an idle connection, or with a new one. One that fails is not used again.
func (v *View) exchange(ctx context.Context, idle chan *conn, do func(*conn) error) (err error) {
	var c *conn
	select {
	case c = <-idle:
	default:
		if c, err = dial(ctx, v.opts, v.cfg.Timeout); err != nil {
			return err
		}
	}
	if err = do(c); err == nil {
		select {
		case idle <- c:
			return nil
		default:
		}
	}
	c.hangUp()
	return err
}

func (v *View) key(user string) string { return strings.ReplaceAll(v.cfg.Key, userSign, user) }

// instead says which keys with the user's name there are, in a bounded number of steps; what Redis refuses to say is
// left out.
func (v *View) instead(ctx context.Context, idle chan *conn, user string) (there string) {
	const steps, step, most = 10, "1000", 3
	pattern := "*" + strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(user) + "*"
	var keys []string
	_ = v.exchange(ctx, idle, func(c *conn) error {
		c.ask("DBSIZE")
		err := c.send()
		n := 0
		if err == nil {
			n, err = c.number(':')
		}
		if err != nil {
			return err
		}
		there = fmt.Sprintf("; database %d of %s has %d keys", v.opts.DB, v.opts.Addr, n)
		cursor := "0"
		for range steps {
			c.ask("SCAN", cursor, "MATCH", pattern, "COUNT", step)
			if err = c.send(); err == nil {
				_, err = c.list()
			}
			var next []byte
			if err == nil {
				next, err = c.text()
			}
			if err != nil {
				return err
			}
			cursor = string(next)
			if err := c.texts(func(_, _ int, key []byte) { keys = append(keys, string(key)) }); err != nil {
				return err
			}
			if cursor == "0" || len(keys) >= most {
				break
			}
		}
		if slices.Sort(keys); len(keys) == 0 {
			there += ", none with the user's name"
		} else {
			there += ", with the user's name: " + strings.Join(keys[:min(most, len(keys))], ", ")
		}
		return nil
	})
	return there
}

// explain says what was being done, and what to do where that is known.
func (v *View) explain(ctx context.Context, key string, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	fix := ""
	for code, what := range fixes {
		if says(err, code) {
			fix = " — fix: " + what
		}
	}
	return fmt.Errorf("read the key %s on %s: %w%s", key, v.opts.Addr, err, fix)
}

// fixes are by the code with which an error of Redis begins.
var fixes = map[string]string{
	"NOAUTH":    "put the user and password into the view's url",
	"WRONGPASS": "check the user and password in the view's url",
	"NOPERM":    "give the view's user the rights to read that the manual lists",
	"MOVED":     "read a Redis that is no cluster, or read the same data by another view",
}

// isRig: no connection, no whole reply, or one that refuses the probe and not the user.
func isRig(err error) bool {
	var reply replyError
	if !errors.As(err, &reply) {
		var other *contentError
		return !errors.As(err, &other)
	}
	return says(err, "NOAUTH") || says(err, "WRONGPASS") || says(err, "NOPERM")
}
