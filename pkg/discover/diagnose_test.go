package discover_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"amnesia/pkg/discover"
)

// healthy is what an engine and the stores said of deploy/compose, as it is.
func healthy() *discover.Stack {
	volume := func(name, at string) []discover.Mount {
		return []discover.Mount{{Type: discover.Volume, At: at, Name: name, Source: "/var/lib/docker/volumes/" + name + "/_data"}}
	}
	c := func(service, image string, grace time.Duration, mounts []discover.Mount, command ...string) discover.Container {
		return discover.Container{Service: service, Name: "memory-stack-" + service + "-1", Image: image, Running: true, Command: command,
			Env: map[string]string{}, Restart: "unless-stopped", Grace: grace, Mounts: mounts, Written: []string{}}
	}
	s := &discover.Stack{
		Containers: []discover.Container{
			c("app", "amnesia/chatapp:local", 10*time.Second, volume("app-data", "/data"), "/usr/bin/chatapp"),
			c("chroma", "chromadb/chroma:1.0.20", 3*time.Second, volume("chroma-data", "/data"), "dumb-init", "--", "chroma", "run", "/config.yaml"),
			c("redis", "redis:8", 10*time.Second, volume("redis-data", "/data"), "docker-entrypoint.sh", "redis-server", "--appendonly", "yes", "--appendfsync", "always"),
			c("postgres", "postgres:17", 10*time.Second, volume("postgres-data", "/var/lib/postgresql/data"), "docker-entrypoint.sh", "postgres"),
		},
		Stores: []discover.Store{
			{Service: "chroma", Kind: discover.Chroma, Settings: map[string]string{"version": "1.0.0"}},
			{Service: "redis", Kind: discover.Redis, Settings: map[string]string{"appendonly": "yes", "appendfsync": "always",
				"save": "3600 1 300 100 60 10000", "maxmemory": "0", "maxmemory-policy": "noeviction", "dir": "/data", "shutdown-on-sigterm": "default"}},
			{Service: "postgres", Kind: discover.Postgres, Settings: map[string]string{"fsync": "on", "synchronous_commit": "on",
				"full_page_writes": "on", "wal_writer_delay": "200ms"}},
		},
	}
	s.Containers[1].Written = []string{"/data"} // the mount point
	s.Containers[2].WorkDir = "/data"
	s.Containers[3].StopSignal = "SIGINT"
	s.Containers[3].Env["PGDATA"] = "/var/lib/postgresql/data"
	s.Containers[3].Written = []string{"/run", "/run/postgresql", "/run/postgresql/.s.PGSQL.5432"}
	return s
}

// said are the findings in short: severity, rule, service and faults, as tables hold them.
func said(s *discover.Stack) (out []string) {
	for _, f := range discover.Diagnose(*s) {
		out = append(out, fmt.Sprintf("%s %s of %s: %s", f.Severity, f.Rule, f.Service, strings.Join(f.Faults, " ")))
	}
	return out
}

const (
	app = iota
	chroma
	redis
	postgres
)

