package redis_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"amnesia/pkg/clock"
	"amnesia/pkg/memory"
	"amnesia/pkg/view"
	"amnesia/pkg/view/redis"
	"amnesia/pkg/view/viewtest"
)

const keyForm = "chat:memory:{user}"

func key(user string) string { return "chat:memory:" + user }

// kind is a way in which apps keep a user's memories under one key.
type kind struct {
	name   string
	put    func(ctx context.Context, c *goredis.Client, key string, n int64, text string) error
	remove func(ctx context.Context, c *goredis.Client, key, text string) error
	once   bool // it holds no text twice
	whole  bool // it is read in one piece
}

var kinds = []kind{
	{name: "list",
		put: func(ctx context.Context, c *goredis.Client, key string, _ int64, text string) error {
			return c.RPush(ctx, key, text).Err()
		},
		remove: func(ctx context.Context, c *goredis.Client, key, text string) error {
			return c.LRem(ctx, key, 0, text).Err()
		}},
	{name: "list of messages",
		put: func(ctx context.Context, c *goredis.Client, key string, _ int64, text string) error {
			return c.RPush(ctx, key, message(text), `{"role":"assistant","content":"Noted."}`).Err()
		},
		remove: func(ctx context.Context, c *goredis.Client, key, text string) error {
			return c.LRem(ctx, key, 0, message(text)).Err()
		}},
	{name: "string of messages", whole: true,
		put: func(ctx context.Context, c *goredis.Client, key string, _ int64, text string) error {
			n, err := c.StrLen(ctx, key).Result()
			if err != nil {
				return err
			}
			if n == 0 {
				return c.Set(ctx, key, "["+message(text)+"]", 0).Err()
			}
			return c.SetRange(ctx, key, n-1, ","+message(text)+"]").Err()
		},
		remove: func(ctx context.Context, c *goredis.Client, key, text string) error {
			var old, left []json.RawMessage
			all, err := c.Get(ctx, key).Bytes()
			if err == nil {
				err = json.Unmarshal(all, &old)
			}
			for _, m := range old {
				if string(m) != message(text) {
					left = append(left, m)
				}
			}
			if err != nil || len(left) == 0 {
				return errors.Join(err, c.Del(ctx, key).Err())
			}
			all, err = json.Marshal(left)
			return errors.Join(err, c.Set(ctx, key, all, 0).Err())
		}},
	{name: "hash",
		put: func(ctx context.Context, c *goredis.Client, key string, n int64, text string) error {
			return c.HSet(ctx, key, fmt.Sprint(n), text).Err()
		},
		remove: func(ctx context.Context, c *goredis.Client, key, text string) error {
			all, err := c.HGetAll(ctx, key).Result()
			for field, t := range all {
				if t == text && err == nil {
					err = c.HDel(ctx, key, field).Err()
				}
			}
			return err
		}},
	{name: "set", once: true,
		put: func(ctx context.Context, c *goredis.Client, key string, _ int64, text string) error {
			return c.SAdd(ctx, key, text).Err()
		},
		remove: func(ctx context.Context, c *goredis.Client, key, text string) error {
			return c.SRem(ctx, key, text).Err()
		}},
	{name: "sorted set", once: true,
		put: func(ctx context.Context, c *goredis.Client, key string, n int64, text string) error {
			return c.ZAdd(ctx, key, goredis.Z{Score: float64(n), Member: text}).Err()
		},
		remove: func(ctx context.Context, c *goredis.Client, key, text string) error {
			return c.ZRem(ctx, key, text).Err()
		}},
	{name: "stream",
		put: func(ctx context.Context, c *goredis.Client, key string, _ int64, text string) error {
			return c.XAdd(ctx, &goredis.XAddArgs{Stream: key, Values: []string{"role", "user", "text", text}}).Err()
		},
		remove: func(ctx context.Context, c *goredis.Client, key, text string) error {
			all, err := c.XRange(ctx, key, "-", "+").Result()
			for _, e := range all {
				if e.Values["text"] == text && err == nil {
					err = c.XDel(ctx, key, e.ID).Err()
				}
			}
			return err
		}},
}

