package zoo

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/template"

	"go.uber.org/zap"

	"amnesia/pkg/app"
	"amnesia/pkg/chatapp/truth"
	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
	"amnesia/pkg/view/viewtest"
)

//go:embed zoo.yaml
var configuration string

// Zoo runs cases. Its fields are set before the first run; runs may go on at the same time.
type Zoo struct {
	Chatapp    string // the program of the sample target
	Dir        string // where each run gets a folder of its own
	BrowserDir string // of Playwright's driver; empty: the user's cache
	Log        *zap.Logger

	mu   sync.Mutex
	port int
}

// Result is what came of one run.
type Result struct {
	Case     string
	Seed     uint64
	Dir      string // with the configuration, the ledger and the truth log
	Memories []Compared
	Raced    int // memories whose right verdict hangs on a look during which they came or went
}

// Compared is one memory.
type Compared struct {
	Memory      memory.Memory
	Said, Right Word
}

// OK reports whether what was said is right.
func (c Compared) OK() bool { return c.Said == c.Right }

// Ledger is the file to ask why.
func (r Result) Ledger() string { return filepath.Join(r.Dir, "amnesia.db") }

// Wrong gives the memories of which something else was said than is right.
func (r Result) Wrong() []Compared {
	return slices.DeleteFunc(slices.Clone(r.Memories), func(c Compared) bool { return c.OK() })
}

// dir makes the folder of a run.
func (z *Zoo) dir(k Case, seed uint64) (string, error) {
	return os.MkdirTemp(z.Dir, k.file()+"-"+strconv.FormatUint(seed, 10)+"-")
}

// Run runs a case once. The error says that the run tells nothing: it could not be made, or the bug did not show.
func (z *Zoo) Run(ctx context.Context, k Case, seed uint64) (Result, error) {
	r := Result{Case: k.Name, Seed: seed}
	var err error
	if r.Dir, err = z.dir(k, seed); err != nil {
		return r, err
	}
	s, err := z.soak(ctx, k, seed, r.Dir)
	if err != nil {
		return r, err
	}
	c := recall(s.entries)
	if err := errors.Join(c.trouble(), k.Blind.check(c)); err != nil {
		return r, err
	}
	if err := r.compare(k, c, s); err != nil {
		return r, err
	}
	return r, r.shown(k)
}

// soaked is what a run leaves: the daemon's facts, and the truth as it was before the daemon let go of the target, since
// the end of the app's process writes what was still queued.
type soaked struct {
	entries []fact.Entry
	log     *truth.Truth
	holds   map[string]holding // by store: what servers were found to hold after that
}

func (z *Zoo) soak(ctx context.Context, k Case, seed uint64, dir string) (s soaked, err error) {
	var mu sync.Mutex
	tap := func(es []fact.Entry) {
		mu.Lock()
		defer mu.Unlock()
		s.entries = append(s.entries, es...)
	}
	err = z.play(ctx, k, seed, dir, tap, func(servers []Server) (err error) {
		if s.log, err = truth.Read(filepath.Join(dir, "truth.jsonl")); err != nil {
			return err
		}
		s.holds = map[string]holding{}
		for _, server := range servers {
			store := map[string]string{redisServer: redisServer, postgresServer: database}[server.Name]
			if s.holds[store], err = server.inspect(ctx); err != nil {
				return fmt.Errorf("looking into %s: %w", server.Name, err)
			}
		}
		return nil
	})
	mu.Lock()
	defer mu.Unlock()
	s.entries = slices.Clone(s.entries)
	return s, err
}

// play runs the daemon on the case, and calls after when the last cycle is closed and the target still runs.
func (z *Zoo) play(ctx context.Context, k Case, seed uint64, dir string, tap func([]fact.Entry), after func([]Server) error) error {
	servers, clean, err := z.servers(ctx, k, dir)
	if err != nil {
		return errors.Join(err, clean())
	}
	return errors.Join(z.daemon(ctx, k, seed, dir, servers, tap, after), clean())
}

