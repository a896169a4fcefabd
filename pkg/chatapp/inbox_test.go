package chatapp_test

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"amnesia/pkg/chatapp"
)

// onServers starts the app on Redis, PostgreSQL and Chroma.
func onServers(t *testing.T, env ...string) (a *target, cache, database, vectors *server, address, dsn string) {
	t.Helper()
	cache, address = startRedis(t, "yes")
	database, dsn = startPostgres(t)
	vectors, chroma := startChroma(t)
	a = newTarget(t, append([]string{"CHATAPP_REDIS_URL=" + address, "CHATAPP_POSTGRES_DSN=" + dsn, "CHATAPP_CHROMA_URL=" + chroma}, env...)...)
	return a, cache, database, vectors, address, dsn
}

// TestInbox kills each home, and with one of them the app, after memories were confirmed: they are in Redis at once, and
// in the homes when these are back.
func TestInbox(t *testing.T) {
	t.Parallel()
	a, _, database, vectors, address, dsn := onServers(t)
	homes := map[string]*server{"PostgreSQL": database, "Chroma": vectors}
	a.tell("ada", "before")
	texts := []string{"before"}
	for _, down := range []string{"Chroma", "PostgreSQL"} {
		for _, killed := range []bool{false, true} {
			text := "while " + down + " is down"
			if killed {
				text += " and the app is killed"
			}
			homes[down].kill()
			a.tell("ada", text)
			texts = append(texts, text)
			if values, _ := list(t, address, "ada"); len(values) != len(texts) {
				t.Fatalf("Redis has %q, want %d", values, len(texts))
			}
			if down == "Chroma" { // the history is read from the database
				if page := a.page("ada"); !slices.Contains(page, text) {
					t.Errorf("the page shows %q at once", page)
				}
			}
			if killed {
				a.kill()
			}
			homes[down].start()
			if killed {
				a.start()
				a.tell("ada", text) // as a browser may send it once more, on its way or not
				if page := a.page("ada"); !slices.Contains(page, text) {
					t.Errorf("the page shows %q after the start", page)
				}
			}
			slices.Sort(texts)
			wait(t, "both homes", func() bool {
				return slices.Equal(rows(t, dsn, "ada"), texts) && slices.Equal(a.vectors("ada"), texts)
			})
			wait(t, "nothing to be on its way", func() bool {
				return must(dial(t, address).HLen(t.Context(), "chat:pending").Result())(t) == 0
			})
			if told := a.truth(text); !told.Acknowledged || !slices.Equal(told.Stores, []string{"database", "redis", "vectors"}) {
				t.Errorf("the truth log says %+v", told)
			}
		}
	}
}

// TestInboxForget deletes memories that are on their way: PostgreSQL refuses whatever is new. They must not land, neither
// from the process nor from Redis after a kill; the others must.
func TestInboxForget(t *testing.T) {
	t.Parallel()
	_, address := startRedis(t, "yes")
	_, dsn := startPostgres(t)
	a := newTarget(t, "CHATAPP_REDIS_URL="+address, "CHATAPP_POSTGRES_DSN="+dsn)
	conn := must(pgx.Connect(t.Context(), dsn))(t)
	defer conn.Close(t.Context())
	exec := func(statement string) { must(conn.Exec(t.Context(), statement))(t) }
	exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''full''; END'`)
	exec(`CREATE TRIGGER refuse BEFORE INSERT ON chat_memory FOR EACH ROW EXECUTE FUNCTION refuse()`)
	for _, text := range []string{"one", "two", "three", "the code is 4711"} {
		a.tell("ada", text)
	}
	if answer := a.ask("ada", "What is the code?"); answer != "You told me: the code is 4711" {
		t.Errorf("the answer is %q", answer)
	}
	a.forget("ada", "What is the code?")
	a.forget("ada", "one")
	a.kill()
	a.start()
	a.forget("ada", "two")
	left := []string{"the code is 4711", "three"}
	if page := a.page("ada"); !slices.Equal(page, left) {
		t.Errorf("the page shows %q", page)
	}
	a.kill()
	exec(`DROP TRIGGER refuse ON chat_memory`)
	a.start()
	wait(t, "the others", func() bool { return len(rows(t, dsn, "ada")) >= 2 && len(a.vectors("ada")) >= 2 })
	a.stop()
	if got := rows(t, dsn, "ada"); !slices.Equal(got, left) {
		t.Errorf("PostgreSQL has %q, want %q", got, left)
	}
	if values, _ := list(t, address, "ada"); len(values) != 2 {
		t.Errorf("Redis has %q, want 2", values)
	}
	for _, text := range []string{"one", "two"} {
		if told := a.truth(text); !told.Deleted || !slices.Equal(told.Once, []string{"redis"}) {
			t.Errorf("the truth log says %+v", told)
		}
	}
}

