package app

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"amnesia/pkg/discover"
)

// The command that sets a variable reads the secret where it is, whatever signs it has, and holds nothing of it.
func TestExport(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{"memory", "p@ss:w/rd?", `it's "quoted" $HOME \ % ünd`, "with=equals="} {
		i := &initer{exports: map[string]string{}}
		i.export("PG_DSN", "postgres://chat:%s@127.0.0.1:5432/chat", "it's-1", "POSTGRES_PASSWORD", secret)
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
		cfg, err := parsePassword(string(out))
		if err != nil || cfg != secret {
			t.Errorf("%q comes out as %q of %s, %v", secret, cfg, out, err)
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

func TestShell(t *testing.T) {
	t.Parallel()
	words := []string{"plain", "", "two words", "it's", "$HOME", "a;b", "/srv/a.yaml", "ü"}
	out, err := exec.Command("sh", "-c", "printf '<%s>' "+shell(words)).Output()
	if err != nil || string(out) != "<"+strings.Join(words, "><")+">" {
		t.Errorf("%s, %v", out, err)
	}
}

func parsePassword(dsn string) (string, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return "", err
	}
	password, _ := u.User.Password()
	return password, nil
}
