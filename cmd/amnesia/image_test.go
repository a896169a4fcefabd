package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestImage runs the image of the Dockerfile as one should: nobody in particular, without rights, and with a root that
// cannot be written. The binary is built here and not in a container, since no image can be pulled everywhere; all else
// is what the Dockerfile says.
func TestImage(t *testing.T) {
	if out, err := exec.Command("../../deploy/engine/up").CombinedOutput(); err != nil {
		why := fmt.Sprintf("there is no Docker engine: %v: %s", err, out)
		if os.Getenv("CI") == "true" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	text, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	_, last, ok := strings.Cut(string(text), "\nFROM scratch\n")
	if !ok {
		t.Fatal("the Dockerfile's last stage is not from scratch")
	}
	name := fmt.Sprintf("amnesia-image-test:%d", os.Getpid())
	args := []string{"import"}
	user := ""
	for line := range strings.Lines(last) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "", "COPY":
			continue
		case "USER":
			user = rest
		}
		args = append(args, "--change", strings.TrimSpace(line))
	}
	if uid, _, _ := strings.Cut(user, ":"); uid == "" || uid == "0" || uid == "root" {
		t.Fatalf("the image runs as %q", user)
	}

	binary := filepath.Join(t.TempDir(), "amnesia")
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	code, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	var root bytes.Buffer
	w := tar.NewWriter(&root)
	for _, f := range []tar.Header{
		{Typeflag: tar.TypeReg, Name: "usr/bin/amnesia", Mode: 0o755, Size: int64(len(code))},
		{Typeflag: tar.TypeDir, Name: "var/lib/amnesia", Mode: 0o755, Uid: 65532, Gid: 65532},
		{Typeflag: tar.TypeDir, Name: "tmp", Mode: 0o755, Uid: 65532, Gid: 65532},
	} {
		if err := w.WriteHeader(&f); err != nil {
			t.Fatal(err)
		}
		if f.Size > 0 {
			if _, err := w.Write(code); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	docker := func(stdin *bytes.Buffer, args ...string) string {
		t.Helper()
		cmd := exec.Command("docker", args...)
		if stdin != nil {
			cmd.Stdin = stdin
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	docker(&root, append(args, "-", name)...)
	t.Cleanup(func() { docker(nil, "image", "rm", "--force", name) })

	out := docker(nil, "run", "--rm", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--network", "none", "--tmpfs", "/tmp",
		name, "demo", "--driver", "http", "--cycles", "4", "--seed", "1")
	if !strings.Contains(out, "Both targets were judged as planted") {
		t.Errorf("the demo in it:\n%s", out)
	}
}
