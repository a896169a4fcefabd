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
	mostKeys  = 100_000   // that are gone through, of one database
	mostOther = 5_000     // whose values are read although they do not name the user
	mostRead  = 256 << 20 // bytes of those values, beside the last one's
	mostPages = 100       // of one key
	mostOf    = 16 << 20  // bytes of one key, beside its last page
	page      = 100       // records that are asked for at once
)

// Locate finds the keys whose values hold a mark, those that name the user first. It reads, as a view does, and no more
// than a bounded part of what Redis holds: of a list or sorted set of many thousand records both ends, of a stream the
// newest, of a hash or set some. url is as in Config.
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
	seen, others, bytes := map[string]bool{}, 0, 0
	for scan := c.Scan(ctx, 0, "*", 1000).Iterator(); ; {
		if !scan.Next(ctx) {
			if err := scan.Err(); err != nil {
				return places, fmt.Errorf("go through the keys of Redis at %s: %w", opts.Addr, err)
			}
			return places, nil
		}
		key := scan.Val()
		named := strings.Contains(key, user)
		if seen[key] || !named && (others >= mostOther || bytes >= mostRead) {
			continue
		}
		if len(seen) >= mostKeys {
			return places, nil
		}
		kind, holds, n, err := holds(ctx, c, key, mark)
		if err != nil {
			return places, fmt.Errorf("read a key of Redis at %s: %w", opts.Addr, err)
		}
		if seen[key] = true; !named {
			others++
			bytes += n
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

// holds reports whether what is read of a key's value holds the mark, and how many bytes that was; the kind is a type
// that the view can read.
func holds(ctx context.Context, c *redis.Client, key, mark string) (kind string, found bool, read int, err error) {
	if kind, err = c.Type(ctx, key).Result(); err != nil {
		return "", false, 0, err
	}
	cursor, newest := uint64(0), "+"
	for i, more := 0, true; more && i < mostPages && read < mostOf; i++ {
		// The first page, the last one, the second one, and so on: what was told just now is at one of the ends.
		from := int64(i / 2 * page)
		to := from + page - 1
		if i%2 == 1 {
			from, to = -1-to, -1-from
		}
		var texts []string
		switch kind {
		case "list":
			texts, err = c.LRange(ctx, key, from, to).Result()
			more = len(texts) == page
		case "zset":
			texts, err = c.ZRange(ctx, key, from, to).Result()
			more = len(texts) == page
		case "hash":
			texts, cursor, err = c.HScan(ctx, key, cursor, "", page).Result()
			more = cursor != 0
		case "set":
			texts, cursor, err = c.SScan(ctx, key, cursor, "", page).Result()
			more = cursor != 0
		case "stream":
			var entries []redis.XMessage
			entries, err = c.XRevRangeN(ctx, key, newest, "-", page).Result()
			for _, e := range entries {
				newest = e.ID // the last one of a page is the first of the next
				for _, v := range e.Values {
					texts = append(texts, fmt.Sprint(v))
				}
			}
			more = len(entries) == page
		case "string":
			texts, more = []string{""}, false
			texts[0], err = c.GetRange(ctx, key, 0, mostOf).Result()
		default:
			more = false
		}
		if err != nil {
			return kind, false, read, err
		}
		for _, text := range texts {
			read += len(text)
			if strings.Contains(text, mark) {
				return kind, true, read, nil
			}
		}
	}
	return kind, false, read, nil
}

// Left says how long a user's key still lives; 0: for ever, or it is not there.
func (v *View) Left(ctx context.Context, user string) (left time.Duration, err error) {
	c := client(v.opts, v.opts.DB)
	defer func() { err = errors.Join(err, c.Close()) }()
	left, err = c.PTTL(ctx, v.key(user)).Result()
	return max(0, left), err
}
