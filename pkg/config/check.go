package config

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"amnesia/chaos"
)

// check looks at the whole, value by value that could be read, and fills in what follows from other values.
func (l *loader) check(c *Config) {
	if c.Version != 1 {
		l.fail("version", fmt.Sprintf("version %d is not known", c.Version), "write version: 1")
	}
	l.target(&c.Target)
	l.sessions(&c.Sessions)
	l.script(&c.Sessions.Script)
	l.countsFrom(&c.Sessions)
	l.views(c)
	l.faults(c)
	l.known(c.Known)
	if c.Limits.Hours != "" {
		h, err := chaos.ParseHours(c.Limits.Hours, c.Limits.Timezone.Location)
		if err != nil {
			l.failWith("limits.hours", err)
		}
		c.Limits.Window = &h
	}
	l.positive("limits.recovery", c.Limits.Recovery)
	l.positive("evidence.max_age", c.Evidence.MaxAge)
	if c.Evidence.MaxAgeFindings < c.Evidence.MaxAge {
		l.fail("evidence.max_age_findings", fmt.Sprintf("is less than max_age, %s: what matters would go first", short(c.Evidence.MaxAge)), "write more than max_age")
	}
	l.web(&c.Web)
}

func (l *loader) web(w *Web) {
	l.listens("web.listen", w.Listen)
	if l.has("web.metrics") {
		l.listens("web.metrics", w.Metrics)
	}
	if l.has("web.token_env") && l.has("web.token_file") {
		l.fail("web.token_file", "there is a token_env as well", "remove one of them")
	}
	for _, path := range []string{"web.token_env", "web.token_file"} {
		if n := len(w.Token.Reveal()); l.has(path) && 0 < n && n < leastToken {
			l.fail(path, fmt.Sprintf("the token has %d characters, and can be guessed", n), fmt.Sprintf("give it %d or more, drawn at random", leastToken))
		}
	}
}

// leastToken is the length of the shortest token that is taken.
const leastToken = 16

func (l *loader) listens(path, address string) {
	host, port, err := net.SplitHostPort(address)
	if n, e := strconv.ParseUint(port, 10, 16); err != nil || e != nil || strings.ContainsAny(host, "/ ") || n == 0 && port != "0" {
		l.fail(path, fmt.Sprintf("%q is no address to listen on", address), "write host:port, such as 127.0.0.1:9464")
	}
}

func (l *loader) positive(path string, d time.Duration) {
	if d <= 0 {
		l.fail(path, "is zero", "write a duration above zero, or remove the key")
	}
}

// address checks a URL that the file has.
func (l *loader) address(path, text string, schemes ...string) {
	if !l.has(path) {
		return
	}
	fix := "write it as " + schemes[0] + "://host:port"
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "":
		l.fail(path, fmt.Sprintf("%q is no address", text), fix)
	case !slices.Contains(schemes, u.Scheme):
		l.fail(path, fmt.Sprintf("%s:// is not asked here", u.Scheme), "use "+strings.Join(schemes, ":// or ")+"://")
	case u.User != nil:
		l.fail(path, "a secret does not stand in the file", "remove the user and password from the address")
	case u.Scheme == "tcp" && u.Port() == "":
		l.fail(path, fmt.Sprintf("%q has no port", text), "write it as tcp://host:port")
	}
}

