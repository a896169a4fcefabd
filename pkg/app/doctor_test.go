//go:build unix

package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"amnesia/pkg/discover"
)

// patients are stores in containers, each by itself, and what doctor must find of each: severity, rule and faults. The
// planted ones are those of deploy/compose/bugs, and some more; the healthy ones are set as deploy/compose sets them.
var patients = []struct {
	name  string // the service
	image string
	run   []string // flags, and behind "--" the command
	want  []string
}{
	{"redis", "redis", []string{"-v", "VOLUME:/data", "--", "redis-server", "--appendonly", "yes", "--appendfsync", "always"}, nil},
	{"redis-rdb", "redis", []string{"-v", "VOLUME:/data", "--", "redis-server"}, []string{"loses redis-no-aof: kill crash_all power_cut"}},
	{"redis-unsynced", "redis", []string{"-v", "VOLUME:/data", "--", "redis-server", "--appendonly", "yes", "--appendfsync", "no"},
		[]string{"loses redis-appendfsync: power_cut"}},
	{"redis-evicts", "redis", []string{"--", "redis-server", "--appendonly", "yes", "--appendfsync", "always", "--maxmemory", "50mb", "--maxmemory-policy", "allkeys-lru"},
		[]string{"loses anonymous-volume: recreate wipe", "loses redis-eviction: none"}},
	{"redis-silent", "redis", []string{"-v", "VOLUME:/data", "--", "redis-server", "--appendonly", "yes", "--appendfsync", "always", "--rename-command", "CONFIG", ""},
		[]string{"warning unread: "}},
	{"postgres", "postgres", []string{"-v", "VOLUME:/var/lib/postgresql/data"}, nil},
	{"postgres-unsynced", "postgres", []string{"-v", "VOLUME:/var/lib/postgresql", "--stop-timeout", "0", "--", "postgres", "-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off"},
		[]string{"loses mount-unused: recreate wipe", "loses postgres-fsync: power_cut", "loses postgres-full-page-writes: power_cut",
			"loses postgres-synchronous-commit: kill restart recreate crash_all power_cut"}},
	{"chroma", "chroma", []string{"-v", "VOLUME:/data"}, nil},
	{"chroma-tmpfs", "chroma", []string{"--tmpfs", "/data"}, []string{"loses tmpfs: kill restart recreate wipe crash_all power_cut"}},
	{"chroma-mount", "chroma", []string{"-v", "VOLUME:/chroma/chroma", "--restart", "no", "--label", "amnesia.target=no"}, []string{"loses chroma-path: recreate wipe", "warning no-restart: "}},
}

const storePassword = "s3same-of-the-store"

var ports = map[string]string{"redis": "6379", "postgres": "5432", "chroma": "8000"}

// clinic is the containers of the patients.
type clinic struct {
	t       *testing.T
	project string
	addrs   map[string]string // by service
	mu      sync.Mutex
}

