package discover_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"amnesia/pkg/config"
	"amnesia/pkg/discover"
	"amnesia/pkg/session"
)

var update = flag.Bool("update", false, "write the golden files")

func part(service string, kind discover.Kind, health string, mounts ...discover.Mount) discover.Part {
	return discover.Part{Service: service, Kind: kind, At: "127.0.0.1:1", Answer: discover.Answer{Health: health},
		Container: discover.Container{Running: true, Target: true, Grace: 10 * time.Second, Mounts: mounts}}
}

// found is a draft of a whole stack.
func found() *discover.Draft {
	d := &discover.Draft{
		Project: discover.Project{Name: "shop", Dir: "/srv/shop", Files: []string{"/srv/shop/compose.yaml"}},
		URL:     "http://127.0.0.1:8080", App: "web", PerAccount: 10, Answer: ".assistant .text",
		Accounts: "amnesia-{{.Run}}-{{.N}}@example.com",
		Notes:    map[string]string{"tell": "a note"}, Gaps: map[string]string{},
		Parts: []discover.Part{
			part("web", "", "http://127.0.0.1:8080/healthz", discover.Mount{Type: discover.Volume, At: "/scratch", Ephemeral: true}),
			part("db", discover.Postgres, "tcp://127.0.0.1:5432", discover.Mount{Type: discover.Volume, At: "/var/lib/postgresql/data"}),
			part("redis", discover.Redis, "tcp://127.0.0.1:6379", discover.Mount{Type: discover.Volume, At: "/data", Anonymous: true}),
			{Service: "worker", Unfit: "it has no port, so that its health cannot be asked"},
		},
		Script: session.Script{
			Signup: []session.Step{{Goto: "/join"}, {Click: `role=button[name="Sign up"]`}},
			Login:  []session.Step{{Goto: "/login"}, {Fill: &session.Fill{Selector: "#name", Text: "{{.User}}"}}, {Expect: &session.Expect{Selector: "#message"}}},
			Tell: []session.Step{{Fill: &session.Fill{Selector: "#message", Text: "{{.Memory}}"}}, {Press: &session.Press{Selector: "#message", Key: "Enter"}},
				{Acknowledged: &session.Ack{Level: "shown", Expect: session.Expect{Selector: ".assistant .text", Contains: "{{.Token}}"}}},
				{Acknowledged: &session.Ack{Level: "settled", Expect: session.Expect{Response: "**/api/chat"}}}},
			Recall: []session.Step{{Goto: "/chat"}, {Read: &session.Read{Selector: ".user .text"}}},
			Logout: []session.Step{{Click: "#logout"}, {Expect: &session.Expect{Selector: "#logout", State: "hidden"}}},
		},
		Looks: []discover.Look{
			{Name: "page", Service: "web"},
			{Name: "postgres", Service: "db", Export: `export PG_DSN="$(somehow)"`, Settings: []discover.Setting{discover.Set("dsn_env", "PG_DSN"), discover.Set("query", "SELECT user_id AS owner, content FROM note WHERE user_id = ANY($1)"), discover.Set("match", "token")}},
			{Name: "redis", Service: "redis", Note: "its keys end", Settings: []discover.Setting{discover.Set("url", "redis://127.0.0.1:6379/0"), discover.Set("key", "chat:{user}")},
				Contract: []discover.Setting{{Key: "durable", Value: "false"}, discover.Duration("ttl", 30*time.Minute), {Key: "ttl_from", Value: "last_write"}}},
			{Name: "redis-2", Service: "redis", Gap: "the key does not name\nthe user\x1b[2J", Settings: []discover.Setting{discover.Set("kind", "redis"), discover.Set("key", "all")}},
			{Name: "chroma", Service: "chroma", Gap: "nothing that was told is there", Absent: true, Settings: []discover.Setting{discover.Set("collection", "…")}},
		},
	}
	return d
}

// golden compares with a file of testdata, and has a run read what a draft is.
func golden(t *testing.T, d *discover.Draft, name string) (*config.Config, error) {
	t.Helper()
	file := filepath.Join("testdata", name)
	got := d.YAML()
	if *update {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got); -update writes it anew\n%s", file, diff)
	}
	return config.Parse([]config.Source{{Name: name, Data: got}}, func(string) string { return "postgres://chat:secret@127.0.0.1/chat" })
}