func (l *loader) target(t *Target) {
	l.address("target.url", t.URL, "http", "https")
	e, known := engines[t.Engine]
	words := built(engines, func(e engine) bool { return e.built })
	switch {
	case !l.has("target.engine"):
	case !known:
		l.fail("target.engine", fmt.Sprintf("%q is no engine", t.Engine), choice(t.Engine, words))
	case !e.built:
		l.fail("target.engine", fmt.Sprintf("the engine %s is not in this build", t.Engine), "write "+oneOf(words))
	}
	if t.Engine == "process" && l.has("target.project") {
		l.fail("target.project", "the engine process has no projects", "remove it")
	}
	if l.has("target.services") && len(t.Services) == 0 && !l.badBelow("target.services") {
		l.fail("target.services", "has no services", "name at least the app and how to ask for its health")
	}
	for _, s := range t.Services {
		path := "target.services." + s.Name
		l.address(path+".health", s.Health, "http", "https", "tcp")
		if t.Engine == "docker" {
			for _, key := range []string{"command", "env", "dir", "scratch"} {
				if l.has(path + "." + key) {
					l.fail(path+"."+key, "the engine docker starts nothing itself", "remove it: the containers are those of target.project")
				}
			}
		}
		if t.Engine != "process" {
			continue
		}
		if len(s.Command) == 0 {
			l.fail(path+".command", "is missing: the engine process starts the services itself", `add command: ["./app", "--port", "8080"]`)
		}
		seen := make(map[string]bool)
		for i, dir := range s.Scratch {
			where := fmt.Sprintf("%s.scratch[%d]", path, i)
			clean := filepath.Clean(dir)
			if !filepath.IsLocal(dir) || clean == "." {
				l.fail(where, fmt.Sprintf("%q is not within dir", dir), "name a folder below dir: only that may be emptied")
			}
			if seen[clean] {
				l.fail(where, fmt.Sprintf("%q is there twice", dir), "remove one of them")
			}
			seen[clean] = true
		}
	}
}

func (l *loader) sessions(s *Sessions) {
	const path = "sessions"
	l.template(path+".accounts", s.Accounts, []string{"Run", "N"}, nil)
	if s.Users > 1 && !strings.Contains(s.Accounts, ".N") {
		l.fail(path+".accounts", fmt.Sprintf("all %d users would have one account", s.Users), "put {{.N}} into it")
	}
	if s.AccountsFile != "" {
		if l.has(path + ".accounts") {
			l.fail(path+".accounts", "there is an accounts_file as well", "remove one of them")
		}
		for _, key := range []string{"password_env", "password_file"} {
			if l.has(path + "." + key) {
				l.fail(path+"."+key, "the accounts_file has the passwords", "remove it")
			}
		}
		if l.has(path + ".memories_per_account") {
			l.fail(path+".memories_per_account", "the accounts_file has all the accounts there are", "remove it")
		}
		s.PerAccount = 0
		s.Logins = l.logins(path+".accounts_file", s.AccountsFile, s.Users)
	}
	if l.has(path+".password_env") && l.has(path+".password_file") {
		l.fail(path+".password_file", "there is a password_env as well", "remove one of them")
	}
	l.positive(path+".retire", s.Retire)
	if !(0 <= s.Forget && s.Forget <= 1) {
		l.fail(path+".forget", "is no share", "write a number from 0 to 1")
	}
	if s.Forget > 0 && len(s.Script.Forget) == 0 && !l.badBelow(scriptPath) {
		l.fail(path+".forget", "the script has no section forget", "add one, or remove this")
	}
	if s.Driver == "http" {
		if l.has(path + ".browser") {
			l.fail(path+".browser", "the driver http starts no browser", "remove it, or write driver: browser")
		}
	}
	l.elsewhere(path+".browser", &s.Browser)
}

// elsewhere checks the addresses of browsers.
func (l *loader) elsewhere(path string, b *Browser) {
	if len(b.Connect) == 0 {
		return
	}
	for i, address := range b.Connect {
		at := fmt.Sprintf("%s.connect[%d]", path, i)
		if !l.has(at) {
			at = path + ".connect"
		}
		l.address(at, address, "ws", "wss", "http", "https")
		if slices.Contains(b.Connect[:i], address) {
			l.fail(at, "is there twice", "remove one: a browser takes as many users as it is given")
		}
	}
	for _, key := range []string{"executable", "headless", "args"} {
		if at := path + "." + key; l.has(at) {
			l.fail(at, "is for a browser that is started here", "remove it, or remove connect")
		}
	}
}

func (l *loader) countsFrom(s *Sessions) {
	levels := s.Script.Levels()
	switch {
	case len(levels) == 0:
	case s.CountsFrom == "":
		s.CountsFrom = levels[len(levels)-1]
	case !slices.Contains(levels, s.CountsFrom):
		l.fail("sessions.counts_from", fmt.Sprintf("the script acknowledges no level %q", s.CountsFrom), choice(s.CountsFrom, levels))
	}
}

