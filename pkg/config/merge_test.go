package config

import (
	"strings"
	"testing"
	"time"
)

// over is laid over testdata/full.yaml.
const over = `
sessions: {users: 2, script: {logout: null}}
views:
  answer: null
  chroma_query: null
  redis: {contract: {durable: true}}
faults:
  - {kind: kill, service: redis}
`

func fullUnder(t *testing.T, texts ...string) (*Config, error) {
	t.Helper()
	data, err := readFile("testdata/full.yaml", maxSize)
	if err != nil {
		t.Fatal(err)
	}
	sources := []Source{{"testdata/full.yaml", data}}
	for i, text := range texts {
		sources = append(sources, Source{[]string{"over.yaml", "more.yaml"}[i], []byte(text)})
	}
	return Parse(sources, environment)
}

func TestFilesLaidOverOneAnother(t *testing.T) {
	c, err := fullUnder(t, over, "sessions: {users: 3}")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, v := range c.Views {
		names = append(names, v.Name)
		if v.Name == "redis" && (!*v.Contract.Durable || v.Redis.Key != "chat:memory:{user}" || v.Contract.Settle != 10*time.Second) {
			t.Errorf("redis: %+v", v)
		}
	}
	if got := strings.Join(names, " "); got != "page notes cache redis facts chroma" {
		t.Errorf("views %s", got)
	}
	if c.Sessions.Users != 3 || c.Sessions.Memories != 3 || len(c.Sessions.Script.Logout) != 0 || len(c.Sessions.Script.Login) == 0 {
		t.Errorf("sessions %+v", c.Sessions)
	}
	if len(c.Faults) != 1 || c.Faults[0].Service != "redis" {
		t.Errorf("faults %+v", c.Faults)
	}
}

// A mistake is shown where it stands: in the file that has it.
func TestMistakesInAFileLaidOver(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"unknown key":      {"views:\n  redis: {keys: x}", `over.yaml:2:11: views.redis.keys: unknown key "keys"`},
		"wrong value":      {"sessions:\n  users: many", "over.yaml:2:10: sessions.users: wants a whole number"},
		"twice":            {"armed: true\narmed: false", "over.yaml:2:1: armed: the key is there twice, first on line 1"},
		"nothing to take":  {"views: {nothing: null}", "over.yaml:1:9: views.nothing: has no value"},
		"what hangs on it": {"target: {services: {redis: null}}", `testdata/full.yaml:`},
		"no YAML":          {"views: [", "over.yaml:1:"},
		"no mapping":       {"- 1", "over.yaml:1:1: the file is no mapping"},
		"empty":            {"# nothing\n", "over.yaml:1:1: the file is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := fullUnder(t, c.text)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}
