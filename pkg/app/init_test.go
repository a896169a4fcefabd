package app

import (
	"context"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"amnesia/pkg/discover"
	"amnesia/pkg/session"
)

// What cannot be written in the end, and what is no address, is told before any engine or app is asked, and leaves nothing.
func TestInitLooksFirst(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	there := filepath.Join(dir, "there.yaml")
	if err := os.WriteFile(there, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := NewConsole(io.Discard, io.Discard, false)
	for _, o := range []InitOptions{
		{File: filepath.Join(dir, "none", "x.yaml")}, {File: dir}, {File: dir, Force: true}, {File: there}, {File: "/dev/null/x.yaml", Force: true},
		{File: filepath.Join(dir, "x.yaml"), URL: "nonsense"},
	} {
		if code, err := Init(t.Context(), c, o); code != exitUsage || err == nil || !strings.Contains(err.Error(), "fix: ") {
			t.Errorf("%+v: exit code %d, %v", o, code, err)
		}
	}
	o := InitOptions{File: filepath.Join(dir, "staging.yaml")}
	if o.override() != filepath.Join(dir, "staging.compose.yaml") || o.free(o.override()) != nil {
		t.Errorf("%s: %v", o.override(), o.free(o.override()))
	}
	o.File, o.Force = there, true
	if err := o.free(there); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
	if text, err := os.ReadFile(there); err != nil || string(text) != "mine" {
		t.Errorf("%q, %v", text, err)
	}
}

// An address that was given and where nothing is gives no file with gaps.
func TestInitOfNothing(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "amnesia.yaml")
	code, err := Init(t.Context(), NewConsole(io.Discard, io.Discard, false), InitOptions{File: file, URL: "http://127.0.0.1:1"})
	if _, no := os.Stat(file); code != exitError || err == nil || !strings.Contains(err.Error(), "nothing answers at --url") || no == nil {
		t.Errorf("exit code %d, %v; %v", code, err, no)
	}
}

// Who ends it is told so, whatever failed because of that, and finds no file.
func TestInitInterrupted(t *testing.T) {
	t.Parallel()
	ctx, end := context.WithCancel(t.Context())
	end()
	file := filepath.Join(t.TempDir(), "amnesia.yaml")
	code, err := Init(ctx, NewConsole(io.Discard, io.Discard, false), InitOptions{File: file})
	if _, no := os.Stat(file); code != exitError || err == nil || err.Error() != "interrupted; nothing was written" || no == nil {
		t.Errorf("exit code %d, %v; %v", code, err, no)
	}
}

// The command that sets a variable reads the secret where it is, whatever signs it has, and holds nothing of it.
func TestExport(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{"memory", "p@ss:w/rd?", `it's "quoted" $HOME \ % ünd`, "with=equals="} {
		i := &initer{exports: map[string]string{}}
		i.export("PG_DSN", "postgres://$HOME:%s@127.0.0.1:5432/$HOME", "it's-1", "POSTGRES_PASSWORD", secret)
		if strings.Contains(i.exports["PG_DSN"], secret) {
			t.Errorf("%s tells it", i.exports["PG_DSN"])
		}
		bin := t.TempDir()
		docker := "#!/bin/sh\n[ \"$1 $2 $4\" = \"inspect --format it's-1\" ] && printf '%s\\n' PATH=/bin \"POSTGRES_PASSWORD=$SECRET\" POSTGRES_PASSWORD_FILE=none\n"
		if err := os.WriteFile(filepath.Join(bin, "docker"), []byte(docker), 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("sh", "-c", i.exports["PG_DSN"]+"\nprintf %s \"$PG_DSN\"")
		cmd.Env = append(os.Environ(), "SECRET="+secret, "PATH="+bin+":"+os.Getenv("PATH"))
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", i.exports["PG_DSN"], err)
		}
		u, err := url.Parse(string(out))
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := u.User.Password(); got != secret || u.User.Username() != "$HOME" || u.Path != "/$HOME" {
			t.Errorf("%q comes out as %q of %s", secret, got, out)
		}
	}
}