func message(text string) string {
	b, _ := json.Marshal(map[string]any{"role": "user", "content": text})
	return string(b)
}

// store is one database of a real server, seen by the view through a proxy.
type store struct {
	*server
	*viewtest.Proxy
	kind
	db  int
	app *goredis.Client
	n   atomic.Int64
}

func newStore(t *testing.T, s *server, k kind, db int) *store {
	st := &store{server: s, Proxy: viewtest.NewProxy(t, s.Addr), kind: k, db: db, app: s.client(t, db)}
	check(t, st.app.FlushDB(t.Context()).Err())
	return st
}

func (s *store) Open(t *testing.T) view.View {
	return open(t, redis.Config{Name: "redis", URL: fmt.Sprintf("redis://%s/%d", s.Proxy.Addr(), s.db), Key: keyForm,
		Page: 1, Clock: clock.System()})
}

func open(t testing.TB, cfg redis.Config) view.View {
	t.Helper()
	v, err := redis.New(cfg)
	check(t, err)
	return v
}

func (s *store) Put(t *testing.T, user string, texts ...string) {
	for _, text := range texts {
		check(t, s.put(t.Context(), s.app, key(user), s.n.Add(1), text))
	}
}

func (s *store) Delete(t *testing.T, user, text string) {
	check(t, s.remove(t.Context(), s.app, key(user), text))
}

func (s *store) Break(t *testing.T, how viewtest.Trouble) (mend func()) {
	mend = s.Mend
	switch how {
	case viewtest.Hang:
		return viewtest.Freeze(t, s.Server)
	case viewtest.Refuse:
		check(t, s.app.ConfigSet(t.Context(), "requirepass", "sesame").Err())
		return func() { check(t, s.app.ConfigSet(t.Context(), "requirepass", "").Err()) }
	case viewtest.Vanish:
		s.Kill()
		return func() { check(t, s.Start()) }
	case viewtest.Garbage:
		s.Garble()
	case viewtest.Cut:
		s.Mend()
		v := s.Open(t)
		_, err := v.Find(t.Context(), viewtest.Memories(1, 1, 1))
		check(t, err)
		s.Cut(s.Said() * 6 / 10)
	default:
		t.Fatalf("cannot break by %s", how)
	}
	return mend
}

func TestConformance(t *testing.T) {
	s := startServer(t)
	db := 0
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			troubles := []viewtest.Trouble{viewtest.Hang, viewtest.Refuse, viewtest.Vanish, viewtest.Garbage}
			if !k.whole {
				troubles = append(troubles, viewtest.Cut)
			}
			viewtest.Run(t, viewtest.Harness{
				New:      func(t *testing.T) viewtest.Store { db++; return newStore(t, s, k, db) },
				Troubles: troubles,
				NoCopies: k.once,
			})
		})
	}
}

var ann = []memory.Memory{
	{ID: 1, User: "ann", Token: "tok1xyz", Text: "code tok1xyz"},
	{ID: 2, User: "ann", Token: "tok2xyz", Text: "code tok2xyz"},
}

func find(t *testing.T, v view.View, ms []memory.Memory) []memory.Observation {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	out, err := v.Find(ctx, ms)
	check(t, err)
	return out
}

