//go:build linux

package torture

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	docker = "docker"
	// starts is how often it is measured how long a service takes to start, and slack what a busy machine may add.
	starts = 3
	slack  = 2
)

// Containers are the sample application and another one beside it in containers of the run's own, from an image that
// holds nothing but the daemon's program. They outlive the daemon.
type Containers struct {
	dir, project, app, side string
	starting                time.Duration
}

// NewContainers brings the target of a run up; project is a name of its own. Down removes it.
func NewContainers(ctx context.Context, dir, amnesia, project string) (*Containers, error) {
	c := &Containers{dir: dir, project: project}
	if err := c.up(ctx, amnesia); err != nil {
		return nil, errors.Join(err, c.Down(context.WithoutCancel(ctx)))
	}
	return c, nil
}

func (c *Containers) up(ctx context.Context, amnesia string) error {
	var err error
	for _, to := range []*string{&c.app, &c.side} {
		if *to, err = freeAddress(ctx); err != nil {
			return err
		}
	}
	truth := filepath.Join(c.dir, "truth")
	if err := os.MkdirAll(truth, 0o755); err != nil {
		return err
	}
	if err := c.image(ctx, amnesia); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"network", "create", c.named("default")},
		{"volume", "create", "--label", "amnesia.ephemeral=true", c.named("scratch")},
		{"volume", "create", c.named("data")},
		c.container("app", c.app, "--volume", c.named("scratch")+":/scratch", "--volume", c.named("data")+":/data",
			"--volume", truth+":/truth", "--env", "CHATAPP_TRUTH=/truth/truth.jsonl"),
		c.container("side", c.side),
	} {
		if _, err := say(ctx, docker, args...); err != nil {
			return err
		}
	}
	for range starts {
		began := time.Now()
		for _, args := range [][]string{{"kill", c.named("app")}, {"start", c.named("app")}} {
			if _, err := say(ctx, docker, args...); err != nil {
				return err
			}
		}
		if err := until(ctx, began.Add(patience), func() error { return c.broken(ctx, false) }); err != nil {
			return fmt.Errorf("starting the target: %w", err)
		}
		c.starting = max(c.starting, slack*time.Since(began))
	}
	return nil
}

func (c *Containers) named(name string) string { return c.project + "-" + name }

// container is how one is made, as Compose would.
func (c *Containers) container(service, addr string, more ...string) []string {
	args := []string{"run", "--detach", "--name", c.named(service), "--network", c.named("default"), "--network-alias", service,
		"--publish", addr + ":8080", "--restart", "unless-stopped", "--label", "amnesia.target=true",
		"--label", "com.docker.compose.project=" + c.project, "--label", "com.docker.compose.service=" + service,
		"--label", "com.docker.compose.oneoff=False"}
	return append(append(args, more...), c.named("image"))
}

// image makes one of the program and the folders that it writes to.
func (c *Containers) image(ctx context.Context, amnesia string) error {
	program, err := os.ReadFile(amnesia)
	if err != nil {
		return err
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	var errs []error
	for _, dir := range []string{"tmp", "data", "scratch"} {
		errs = append(errs, w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o777}))
	}
	errs = append(errs, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "amnesia", Mode: 0o755, Size: int64(len(program))}))
	_, err = w.Write(program)
	if err := errors.Join(append(errs, err, w.Close())...); err != nil {
		return err
	}
	load := exec.CommandContext(ctx, docker, "import", "--change", `ENTRYPOINT ["/amnesia","sample"]`, "--change", "ENV CHATAPP_ADDR=0.0.0.0:8080",
		"--change", "ENV CHATAPP_DATA=/data", "--change", "ENV CHATAPP_SCRATCH=/scratch", "-", c.named("image"))
	load.Stdin = &archive
	if out, err := load.CombinedOutput(); err != nil {
		return fmt.Errorf("importing the image: %w: %s", err, out)
	}
	return nil
}