// TestInboxLost empties Redis: what has arrived costs nothing.
func TestInboxLost(t *testing.T) {
	t.Parallel()
	_, address := startRedis(t, "yes")
	a := newTarget(t, "CHATAPP_REDIS_URL="+address)
	a.tell("ada", "one")
	wait(t, "the homes", func() bool { return len(a.database("ada")) == 1 && len(a.vectors("ada")) == 1 })
	a.kill()
	must(dial(t, address).FlushAll(t.Context()).Result())(t)
	a.start()
	if page := a.page("ada"); !slices.Equal(page, []string{"one"}) {
		t.Errorf("the page shows %q", page)
	}
	if told := a.truth("one"); !slices.Equal(told.Stores, []string{"database", "vectors"}) {
		t.Errorf("the truth log says %+v", told)
	}
}

// TestRedisDown kills Redis: without it nothing can be saved, or deleted for good, and the user is told so. With
// CHATAPP_WRITES=sync it is only a cache.
func TestRedisDown(t *testing.T) {
	t.Parallel()
	for writes, status := range map[string]int{"": http.StatusServiceUnavailable, "sync": http.StatusOK} {
		t.Run("writes "+writes, func(t *testing.T) {
			t.Parallel()
			cache, address := startRedis(t, "yes")
			a := newTarget(t, "CHATAPP_REDIS_URL="+address, "CHATAPP_WRITES="+writes)
			a.tell("ada", "before")
			wait(t, "the database", func() bool { return len(a.database("ada")) == 1 })
			cache.kill()
			for path, form := range map[string]url.Values{"/api/chat": {"message": {"meanwhile"}}, "/api/forget": {"all": {"true"}}} {
				if path == "/api/forget" && writes == "sync" {
					continue
				}
				resp, err := a.user("ada").PostForm(a.url+path, form)
				if err != nil {
					t.Fatal(err)
				}
				if a.document(resp); resp.StatusCode != status {
					t.Errorf("%s: status %d, want %d", path, resp.StatusCode, status)
				}
			}
			if told := a.truth("meanwhile"); told.Acknowledged != (status == http.StatusOK) || told.In(chatapp.RedisStore) {
				t.Errorf("the truth log says %+v", told)
			}
			want := []string{"before"}
			if writes == "sync" {
				want = append(want, "meanwhile")
			}
			if got := a.database("ada"); !slices.Equal(got, want) {
				t.Errorf("the database has %q, want %q", got, want)
			}
		})
	}
}

// TestAckEarlyOnServers holds that the bug answers before any store has the memory, Redis too.
func TestAckEarlyOnServers(t *testing.T) {
	t.Parallel()
	_, address := startRedis(t, "yes")
	a := newTarget(t, "CHATAPP_REDIS_URL="+address, "CHATAPP_BUGS=ack-early")
	a.tell("ada", "one")
	if values, _ := list(t, address, "ada"); len(values) > 0 {
		t.Errorf("Redis has %q", values)
	}
	a.stop() // which writes what is queued
	if values, _ := list(t, address, "ada"); len(values) != 1 {
		t.Errorf("after the stop Redis has %q", values)
	}
}

// TestNoRebuild holds that the app leaves the vector memory as it finds it when it is told so.
func TestNoRebuild(t *testing.T) {
	t.Parallel()
	a := newTarget(t, "CHATAPP_REBUILD=never")
	a.tell("ada", "one")
	a.stop()
	if err := os.RemoveAll(filepath.Join(a.dir, "data", "vectors")); err != nil {
		t.Fatal(err)
	}
	a.start()
	if got := a.vectors("ada"); len(got) > 0 {
		t.Errorf("the vector memory has %q", got)
	}
}
