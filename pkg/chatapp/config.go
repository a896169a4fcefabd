package chatapp

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
)

// The stores of the app, as Config.Homes, the truth log and the logs call them.
const (
	DatabaseStore  = "database"
	VectorStore    = "vectors"
	ShortTermStore = "short_term" // always a cache, never a home
)

// Config is all that an App is told. The zero value of an optional field means its default.
type Config struct {
	Addr       string        // host:port to listen on; port 0 takes a free one; default 127.0.0.1:8080
	Data       string        // the durable directory
	Scratch    string        // the ephemeral directory: the app must not miss what was in it
	Bugs       Bugs          // default: none
	Truth      string        // file of the truth log; empty: none is written
	Homes      []string      // the stores that hold memories; default: database and vectors
	Drain      time.Duration // the delay of late writes (AckEarly, DualWriteGap, GhostDelete, LocalEcho); default 250ms
	IndexDelay time.Duration // SlowIndex; default 1.5s
	Log        *zap.Logger   // default: none
	Now        func() time.Time
}

func (c Config) withDefaults() Config {
	if c.Addr == "" {
		c.Addr = "127.0.0.1:8080"
	}
	if len(c.Homes) == 0 {
		c.Homes = []string{DatabaseStore, VectorStore}
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

// ConfigFromEnv reads the variables CHATAPP_ADDR, _DATA, _SCRATCH, _BUGS, _TRUTH, _HOMES, _DRAIN and _INDEX_DELAY, which
// stand for the fields of Config. The error is a *ConfigError with every problem at once.
func ConfigFromEnv(getenv func(string) string) (Config, error) {
	var problems []string
	check := func(name string, err error) {
		if err != nil {
			problems = append(problems, name+": "+err.Error())
		}
	}
	cfg := Config{
		Addr:    getenv("CHATAPP_ADDR"),
		Data:    getenv("CHATAPP_DATA"),
		Scratch: getenv("CHATAPP_SCRATCH"),
		Truth:   getenv("CHATAPP_TRUTH"),
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
	cfg.Drain, err = parseDelay(getenv("CHATAPP_DRAIN"))
	check("CHATAPP_DRAIN", err)
	cfg.IndexDelay, err = parseDelay(getenv("CHATAPP_INDEX_DELAY"))
	check("CHATAPP_INDEX_DELAY", err)
	cfg = cfg.withDefaults()
	if cfg.Bugs[DualWriteGap] && len(cfg.Homes) < 2 {
		check("CHATAPP_HOMES", fmt.Errorf("%s needs two homes — fix: give database,vectors", DualWriteGap))
	}
	for _, bug := range []Bug{CounterID, EphemeralClient, EphemeralVolume} {
		if cfg.Bugs[bug] && !slices.Contains(cfg.Homes, VectorStore) {
			check("CHATAPP_HOMES", fmt.Errorf("%s is a bug of the vector memory — fix: add vectors", bug))
		}
	}
	if len(problems) > 0 {
		return Config{}, &ConfigError{problems}
	}
	return cfg, nil
}

// parseHomes gives the homes in the order in which they are written: the database first.
func parseHomes(list string) ([]string, error) {
	known := []string{DatabaseStore, VectorStore}
	names := words(list)
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("%q cannot be the home of a memory — fix: choose from %s", name, strings.Join(known, ", "))
		}
	}
	return slices.DeleteFunc(known, func(name string) bool { return len(names) > 0 && !slices.Contains(names, name) }), nil
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
