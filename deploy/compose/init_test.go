package compose_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"amnesia/chaos"
	"amnesia/pkg/app"
	"amnesia/pkg/discover"
	"amnesia/pkg/memory"
	"amnesia/pkg/report"
)

// TestInit goes the way of a person who has a stack and nothing else. A Redis that keeps no append-only file is the only
// home of memories in it, and no container is labelled. They run init, and then, word for word, what it says comes next;
// the file is not touched.
func TestInit(t *testing.T) {
	const name = project + "-init"
	s := newStack(t, name)
	dir := t.TempDir()
	bin := t.TempDir()
	amnesia, err1 := filepath.Abs("../../bin/amnesia")
	compose, err2 := filepath.Abs("compose")
	docker, err3 := exec.LookPath("docker")
	if err := errors.Join(err1, err2, err3, os.Symlink(amnesia, filepath.Join(bin, "amnesia"))); err != nil {
		t.Fatal(err)
	}
	// "docker compose" is there even where Docker has no such plugin.
	write(t, bin, "docker", "#!/bin/sh\nPATH='"+os.Getenv("PATH")+"'\nif [ \"$1\" = compose ]; then shift; exec "+compose+" \"$@\"; fi\nexec "+docker+" \"$@\"\n")
	s.env = append(s.env, "PATH="+bin+":"+os.Getenv("PATH"), "CHATAPP_HOMES=redis", "PG_DSN=")
	up := exec.CommandContext(t.Context(), "./up", "app", "redis", "postgres")
	up.Env = append(slices.Clone(s.env), "BUGS=redis-rdb,unlabelled", "HOMES=redis")
	if out, err := up.CombinedOutput(); err != nil {
		t.Fatalf("up: %v\n%s", err, out)
	}
	for _, service := range []string{"redis", "postgres"} {
		image, err := exec.Command("docker", "inspect", "--format", "{{.Config.Image}}", name+"-"+service+"-1").Output()
		if err != nil {
			t.Fatal(err)
		}
		s.env = append(s.env, "AMNESIA_IMAGE_"+strings.ToUpper(service)+"="+strings.TrimSpace(string(image)))
	}
	sh := func(code int, script string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "bash", "-c", "set -e\n"+script)
		cmd.Dir, cmd.Env = dir, s.env
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		exit := (*exec.ExitError)(nil)
		if err != nil && !errors.As(err, &exit) || cmd.ProcessState.ExitCode() != code {
			t.Fatalf("%s: %v, and not exit code %d\n%s\n%s", script, err, code, stdout.Bytes(), tail(stderr.String(), 40))
		}
		return stdout.String()
	}
	result := sh(0, "amnesia init --project "+name)
	if want := "Wrote amnesia.compose.yaml: app, postgres, redis are not labelled"; !strings.Contains(result, want) {
		t.Errorf("it does not say %q:\n%s", want, result)
	}
	if strings.Contains(result, "To be filled in") || !strings.Contains(result, "Left out, as nothing that was told is there: views.postgres") {
		t.Errorf("what holds nothing is not told apart:\n%s", result)
	}
	sh(2, "amnesia init --project "+name) // the file is there
	_, next, _ := strings.Cut(result, "\nNext:\n")
	steps := strings.Split(strings.TrimSpace(next), "\n")
	file := read(t, dir, "amnesia.yaml")

	// Unlabelled, every fault would be refused.
	doctor := "amnesia doctor -o json"
	if found := diagnose(t, sh(3, doctor)); len(failed(found)) == 0 {
		t.Errorf("the doctor finds nothing wrong with services that may not be touched")
	}
	exports := "" // they last as long as their shell
	for _, step := range steps {
		switch step = strings.TrimSpace(step); {
		case strings.HasPrefix(step, "export "):
			exports += step + "\n"
		case !strings.HasPrefix(step, "amnesia "):
			sh(0, step)
		}
	}
	// What the doctor has to say of the stack is what was planted; that stores in which nobody looks were not asked is a note.
	found := diagnose(t, sh(3, exports+doctor))
	if checks := failed(found); len(checks) > 0 {
		t.Errorf("the doctor: %q", checks)
	}
	for _, f := range found.Findings {
		if f.Rule != "redis-no-aof" && (f.Rule != "unread" || f.Severity != discover.Warning) {
			t.Errorf("the doctor: %+v", f)
		}
	}

	out := sh(3, fmt.Sprintf("%samnesia run --armed --cycles 2 --seed %d -o json", exports, killing(t, filepath.Join(dir, "amnesia.yaml"), "redis")))
	var sum report.Summary
	if err := json.Unmarshal([]byte(out), &sum); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	said{kinds: []memory.Kind{memory.Lost}, by: []string{chaos.Kill + " of redis"}}.check(t, sum, 3)
	if read(t, dir, "amnesia.yaml") != file {
		t.Error("the file was edited")
	}
}

// initIsWhole: of the healthy stack init finds everything, and the doctor has nothing to say of what it wrote.
func (s *stack) initIsWhole(t *testing.T) {
	dir := t.TempDir()
	amnesia, err := filepath.Abs("../../bin/amnesia")
	if err != nil {
		t.Fatal(err)
	}
	dsn := ""
	for _, set := range s.env {
		if port, ok := strings.CutPrefix(set, "POSTGRES_PORT="); ok {
			dsn = "postgres://chat:memory@127.0.0.1:" + port + "/chat"
		}
	}
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), amnesia, args...)
		cmd.Dir, cmd.Env = dir, append(slices.Clone(s.env), "PG_DSN="+dsn)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("amnesia %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	result := run("init", "--project", project)
	if strings.Contains(result, "filled in") || strings.Contains(result, "amnesia.compose.yaml") || !strings.Contains(result, "  export PG_DSN=") || strings.Contains(result, "memory@") {
		t.Errorf("%s", result)
	}
	cfg, err := app.LoadConfig([]string{filepath.Join(dir, "amnesia.yaml")}, func(string) string { return dsn })
	if err != nil {
		t.Fatal(err)
	}
	var views []string
	for i, v := range cfg.Views {
		c := cfg.Contracts()[i]
		views = append(views, fmt.Sprintf("%s: durable %t, ttl %s", v.Name, c.Durable, c.TTL))
	}
	if diff := cmp.Diff([]string{"page: durable true, ttl 0s", "chroma: durable true, ttl 0s", "postgres: durable true, ttl 0s", "redis: durable false, ttl 30m0s"}, views); diff != "" {
		t.Error(diff)
	}
	run("doctor")
}

// killing gives a seed with which the second cycle, the first with a fault, kills the service: what a run finds sooner or
// later is found at once.
func killing(t *testing.T, file, service string) uint64 {
	t.Helper()
	plan := planOf(t, file)
	for seed := range uint64(1000) {
		if inj, ok := chaos.Plan(seed, plan, 2, chaos.Prior{}); ok && inj.Kind == chaos.Kill && inj.Service == service {
			return seed
		}
	}
	t.Fatalf("no seed kills %s", service)
	return 0
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func diagnose(t *testing.T, out string) (d app.Diagnosis) {
	t.Helper()
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return d
}

// failed names the checks that failed.
func failed(d app.Diagnosis) (names []string) {
	for _, c := range d.Checks {
		if c.Result == "failed" {
			names = append(names, c.Name+": "+c.Detail)
		}
	}
	return names
}
