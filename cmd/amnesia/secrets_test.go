//go:build unix

package main

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// secrets are told to the daemon, each by another way, and to nobody else.
var secrets = map[string]string{
	"the password of a DSN":        "s3same-dsn-password",
	"the password of an address":   "s3same-redis-password",
	"a header's token":             "s3same-header-token",
	"the password of the users":    "s3same-login-password",
	"what a service is given":      "s3same-service-key",
	"the token of whoever may act": "s3same-web-token",
	"a secret with odd characters": `s3same "quoted" & <odd>`,
}

// TestSecretsStayWhereTheyAre plants distinctive secrets in a whole run in which everything fails that can: stores that are
// not there, one that answers with what it was asked, a service that logs what it was given. Then it looks for them in
// all that was written and shown.
func TestSecretsStayWhereTheyAre(t *testing.T) {
	dir := t.TempDir()
	app, err := free()
	if err != nil {
		t.Fatal(err)
	}
	listen, err := free()
	if err != nil {
		t.Fatal(err)
	}
	// A store that says what it was asked, and with which headers: as a stack trace in an error page does.
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, "no luck with %s %s %v", r.Method, r.URL, r.Header)
	}))
	defer echo.Close()
	const script = `echo "ERROR cannot log in with $STORE_KEY and $ODD_KEY" >&2
(while sleep 0.05; do echo "ERROR still cannot log in with $STORE_KEY and $ODD_KEY" >&2; done) &
exec amnesia sample`
	template, err := os.ReadFile("testdata/amnesia.yaml")
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{"URL": "http://" + app, "APP": app, "WEB": listen, "WORK": dir, "BUGS": "[]", "READ": ".message.user .text",
		"LEDGER": "amnesia.db", "RECOVERY": "20s", "EVERY": "0s", "PACE": "0s", "COMMAND": `[sh, run.sh]`}
	text := os.Expand(string(template), func(k string) string { return values[k] })
	text = strings.Replace(text, "CHATAPP_BUGS: []", "CHATAPP_BUGS: \"\"\n        STORE_KEY: {env: STORE_KEY}\n        ODD_KEY: {file: odd.txt}", 1)
	text = strings.Replace(text, fmt.Sprintf("web: {listen: %q}", listen), fmt.Sprintf("web: {listen: %q, token_env: WEB_TOKEN}", listen), 1)
	text = strings.Replace(text, "  memories: 2\n", "  memories: 2\n  password_env: LOGIN_PASSWORD\n", 1)
	stores := strings.Replace(text, "faults:\n", fmt.Sprintf(`  echo: {kind: http, service: app, url: "%s/{user}", items: "$[*]", headers: {Authorization: {env: HEADER_TOKEN}}, contract: {durable: false, settle: 100ms}}
  postgres: {service: app, dsn_env: DSN, query: "SELECT text FROM memory WHERE owner = $1", contract: {durable: false, settle: 100ms}}
  redis: {service: app, url_env: REDIS_URL, key: "chat:{user}", contract: {durable: false, settle: 100ms}}
faults:
`, echo.URL), 1)
	for name, content := range map[string]string{"amnesia.yaml": text, "run.sh": script, "odd.txt": secrets["a secret with odd characters"] + "\n",
		"stores.yaml": strings.Replace(stores, "recovery: 20s", "recovery: 1s", 1)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	nowhere, err := free() // nobody listens there
	if err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(),
		"DSN=postgres://app:"+secrets["the password of a DSN"]+"@"+nowhere+"/chat?sslmode=disable&connect_timeout=1",
		"REDIS_URL=redis://:"+secrets["the password of an address"]+"@"+nowhere+"/0",
		"HEADER_TOKEN=Bearer "+secrets["a header's token"], "LOGIN_PASSWORD="+secrets["the password of the users"],
		"STORE_KEY="+secrets["what a service is given"], "WEB_TOKEN="+secrets["the token of whoever may act"])

	shown := map[string][]byte{} // by where it was shown
	command := func(name string, args ...string) {
		t.Helper()
		cmd := exec.Command("amnesia", args...)
		cmd.Dir, cmd.Env = dir, append(env, "AMNESIA_ADDRESS="+listen, "AMNESIA_TOKEN="+secrets["the token of whoever may act"])
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		_ = cmd.Run() // what it says is looked at, however it ends
		shown[name+" on stdout"], shown[name+" on stderr"] = out.Bytes(), errs.Bytes()
	}
	get := func(path string) bool {
		r, err := http.Get("http://" + listen + path)
		if err != nil {
			return false
		}
		defer r.Body.Close()
		body, _ := io.ReadAll(r.Body)
		shown[path] = append(shown[path], body...)
		return r.StatusCode < 300
	}

	// run runs a daemon until enough, or its end.
	run := func(name string, enough func() bool, args ...string) {
		t.Helper()
		daemon := exec.Command("amnesia", append([]string{"run", "--log", "json"}, args...)...)
		daemon.Dir, daemon.Env = dir, env
		var out, errs bytes.Buffer
		daemon.Stdout, daemon.Stderr = &out, &errs
		if err := daemon.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { defer close(ended); _ = daemon.Wait() }()
		for deadline := time.Now().Add(60 * time.Second); !enough(); time.Sleep(20 * time.Millisecond) {
			select {
			case <-ended:
				deadline = time.Time{}
			default:
			}
			if time.Now().After(deadline) {
				break
			}
		}
		_ = daemon.Process.Signal(os.Interrupt)
		<-ended
		shown[name+" on stdout"], shown[name+" on stderr"] = out.Bytes(), errs.Bytes()
		if !bytes.Contains(errs.Bytes(), []byte("cycle closed")) {
			t.Fatalf("%s: no cycle came to its end:\n%s", name, errs.Bytes())
		}
	}

	run("without its stores", func() bool { get("/metrics"); get("/readyz"); get("/api/v1/status"); return false }, "--config", "stores.yaml")
	acted := false
	run("with its stores", func() bool {
		if !get("/api/v1/status") || !bytes.Contains(shown["/api/v1/status"], []byte(`"n":3`)) {
			return false
		}
		for _, path := range []string{"/", "/metrics", "/healthz", "/readyz", "/api/v1/status", "/api/v1/openapi.yaml", "/nothing"} {
			get(path)
		}
		command("status", "status")
		command("pause", "pause", "--reason", "the key is "+secrets["what a service is given"])
		command("inject", "inject", "wipe", "app")
		acted = true
		return true
	})
	command("why", "why", "m1")
	command("why json", "why", "m1", "-o", "json")
	command("report", "report", "amnesia.db")
	command("judge", "judge", "amnesia.db", "-o", "json")
	// A service that does not come up: its last words are in the error.
	if err := os.WriteFile(filepath.Join(dir, "run.sh"), []byte(strings.Replace(script, "exec amnesia sample", "sleep 0.2; exit 1", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	command("a start that fails", "run")

	if !acted || !bytes.Contains(shown["a start that fails on stderr"], []byte("ERROR")) {
		t.Fatalf("too little happened: %q", shown)
	}
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, path)
		if err != nil || e.IsDir() || strings.HasPrefix(rel, "data") || strings.HasPrefix(rel, "scratch") { // the target's
			return err
		}
		if rel == "odd.txt" { // where the secret is
			return nil
		}
		shown["the file "+rel], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(shown["the file amnesia.db"]) == 0 {
		t.Fatalf("there is no ledger to look into: %v", err)
	}
	// What was said in place of a secret is there, so that its way led through where it was taken out.
	if !bytes.Contains(shown["the file amnesia.db"], []byte("cannot log in with [redacted] and [redacted]")) {
		t.Error("the ledger does not hold what the service logged")
	}
	for where, text := range shown {
		for what, secret := range secrets {
			for _, form := range []string{secret, strings.ReplaceAll(secret, `"`, `\"`)} {
				if i := bytes.Index(text, []byte(form)); i >= 0 {
					t.Errorf("%s is in %s: %q", what, where, text[max(0, i-200):min(len(text), i+100)])
				}
			}
		}
	}
}
