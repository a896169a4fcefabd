package chatapp_test

import (
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"

	"amnesia/pkg/chatapp"
)

// TestStores runs every kind of store through the same acts.
func TestStores(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) func() (chatapp.Store, error){
		"SQLite": func(t *testing.T) func() (chatapp.Store, error) {
			dir := t.TempDir()
			return func() (chatapp.Store, error) { return chatapp.OpenDatabase(t.Context(), dir, true) }
		},
		"index": func(t *testing.T) func() (chatapp.Store, error) {
			dir := t.TempDir()
			return func() (chatapp.Store, error) { return chatapp.OpenIndex(dir) }
		},
		"PostgreSQL": func(t *testing.T) func() (chatapp.Store, error) {
			_, dsn := startPostgres(t)
			return func() (chatapp.Store, error) { return chatapp.OpenPostgres(t.Context(), dsn) }
		},
		"Redis": func(t *testing.T) func() (chatapp.Store, error) {
			_, address := startRedis(t, "yes")
			return func() (chatapp.Store, error) { return chatapp.OpenRedis(t.Context(), address, time.Hour, true) }
		},
		"Chroma": func(t *testing.T) func() (chatapp.Store, error) {
			_, address := startChroma(t)
			return func() (chatapp.Store, error) { return chatapp.OpenChroma(t.Context(), address, false) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open := open(t)
			store := must(open())(t)
			old := must(store.Find(t.Context(), chatapp.Query{}))(t)
			must(store.Delete(t.Context(), old...))(t)

			ms := make([]chatapp.Memory, 2500)
			for i := range ms {
				user := []string{"ada", "bob"}[i%2]
				ms[i] = chatapp.Memory{ID: chatapp.Pad(int64(i + 1)), User: user, Text: "an ordinary day", Summary: "s", At: time.Unix(int64(i), 5).UTC()}
			}
			ms[7].Text = "Üñí \"quoted\" $1 ? 'text' {{x}}\nthe locker opens with 9931 [*] 🐘"
			if stored := must(store.Save(t.Context(), ms[:3]...))(t); len(stored) != 3 {
				t.Errorf("%d of 3 were new", len(stored))
			}
			if stored := must(store.Save(t.Context(), ms...))(t); !cmp.Equal(stored, ms[3:]) {
				t.Errorf("%d were new, want %d", len(stored), len(ms)-3)
			}
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
			store = must(open())(t)
			defer store.Close()

			all := slices.Clone(ms)
			slices.Reverse(all)
			if got := must(store.Find(t.Context(), chatapp.Query{}))(t); !cmp.Equal(got, all) {
				t.Errorf("%d found, want %d", len(got), len(all))
			}
			for what, c := range map[string]struct {
				q    chatapp.Query
				want []chatapp.Memory
			}{
				"by user and id":       {chatapp.Query{User: "bob", ID: ms[7].ID}, ms[7:8]},
				"of another user":      {chatapp.Query{User: "ada", ID: ms[7].ID}, nil},
				"of nobody":            {chatapp.Query{User: "*"}, nil},
				"by limit":             {chatapp.Query{User: "ada", Before: ms[5].ID, Limit: 2}, []chatapp.Memory{ms[4], ms[2]}},
				"by likeness":          {chatapp.Query{User: "bob", Like: "What opens the locker?", Limit: 1}, ms[7:8]},
				"by another's wording": {chatapp.Query{User: "ada", Like: "What opens the locker?", Limit: 1}, nil},
			} {
				if got := must(store.Find(t.Context(), c.q))(t); !cmp.Equal(got, c.want, cmpopts.EquateEmpty()) {
					t.Errorf("%s: %+v, want %+v", what, got, c.want)
				}
			}
			if gone := must(store.Delete(t.Context(), ms[7], ms[8], chatapp.Memory{ID: "none", User: "ada"}))(t); len(gone) != 2 || !slices.Contains(gone, ms[7].ID) {
				t.Errorf("deleted %q", gone)
			}
			if got := must(store.Find(t.Context(), chatapp.Query{}))(t); len(got) != len(ms)-2 {
				t.Errorf("%d are left, want %d", len(got), len(ms)-2)
			}
		})
	}
}