func (z *Zoo) daemon(ctx context.Context, k Case, seed uint64, dir string, servers []Server, tap func([]fact.Entry), after func([]Server) error) (err error) {
	addr, err := z.address(ctx)
	if err != nil {
		return err
	}
	seen := addr // where the views find the app
	if k.Blind != nil {
		p, err := viewtest.OpenProxy(addr)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, p.Close()) }()
		seen, tap = p.Addr().String(), k.Blind.tap(p, tap)
	}
	path, err := z.configure(k, servers, addr, seen, dir)
	if err != nil {
		return err
	}
	cfg, err := app.LoadConfig([]string{path}, func(string) string { return "" })
	if err != nil {
		return err
	}
	daemon, err := app.New(ctx, cfg, app.Options{Seed: seed, Cycles: k.Cycles, BrowserDir: z.BrowserDir, Log: z.Log, Tap: tap})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, daemon.Close()) }()
	if err := daemon.Run(ctx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("the run was cut off: %w", context.Cause(ctx))
	}
	return after(servers)
}

// configure writes the amnesia.yaml of a run into its folder.
func (z *Zoo) configure(k Case, servers []Server, addr, seen, dir string) (string, error) {
	t, err := template.New("zoo.yaml").Delims("<<", ">>").Funcs(template.FuncMap{
		"join": strings.Join,
		"text": func(parts ...string) (string, error) {
			q, err := json.Marshal(strings.Join(parts, ""))
			return string(q), err
		},
	}).Parse(configuration)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, struct {
		Case                     Case
		Servers                  []Server
		Addr, Seen, Chatapp, Dir string
	}{k, servers, addr, seen, z.Chatapp, dir}); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "amnesia.yaml")
	return path, os.WriteFile(path, b.Bytes(), 0o640)
}

// The ports of the targets lie below those that systems give to outgoing connections (from 32768 on Linux, from 49152
// elsewhere): a port that is free while its app is down must not be taken by a client of another run.
const (
	firstPort = 20000
	ports     = 12000
)

// address gives a loopback address that is free and that no other run has.
func (z *Zoo) address(ctx context.Context) (string, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.port == 0 {
		z.port = os.Getpid() * 97 % ports // away from those of another process
	}
	for range ports {
		z.port = (z.port + 1) % ports
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(firstPort+z.port))
		if ln, err := new(net.ListenConfig).Listen(ctx, "tcp", addr); err == nil {
			return addr, ln.Close()
		}
	}
	return "", errors.New("no port is free on 127.0.0.1")
}

// compare sets what was said of each memory beside what is right.
func (r *Result) compare(k Case, c *chronicle, s soaked) error {
	w := hear(s.log, k.Homes[0])
	for store, h := range s.holds {
		if store == redisServer && k.Home(store) && k.TTL > 0 {
			w.expire(k.TTL, h.at)
		}
		if err := w.check(store, h, c.ends(k.service(store))); err != nil {
			return err
		}
	}
	ids := slices.Sorted(maps.Keys(c.lives))
	for _, id := range ids {
		w.of[id] = newTruthOf("", k.Homes[0]) // of what never came to the app
		switch of := s.log.Of(c.lives[id].memory.Token); {
		case len(of) > 1 && !k.twice:
			return fmt.Errorf("the app was told %s %d times", id, len(of))
		case len(of) > 0:
			w.of[id] = w.all(of)
		}
	}
	for _, id := range ids {
		l := c.lives[id]
		if !l.acknowledged().IsZero() && w.of[id].taken.IsZero() {
			return fmt.Errorf("the user saw %s acknowledged, the app did not set out to say so", id)
		}
		said := WordOf(l.said)
		right := c.right(k, w, l, open)
		if right != c.right(k, w, l, gone) || right != c.right(k, w, l, here) {
			r.Raced++
		}
		r.Memories = append(r.Memories, Compared{Memory: l.memory, Said: said, Right: right})
	}
	return nil
}

// shown reports an error when the case does not count.
func (r *Result) shown(k Case) error {
	showing := 0
	for _, m := range r.Memories {
		if slices.Contains(strings.Fields(m.Right.String()), k.Shows) {
			showing++
		}
	}
	switch {
	case showing == 0:
		return fmt.Errorf("of %d memories none is %s: the case did not show", len(r.Memories), k.Shows)
	case !k.All && !k.Control() && showing == len(r.Memories):
		return fmt.Errorf("all %d memories are %s: none is left to be told apart", showing, k.Shows)
	}
	return nil
}
