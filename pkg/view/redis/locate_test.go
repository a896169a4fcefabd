package redis_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	app "github.com/redis/go-redis/v9"

	"amnesia/pkg/view/redis"
)

// Locate finds a mark in every type of key and in every database, and how the key names its user.
func TestLocate(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	const user, mark, text = "amnesia-a-0", "amnkvdq", `{"content":"The code is amnkvdq."}`
	first, second := s.client(t, 0), s.client(t, 3)
	ctx := t.Context()
	check(t, first.RPush(ctx, "chat:memory:"+user, "older", text).Err())
	check(t, first.Expire(ctx, "chat:memory:"+user, 30*time.Minute).Err())
	check(t, first.HSet(ctx, "pending", "id", text).Err())
	check(t, first.Set(ctx, "chat:memory:amnesia-a-1", "of another", 0).Err())
	check(t, second.Set(ctx, user+":last", text, 0).Err())
	check(t, second.SAdd(ctx, "set:"+user, text).Err())
	check(t, second.ZAdd(ctx, "zset:"+user, app.Z{Member: text}).Err())
	check(t, second.XAdd(ctx, &app.XAddArgs{Stream: "stream:" + user, Values: map[string]any{"text": text}}).Err())

	places, err := redis.Locate(ctx, s.url(0), user, mark)
	check(t, err)
	if len(places) > 0 {
		if left := places[0].TTL; left < 29*time.Minute || left > 30*time.Minute {
			t.Errorf("%s are left", left)
		}
		places[0].TTL = 0
	}
	want := []redis.Place{
		{Key: "chat:memory:{user}", Type: "list"},
		{DB: 3, Key: "set:{user}", Type: "set"}, {DB: 3, Key: "stream:{user}", Type: "stream"}, {DB: 3, Key: "zset:{user}", Type: "zset"}, {DB: 3, Key: "{user}:last", Type: "string"},
		{Key: "pending", Type: "hash"},
	}
	if diff := cmp.Diff(want, places); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if places, err := redis.Locate(ctx, s.url(0), user, "amnother"); err != nil || len(places) > 0 {
		t.Errorf("%v, %v", places, err)
	}

	v, err := redis.New(redis.Config{Name: "redis", URL: s.url(0), Key: "chat:memory:{user}"})
	check(t, err)
	if left, err := v.Left(ctx, user); err != nil || left < 29*time.Minute {
		t.Errorf("%s, %v", left, err)
	}
	if left, err := v.Left(ctx, "amnesia-a-1"); err != nil || left != 0 {
		t.Errorf("%s, %v", left, err)
	}
}

// TestLocateInHugeKeys: of a key with very many records a bounded part is read, and what came last is in it.
func TestLocateInHugeKeys(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := s.client(t, 0)
	ctx := t.Context()
	const user, mark, many = "amnesia-a-0", "amnkvdq", 30_000
	record := strings.Repeat("x", 1000)
	fill := func(key string, put func(pipe app.Pipeliner, key, text string, n int)) {
		t.Helper()
		pipe := c.Pipeline()
		for n := range many {
			text := fmt.Sprint(n, record)
			switch n {
			case 0:
				text = "first " + mark + "1"
			case many / 2:
				text = "between " + mark + "2"
			case many - 1:
				text = "last " + mark + "3"
			}
			if put(pipe, key, text, n); pipe.Len() == 1000 || n == many-1 {
				_, err := pipe.Exec(ctx)
				check(t, err)
			}
		}
	}
	fill("list", func(p app.Pipeliner, key, text string, _ int) { p.RPush(ctx, key, text) })
	fill("zset", func(p app.Pipeliner, key, text string, n int) {
		p.ZAdd(ctx, key, app.Z{Score: float64(n), Member: text})
	})
	fill("stream", func(p app.Pipeliner, key, text string, _ int) {
		p.XAdd(ctx, &app.XAddArgs{Stream: key, Values: []string{"text", text}})
	})
	fill("set", func(p app.Pipeliner, key, text string, _ int) { p.SAdd(ctx, key, text) })
	fill("hash", func(p app.Pipeliner, key, text string, n int) { p.HSet(ctx, key, n, text) })
	check(t, c.ConfigResetStat(ctx).Err())
	for mark, want := range map[string]string{mark + "1": "list zset", mark + "2": "", mark + "3": "list stream zset"} {
		places, err := redis.Locate(ctx, s.url(0), user, mark)
		check(t, err)
		var keys []string
		for _, p := range places {
			if p.Key != "set" && p.Key != "hash" { // which have no order
				keys = append(keys, p.Key)
			}
		}
		if got := strings.Join(keys, " "); got != want {
			t.Errorf("%s is in %q, want %q", mark, got, want)
		}
	}
	info, err := c.Info(ctx, "stats").Result()
	check(t, err)
	_, info, _ = strings.Cut(info, "total_net_output_bytes:")
	said, err := strconv.Atoi(strings.TrimSpace(strings.SplitN(info, "\n", 2)[0]))
	check(t, err)
	if most := 3 * 5 * 17 << 20; said > most { // three times five keys, 30 MB each
		t.Errorf("Redis gave %d bytes, want at most %d", said, most)
	}
}