func (c *Config) service(name string) (Service, bool) {
	i := slices.IndexFunc(c.Target.Services, func(s Service) bool { return s.Name == name })
	if i < 0 {
		return Service{}, false
	}
	return c.Target.Services[i], true
}

func (c *Config) serviceNames() []string {
	out := make([]string, len(c.Target.Services))
	for i, s := range c.Target.Services {
		out[i] = s.Name
	}
	return out
}

func (l *loader) views(c *Config) {
	if l.has("views") && len(c.Views) == 0 && !l.badBelow("views") {
		l.fail("views", "has no views", "name at least one place to look for memories, such as page: {}")
	}
	for i := range c.Views {
		v := &c.Views[i]
		path, k := "views."+v.Name, kinds[v.Kind]
		if v.Service == "" {
			v.Service = cmp.Or(k.service, v.Name)
			if _, ok := c.service(v.Service); !ok && len(c.Target.Services) > 0 {
				l.fail(path+".service", fmt.Sprintf("is missing, and there is no service %q behind it", v.Service),
					"add service: "+oneOf(c.serviceNames()))
			}
		} else if _, ok := c.service(v.Service); !ok && len(c.Target.Services) > 0 {
			l.fail(path+".service", fmt.Sprintf("there is no service %q", v.Service), choice(v.Service, c.serviceNames()))
		}
		if k.user && v.Name != v.Kind {
			l.fail(path, fmt.Sprintf("what a user looks at is judged by its name, and a view of kind %s is called %s", v.Kind, v.Kind),
				fmt.Sprintf("call it %s", v.Kind))
		}
		if k.section != "" && !l.has(scriptPath+"."+k.section) && l.has(scriptPath) {
			l.fail(path, fmt.Sprintf("a view of kind %s needs the script's section %s", v.Kind, k.section),
				fmt.Sprintf("add %s.%s, or remove the view", scriptPath, k.section))
		}
		l.contract(path+".contract", &v.Contract, k)
		switch v.Kind {
		case "sqlite":
			l.query(path+".query", v.SQLite.Query)
		case "http":
			l.address(path+".url", strings.ReplaceAll(v.HTTP.URL, "{user}", "user"), "http", "https")
			l.jsonPath(path+".items", v.HTTP.Items)
			l.jsonPath(path+".text", v.HTTP.Text)
			l.jsonPath(path+".owner", v.HTTP.Owner)
			l.jsonPath(path+".id", v.HTTP.ID)
			l.jsonPath(path+".next", v.HTTP.Next)
		case "chroma", "chroma_query":
			l.address(path+".url", v.Chroma.URL, "http", "https")
		case "redis":
			l.open(path+".url", v.Redis.URL, &v.Redis.Address, "redis://host:6379/0")
			if l.has(path+".key") && !strings.Contains(v.Redis.Key, "{user}") {
				l.fail(path+".key", "is the same for all users", "put {user} into it, as in chat:memory:{user}")
			}
		case "postgres":
			l.open(path+".dsn", v.Postgres.URL, &v.Postgres.Address, "postgres://user@host:5432/database")
			l.query(path+".query", v.Postgres.Query)
		}
	}
}

// password finds a password in an address: of a URL, or among the keywords of libpq.
var password = regexp.MustCompile(`^[a-z]+://[^/@]*:[^/]*@|(?i)\bpassword\s*=`)

// open checks that exactly one of an address in the file and a secret one is there, and fills the secret one in.
func (l *loader) open(path, text string, secret *Secret, form string) {
	key := path[strings.LastIndex(path, ".")+1:]
	var given []string
	for _, from := range []string{"", "_env", "_file"} {
		if l.has(path + from) {
			given = append(given, path+from)
		}
	}
	switch {
	case len(given) == 0:
		l.fail(path, "is missing", fmt.Sprintf("add %s: %s, or with a password in it %[1]s_env: NAME", key, form))
	case len(given) > 1:
		l.fail(given[1], "the address is there twice", "remove one of them")
	case text != "" && password.MatchString(text):
		l.fail(path, "a secret does not stand in the file", fmt.Sprintf("write %s_env: NAME or %[1]s_file: PATH", key))
	case text != "":
		*secret = NewSecret(text)
	}
}

