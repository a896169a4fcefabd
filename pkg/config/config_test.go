package config

import (
	"bytes"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"amnesia/pkg/memory"
)

var update = flag.Bool("update", false, "write what the loader says now to the end of the bad files")

func environment(name string) string {
	return map[string]string{
		"CHATAPP_API_KEY": "sesame-api", "CHATAPP_PASSWORD": "sesame-pw", "CHATAPP_TOKEN": "sesame-token", "AMNESIA_TOKEN": "sesame-token-of-the-web", "CHATAPP_DSN": "postgres://app:sesame-dsn@127.0.0.1/chat", "PW": "sesame",
	}[name]
}

// mark begins a line at the end of a bad file that says what the loader must say of it.
const mark = "#! "

// TestBad loads one file for each mistake; the whole text of the error is held.
func TestBad(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no bad files: %v", err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(strings.TrimSuffix(name, ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			body, _, _ := strings.Cut(string(data), mark)
			// The name of the folder is left out, so that messages read as they do in a person's own folder.
			t.Chdir("testdata/bad")
			_, err = Parse([]Source{{name, []byte(body)}}, environment)
			if err == nil {
				t.Fatal("it was taken")
			}
			if !errors.As(err, new(Errors)) {
				t.Fatalf("the error is %T", err)
			}
			said := mark + strings.ReplaceAll(err.Error(), "\n", "\n"+mark) + "\n"
			if *update {
				if err := os.WriteFile(name, []byte(body+said), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(data[len(body):]), said); diff != "" {
				t.Errorf("what it says (-want +got):\n%s", diff)
			}
			// The marks are comments: the file itself is refused in the same words.
			if _, err := Load([]string{name}, environment); err == nil || mark+strings.ReplaceAll(err.Error(), "\n", "\n"+mark)+"\n" != said {
				t.Errorf("with its marks it says %v", err)
			}
			if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "accounts-secret") {
				t.Errorf("a secret is in the error: %v", err)
			}
		})
	}
}

func TestMinimal(t *testing.T) {
	c, err := Load([]string{"testdata/minimal.yaml"}, environment)
	if err != nil {
		t.Fatal(err)
	}
	if c.Armed || c.Seed != nil {
		t.Errorf("armed %v, seed %v: faults are announced only, and the seed drawn, unless the file says otherwise", c.Armed, c.Seed)
	}
	s := c.Sessions
	if s.Driver != "browser" || s.Users != 4 || s.Memories != 5 || s.Retire != 24*time.Hour || !s.Browser.Headless || s.CountsFrom != "settled" {
		t.Errorf("sessions: %+v", s)
	}
	f := c.Faults[0]
	if f.Weight != 1 || f.Delay != (Range{0, 2 * time.Second}) || f.Hold != (Range{time.Second, 10 * time.Second}) || f.Grace != 10*time.Second || f.Instances != "one" || f.After != "" {
		t.Errorf("fault: %+v", f)
	}
	if c.Limits.Every != time.Minute || c.Limits.PerHour != 60 || c.Limits.HaltAfter != 1 || c.Limits.Window != nil || c.Limits.Timezone.String() != "UTC" {
		t.Errorf("limits: %+v", c.Limits)
	}
	if c.Ledger.Path != "testdata/amnesia.db" || c.Evidence.Dir != "testdata/amnesia-evidence" || c.Web.Listen != "127.0.0.1:9464" {
		t.Errorf("%+v %+v %+v", c.Ledger, c.Evidence, c.Web)
	}
	want := []memory.Contract{{View: "page", Service: "app", User: true, Durable: true, Settle: 10 * time.Second}}
	if diff := cmp.Diff(want, c.Contracts()); diff != "" {
		t.Errorf("contracts (-want +got):\n%s", diff)
	}
}