// Of a draft with gaps, the loader's mistakes that come of them are told; any other is a bug of ours.
func TestLoads(t *testing.T) {
	t.Parallel()
	i := &initer{o: InitOptions{File: "amnesia.yaml", Getenv: func(string) string { return "" }}, env: map[string]string{}}
	i.draft = discover.Draft{Project: discover.Project{Name: "shop"}, URL: "http://127.0.0.1:8080", App: "app",
		Gaps:  map[string]string{"login": "none", "tell": "none", "recall": "none"},
		Parts: []discover.Part{{Service: "app", At: "127.0.0.1:8080", Answer: discover.Answer{Health: "http://127.0.0.1:8080/"}}}}
	missing, err := i.loads(i.draft.YAML())
	if err != nil || len(missing) != 2 {
		t.Errorf("%q, %v", missing, err)
	}
	i.draft.URL = "nowhere"
	if _, err := i.loads(i.draft.YAML()); err == nil || !strings.Contains(err.Error(), "a bug of amnesia init") || !strings.Contains(err.Error(), "target.url") {
		t.Errorf("%v", err)
	}
}

// What people open may be shown by nothing that the configuration can name: that is told, and the rest loads.
func TestPageOfNobody(t *testing.T) {
	t.Parallel()
	store := discover.Part{Service: "db", Kind: discover.Redis, At: "127.0.0.1:6379", Answer: discover.Answer{Health: "tcp://127.0.0.1:6379"}}
	odd := discover.Part{Service: "Web.App", Unfit: "its name", Container: discover.Container{Published: []discover.Published{{Port: 80, At: "[::1]:8080"}}}}
	for _, parts := range [][]discover.Part{{store}, {store, odd}} {
		i := &initer{o: InitOptions{File: "amnesia.yaml", URL: "http://[::1]:8080", Getenv: func(string) string { return "" }}}
		i.draft = discover.Draft{Project: discover.Project{Name: "shop"}, Parts: parts, Gaps: map[string]string{}, Script: session.Script{
			Login:  []session.Step{{Goto: "/"}},
			Tell:   []session.Step{{Fill: &session.Fill{Selector: "#m", Text: "{{.Memory}}"}}, {Acknowledged: &session.Ack{Level: "settled", Expect: session.Expect{Response: "**/m"}}}},
			Recall: []session.Step{{Goto: "/"}, {Read: &session.Read{Selector: ".m"}}}}}
		if err := i.front(); err != nil {
			t.Fatal(err)
		}
		i.draft.Looks = []discover.Look{i.page()}
		missing, err := i.loads(i.draft.YAML())
		if gaps := i.gaps(); err != nil || len(missing) != 1 || !strings.Contains(missing[0], "views") || len(gaps) != 1 || !strings.Contains(gaps[0], "views.page: which of the services") {
			t.Errorf("%q, %q, %v", missing, gaps, err)
		}
	}
}

// What a target says in the place of an answer is shown, on a line, and does nothing to a terminal.
func TestGapsAreShown(t *testing.T) {
	t.Parallel()
	i := &initer{draft: discover.Draft{Gaps: map[string]string{"tell": "it failed: \x1b[2J\nviews.page: found"}, Looks: []discover.Look{{Name: "redis", Gap: "\u202ereversed"}}}}
	if gaps := i.gaps(); len(gaps) != 2 || strings.ContainsAny(strings.Join(gaps, ""), "\x1b\n\u202e") {
		t.Errorf("%q", gaps)
	}
}

// A store that holds nothing of what was told is left out, and nothing that somebody has to fill in.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	i := &initer{draft: discover.Draft{Looks: []discover.Look{{Name: "page"}, {Name: "redis", Gap: "no user"}, {Name: "chroma", Gap: "nothing", Absent: true}}}}
	if gaps, out := i.gaps(), i.leftOut(); len(gaps) != 1 || !strings.Contains(gaps[0], "views.redis") || len(out) != 1 || out[0] != "views.chroma" {
		t.Errorf("%q, %q", gaps, out)
	}
}

// Compose is called as it is there: as a part of docker, or else by itself.
func TestCompose(t *testing.T) {
	for want, tools := range map[string]map[string]string{
		"docker compose": {"docker": "exit 0", "docker-compose": "exit 0"}, "docker-compose": {"docker": "exit 1", "docker-compose": "exit 0"},
	} {
		bin := t.TempDir()
		for name, does := range tools {
			if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+does+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("PATH", bin)
		if got := strings.Join(compose(t.Context()), " "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	t.Setenv("PATH", t.TempDir())
	if got := strings.Join(compose(t.Context()), " "); got != "docker compose" {
		t.Errorf("%q", got)
	}
}

func TestShell(t *testing.T) {
	t.Parallel()
	words := []string{"plain", "", "two words", "it's", "$HOME", "a;b", "/srv/a.yaml", "ü"}
	out, err := exec.Command("sh", "-c", "printf '<%s>' "+shell(words)).Output()
	if err != nil || string(out) != "<"+strings.Join(words, "><")+">" {
		t.Errorf("%s, %v", out, err)
	}
}