// TestTTL: the remaining time is read with the record.
func TestTTL(t *testing.T) {
	s := startServer(t)
	app := s.client(t, 0)
	v := open(t, redis.Config{Name: "redis", URL: s.url(0), Key: keyForm, Clock: clock.System()})
	ctx := t.Context()
	check(t, app.RPush(ctx, key("ann"), ann[0].Text).Err())
	if out := find(t, v, ann); out[0].TTL != -1 || out[1].TTL != 0 || out[1].State != memory.Absent {
		t.Errorf("without a TTL: %+v", out)
	}
	check(t, app.PExpire(ctx, key("ann"), time.Hour).Err())
	if out := find(t, v, ann); out[0].TTL <= (59*time.Minute).Milliseconds() || out[0].TTL > time.Hour.Milliseconds() {
		t.Errorf("with one of an hour: %+v", out[0])
	}
	check(t, app.PExpire(ctx, key("ann"), time.Millisecond).Err())
	for app.Exists(ctx, key("ann")).Val() == 1 {
	}
	if out := find(t, v, ann); out[0].State != memory.Absent || out[0].TTL != 0 {
		t.Errorf("after its end: %+v", out[0])
	}
}

// TestWords: whose words count, in the message formats that chat histories have.
func TestWords(t *testing.T) {
	s := startServer(t)
	app := s.client(t, 0)
	v := open(t, redis.Config{Name: "redis", URL: s.url(0), Key: keyForm, Clock: clock.System()})
	for _, c := range []struct {
		name, text string
		state      memory.State
		copies     int
	}{
		{"openai", `{"role":"user","content":"code tok1xyz"}`, memory.Present, 1},
		{"langchain", `{"type":"human","data":{"content":"code tok1xyz","additional_kwargs":{},"note":"tok1xyz"}}`, memory.Present, 1},
		{"gemini", `[{"role":"user","parts":[{"text":"code tok1xyz"}]},{"role":"model","parts":[{"text":"tok1xyz, I see"}]}]`, memory.Present, 1},
		{"twice", `["code tok1xyz","code tok1xyz"]`, memory.Present, 2},
		{"the answer alone", `{"role":"assistant","content":"I will remember tok1xyz"}`, memory.Absent, 0},
		{"escaped", `"code\u0020tok1xyz"`, memory.Present, 1},
		{"no JSON after all", `{tok1xyz`, memory.Altered, 1},
		{"within more", `{"summary":"likes tok1xyz"}`, memory.Altered, 1},
	} {
		for _, how := range []string{"element", "value"} {
			check(t, app.Del(t.Context(), key("ann")).Err())
			if how == "element" {
				check(t, app.RPush(t.Context(), key("ann"), c.text).Err())
			} else {
				check(t, app.Set(t.Context(), key("ann"), c.text, 0).Err())
			}
			if o := find(t, v, ann)[0]; o.State != c.state || o.Copies != c.copies {
				t.Errorf("%s as %s: %s with %d copies (%s), want %s with %d", c.name, how, o.State, o.Copies, o.Detail, c.state, c.copies)
			}
		}
	}
}

// TestInstead: of what is not there, it says what is there instead.
func TestInstead(t *testing.T) {
	s := startServer(t)
	app := s.client(t, 3)
	ctx := t.Context()
	v := open(t, redis.Config{Name: "redis", URL: s.url(3), Key: keyForm, Clock: clock.System()})
	says := func(o memory.Observation, want string) {
		t.Helper()
		if o.State != memory.Absent || !strings.Contains(o.Detail, want) {
			t.Errorf("%s: %q, want absent with %q", o.State, o.Detail, want)
		}
	}
	says(find(t, v, ann)[0], "there is no key chat:memory:ann; database 3 of "+s.Addr+" has 0 keys, none with the user's name")
	check(t, app.MSet(ctx, "history:ann", "x", "history:bob", "x", "history:joanna", "x").Err())
	says(find(t, v, ann)[0], "has 3 keys, with the user's name: history:ann, history:joanna")
	check(t, app.RPush(ctx, key("ann"), "hello", ann[1].Text).Err())
	says(find(t, v, ann)[0], `the list chat:memory:ann has 2 records, the first: "hello"`)
	glob := []memory.Memory{{ID: 3, User: "a*n", Token: "tok3xyz", Text: "tok3xyz"}}
	says(find(t, v, glob)[0], "none with the user's name")
}