func runDocker(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "docker", args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("docker %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

func newClinic(t *testing.T) *clinic {
	t.Helper()
	if os.Getenv("CI") == "true" { // nothing is there on a new machine; whoever else needs the images makes them once, for both
		for _, script := range [][]string{{"engine/up"}, {"images/build", "--standins"}} {
			cmd := exec.CommandContext(t.Context(), filepath.Join("../../deploy", script[0]), script[1:]...)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", script[0], err, out)
			}
		}
	}
	for image := range ports {
		if _, err := runDocker(t.Context(), "image", "inspect", "amnesia/"+image+":local"); err != nil {
			why := fmt.Sprintf("no image of %s (deploy/engine/up, deploy/images/build --standins): %v", image, err)
			if os.Getenv("CI") == "true" {
				t.Fatal(why)
			}
			t.Skip(why)
		}
	}
	w := &clinic{t: t, project: fmt.Sprintf("amnesia-doctor-%d", os.Getpid()), addrs: map[string]string{}}
	t.Cleanup(w.remove)
	var wg sync.WaitGroup
	for i, p := range patients {
		wg.Go(func() { w.start(i, p.name, p.image, p.run) })
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return w
}

func (w *clinic) start(i int, service, image string, run []string) {
	name, volume := w.project+"-"+service, fmt.Sprintf("%s-%d", w.project, i)
	args := []string{"run", "-d", "--name", name, "--restart", "unless-stopped", "-p", "127.0.0.1::" + ports[image], "--label", "amnesia.target=true",
		"--label", "com.docker.compose.project=" + w.project, "--label", "com.docker.compose.service=" + service,
		"-e", "POSTGRES_PASSWORD=" + storePassword, "-e", "POSTGRES_USER=chat"}
	flags, command := run, []string(nil)
	if i := slices.Index(run, "--"); i >= 0 {
		flags, command = run[:i], run[i+1:]
	}
	for _, f := range flags {
		args = append(args, strings.Replace(f, "VOLUME", volume, 1))
	}
	_, err := runDocker(w.t.Context(), append(append(args, "amnesia/"+image+":local"), command...)...)
	var addr string
	if err == nil {
		addr, err = runDocker(w.t.Context(), "port", name, ports[image])
	}
	if err != nil {
		w.t.Error(err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.addrs[service], _, _ = strings.Cut(addr, "\n")
}

// remove takes away every container of the clinic, and its volumes.
func (w *clinic) remove() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.t.Context()), time.Minute)
	defer cancel()
	ids, err := runDocker(ctx, "ps", "-aq", "--filter", "label=com.docker.compose.project="+w.project)
	if err == nil && ids != "" {
		_, err = runDocker(ctx, append([]string{"rm", "-f", "-v"}, strings.Fields(ids)...)...)
	}
	if err != nil {
		w.t.Error(err)
	}
	if names, err := runDocker(ctx, "volume", "ls", "-q", "--filter", "name="+w.project); err != nil {
		w.t.Error(err)
	} else if names != "" {
		if _, err := runDocker(ctx, append([]string{"volume", "rm", "-f"}, strings.Fields(names)...)...); err != nil {
			w.t.Error(err)
		}
	}
}

// ready waits until the stores answer as themselves, and gives Chroma the collection that is looked into.
func (w *clinic) ready() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 90*time.Second)
	defer cancel()
	for _, p := range patients {
		for {
			var err error
			switch p.image {
			case "redis":
				err = ping(w.addrs[p.name])
			case "postgres":
				_, err = runDocker(ctx, "exec", w.project+"-"+p.name, "pg_isready", "-q", "-h", "127.0.0.1", "-U", "chat")
			case "chroma":
				var resp *http.Response
				resp, err = http.Post("http://"+w.addrs[p.name]+"/api/v2/tenants/default_tenant/databases/default_database/collections",
					"application/json", strings.NewReader(`{"name": "memories", "get_or_create": true}`))
				if err == nil {
					if resp.Body.Close(); resp.StatusCode != http.StatusOK {
						err = fmt.Errorf("%s", resp.Status)
					}
				}
			}
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				w.t.Fatalf("%s never answered: %v", p.name, err)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
}

// ping asks a Redis whether it is there: the engine's proxy takes connections before.
func ping(addr string) error {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	answer := make([]byte, len("+PONG"))
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
		return err
	}
	_, err = io.ReadFull(conn, answer)
	return err
}

