package chatapp

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
)

// The stores of the app, as Config.Homes, the truth log and the logs call them.
const (
	DatabaseStore  = "database"
	VectorStore    = "vectors"
	ShortTermStore = "short_term" // in the process: always a cache, never a home
	RedisStore     = "redis"      // a cache in the place of ShortTermStore, or a home
)

// Config is all that an App is told. The zero value of an optional field means its default.
type Config struct {
	Addr       string        // host:port to listen on; port 0 takes a free one; default 127.0.0.1:8080
	Data       string        // the durable directory
	Scratch    string        // the ephemeral directory: the app must not miss what was in it
	Bugs       Bugs          // default: none
	Truth      string        // file of the truth log; empty: none is written
	Homes      []string      // the stores that hold memories; default: database and vectors
	Writes     Writes        // default: Async where Redis is a cache, else (and with a bug that has an order of its own) Sync
	NoRebuild  bool          // do not make the vector memory hold at the start what the database holds
	Redis      string        // URL of a Redis server; empty: short-term memory is in the process
	RedisTTL   time.Duration // how long a user's list lives in Redis after its last write; default 30m
	Postgres   string        // DSN of a PostgreSQL database; empty: the database is a file in Data
	Chroma     string        // URL of a Chroma server; empty: the vector memory is a file in Data
	Drain      time.Duration // the delay of late writes (AckEarly, DualWriteGap, GhostDelete, LocalEcho); default 250ms
	IndexDelay time.Duration // SlowIndex; default 1.5s
	Log        *zap.Logger   // default: none
	Now        func() time.Time
}

// Writes says when the homes of a memory are written.
type Writes string

const (
	// Sync writes every home before the answer; Redis, as a cache, after them.
	Sync Writes = "sync"
	// Async writes Redis, answers, and writes the homes right after that, from Redis (see inbox). Redis must keep what
	// it has: with an append-only file, and appendfsync always for a power cut.
	Async Writes = "async"
)

// mayWait reports whether the homes can be written late: a Redis that is no home itself keeps what is on its way, and no
// bug lies in another order of the writes.
func (c Config) mayWait() bool {
	return c.Redis != "" && !slices.Contains(c.Homes, RedisStore) &&
		!c.Bugs.any(AckEarly, DualWriteGap, LocalEcho, RetryDup, SlowIndex, SwallowedError)
}

