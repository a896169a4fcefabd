// Package redis is the view of what the target keeps for each user under a key of Redis: a list, a string, a hash, a
// set, a sorted set or a stream, whichever it finds. Texts may be plain or JSON. Beside the texts it reads the key's
// remaining time to live.
//
// It only reads. A user of its own with these rights is enough; without the last line it cannot say, of a key that is
// not there, which ones are:
//
//	ACL SETUSER amnesia on >PASSWORD resetkeys %R~chat:memory:* resetchannels -@all
//	    +hello +select +type +pttl +lrange +getrange +hscan +sscan +zscan +xrange
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
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

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
	// Page is how many records are asked for in one exchange, of all users that are read together; default 16,384. A
	// Find never holds more than twice as many.
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
	// The plainest way to speak: nothing is sent that nobody asked for, and nothing is tried again behind our back.
	opts.Protocol = 2
	opts.DisableIdentity = true
	opts.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	opts.MaxRetries, opts.DialerRetries = -1, 1
	opts.DialTimeout, opts.ReadTimeout, opts.WriteTimeout, opts.PoolTimeout = cfg.Timeout, cfg.Timeout, cfg.Timeout, cfg.Timeout
	opts.ContextTimeoutEnabled = true
	opts.PoolSize = connections
	// What goes wrong is in the observations; the library would say it on stderr as well, in a form of its own.
	logging.Disable()
	v := &View{cfg: cfg, opts: opts}
	v.last.Store("list")
	return v, nil
}

const (
	// connections is how many exchanges are on their way at once: while one answer is being looked through, Redis works
	// on the next.
	connections = 2
	// least is how many records of one user are asked for at least. One of each page of a list was read before.
	least = 32
)

// Name is the name in the configuration.
func (v *View) Name() string { return v.cfg.Name }

// Close ends the view.
func (v *View) Close() error { return nil }

// Find reads every user's key through connections of its own: older ones could be those of a process that has been
// replaced since.
func (v *View) Find(ctx context.Context, ms []memory.Memory) ([]memory.Observation, error) {
	opts := *v.opts
	client := redis.NewClient(&opts)
	defer client.Close()
	m := view.NewMatcher(ms, view.Options{View: v.cfg.Name, Clock: v.cfg.Clock, Match: v.cfg.Match, Rig: isRig})
	var (
		mu    sync.Mutex
		empty []*view.Reading
		found bool
	)
	m.Batches(ctx, connections, max(1, v.cfg.Page/least), func(ctx context.Context, rs []*view.Reading) error {
		cursors := v.cursors(rs)
		v.follow(ctx, client, cursors)
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
		there := v.instead(ctx, client, empty[0].User())
		for _, r := range empty {
			r.Note(fmt.Sprintf("there is no key %s%s", v.key(r.User()), there))
		}
	}
	return m.Observations(ctx), nil
}

func (v *View) key(user string) string { return strings.ReplaceAll(v.cfg.Key, userSign, user) }

// instead says which keys with the user's name there are, in a bounded number of steps; what Redis refuses to say is
// left out.
func (v *View) instead(ctx context.Context, client *redis.Client, user string) string {
	const steps, step, most = 10, 1000, 3
	n, err := client.DBSize(ctx).Result()
	if err != nil {
		return ""
	}
	there := fmt.Sprintf("; database %d of %s has %d keys", v.opts.DB, v.opts.Addr, n)
	var keys []string
	pattern := "*" + strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(user) + "*"
	for cursor, i := uint64(0), 0; i < steps; i++ {
		var some []string
		if some, cursor, err = client.Scan(ctx, cursor, pattern, step).Result(); err != nil {
			return there
		}
		if keys = append(keys, some...); cursor == 0 || len(keys) >= most {
			break
		}
	}
	if len(keys) == 0 {
		return there + ", none with the user's name"
	}
	slices.Sort(keys)
	return there + ", with the user's name: " + strings.Join(keys[:min(most, len(keys))], ", ")
}

// explain says what was being done, and what to do where that is known.
func (v *View) explain(ctx context.Context, key string, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	fix := ""
	for code, what := range fixes {
		if redis.HasErrorPrefix(err, code) {
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
	var reply redis.Error
	if !errors.As(err, &reply) {
		var other *contentError
		return !errors.As(err, &other)
	}
	return redis.HasErrorPrefix(reply, "NOAUTH") || redis.HasErrorPrefix(reply, "WRONGPASS") || redis.HasErrorPrefix(reply, "NOPERM")
}
