package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Place is a key that holds something that was looked for.
type Place struct {
	DB   int
	Key  string // with {user} for the user; where the key does not name the user, as it is
	Type string
	TTL  time.Duration // that is left; 0: it lives for ever
}

// Named reports whether the key names its user, so that a view can read it.
func (p Place) Named() bool { return strings.Contains(p.Key, userSign) }

const (
	mostKeys = 100_000 // that are gone through, of one database
	mostRead = 5_000   // whose values are read although they do not name the user
)

// Locate finds the keys whose values hold a mark, those that name the user first. It reads, as a view does, and no more
// than a bounded part of what Redis holds. url is as in Config.
func Locate(ctx context.Context, url, user, mark string) (places []Place, err error) {
	opts, err := redis.ParseURL(url)
	if err != nil {
		return nil, errors.New("it is no address of Redis") // its own words may hold the password
	}
	dbs, err := databases(ctx, opts)
	if err != nil {
		return nil, err
	}
	for _, db := range dbs {
		found, err := locate(ctx, opts, db, user, mark)
		if err != nil {
			return nil, err
		}
		places = append(places, found...)
	}
	slices.SortStableFunc(places, func(a, b Place) int {
		return cmp.Or(-compare(a.Named(), b.Named()), cmp.Compare(a.DB, b.DB), cmp.Compare(a.Key, b.Key))
	})
	return places, nil
}

func compare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// client is one for a single connection, that a command fails on at once.
func client(opts *redis.Options, db int) *redis.Client {
	o := *opts
	o.DB, o.PoolSize, o.MaxRetries, o.DisableIdentity, o.Protocol, o.ContextTimeoutEnabled = db, 1, -1, true, 2, true
	return redis.NewClient(&o)
}

// databases gives the numbers of those that hold keys (INFO keyspace); where Redis does not tell, the address's own.
func databases(ctx context.Context, opts *redis.Options) (dbs []int, err error) {
	c := client(opts, opts.DB)
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.Ping(ctx).Err(); err != nil {
		return nil, fmt.Errorf("ask Redis at %s: %w", opts.Addr, err)
	}
	info, err := c.Info(ctx, "keyspace").Result()
	for line := range strings.Lines(info) {
		name, _, _ := strings.Cut(line, ":")
		if n, err := strconv.Atoi(strings.TrimPrefix(name, "db")); err == nil && strings.HasPrefix(name, "db") {
			dbs = append(dbs, n)
		}
	}
	if err != nil {
		dbs = []int{opts.DB}
	}
	return dbs, nil
}

func locate(ctx context.Context, opts *redis.Options, db int, user, mark string) (places []Place, err error) {
	c := client(opts, db)
	defer func() { err = errors.Join(err, c.Close()) }()
	seen, read := map[string]bool{}, 0
	for scan := c.Scan(ctx, 0, "*", 1000).Iterator(); ; {
		if !scan.Next(ctx) {
			if err := scan.Err(); err != nil {
				return places, fmt.Errorf("go through the keys of Redis at %s: %w", opts.Addr, err)
			}
			return places, nil
		}
		key := scan.Val()
		named := strings.Contains(key, user)
		if seen[key] || !named && read >= mostRead {
			continue
		}
		if len(seen) >= mostKeys {
			return places, nil
		}
		if seen[key] = true; !named {
			read++
		}
		kind, holds, err := holds(ctx, c, key, mark)
		if err != nil {
			return places, fmt.Errorf("read a key of Redis at %s: %w", opts.Addr, err)
		}
		if !holds {
			continue
		}
		left, err := c.PTTL(ctx, key).Result()
		if err != nil {
			return places, fmt.Errorf("ask Redis at %s how long a key lives: %w", opts.Addr, err)
		}
		places = append(places, Place{DB: db, Key: strings.ReplaceAll(key, user, userSign), Type: kind, TTL: max(0, left)})
	}
}

// holds reports whether a key's value holds the mark; the kind is a type that the view can read.
func holds(ctx context.Context, c *redis.Client, key, mark string) (kind string, found bool, err error) {
	if kind, err = c.Type(ctx, key).Result(); err != nil {
		return "", false, err
	}
	var texts []string
	switch kind {
	case "string":
		var text string
		text, err = c.GetRange(ctx, key, 0, 16<<20).Result()
		texts = []string{text}
	case "list":
		texts, err = c.LRange(ctx, key, 0, -1).Result()
	case "hash":
		texts, err = c.HVals(ctx, key).Result()
	case "set":
		texts, err = c.SMembers(ctx, key).Result()
	case "zset":
		texts, err = c.ZRange(ctx, key, 0, -1).Result()
	case "stream":
		var entries []redis.XMessage
		entries, err = c.XRange(ctx, key, "-", "+").Result()
		for _, e := range entries {
			for _, v := range e.Values {
				texts = append(texts, fmt.Sprint(v))
			}
		}
	}
	return kind, slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(s, mark) }), err
}

// Left says how long a user's key still lives; 0: for ever, or it is not there.
func (v *View) Left(ctx context.Context, user string) (left time.Duration, err error) {
	c := client(v.opts, v.opts.DB)
	defer func() { err = errors.Join(err, c.Close()) }()
	left, err = c.PTTL(ctx, v.key(user)).Result()
	return max(0, left), err
}
