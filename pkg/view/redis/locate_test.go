package redis_test

import (
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