// Down removes everything of the target's.
func (c *Containers) Down(ctx context.Context) error {
	var errs []error
	for _, what := range [][2][]string{
		{{"ps", "--all", "--quiet", "--filter", "label=com.docker.compose.project=" + c.project}, {"rm", "--force", "--volumes"}},
		{{"volume", "ls", "--quiet", "--filter", "name=" + c.project}, {"volume", "rm"}},
		{{"network", "ls", "--quiet", "--filter", "name=" + c.project}, {"network", "rm"}},
		{{"images", "--quiet", c.named("image")}, {"rmi", "--force"}},
	} {
		out, err := say(ctx, docker, what[0]...)
		if ids := strings.Fields(string(out)); err == nil && len(ids) > 0 {
			_, err = say(ctx, docker, append(what[1], ids...)...)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (c *Containers) fill(s *settings) { s.App, s.Side, s.Project = c.app, c.side, c.project }

func (c *Containers) start() time.Duration { return c.starting }

// inspected is what is held of a container.
type inspected struct {
	Name  string
	State struct {
		Running, Paused, Restarting bool
	}
	NetworkSettings struct {
		Networks map[string]struct{ Aliases []string }
	}
}

// broken: each service has one container, under its name, which runs, is not paused, is in its network under its alias,
// and answers; and when nobody changes it, what may be wiped is whole or empty.
func (c *Containers) broken(ctx context.Context, alone bool) error {
	for service, addr := range map[string]string{"app": c.app, "side": c.side} {
		out, err := say(ctx, docker, "ps", "--all", "--quiet", "--no-trunc", "--filter", "label=com.docker.compose.project="+c.project,
			"--filter", "label=com.docker.compose.service="+service)
		if err != nil {
			return err
		}
		ids := strings.Fields(string(out))
		if len(ids) != 1 {
			return fmt.Errorf("%s has %d containers", service, len(ids))
		}
		out, err = say(ctx, docker, "inspect", ids[0])
		if err != nil {
			return err
		}
		var list []inspected
		if err := json.Unmarshal(out, &list); err != nil || len(list) != 1 {
			return fmt.Errorf("inspecting %s: %d, %w", service, len(list), err)
		}
		is := list[0]
		aliases := is.NetworkSettings.Networks[c.named("default")].Aliases
		switch {
		case is.Name != "/"+c.named(service):
			return fmt.Errorf("%s is called %s", service, is.Name)
		case !is.State.Running || is.State.Restarting:
			return fmt.Errorf("%s is down", service)
		case is.State.Paused:
			return fmt.Errorf("%s is paused", service)
		case len(is.NetworkSettings.Networks) != 1 || !strings.Contains(" "+strings.Join(aliases, " ")+" ", " "+service+" "):
			return fmt.Errorf("%s is cut off: %v", service, is.NetworkSettings.Networks)
		}
		if err := healthy(ctx, addr); err != nil {
			return fmt.Errorf("%s does not answer: %w", service, err)
		}
	}
	if !alone {
		return nil
	}
	n, err := c.count(ctx)
	if err == nil && n != 0 && n != canaries {
		err = fmt.Errorf("the volume of app is half wiped: %d of %d files are there", n, canaries)
	}
	return err
}

func healthy(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/healthz", nil)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: new(net.Dialer).DialContext}}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}

// left names the helper containers of the daemon's that are there.
func (c *Containers) left(ctx context.Context) error {
	out, err := say(ctx, docker, "ps", "--all", "--filter", "label=amnesia.helper=true", "--filter", "label=amnesia.project="+c.project,
		"--format", "{{.ID}} {{.Status}} {{.Command}}")
	if err == nil && len(out) > 0 {
		err = fmt.Errorf("a helper is left: %s", bytes.TrimSpace(out))
	}
	return err
}

// count gives how many canaries are in the volume.
func (c *Containers) count(ctx context.Context) (int, error) {
	out, err := say(ctx, docker, "cp", c.named("app")+":/scratch", "-")
	if err != nil {
		return 0, err
	}
	n := 0
	for r := tar.NewReader(bytes.NewReader(out)); ; {
		h, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return n, nil
		case err != nil:
			return 0, err
		case h.Typeflag == tar.TypeDir && strings.HasPrefix(filepath.Base(h.Name), "canary-"):
			n++
		}
	}
}

// restore fills the volume again.
func (c *Containers) restore(ctx context.Context) error {
	if n, err := c.count(ctx); err != nil || n > 0 {
		return err
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	var errs []error
	for i := range canaries {
		dir := fmt.Sprintf("canary-%d", i)
		errs = append(errs, w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}),
			w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: dir + "/canary", Mode: 0o644}))
	}
	if err := errors.Join(append(errs, w.Close())...); err != nil {
		return err
	}
	put := exec.CommandContext(ctx, docker, "cp", "-", c.named("app")+":/scratch")
	put.Stdin = &archive
	if out, err := put.CombinedOutput(); err != nil {
		return fmt.Errorf("filling the volume: %w: %s", err, out)
	}
	return nil
}
