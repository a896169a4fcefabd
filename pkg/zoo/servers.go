package zoo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

// Server is a service of the target beside the app: a real server, which the daemon runs and hurts as it does the app.
type Server struct {
	Name    string // redis or postgres
	Addr    string
	Command []string
	Dir     string // with its data
}

// Missing says that a case cannot be run here: a server's program is not installed.
type Missing struct{ Program, Package string }

func (m *Missing) Error() string {
	return fmt.Sprintf("no %s — fix: apt-get install %s", m.Program, m.Package)
}

// servers makes what the case's servers need. clean removes what lies outside of dir.
func (z *Zoo) servers(ctx context.Context, k Case, dir string) (list []Server, clean func() error, err error) {
	clean = func() error { return nil }
	for _, name := range k.Servers {
		addr, err := z.address(ctx)
		if err != nil {
			return nil, clean, err
		}
		s := Server{Name: name, Addr: addr}
		if name == redisServer {
			err = s.redis(k, dir)
		} else if err = s.postgres(ctx); err == nil {
			clean = func() error { return os.RemoveAll(s.Dir) }
		}
		if err != nil {
			return nil, clean, err
		}
		list = append(list, s)
	}
	return list, clean, nil
}

func (s *Server) redis(k Case, dir string) error {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return &Missing{"redis-server", "redis-server"}
	}
	s.Dir = filepath.Join(dir, "redis")
	host, port, _ := net.SplitHostPort(s.Addr)
	s.Command = []string{program, "--bind", host, "--port", port, "--dir", s.Dir, "--save", "3600 1"} // also when it is stopped
	if !k.Unlogged {
		s.Command = append(s.Command, "--appendonly", "yes", "--appendfsync", "always")
	}
	return os.MkdirAll(s.Dir, 0o750)
}

// postgresService runs PostgreSQL as a service of the process engine. SIGTERM ends its sessions too, as the official
// image has it. Its processes lie in sessions of their own and outlive a killed server by a moment, in which the next one
// refuses to start (with status 1): that is tried again.
const postgresService = `trap 'over=1; kill -INT "$server"' TERM
while :; do
	"$@" & server=$!
	wait "$server"; status=$?
	if [ -n "$over" ]; then wait "$server"; exit; fi
	if [ "$status" != 1 ] || [ $((tries += 1)) = 200 ]; then exit "$status"; fi
	sleep 0.02
done`

// postgres makes an empty database. Its folder must belong to whom the server runs as, which is never root.
func (s *Server) postgres(ctx context.Context) (err error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // the pattern is sound
	if initdb, err := exec.LookPath("initdb"); err == nil {
		found = append(found, initdb)
	}
	if len(found) == 0 {
		return &Missing{"initdb", "postgresql"}
	}
	initdb := slices.Max(found)
	if s.Dir, err = os.MkdirTemp("", "amnesia-zoo-postgres-"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(s.Dir))
		}
	}()
	var as []string
	if os.Geteuid() == 0 {
		who, err := user.Lookup("postgres")
		if err != nil {
			return err
		}
		uid, _ := strconv.Atoi(who.Uid) // numbers, where there are credentials
		gid, _ := strconv.Atoi(who.Gid)
		if err := os.Chown(s.Dir, uid, gid); err != nil {
			return err
		}
		as = []string{"setpriv", "--reuid=" + who.Uid, "--regid=" + who.Gid, "--clear-groups"}
	}
	data := filepath.Join(s.Dir, "data")
	init := append(slices.Clone(as), initdb, "-D", data, "-U", "chat", "-A", "trust", "--no-sync", "--locale=C.UTF-8")
	cmd := exec.CommandContext(ctx, init[0], init[1:]...)
	cmd.Dir = s.Dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	host, port, _ := net.SplitHostPort(s.Addr)
	s.Command = append([]string{"/bin/sh", "-c", postgresService, "postgres"}, as...)
	s.Command = append(s.Command, filepath.Join(filepath.Dir(initdb), "postgres"), "-D", data, "-h", host, "-p", port, "-k", s.Dir)
	return nil
}

// URL is where the app and the views find it.
func (s Server) URL() string {
	if s.Name == redisServer {
		return "redis://" + s.Addr + "/0"
	}
	return "postgres://chat@" + s.Addr + "/postgres?sslmode=disable"
}

// holding is what a server was found to hold.
type holding struct {
	at  time.Time
	ids []string
	// ends gives the end of each user's list in Redis; the zero time: it lives for ever.
	ends map[string]time.Time
}

// inspect reads what the server holds, by a client of its own.
func (s Server) inspect(ctx context.Context) (holding, error) {
	h := holding{ends: map[string]time.Time{}}
	if s.Name == postgresServer {
		conn, err := pgx.Connect(ctx, s.URL())
		if err != nil {
			return h, err
		}
		rows, err := conn.Query(ctx, "SELECT id FROM chat_memory")
		if err == nil {
			h.ids, err = pgx.CollectRows(rows, pgx.RowTo[string])
		}
		h.at = time.Now()
		return h, errors.Join(err, conn.Close(ctx))
	}
	options, err := redis.ParseURL(s.URL())
	if err != nil {
		return h, err
	}
	client := redis.NewClient(options)
	defer client.Close()
	keys, err := client.Keys(ctx, "chat:memory:*").Result()
	if err != nil {
		return h, err
	}
	for _, key := range keys {
		values, err1 := client.LRange(ctx, key, 0, -1).Result()
		rest, err2 := client.PTTL(ctx, key).Result()
		if err := errors.Join(err1, err2); err != nil {
			return h, err
		}
		user := strings.TrimPrefix(key, "chat:memory:")
		if h.ends[user] = time.Now().Add(rest); rest < 0 {
			h.ends[user] = time.Time{}
		}
		for _, value := range values {
			var m struct{ ID string }
			if err := json.Unmarshal([]byte(value), &m); err != nil {
				return h, err
			}
			h.ids = append(h.ids, m.ID)
		}
	}
	h.at = time.Now()
	return h, nil
}