func TestDiagnose(t *testing.T) {
	const (
		ofStore = -1 // its index in Stores is one less
		gone    = "kill restart recreate wipe crash_all power_cut"
	)
	set := func(service int, pairs ...string) func(*discover.Stack) {
		return func(s *discover.Stack) {
			for i := 0; i < len(pairs); i += 2 {
				s.Stores[service+ofStore].Settings[pairs[i]] = pairs[i+1]
			}
		}
	}
	mount := func(service int, m ...discover.Mount) func(*discover.Stack) {
		return func(s *discover.Stack) { s.Containers[service].Mounts = m }
	}
	container := func(service int, change func(c *discover.Container)) func(*discover.Stack) {
		return func(s *discover.Stack) { change(&s.Containers[service]) }
	}
	unread := func(service int, command ...string) func(*discover.Stack) {
		return func(s *discover.Stack) {
			s.Stores[service+ofStore].Settings, s.Stores[service+ofStore].Unread = nil, errors.New("NOPERM")
			s.Containers[service].Command = command
		}
	}
	unviewed := func(service int) func(*discover.Stack) {
		return func(s *discover.Stack) {
			s.Stores[service+ofStore] = discover.Store{Service: s.Stores[service+ofStore].Service, Kind: s.Stores[service+ofStore].Kind, Unviewed: true}
		}
	}
	anonymous := discover.Mount{Type: discover.Volume, At: "/data", Name: strings.Repeat("ab", 32), Source: "/x", Anonymous: true}
	for _, c := range []struct {
		name   string
		change func(*discover.Stack)
		want   []string
	}{
		{"as it is", func(*discover.Stack) {}, nil},

		// Where data lie.
		{"no volume", func(s *discover.Stack) {
			s.Containers[chroma].Mounts, s.Containers[chroma].Written = nil, []string{"/data", "/data/chroma.sqlite3"}
		}, []string{"loses data-in-layer of chroma: recreate wipe"}},
		{"no volume, and nothing written where it should be", container(chroma, func(c *discover.Container) { c.Mounts, c.Written = nil, []string{} }),
			[]string{"unknown data-in-layer of chroma: recreate wipe"}},
		{"no volume, and an engine that does not tell what is written", container(chroma, func(c *discover.Container) { c.Mounts, c.Written = nil, nil }),
			[]string{"loses data-in-layer of chroma: recreate wipe"}},
		{"no volume but for a folder within, whose mount point is all that is in the layer", container(chroma, func(c *discover.Container) {
			c.Mounts, c.Written = []discover.Mount{{Type: discover.Tmpfs, At: "/data/tmp"}}, []string{"/data", "/data/tmp"}
		}), []string{"unknown data-in-layer of chroma: recreate wipe"}},
		{"no volume, and --rm", container(redis, func(c *discover.Container) { c.Mounts, c.AutoRemove, c.Written = nil, true, []string{"/data/dump.rdb"} }),
			[]string{"loses data-in-layer of redis: kill restart recreate wipe crash_all"}},
		{"a volume where Chroma 1.x does not write", mount(chroma, discover.Mount{Type: discover.Volume, At: "/chroma/chroma", Name: "chroma-data", Source: "/v"}),
			[]string{"unknown chroma-path of chroma: recreate wipe"}},
		{"the same, with data in the layer", func(s *discover.Stack) {
			mount(chroma, discover.Mount{Type: discover.Volume, At: "/chroma/chroma", Name: "chroma-data", Source: "/v"})(s)
			s.Containers[chroma].Written = []string{"/data", "/data/chroma.sqlite3"}
		}, []string{"loses chroma-path of chroma: recreate wipe"}},
		{"that volume under Chroma 0.5, which writes there", func(s *discover.Stack) {
			set(chroma, "version", "0.5.23")(s)
			mount(chroma, discover.Mount{Type: discover.Volume, At: "/chroma/chroma", Name: "chroma-data", Source: "/v"})(s)
		}, nil},
		{"the volume of 1.x under Chroma 0.6", func(s *discover.Stack) {
			set(chroma, "version", "0.6.3")(s)
			s.Containers[chroma].Written = []string{"/chroma/chroma/chroma.sqlite3"}
		}, []string{"loses chroma-path of chroma: recreate wipe"}},
		{"Chroma 0.6 that was told where to write", func(s *discover.Stack) {
			set(chroma, "version", "0.6.3")(s)
			s.Containers[chroma].Env["PERSIST_DIRECTORY"] = "/data"
		}, nil},
		{"Chroma with a path in its command", container(chroma, func(c *discover.Container) {
			c.Command, c.Written = []string{"chroma", "run", "--path", "/srv/db"}, []string{"/srv/db/chroma.sqlite3"}
		}), []string{"loses chroma-path of chroma: recreate wipe"}},
		{"Chroma with a configuration that was not read", container(chroma, func(c *discover.Container) {
			c.Mounts = append(c.Mounts, discover.Mount{Type: discover.Bind, At: "/config.yaml", Source: "/etc/chroma.yaml", ReadOnly: true})
		}), []string{"unknown unread of chroma: "}},
		{"Chroma of no known version", func(s *discover.Stack) {
			s.Stores[chroma+ofStore].Settings, s.Containers[chroma].Image = nil, "chromadb/chroma:latest"
		}, []string{"unknown unread of chroma: "}},
		{"an anonymous volume", mount(redis, anonymous), []string{"loses anonymous-volume of redis: recreate wipe"}},
		{"a volume one folder too high, under the image's own", mount(postgres,
			discover.Mount{Type: discover.Volume, At: "/var/lib/postgresql", Name: "pg", Source: "/pg"},
			discover.Mount{Type: discover.Volume, At: "/var/lib/postgresql/data", Source: "/x", Anonymous: true}),
			[]string{"loses mount-unused of postgres: recreate wipe"}},
		{"the volume of 17 under PostgreSQL 18", func(s *discover.Stack) {
			s.Containers[postgres].Env["PGDATA"] = "/var/lib/postgresql/18/docker"
			mount(postgres, discover.Mount{Type: discover.Volume, At: "/var/lib/postgresql/data", Name: "pg", Source: "/pg"},
				discover.Mount{Type: discover.Volume, At: "/var/lib/postgresql", Source: "/x", Anonymous: true})(s)
		}, []string{"loses mount-unused of postgres: recreate wipe"}},
		{"no volume but for scripts", func(s *discover.Stack) {
			mount(postgres, discover.Mount{Type: discover.Bind, At: "/docker-entrypoint-initdb.d", Source: "/srv/init"})(s)
			s.Containers[postgres].Written = []string{"/var/lib/postgresql/data/PG_VERSION"}
		}, []string{"loses data-in-layer of postgres: recreate wipe"}},
		{"a bind mount", mount(postgres, discover.Mount{Type: discover.Bind, At: "/var/lib/postgresql", Source: "/srv/pg"}), nil},
		{"a bind mount of the host's memory", mount(postgres, discover.Mount{Type: discover.Bind, At: "/var/lib/postgresql", Source: "/dev/shm/pg"}),
			[]string{"loses tmpfs of postgres: power_cut"}},
		{"tmpfs", mount(chroma, discover.Mount{Type: discover.Tmpfs, At: "/data"}), []string{"loses tmpfs of chroma: " + gone}},
		{"a volume that a wipe may empty", container(redis, func(c *discover.Container) { c.Mounts[0].Ephemeral = true }),
			[]string{"loses ephemeral-volume of redis: wipe"}},
		{"a folder whose name only begins like the volume's", func(s *discover.Stack) {
			set(redis, "dir", "/data2")(s)
			s.Containers[redis].Written = []string{"/data2", "/data2/dump.rdb"}
		}, []string{"loses mount-unused of redis: recreate wipe"}},
		{"a database in the app's layer", container(app, func(c *discover.Container) { c.Written = []string{"/srv", "/srv/chat.db"} }),
			[]string{"warning data-in-layer of app: recreate wipe"}},
		{"a database in the app's volume", container(app, func(c *discover.Container) { c.Written = []string{"/data/chat.db"} }), nil},

		// How stores write.
		{"Redis as it is shipped", set(redis, "appendonly", "no"), []string{"loses redis-no-aof of redis: kill crash_all power_cut"}},
		{"Redis without snapshots too", set(redis, "appendonly", "no", "save", ""), []string{"loses redis-no-aof of redis: kill restart recreate crash_all power_cut"}},
		{"Redis that takes none when it ends", set(redis, "appendonly", "no", "shutdown-on-sigterm", "nosave"),
			[]string{"loses redis-no-aof of redis: kill restart recreate crash_all power_cut"}},
		{"Redis as a cache", func(s *discover.Stack) {
			set(redis, "appendonly", "no")(s)
			s.Stores[redis+ofStore].Cache = true
		}, []string{"warning redis-no-aof of redis: kill crash_all power_cut"}},
		{"Redis as a cache, of which nothing is known", func(s *discover.Stack) {
			unread(redis, "redis-server", "/etc/redis.conf")(s)
			s.Stores[redis+ofStore].Cache = true
		}, []string{"warning unread of redis: "}},
		{"appendfsync everysec", set(redis, "appendfsync", "everysec"), []string{"loses redis-appendfsync of redis: power_cut"}},
		{"appendfsync no", set(redis, "appendfsync", "no"), []string{"loses redis-appendfsync of redis: power_cut"}},
		{"eviction of any key", set(redis, "maxmemory", "1000000", "maxmemory-policy", "allkeys-lru"), []string{"loses redis-eviction of redis: none"}},
		{"eviction of keys with a time to live", set(redis, "maxmemory", "1000000", "maxmemory-policy", "volatile-ttl"), []string{"loses redis-eviction of redis: none"}},
		{"a policy that no limit ever calls for", set(redis, "maxmemory-policy", "allkeys-lru"), nil},
		{"a limit that refuses", set(redis, "maxmemory", "1000000"), nil},
		{"fsync off", set(postgres, "fsync", "off"), []string{"loses postgres-fsync of postgres: power_cut"}},
		{"full_page_writes off", set(postgres, "full_page_writes", "off"), []string{"loses postgres-full-page-writes of postgres: power_cut"}},
		{"synchronous_commit off", set(postgres, "synchronous_commit", "off"), []string{"loses postgres-synchronous-commit of postgres: kill crash_all power_cut"}},
		{"synchronous_commit off for the app alone", set(postgres, "synchronous_commit for the role app", "off"),
			[]string{"loses postgres-synchronous-commit of postgres: kill crash_all power_cut"}},

		// Where the store does not say.
		{"a Redis that does not tell, and is shown by its command", unread(redis, "redis-server", "--appendonly", "yes", "--appendfsync", "always"),
			[]string{"warning unread of redis: "}},
		{"a Redis that does not tell, as it is shipped", unread(redis, "docker-entrypoint.sh", "redis-server"),
			[]string{"loses redis-no-aof of redis: kill crash_all power_cut", "warning unread of redis: "}},
		{"a Redis that does not tell, with --save", unread(redis, "redis-server", "--save", "60", "1", "--save", ""),
			[]string{"loses redis-no-aof of redis: kill restart recreate crash_all power_cut", "warning unread of redis: "}},
		{"a Redis that does not tell, with a file", unread(redis, "redis-server", "/etc/redis.conf"),
			[]string{"unknown unread of redis: "}},
		{"a PostgreSQL in which nobody looks", unviewed(postgres), []string{"warning unread of postgres: "}},
		{"a PostgreSQL in which nobody looks, and whose command tells", func(s *discover.Stack) {
			unviewed(postgres)(s)
			s.Containers[postgres].Command = []string{"postgres", "-c", "fsync=off"}
		}, []string{"loses postgres-fsync of postgres: power_cut", "warning unread of postgres: "}},
		{"a Chroma in which nobody looks, of a version that is not known", func(s *discover.Stack) {
			unviewed(chroma)(s)
			s.Containers[chroma].Image = "amnesia/chroma:local"
		}, []string{"warning unread of chroma: "}},
		{"a PostgreSQL that does not tell", unread(postgres, "postgres", "-cfsync=off", "-c", "full_page_writes=off", "--synchronous-commit=off"),
			[]string{"loses postgres-fsync of postgres: power_cut", "loses postgres-full-page-writes of postgres: power_cut",
				"loses postgres-synchronous-commit of postgres: kill crash_all power_cut", "unknown unread of postgres: "}},

		// A container's life.
		{"no restart policy", container(postgres, func(c *discover.Container) { c.Restart = "no" }), []string{"warning no-restart of postgres: "}},
		{"no time to write", container(app, func(c *discover.Container) { c.Grace = 0 }), []string{"warning flush-cut of app: restart recreate"}},
		{"no time to write, for a PostgreSQL that has written", container(postgres, func(c *discover.Container) { c.Grace = 0 }), nil},
		{"no time to take a snapshot", func(s *discover.Stack) {
			set(redis, "appendonly", "no")(s)
			s.Containers[redis].Grace = 0
		}, []string{"loses redis-no-aof of redis: kill restart recreate crash_all power_cut"}},
		{"SIGKILL to stop", container(app, func(c *discover.Container) { c.StopSignal = "SIGKILL" }), []string{"warning flush-cut of app: restart recreate"}},
		{"gunicorn, which waits for 30 s", container(app, func(c *discover.Container) { c.Command = []string{"/usr/local/bin/gunicorn", "app:app"} }),
			[]string{"warning flush-cut of app: restart recreate"}},
		{"gunicorn that was told to be quick", container(app, func(c *discover.Container) { c.Command = []string{"sh", "-c", "gunicorn --graceful-timeout 5 app:app"} }), nil},
		{"uvicorn", container(app, func(c *discover.Container) {
			c.Command = []string{"uvicorn", "app:app", "--timeout-graceful-shutdown=60"}
		}),
			[]string{"warning flush-cut of app: restart recreate"}},
		{"uvicorn of which nothing is known", container(app, func(c *discover.Container) { c.Command = []string{"uvicorn", "app:app"} }), nil},

		// Two of them.
		{"two servers on one volume", func(s *discover.Stack) {
			second := s.Containers[redis]
			second.Service, second.Name = "other", "other-1"
			s.Containers = append(s.Containers, second)
		}, []string{"loses shared-data of redis: none"}},
		{"a second one that has ended", func(s *discover.Stack) {
			second := s.Containers[redis]
			second.Name, second.Running = "memory-stack-redis-2", false
			s.Containers = append(s.Containers, second)
		}, nil},
		{"two processes on one SQLite file", func(s *discover.Stack) {
			s.Stores = append(s.Stores, discover.Store{Service: "app", Kind: discover.SQLite, Path: "/srv/chat.db", Holders: []string{"app (1)", "worker (2)"}})
		}, []string{"warning shared-sqlite of app: none"}},
		{"two processes on one Chroma folder", func(s *discover.Stack) {
			s.Stores = append(s.Stores, discover.Store{Service: "app", Kind: discover.SQLite, Path: "/srv/chroma.sqlite3", Holders: []string{"app (1)", "worker (2)"}})
		}, []string{"loses shared-sqlite of app: none"}},
		{"two containers with one SQLite file", func(s *discover.Stack) {
			s.Containers[redis].Mounts = append(s.Containers[redis].Mounts, s.Containers[app].Mounts...)
			s.Stores = append(s.Stores, discover.Store{Service: "app", Kind: discover.SQLite, Path: s.Containers[app].Mounts[0].Source + "/chat.db"})
		}, []string{"warning shared-sqlite of app: none"}},
		{"a database in a volume that a wipe may empty", func(s *discover.Stack) {
			s.Containers[app].Mounts[0].Ephemeral = true
			s.Stores = append(s.Stores, discover.Store{Service: "app", Kind: discover.SQLite, Path: s.Containers[app].Mounts[0].Source + "/chat.db"})
		}, []string{"loses ephemeral-volume of app: wipe"}},
		{"a database in an anonymous volume", func(s *discover.Stack) {
			s.Containers[app].Mounts[0].Anonymous = true
			s.Stores = append(s.Stores, discover.Store{Service: "app", Kind: discover.SQLite, Path: s.Containers[app].Mounts[0].Source + "/chat.db"})
		}, []string{"loses anonymous-volume of app: recreate wipe"}},
		{"a database in scratch", func(s *discover.Stack) {
			s.Stores = append(s.Stores, discover.Store{Service: "app", Kind: discover.SQLite, Path: "/srv/tmp/chat.db", Holders: []string{"app (1)"}, Scratch: "tmp"})
		}, []string{"loses scratch of app: recreate wipe"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := healthy()
			c.change(s)
			if diff := cmp.Diff(c.want, said(s)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			for _, f := range discover.Diagnose(*s) {
				if f.What == "" || f.Loses == "" || f.Fix == "" || f.Faults == nil || !slices.Contains(discover.Rules(), f.Rule) {
					t.Errorf("not all is said: %+v", f)
				}
			}
		})
	}
}

// A SIGKILL does not lose what is in the page cache: no finding that is about the disk alone may say so.
func TestPowerCutsAlone(t *testing.T) {
	s := healthy()
	for name, value := range map[string]string{"fsync": "off", "full_page_writes": "off"} {
		s.Stores[2].Settings[name] = value
	}
	s.Stores[1].Settings["appendfsync"] = "no"
	found := discover.Diagnose(*s)
	if len(found) != 3 {
		t.Fatalf("%+v", found)
	}
	for _, f := range found {
		if !slices.Equal(f.Faults, []string{discover.PowerCut}) || !strings.Contains(f.Loses, "a SIGKILL loses nothing") {
			t.Errorf("%+v", f)
		}
	}
}

func TestKindOf(t *testing.T) {
	for image, want := range map[string]discover.Kind{
		"redis:8": discover.Redis, "docker.io/valkey/valkey:8": discover.Redis, "amnesia/redis:local": discover.Redis, "redis/redis-stack:latest": discover.Redis,
		"postgres:17-alpine": discover.Postgres, "pgvector/pgvector:pg17": discover.Postgres, "chromadb/chroma:1.0.20@sha256:00": discover.Chroma,
		"registry:5000/team/app:1": "", "": "",
	} {
		if got := discover.KindOf(discover.Container{Image: image}); got != want {
			t.Errorf("%q is %q, not %q", image, got, want)
		}
	}
	if got := discover.KindOf(discover.Container{Image: "bitnami/kv", Ports: []int{80, 6379}}); got != discover.Redis {
		t.Errorf("by its port: %q", got)
	}
}

// Holders finds a process that has the file open, and not one that has another of the same name.
func TestHolders(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.db")
	for _, name := range []string{path, filepath.Join(dir, "b.db")} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(path, filepath.Join(dir, "other-name.db")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.db", "other-name.db", "b.db"} {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		cmd := exec.Command("sleep", "60")
		cmd.Stdin = f
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
	want := 2
	if runtime.GOOS != "linux" {
		want = 0 // it cannot be told
	}
	if got := discover.Holders(path); len(got) != want {
		t.Errorf("%q have it open, and two do", got)
	}
}