// What was found is a configuration that loads, and means what was found.
func TestDraft(t *testing.T) {
	d := found()
	cfg, err := golden(t, d, "draft.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Armed || len(cfg.Target.Services) != 3 || cfg.Sessions.Accounts != d.Accounts || cfg.Sessions.PerAccount != 10 {
		t.Errorf("%+v", cfg)
	}
	if diff := cmp.Diff(d.Script, cfg.Sessions.Script); diff != "" {
		t.Errorf("the script (-found +loaded)\n%s", diff)
	}
	var views []string
	for i, v := range cfg.Views {
		views = append(views, v.Name+" of "+v.Service)
		if durable := cfg.Contracts()[i].Durable; durable != (v.Name != "redis") {
			t.Errorf("%s is durable: %t", v.Name, durable)
		}
	}
	if diff := cmp.Diff([]string{"page of web", "postgres of db", "redis of redis"}, views); diff != "" {
		t.Error(diff)
	}
}

// What was not found is a comment, and the loader says of it what is missing, and nothing else.
func TestDraftWithGaps(t *testing.T) {
	d := found()
	d.Script, d.Looks, d.Answer = session.Script{}, d.Looks[3:], ""
	d.Gaps = map[string]string{"login": "no form", "tell": "no field", "recall": "what comes before it was not found"}
	_, err := golden(t, d, "gaps.yaml")
	if err == nil {
		t.Fatal("it loads")
	}
	for _, line := range strings.Split(err.Error(), "\n") {
		if !strings.Contains(line, "sessions.script") && !strings.Contains(line, "views: is missing") {
			t.Error(line)
		}
	}
}

// Whatever a page or a store says stays one text.
func TestScalar(t *testing.T) {
	for _, text := range []string{"", "plain", "#id", "a: b", "a #b", "{x}", "[x]", "true", "No", "~", "-", "- x", "0x1f", "1e3", "12", `"quoted"`, `back\slash`, "two\nlines", "tab\t",
		"{{.User}}", "@", "`", "%x", "&a", "*a", "!a", "|", ">", "?", ":", "a:", "héllo", "\u2028", "\u0085", "\x1b[2J", "\x7f", "<b>&</b>", "http://127.0.0.1:80/x", "a,b", "'"} {
		var got struct {
			Block string
			Flow  struct{ Text, After string }
		}
		doc := "block: " + discover.Scalar(text) + "\nflow: {text: " + discover.Scalar(text) + ", after: x}\n"
		if err := yaml.Unmarshal([]byte(doc), &got); err != nil || got.Block != text || got.Flow.Text != text || got.Flow.After != "x" {
			t.Errorf("%q is written as %s, and read as %+v, %v", text, discover.Scalar(text), got, err)
		}
	}
}

// A stack of which some services are labelled keeps its others out, but those that matter; of one without labels all are
// to be labelled, by a file that Compose reads.
func TestLabels(t *testing.T) {
	d := found()
	d.Parts = append(d.Parts, part("metrics", "", "http://127.0.0.1:9090/"))
	for i := range d.Parts {
		d.Parts[i].Container.Target = d.Parts[i].Service == "redis"
	}
	d.Keep()
	if diff := cmp.Diff([]string{"web", "db"}, d.Unlabelled()); diff != "" {
		t.Error(diff)
	}
	var override struct {
		Services map[string]struct{ Labels map[string]string }
	}
	if err := yaml.Unmarshal(discover.Override(d.Unlabelled()), &override); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"web", "db"} {
		if override.Services[s].Labels["amnesia.target"] != "true" || len(override.Services) != 2 {
			t.Errorf("%+v", override)
		}
	}
	want := "docker compose --project-name shop --project-directory /srv/shop --file /srv/shop/compose.yaml --file o.yaml up --detach --wait --no-deps web db"
	if got := strings.Join(d.Project.Compose([]string{"docker", "compose"}, "o.yaml", d.Unlabelled()), " "); got != want {
		t.Error(got)
	}
}

func TestRoundest(t *testing.T) {
	for _, c := range []struct{ least, most, want time.Duration }{
		{29*time.Minute + 58*time.Second, 30*time.Minute + time.Second, 30 * time.Minute},
		{3598 * time.Second, 3603 * time.Second, time.Hour},
		{86395 * time.Second, 86401 * time.Second, 24 * time.Hour},
		{43 * time.Second, 46 * time.Second, 45 * time.Second},
		{17100 * time.Millisecond, 18200 * time.Millisecond, 18 * time.Second},
		{100 * time.Millisecond, 900 * time.Millisecond, 900 * time.Millisecond},
	} {
		if got := discover.Roundest(c.least, c.most); got != c.want {
			t.Errorf("%s to %s: %s", c.least, c.most, got)
		}
	}
}