// query refuses what is no reading of a database.
func (l *loader) query(path, text string) {
	word, _, _ := strings.Cut(strings.TrimSpace(strings.ToUpper(text)), " ")
	if word != "" && word != "SELECT" && word != "WITH" {
		l.fail(path, "a view only reads", "begin the query with SELECT")
	}
}

func (l *loader) contract(path string, k *Contract, of viewKind) {
	if k.Durable == nil {
		durable := of.durable
		k.Durable = &durable
	}
	l.positive(path+".settle", k.Settle)
	for _, key := range []string{"ttl_slack", "ttl_from"} {
		if k.TTL == 0 && l.has(path+"."+key) {
			l.fail(path+"."+key, "says nothing without a ttl", "add ttl, or remove it")
		}
	}
	if k.KeepLast == 0 && l.has(path+".keep_unit") {
		l.fail(path+".keep_unit", "says nothing without keep_last", "add keep_last, or remove it")
	}
	if k.MayLose == nil {
		return
	}
	if l.has(path + ".may_lose.window") {
		l.positive(path+".may_lose.window", k.MayLose.Window)
	}
	if l.has(path+".may_lose.on") && len(k.MayLose.On) == 0 {
		l.fail(path+".may_lose.on", "names no fault", "name the kinds of faults that may lose the window")
	}
	for i, kind := range k.MayLose.On {
		if _, ok := faultKinds[kind]; !ok {
			l.fail(fmt.Sprintf("%s.may_lose.on[%d]", path, i), fmt.Sprintf("%q is no kind of fault", kind), choice(kind, faultNames()))
		}
	}
}

func faultNames() []string { return built(faultKinds, func(faultKind) bool { return true }) }

func (l *loader) faults(c *Config) {
	for i := range c.Faults {
		f := &c.Faults[i]
		path := fmt.Sprintf("faults[%d]", i)
		kind, known := faultKinds[f.Kind]
		if !known {
			if l.has(path + ".kind") {
				l.fail(path+".kind", fmt.Sprintf("%q is no kind of fault", f.Kind), choice(f.Kind, faultNames()))
			}
			continue
		}
		if e := c.Target.Engine; engines[e].built && !slices.Contains(kind.engines, e) {
			l.fail(path+".kind", fmt.Sprintf("the engine %s cannot do %s", e, f.Kind), "remove the fault")
		}
		for _, key := range []string{"hold", "grace", "volume", "supervised"} {
			if l.has(path+"."+key) && !slices.Contains(kind.keys, key) {
				l.fail(path+"."+key, fmt.Sprintf("a %s has no %s", f.Kind, key), "remove it")
			}
		}
		if f.Supervised && c.Target.Engine == "process" {
			l.fail(path+".supervised", "the engine process has no restart policy", "remove it")
		}
		service, ok := c.service(f.Service)
		switch {
		case kind.all && f.Service != "":
			l.fail(path+".service", fmt.Sprintf("%s hits every service", f.Kind), "remove it")
		case !kind.all && f.Service == "":
			l.fail(path+".service", "is missing", "add service: "+oneOf(c.serviceNames()))
		case !kind.all && !ok && len(c.Target.Services) > 0:
			l.fail(path+".service", fmt.Sprintf("there is no service %q", f.Service), choice(f.Service, c.serviceNames()))
		}
		if f.Kind != chaos.Wipe {
			continue
		}
		switch {
		case f.Volume == "":
			l.fail(path+".volume", "is missing", "say which volume to empty")
		case ok && c.Target.Engine == "process" && !slices.Contains(service.Scratch, f.Volume):
			l.fail(path+".volume", fmt.Sprintf("%q is not among the folders of %s that may be emptied", f.Volume, f.Service),
				fmt.Sprintf("add it to target.services.%s.scratch", f.Service))
		}
	}
}