// TestErrors: what cannot be read is unreadable, with the reason and what to do, and without the password.
func TestErrors(t *testing.T) {
	s := startServer(t)
	app := s.client(t, 0)
	ctx := t.Context()
	check(t, app.RPush(ctx, key("ann"), ann[0].Text).Err())
	check(t, app.Set(ctx, "long:ann", strings.Repeat("x", 101), 0).Err())
	check(t, app.Do(ctx, "ACL", "SETUSER", "blind", "on", ">hunter2", "resetkeys", "~other:*", "-@all", "+hello", "+select").Err())
	with := func(user string) string { return "redis://" + user + "@" + s.Addr }
	for _, c := range []struct {
		name, url, key, want string
		rig                  bool
	}{
		{"wrong password", with("blind:hunter2wrong"), keyForm, "WRONGPASS", true},
		{"no right", with("blind:hunter2"), keyForm, "NOPERM", true},
		{"nobody there", "redis://:hunter2@127.0.0.1:1/0", keyForm, "connection refused", true},
		{"too long", s.url(0), "long:{user}", "longer than 100 bytes", false},
		{"no such database", s.url(5000), keyForm, "DB index is out of range", false},
	} {
		v := open(t, redis.Config{Name: "redis", URL: c.url, Key: c.key, MaxString: 100, Clock: clock.System()})
		o := find(t, v, ann)[0]
		if o.State != memory.Unreadable || o.Rig != c.rig || !strings.Contains(o.Detail, c.want) || !strings.Contains(o.Detail, strings.ReplaceAll(c.key, "{user}", "ann")) {
			t.Errorf("%s: %+v, want unreadable with %q, rig %t", c.name, o, c.want, c.rig)
		}
		if strings.Contains(o.Detail, "hunter2") {
			t.Errorf("%s: the password is in %q", c.name, o.Detail)
		}
	}
	for _, c := range []struct{ url, key, want string }{
		{"redis://:hunter2@%zz", keyForm, "url: it is no address"},
		{"http://:hunter2@h", keyForm, "url: it is no address"},
		{s.url(0), "chat:memory", "put {user} into it"},
	} {
		if _, err := redis.New(redis.Config{URL: c.url, Key: c.key}); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("New with %s and %s: %v, want %q", c.url, c.key, err, c.want)
		}
	}
}

// TestTimeout: a server that does not answer is our trouble.
func TestTimeout(t *testing.T) {
	s := startServer(t)
	check(t, s.client(t, 0).RPush(t.Context(), key("ann"), ann[0].Text).Err())
	v := open(t, redis.Config{Name: "redis", URL: s.url(0), Key: keyForm, Timeout: 100 * time.Millisecond, Clock: clock.System()})
	defer viewtest.Freeze(t, s.Server)()
	for _, o := range find(t, v, ann) {
		if o.State != memory.Unreadable || !o.Rig {
			t.Errorf("of a frozen server: %+v", o)
		}
	}
}

// TestRights: the rights that the package's documentation lists are enough, for every type, and none of them writes.
func TestRights(t *testing.T) {
	s := startServer(t)
	app := s.client(t, 0)
	ctx := t.Context()
	check(t, app.Do(ctx, "ACL", "SETUSER", "amnesia", "on", ">sesame", "resetkeys", "%R~chat:memory:*", "resetchannels", "-@all",
		"+select", "+type", "+pttl", "+lrange", "+getrange", "+hscan", "+sscan", "+zscan", "+xrange", "+scan", "+dbsize").Err())
	for _, k := range kinds {
		check(t, app.FlushDB(ctx).Err())
		v := open(t, redis.Config{Name: "redis", URL: "redis://amnesia:sesame@" + s.Addr + "/0", Key: keyForm, Clock: clock.System()})
		if o := find(t, v, ann)[0]; o.State != memory.Absent || !strings.Contains(o.Detail, "has 0 keys") {
			t.Errorf("%s, empty: %+v", k.name, o)
		}
		check(t, k.put(ctx, app, key("ann"), 1, ann[0].Text))
		if o := find(t, v, ann)[0]; o.State != memory.Present {
			t.Errorf("%s: %+v", k.name, o)
		}
	}
}