func (c Config) withDefaults() Config {
	if c.Addr == "" {
		c.Addr = "127.0.0.1:8080"
	}
	if len(c.Homes) == 0 {
		c.Homes = []string{DatabaseStore, VectorStore}
	}
	if c.Writes == "" && c.mayWait() {
		c.Writes = Async
	} else if c.Writes == "" {
		c.Writes = Sync
	}
	if c.RedisTTL == 0 {
		c.RedisTTL = 30 * time.Minute
	}
	if c.Drain == 0 {
		c.Drain = 250 * time.Millisecond
	}
	if c.IndexDelay == 0 {
		c.IndexDelay = 1500 * time.Millisecond
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// ConfigError holds everything that is wrong with the environment.
type ConfigError struct{ Problems []string }

func (e *ConfigError) Error() string { return strings.Join(e.Problems, "\n") }

// ConfigFromEnv reads the variables CHATAPP_ADDR, _DATA, _SCRATCH, _BUGS, _TRUTH, _HOMES, _WRITES (sync or
// async), _REBUILD (start or never), _DRAIN, _INDEX_DELAY, _REDIS_URL, _REDIS_TTL, _POSTGRES_DSN and _CHROMA_URL, which
// stand for the fields of Config. The error is a *ConfigError with every problem at once.
func ConfigFromEnv(getenv func(string) string) (Config, error) {
	var problems []string
	check := func(name string, err error) {
		if err != nil {
			problems = append(problems, name+": "+err.Error())
		}
	}
	cfg := Config{
		Addr:     getenv("CHATAPP_ADDR"),
		Data:     getenv("CHATAPP_DATA"),
		Scratch:  getenv("CHATAPP_SCRATCH"),
		Truth:    getenv("CHATAPP_TRUTH"),
		Redis:    getenv("CHATAPP_REDIS_URL"),
		Postgres: getenv("CHATAPP_POSTGRES_DSN"),
		Chroma:   getenv("CHATAPP_CHROMA_URL"),
	}
	if cfg.Addr != "" {
		_, _, err := net.SplitHostPort(cfg.Addr)
		if err != nil {
			err = fmt.Errorf("%w — fix: give host:port, such as 127.0.0.1:8080", err)
		}
		check("CHATAPP_ADDR", err)
	}
	if cfg.Data == "" {
		check("CHATAPP_DATA", errors.New("not set — fix: name a directory that outlives the app"))
	}
	if cfg.Scratch == "" {
		check("CHATAPP_SCRATCH", errors.New("not set — fix: name a directory that may be emptied whenever the app is down"))
	}
	if cfg.Data != "" && cfg.Data == cfg.Scratch {
		check("CHATAPP_SCRATCH", errors.New("the same as CHATAPP_DATA — fix: name another directory"))
	}
	var err error
	cfg.Bugs, err = ParseBugs(getenv("CHATAPP_BUGS"))
	check("CHATAPP_BUGS", err)
	cfg.Homes, err = parseHomes(getenv("CHATAPP_HOMES"))
	check("CHATAPP_HOMES", err)
	cfg.Writes, err = choose(Writes(getenv("CHATAPP_WRITES")), "", Sync, Async)
	check("CHATAPP_WRITES", err)
	rebuild, err := choose(getenv("CHATAPP_REBUILD"), "start", "start", "never")
	check("CHATAPP_REBUILD", err)
	cfg.NoRebuild = rebuild == "never"
	cfg.Drain, err = parseDelay(getenv("CHATAPP_DRAIN"))
	check("CHATAPP_DRAIN", err)
	cfg.IndexDelay, err = parseDelay(getenv("CHATAPP_INDEX_DELAY"))
	check("CHATAPP_INDEX_DELAY", err)
	cfg.RedisTTL, err = parseDelay(getenv("CHATAPP_REDIS_TTL"))
	check("CHATAPP_REDIS_TTL", err)
	cfg.checkAddresses(check)
	cfg = cfg.withDefaults()
	cfg.checkFit(check)
	if len(problems) > 0 {
		return Config{}, &ConfigError{problems}
	}
	return cfg, nil
}

// checkAddresses reports the addresses of stores that are none. It repeats no part of them: they hold passwords.
func (c Config) checkAddresses(check func(name string, err error)) {
	if _, err := redis.ParseURL(c.Redis); c.Redis != "" && err != nil {
		check("CHATAPP_REDIS_URL", errors.New("no address of Redis — fix: give one such as redis://127.0.0.1:6379/0"))
	}
	if _, err := pgx.ParseConfig(c.Postgres); c.Postgres != "" && err != nil {
		check("CHATAPP_POSTGRES_DSN", errors.New("no address of PostgreSQL — fix: give one such as postgres://user:password@127.0.0.1:5432/chat"))
	}
	if u, err := url.Parse(c.Chroma); c.Chroma != "" && (err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https")) {
		check("CHATAPP_CHROMA_URL", errors.New("no address of Chroma — fix: give one such as http://127.0.0.1:8000"))
	}
}

// choose gives the choice that was named, or the default when none was.
func choose[T ~string](name, or T, choices ...T) (T, error) {
	if name == "" || slices.Contains(choices, name) {
		return cmp.Or(name, or), nil
	}
	return or, fmt.Errorf("there is no %q — fix: choose from %q", name, choices)
}

// checkFit reports homes and bugs that want what is not there.
func (c Config) checkFit(check func(name string, err error)) {
	if slices.Contains(c.Homes, RedisStore) && c.Redis == "" {
		check("CHATAPP_HOMES", errors.New("redis is a server — fix: set CHATAPP_REDIS_URL too, or leave redis out"))
	}
	if c.Writes == Async && !c.mayWait() {
		check("CHATAPP_WRITES", errors.New("async needs a Redis that is no home, and no bug with an order of its own — fix: set CHATAPP_REDIS_URL and leave redis out of CHATAPP_HOMES, or leave it out"))
	}
	if c.Bugs[DualWriteGap] && len(c.Homes) < 2 {
		check("CHATAPP_HOMES", fmt.Errorf("%s needs two homes — fix: give database,vectors", DualWriteGap))
	}
	for _, bug := range []Bug{CounterID, EphemeralClient, EphemeralVolume} {
		if c.Bugs[bug] && !slices.Contains(c.Homes, VectorStore) {
			check("CHATAPP_HOMES", fmt.Errorf("%s is a bug of the vector memory — fix: add vectors", bug))
		}
	}
	for _, bug := range []Bug{RetryDup, TTLLong, TTLNone, TTLShort} {
		if c.Bugs[bug] && c.Redis == "" {
			check("CHATAPP_REDIS_URL", fmt.Errorf("%s is a bug of the lists in Redis — fix: name a server", bug))
		}
	}
	if c.Bugs[EphemeralVolume] && c.Chroma != "" {
		check("CHATAPP_BUGS", fmt.Errorf("%s is a bug of the server here — fix: start Chroma without a durable volume", EphemeralVolume))
	}
	if c.Bugs[Unsynced] && (c.Postgres != "" || c.Chroma != "") {
		check("CHATAPP_BUGS", fmt.Errorf("%s is a setting of the server here — fix: start PostgreSQL with fsync=off", Unsynced))
	}
}

// parseHomes gives the homes in the order in which they are written: the database first.
func parseHomes(list string) ([]string, error) {
	known := []string{DatabaseStore, VectorStore, RedisStore}
	names := words(list)
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("%q cannot be the home of a memory — fix: choose from %s", name, strings.Join(known, ", "))
		}
	}
	return slices.DeleteFunc(known, func(name string) bool { return !slices.Contains(names, name) }), nil
}

func parseDelay(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%q is no delay — fix: give a positive duration, such as 250ms", text)
	}
	return d, nil
}

// words splits a comma-separated list.
func words(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}