func TestFull(t *testing.T) {
	c, err := Load([]string{"testdata/full.yaml"}, environment)
	if err != nil {
		t.Fatal(err)
	}
	if c.Seed == nil || *c.Seed != 42 || !c.Armed {
		t.Errorf("seed %v, armed %v", c.Seed, c.Armed)
	}
	app := c.Target.Services[0]
	wantEnv := map[string]string{"LOG_LEVEL": "debug", "API_KEY": "sesame-api", "SESSION_KEY": "not a real key"}
	if diff := cmp.Diff(wantEnv, app.Env.Reveal()); diff != "" {
		t.Errorf("env (-want +got):\n%s", diff)
	}
	if app.Dir != "testdata/run/app" || c.Target.Services[1].Dir != "testdata" {
		t.Errorf("folders %q and %q", app.Dir, c.Target.Services[1].Dir)
	}
	if got := c.Sessions.Password.Reveal(); got != "sesame-pw" {
		t.Errorf("password %q", got)
	}
	body := c.Sessions.Script.Signup[0].Request.JSON
	want := map[string]any{"name": "{{.User}}", "password": "{{.Password}}", "tags": []any{"amnesia", uint64(1), true, nil}}
	if diff := cmp.Diff(any(want), body); diff != "" {
		t.Errorf("the body of a request (-want +got):\n%s", diff)
	}
	if a := c.Sessions.Script.Tell[2].Acknowledged; a.Level != "shown" || a.Selector != ".ai-message" || a.Contains != "{{.Token}}" {
		t.Errorf("acknowledged: %+v", a)
	}
	if !slices.Equal([]string{"page", "answer", "notes", "cache", "redis", "facts", "chroma", "chroma_query"}, names(c.Views)) {
		t.Errorf("views %v", names(c.Views))
	}
	wantContracts := []memory.Contract{
		{View: "page", Service: "app", User: true, Durable: true, Settle: 10 * time.Second},
		{View: "answer", Service: "app", User: true, Durable: true, Settle: 10 * time.Second},
		{View: "notes", Service: "app", Durable: true, Settle: 5 * time.Second, KeepLast: 50, KeepUnit: "message", Copies: 1,
			MayLose: &memory.MayLose{Window: time.Second, On: []string{"crash_all"}}},
		{View: "cache", Service: "redis", Settle: 10 * time.Second, TTL: 30 * time.Minute, Slack: 2 * time.Second,
			TTLFrom: memory.TTLFromLastWrite},
		{View: "redis", Service: "redis", Settle: 10 * time.Second},
		{View: "facts", Service: "app", Durable: true, Settle: 10 * time.Second},
		{View: "chroma", Service: "app", Durable: true, Settle: 10 * time.Second},
		{View: "chroma_query", Service: "app", Durable: true, Settle: 10 * time.Second},
	}
	if diff := cmp.Diff(wantContracts, c.Contracts()); diff != "" {
		t.Errorf("contracts (-want +got):\n%s", diff)
	}
	if got := c.Views[3].HTTP.Headers.Reveal()["Authorization"]; got != "sesame-token" {
		t.Errorf("header %q", got)
	}
	if r, p := c.Views[4].Redis, c.Views[5].Postgres; r.Address.Reveal() != "redis://127.0.0.1:6379/0" || p.Address.Reveal() != environment("CHATAPP_DSN") {
		t.Errorf("addresses %q and %q", r.Address.Reveal(), p.Address.Reveal())
	}
	for _, v := range c.Views[6:] {
		if v.Chroma.Match.User != "user_id" || v.Chroma.Tenant != "default_tenant" || v.Chroma.Database != "default_database" {
			t.Errorf("%s: %+v", v.Name, v.Chroma)
		}
	}
	wantKnown := []Known{
		{"silent/kill/redis/redis", Until{time.Date(2030, 1, 31, 23, 59, 59, 0, time.UTC)}, "ticket 7: the cache has no AOF yet"},
		{"duplicated/-/-/-", Until{time.Date(2030, 1, 31, 16, 0, 0, 0, time.UTC)}, "a retry writes twice"},
	}
	if diff := cmp.Diff(wantKnown, c.Known); diff != "" {
		t.Errorf("known (-want +got):\n%s", diff)
	}
	if e := c.Evidence; e.MaxSize != 2e9 || e.MaxAge != 48*time.Hour || e.MaxAgeFindings != 2160*time.Hour {
		t.Errorf("evidence: %+v", e)
	}
	if w := c.Web; w.Metrics != "0.0.0.0:9465" || w.Token.Reveal() != environment("AMNESIA_TOKEN") || w.ConfigFile != "testdata/web.yaml" {
		t.Errorf("web: %+v", w)
	}
	if w := c.Limits.Window; w == nil || w.Zone.String() != "Europe/Paris" {
		t.Errorf("hours %v", w)
	}
}