// must gives the value, or ends the test.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// TestServersKilled kills the app and its servers, and finds everything again.
func TestServersKilled(t *testing.T) {
	t.Parallel()
	cache, redis := startRedis(t, "yes")
	database, dsn := startPostgres(t)
	a := newTarget(t, "CHATAPP_REDIS_URL="+redis, "CHATAPP_POSTGRES_DSN="+dsn)
	a.tell("ada", "one")
	if values, ttl := list(t, redis, "ada"); len(values) != 1 || !strings.Contains(values[0], `"content":"one"`) || ttl < 29*time.Minute || ttl > 30*time.Minute {
		t.Errorf("Redis has %q for %v", values, ttl)
	}
	a.kill()
	for _, s := range []*server{cache, database} {
		s.kill()
	}
	// The app comes first and waits for its servers.
	started := make(chan struct{})
	go func() { defer close(started); a.start() }()
	wait(t, "the app's first try", func() bool {
		log, err := os.ReadFile(a.log.Name())
		return err == nil && strings.Contains(string(log), "waiting for a store")
	})
	database.start()
	cache.start()
	<-started
	if got := a.ask("ada", "Does this resemble nothing?"); got != "You told me: one" {
		t.Errorf("short-term memory says %q", got)
	}
	for _, s := range []*server{cache, database} {
		s.kill()
		s.start()
		// A connection that broke with the server is noticed by whoever is given it next: he sees an error, and tries again.
		wait(t, "a memory to be taken", func() bool {
			doc := a.post("ada", "/api/chat", url.Values{"message": {"after " + s.command[0]}})
			return strings.HasPrefix(doc.Find(".message.assistant .text").Last().Text(), "Saved: after "+s.command[0])
		})
	}
	if got := a.page("ada"); len(got) != 4 {
		t.Errorf("the page shows %q", got)
	}
	wait(t, "PostgreSQL to have all", func() bool { return len(rows(t, dsn, "ada")) == 3 })
	a.forget("ada", "one")
	if values, _ := list(t, redis, "ada"); len(values) != 2 {
		t.Errorf("Redis has %q after one was forgotten", values)
	}
}

// rows gives what another process reads of a user in PostgreSQL.
func rows(t *testing.T, dsn, user string) []string {
	t.Helper()
	conn := must(pgx.Connect(t.Context(), dsn))(t)
	defer conn.Close(t.Context())
	found := must(conn.Query(t.Context(), `SELECT content FROM chat_memory WHERE user_id = $1 ORDER BY content`, user))(t)
	return must(pgx.CollectRows(found, pgx.RowTo[string]))(t)
}

// TestRedisAsHome kills a Redis that is the only home, with and without its append-only file.
func TestRedisAsHome(t *testing.T) {
	t.Parallel()
	for appendonly, want := range map[string]int{"yes": 1, "no": 0} {
		t.Run("appendonly "+appendonly, func(t *testing.T) {
			t.Parallel()
			home, address := startRedis(t, appendonly)
			a := newTarget(t, "CHATAPP_REDIS_URL="+address, "CHATAPP_HOMES=redis")
			a.tell("ada", "one")
			home.kill()
			home.start()
			wait(t, "the page", func() bool { return a.get("/healthz", &struct{}{}) == 200 })
			if got := a.page("ada"); len(got) != want {
				t.Errorf("the page shows %q, want %d", got, want)
			}
		})
	}
}

func TestTTL(t *testing.T) {
	t.Parallel()
	_, address := startRedis(t, "no")
	for bug, want := range map[string]time.Duration{"": 60 * time.Second, "ttl-long": 60000 * time.Second, "ttl-none": -1, "ttl-short": 60 * time.Second} {
		user := "user" + bug
		a := newTarget(t, "CHATAPP_REDIS_URL="+address, "CHATAPP_REDIS_TTL=1m", "CHATAPP_BUGS="+bug)
		a.tell(user, "one")
		_, ttl := list(t, address, user)
		if ttl > want || ttl < want-10*time.Second {
			t.Errorf("%s: the list lives for %v, want %v", bug, ttl, want)
		}
		before := ttl
		wait(t, "a part of the list's life", func() bool {
			_, before = list(t, address, user)
			return before < want-time.Second || bug == "ttl-none"
		})
		a.tell(user, "two")
		if _, now := list(t, address, user); (now > before) != (bug == "" || bug == "ttl-long") {
			t.Errorf("%s: after another memory the list lives for %v, and for %v before", bug, now, before)
		}
	}
}

// TestRetryDup freezes the only home while a memory is told: it is saved twice with the bug, and once or not at all
// without.
func TestRetryDup(t *testing.T) {
	t.Parallel()
	for bugs, want := range map[string]int{"": 1, "retry-dup": 2} {
		t.Run("bugs "+bugs, func(t *testing.T) {
			t.Parallel()
			home, address := startRedis(t, "yes")
			a := newTarget(t, "CHATAPP_REDIS_URL="+address, "CHATAPP_HOMES=redis", "CHATAPP_BUGS="+bugs)
			a.user("ada") // who is logged in when the freeze begins
			home.signal(syscall.SIGSTOP)
			thaw := time.AfterFunc(1200*time.Millisecond, func() { home.signal(syscall.SIGCONT) })
			defer thaw.Stop()
			a.tell("ada", "one")
			wait(t, "both", func() bool { values, _ := list(t, address, "ada"); return len(values) >= want })
			if values, _ := list(t, address, "ada"); len(values) < want || (bugs == "" && len(values) > 1) {
				t.Errorf("Redis has %q, want %d", values, want)
			}
		})
	}
}