// TestMovingList: what stood in a list all the time is found, and once, whatever is pushed and trimmed beside it.
func TestMovingList(t *testing.T) {
	s := startServer(t)
	app := s.client(t, 0)
	ctx := t.Context()
	ms := viewtest.Memories(1, 1, 400)
	k := key(ms[0].User)
	for _, m := range ms {
		check(t, app.RPush(ctx, k, m.Text).Err())
	}
	for i := range 200 {
		check(t, app.LPush(ctx, k, fmt.Sprintf("older %d", i)).Err())
	}
	v := open(t, redis.Config{Name: "redis", URL: s.url(0), Key: keyForm, Page: 1, Clock: clock.System()})
	stop, cancel := context.WithCancel(ctx)
	done := make(chan int)
	go func() {
		n := 0
		for ; stop.Err() == nil; n++ {
			// At most a hundred at once, so that no memory is ever trimmed, and a rest, so that some reads come through.
			for i := range 20 {
				if i%2 == 0 {
					app.LPop(ctx, k)
				} else {
					app.LPush(ctx, k, fmt.Sprintf("newer %d", n))
				}
			}
			select {
			case <-time.After(5 * time.Millisecond):
			case <-stop.Done():
			}
		}
		done <- n
	}()
	read := 0
	for range 15 {
		for _, o := range find(t, v, ms) {
			switch {
			case o.State == memory.Present && o.Copies == 1:
				read++
			case o.State != memory.Unreadable || !strings.Contains(o.Detail, "it changed under each"):
				t.Fatalf("%+v", o)
			}
		}
	}
	cancel()
	if n := <-done; n == 0 || read == 0 {
		t.Errorf("%d rounds of changes, %d memories read", n, read)
	}
}

func BenchmarkFind(b *testing.B) {
	s := startServer(b)
	app := s.client(b, 0)
	for _, c := range []struct {
		name            string
		users, memories int
		form            func(string) string
	}{
		{"100 each", 1000, 100, func(s string) string { return s }},
		{"100 each as JSON", 1000, 100, message},
		{"1 each", 100_000, 1, func(s string) string { return s }},
		{"all of one", 1, 100_000, func(s string) string { return s }},
	} {
		ctx := context.Background()
		check(b, app.FlushDB(ctx).Err())
		ms := viewtest.Memories(1, c.users, c.memories)
		var users []string
		pipe := app.Pipeline()
		for i, m := range ms {
			if i < c.users {
				users = append(users, m.User)
			}
			if pipe.RPush(ctx, key(m.User), c.form(m.Text)); pipe.Len() == 1000 || i == len(ms)-1 {
				_, err := pipe.Exec(ctx)
				check(b, err)
			}
		}
		// The raw client's bulk read of the same keys, pipelined and as far as it goes in one piece.
		b.Run(c.name+"/raw", func(b *testing.B) {
			for b.Loop() {
				n := 0
				for i, user := range users {
					if pipe.LRange(ctx, key(user), 0, -1); pipe.Len() == 1000 || i == len(users)-1 {
						cmds, err := pipe.Exec(ctx)
						check(b, err)
						for _, cmd := range cmds {
							n += len(cmd.(*goredis.StringSliceCmd).Val())
						}
					}
				}
				if n != len(ms) {
					b.Fatalf("%d records", n)
				}
			}
		})
		b.Run(c.name+"/view", func(b *testing.B) {
			v := open(b, redis.Config{Name: "redis", URL: s.url(0), Key: keyForm, Clock: clock.System()})
			for b.Loop() {
				out, err := v.Find(ctx, ms)
				if err != nil || out[len(out)-1].State != memory.Present || out[0].State != memory.Present {
					b.Fatalf("%v, %v", out[len(out)-1], err)
				}
			}
		})
	}
}