func names(vs []View) []string {
	var out []string
	for _, v := range vs {
		out = append(out, v.Name)
	}
	return out
}

func TestAccountsFile(t *testing.T) {
	dir := t.TempDir()
	data, err := os.ReadFile("testdata/minimal.yaml")
	if err != nil {
		t.Fatal(err)
	}
	data = bytes.Replace(data, []byte("  script:"), []byte("  users: 2\n  accounts_file: people.csv\n  script:"), 1)
	write(t, filepath.Join(dir, "people.csv"), "anna,one\nben,\"two, with a comma\"\n")
	write(t, filepath.Join(dir, "amnesia.yaml"), string(data))
	c, err := Load([]string{filepath.Join(dir, "amnesia.yaml")}, environment)
	if err != nil {
		t.Fatal(err)
	}
	if l := c.Sessions.Logins; len(l) != 2 || l[1].Name != "ben" || l[1].Password.Reveal() != "two, with a comma" {
		t.Errorf("logins %v", l)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestUnreadable(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large.yaml")
	write(t, large, strings.Repeat("#", maxSize+1))
	for name, want := range map[string]string{
		filepath.Join(dir, "none.yaml"): "there is no file " + filepath.Join(dir, "none.yaml") + " — fix: correct the name, or make the file",
		dir:                             "read " + dir + ": is a directory — fix: name a plain file that can be read",
		large:                           "the file " + large + " is larger than 64 KiB — fix: name the right file",
	} {
		if _, err := Load([]string{name}, environment); err == nil || err.Error() != name+": "+want {
			t.Errorf("got  %v\nwant %s: %s", err, name, want)
		}
	}
	if _, err := Load([]string{filepath.Join(dir, "none.yaml")}, environment); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file is not fs.ErrNotExist: %v", err)
	}
	if _, err := Parse([]Source{{"x.yaml", []byte(strings.Repeat("[", 10_000))}}, environment); err == nil || !strings.Contains(err.Error(), "x.yaml:1:65: more than 64 levels deep") {
		t.Errorf("a deep file: %v", err)
	}
}

// One address of a browser may stand without brackets.
func TestOneBrowserElsewhere(t *testing.T) {
	data, err := os.ReadFile("testdata/minimal.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, written := range []string{"ws://a:3000/", `["ws://a:3000/"]`} {
		over := Source{"over.yaml", []byte("sessions: {browser: {connect: " + written + "}}")}
		cfg, err := Parse([]Source{{"a.yaml", data}, over}, environment)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"ws://a:3000/"}, cfg.Sessions.Browser.Connect); diff != "" {
			t.Errorf("%s (-want +got):\n%s", written, diff)
		}
	}
}

func TestChecks(t *testing.T) {
	data, err := os.ReadFile("testdata/minimal.yaml")
	if err != nil {
		t.Fatal(err)
	}
	refuse := func(*Config) []Problem {
		return []Problem{{"sessions.script.recall[1].read", "the driver cannot read", "use another"}}
	}
	_, err = Parse([]Source{{"a.yaml", data}}, environment, refuse)
	if want := "a.yaml:15:9: sessions.script.recall[1].read: the driver cannot read — fix: use another"; err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/*.yaml", "testdata/bad/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse([]Source{{"fuzz.yaml", data}}, environment)
		if (c == nil) == (err == nil) {
			t.Fatalf("config %v, error %v", c, err)
		}
		if err == nil {
			c.Contracts()
			return
		}
		for _, e := range err.(Errors) {
			if e.What == "" || e.Fix == "" || e.Line < 1 || e.Column < 1 {
				t.Errorf("a mistake without its place or fix: %+v", e)
			}
		}
	})
}

// TestReadme: what the README tells a newcomer to write is taken as it stands.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "```yaml\n")
	example, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("the README has no example of an amnesia.yaml")
	}
	if _, err := Parse([]Source{{"amnesia.yaml", []byte(example)}}, func(string) string { return "" }); err != nil {
		t.Error(err)
	}
}