// file writes the amnesia.yaml of all patients.
func (w *clinic) file(url string) string {
	w.t.Helper()
	services, views, n := "", "", 0
	for _, p := range patients {
		addr := w.addrs[p.name]
		services += fmt.Sprintf("    %s: {health: tcp://%s}\n", p.name, addr)
		n++
		switch p.image {
		case "redis":
			views += fmt.Sprintf("  v%d: {kind: redis, service: %s, url: redis://%s/0, key: \"chat:{user}\", contract: {durable: true}}\n", n, p.name, addr)
		case "postgres":
			env := strings.ToUpper(strings.ReplaceAll(p.name, "-", "_"))
			w.t.Setenv(env, "postgres://chat:"+storePassword+"@"+addr+"/chat")
			views += fmt.Sprintf("  v%d: {kind: postgres, service: %s, dsn_env: %s, query: \"SELECT relname FROM pg_class WHERE relname = $1\"}\n", n, p.name, env)
		case "chroma":
			views += fmt.Sprintf("  v%d: {kind: chroma, service: %s, url: \"http://%s\", collection: memories, match: {user: user_id}}\n", n, p.name, addr)
		}
	}
	text := fmt.Sprintf(`version: 1
target:
  url: %s
  engine: docker
  project: %s
  services:
%ssessions:
  driver: http
  script:
    login: [{goto: /}]
    tell:
      - request: {path: /tell, json: {text: "{{.Memory}}"}}
      - acknowledged: {level: settled, selector: p, contains: "{{.Token}}"}
views:
%sfaults:
  - {kind: kill, service: redis}
  - {kind: restart, service: chroma-mount}
web: {listen: "127.0.0.1:0"}
`, url, w.project, services, views)
	path := filepath.Join(w.t.TempDir(), "amnesia.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// TestDoctorOnContainers reads real stores in real containers: each planted setting is found with the faults that it
// loses to, and of the healthy ones nothing is said.
func TestDoctorOnContainers(t *testing.T) {
	began := time.Now()
	w := newClinic(t)
	t.Logf("started after %s", time.Since(began))
	w.ready()
	t.Logf("ready after %s", time.Since(began))
	page := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		fmt.Fprint(rw, "<p>hello")
	}))
	defer page.Close()
	file := w.file(page.URL)

	var out, errs bytes.Buffer
	c := NewConsole(&out, &errs, false)
	o := DoctorOptions{Config: []string{file}, Form: JSON, Getenv: os.Getenv}
	code, err := Doctor(t.Context(), c, o)
	if err != nil || code != exitFound {
		t.Fatalf("exit code %d, %v\n%s", code, err, out.Bytes())
	}
	if strings.Contains(out.String()+errs.String(), storePassword) {
		t.Errorf("a password is shown:\n%s", out.String())
	}
	t.Logf("looked at after %s", time.Since(began))
	var d Diagnosis
	if err := json.Unmarshal(out.Bytes(), &d); err != nil {
		t.Fatal(err)
	}
	var failed []string
	for _, check := range d.Checks {
		if check.Result == checkFailed {
			failed = append(failed, check.Name)
			// What is wrong with a service is said once, and what to do about it.
			said := strings.Contains(check.Detail, "it lacks the label amnesia.target=true") && strings.Contains(check.Fix, "add the label") && strings.Contains(check.Fix, "amnesia init")
			if strings.HasPrefix(check.Name, "fault ") {
				said = check.Detail == "see service chroma-mount" && check.Fix == ""
			}
			if !said {
				t.Errorf("%+v", check)
			}
		}
	}
	if !slices.Equal(failed, []string{"service chroma-mount", "fault restart chroma-mount"}) {
		t.Errorf("what failed: %q", failed)
	}
	found := map[string][]string{}
	for _, f := range d.Findings {
		found[f.Service] = append(found[f.Service], fmt.Sprintf("%s %s: %s", f.Severity, f.Rule, strings.Join(f.Faults, " ")))
	}
	for _, p := range patients {
		slices.Sort(found[p.name])
		if diff := cmp.Diff(p.want, found[p.name]); diff != "" {
			t.Errorf("%s (-want +got)\n%s", p.name, diff)
		}
	}

	// What is ignored is shown and does not count.
	out.Reset()
	o.Form = Text
	for _, f := range d.Findings {
		if f.Severity == discover.Loses {
			o.Ignore = append(o.Ignore, f.Rule)
		}
	}
	if code, err := Doctor(t.Context(), c, o); err != nil || code != exitError || !strings.Contains(out.String(), "ignored  redis-rdb: Redis has no append-only file") {
		t.Errorf("exit code %d, %v\n%s", code, err, out.Bytes())
	}
	if strings.Contains(out.String(), storePassword) {
		t.Errorf("a password is shown:\n%s", out.String())
	}
}

// TestDiagnosisCodes: a loss weighs more than a failed check, that more than what could not be read; what is ignored, and
// warnings, weigh nothing.
func TestDiagnosisCodes(t *testing.T) {
	loses, unknown := discover.Finding{Severity: discover.Loses}, discover.Finding{Severity: discover.Unknown}
	ignored, warning := discover.Finding{Severity: discover.Loses, Ignored: true}, discover.Finding{Severity: discover.Warning}
	failed, ok, skipped, odd := Check{Result: checkFailed}, Check{Result: checkOK}, Check{Result: checkSkipped}, Check{Result: checkWarning}
	for _, c := range []struct {
		d       Diagnosis
		outcome string
		code    int
	}{
		{Diagnosis{Checks: []Check{ok, skipped, odd}, Findings: []discover.Finding{warning, ignored}}, outcomeClean, 0},
		{Diagnosis{Checks: []Check{ok}, Findings: []discover.Finding{unknown, warning}}, outcomeUnknown, 4},
		{Diagnosis{Checks: []Check{ok, failed}, Findings: []discover.Finding{unknown}}, outcomeFailed, 1},
		{Diagnosis{Checks: []Check{failed}, Findings: []discover.Finding{unknown, loses}}, outcomeLoses, 3},
	} {
		if code := c.d.judge(); code != c.code || c.d.Outcome != c.outcome {
			t.Errorf("%+v: code %d", c.d, code)
		}
	}
}
