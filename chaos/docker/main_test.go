package docker_test

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"
	"github.com/docker/go-connections/nat"
	"go.uber.org/zap/zaptest"

	"amnesia/chaos"
	"amnesia/chaos/docker"
	"amnesia/pkg/clock"
	"amnesia/pkg/fact"
)

// What TestMain has made: the client of the tests, the program of testdata/target and the image that holds only it.
var (
	cli     *client.Client
	missing string // why there is no engine
	program string
	picture = fmt.Sprintf("amnesia-test-target:%d", os.Getpid())
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "amnesia-docker")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "target")
	if err := prepare(); err != nil {
		missing = err.Error()
		return m.Run()
	}
	defer func() {
		if _, err := cli.ImageRemove(context.Background(), picture, image.RemoveOptions{Force: true}); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	return m.Run()
}

// prepare brings the engine up, and makes the image: no image can be pulled everywhere.
func prepare() error {
	if out, err := exec.Command("../../deploy/engine/up").CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	var err error
	if cli, err = client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation()); err != nil {
		return err
	}
	build := exec.Command("go", "build", "-o", program, "./testdata/target")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building the target: %w: %s", err, out)
	}
	code, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, dir := range []string{"tmp", "layer"} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o777}); err != nil {
			return err
		}
	}
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "target", Mode: 0o755, Size: int64(len(code))}); err != nil {
		return err
	}
	if _, err := w.Write(code); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	progress, err := cli.ImageImport(context.Background(), image.ImportSource{Source: &archive, SourceName: "-"}, picture,
		image.ImportOptions{Changes: []string{`ENTRYPOINT ["/target"]`, `CMD ["from-image"]`, "EXPOSE 8080"}})
	if err != nil {
		return err
	}
	defer progress.Close()
	_, err = io.Copy(io.Discard, progress)
	return err
}

// needEngine skips, visibly, where there is no engine and none can be had; in CI that is an error.
func needEngine(t *testing.T) {
	t.Helper()
	if missing != "" {
		without(t, missing)
	}
}

// without ends a test for which the machine lacks something: in CI as a failure, elsewhere as a skip that says what.
func without(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(what)
	}
	t.Skip(what)
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// stack is a project of the test's own.
type stack struct {
	t       *testing.T
	project string
	net     string
}

func newStack(t *testing.T) *stack {
	t.Helper()
	needEngine(t)
	s := &stack{t: t, project: fmt.Sprintf("amn%d%s", os.Getpid(), strings.ToLower(strings.Map(letters, t.Name())))}
	s.net = s.network("default")
	return s
}

func letters(r rune) rune {
	if (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z') || (r >= '0' && r <= '9') {
		return r
	}
	return -1
}

func (s *stack) network(name string) string {
	s.t.Helper()
	name = s.project + "_" + name
	if _, err := cli.NetworkCreate(testContext(s.t), name, network.CreateOptions{Driver: "bridge"}); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		net, err := cli.NetworkInspect(context.Background(), name, network.InspectOptions{})
		if err != nil {
			s.t.Error(err)
		}
		for id := range net.Containers { // one that was made before this network is removed after it
			if err := cli.NetworkDisconnect(context.Background(), name, id, true); err != nil {
				s.t.Error(err)
			}
		}
		if err := cli.NetworkRemove(context.Background(), name); err != nil {
			s.t.Error(err)
		}
	})
	return name
}

func (s *stack) volume(name string, labels, options map[string]string) string {
	s.t.Helper()
	return s.volumeNamed(s.project+"_"+name, labels, options)
}

func (s *stack) volumeNamed(name string, labels, options map[string]string) string {
	s.t.Helper()
	v, err := cli.VolumeCreate(testContext(s.t), volume.CreateOptions{Name: name, Labels: labels, DriverOpts: options})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := cli.VolumeRemove(context.Background(), v.Name, true); err != nil {
			s.t.Error(err)
		}
	})
	return v.Name
}

// up starts a container as Compose would; change may alter how.
func (s *stack) up(service string, change func(cfg *container.Config, host *container.HostConfig)) string {
	s.t.Helper()
	id := s.create(service, change)
	if err := cli.ContainerStart(testContext(s.t), id, container.StartOptions{}); err != nil {
		s.t.Fatal(err)
	}
	return id
}

func (s *stack) create(service string, change func(cfg *container.Config, host *container.HostConfig)) string {
	s.t.Helper()
	cfg := &container.Config{Image: picture, Labels: map[string]string{
		docker.TargetLabel: "true", "com.docker.compose.project": s.project, "com.docker.compose.service": service,
		"com.docker.compose.oneoff": "False", "com.docker.compose.container-number": "1",
	}}
	host := &container.HostConfig{NetworkMode: container.NetworkMode(s.net)}
	if change != nil {
		change(cfg, host)
	}
	var nets *network.NetworkingConfig
	if string(host.NetworkMode) == s.net {
		nets = &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{s.net: {Aliases: []string{service, "also-" + service}}}}
	}
	name := s.project + "-" + service + "-" + cfg.Labels["com.docker.compose.container-number"]
	made, err := cli.ContainerCreate(testContext(s.t), cfg, host, nets, nil, name)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		// By name: it may have been replaced.
		all, err := cli.ContainerList(context.Background(), container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("name", name))})
		if err != nil {
			s.t.Error(err)
		}
		for _, c := range all {
			if err := cli.ContainerRemove(context.Background(), c.ID, container.RemoveOptions{Force: true, RemoveVolumes: true}); err != nil {
				s.t.Error(err)
			}
		}
	})
	return made.ID
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// published gives the container a port of the host, the same over its restarts.
func published(t *testing.T) (address string, publish func(host *container.HostConfig)) {
	t.Helper()
	ip, port, _ := strings.Cut(freeAddress(t), ":")
	return "http://" + ip + ":" + port, func(host *container.HostConfig) {
		host.PortBindings = nat.PortMap{"8080/tcp": {{HostIP: ip, HostPort: port}}}
	}
}

// web starts a service that is reached over HTTP, and gives its address.
func (s *stack) web(service string, change func(cfg *container.Config, host *container.HostConfig)) (id, address string) {
	s.t.Helper()
	address, publish := published(s.t)
	id = s.up(service, func(cfg *container.Config, host *container.HostConfig) {
		publish(host)
		if change != nil {
			change(cfg, host)
		}
	})
	eventually(s.t, service+" answers", func() bool { return get(address+"/healthz") == "ok\n" })
	return id, address
}

func (s *stack) engine(services ...docker.Service) *docker.Engine {
	s.t.Helper()
	return newEngine(s.t, docker.Config{Project: s.project, Services: services})
}

func newEngine(t *testing.T, cfg docker.Config) *docker.Engine {
	t.Helper()
	cfg.Clock, cfg.Logger = clock.System(), zaptest.NewLogger(t)
	if cfg.Helper == "" {
		cfg.Helper = program
	}
	e, err := docker.New(testContext(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		noHelpers(t, cfg.Project, e.HelperImage())
	})
	return e
}

// noHelpers sees that nothing of the engine's own is left.
func noHelpers(t *testing.T, project, picture string) {
	t.Helper()
	all, err := cli.ContainerList(context.Background(), container.ListOptions{All: true, Filters: filters.NewArgs(
		filters.Arg("label", docker.HelperLabel+"=true"), filters.Arg("label", "amnesia.project="+project))})
	if err != nil || len(all) != 0 {
		t.Errorf("helpers are left: %v, %v", all, err)
	}
	if _, err := cli.ImageInspect(context.Background(), picture); picture != "" && err == nil {
		t.Errorf("the helper image %s is left", picture)
	}
}

func inspect(t *testing.T, id string) container.InspectResponse {
	t.Helper()
	c, err := cli.ContainerInspect(testContext(t), id)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for until := time.Now().Add(20 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("never came true: %s", what)
		}
	}
}

// get gives the body of a good answer, and else the error after "!".
func get(address string) string {
	c := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Get(address)
	if err != nil {
		return "! " + err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return "! " + resp.Status + string(b)
	}
	return string(b)
}

func write(t *testing.T, address, path, text string) {
	t.Helper()
	if got := get(address + "/write?path=" + url.QueryEscape(path) + "&text=" + url.QueryEscape(text)); got != "" {
		t.Fatalf("writing %s: %s", path, got)
	}
}

func read(address, path string) string { return get(address + "/read?path=" + url.QueryEscape(path)) }

// take waits for an event that fits.
func take(t *testing.T, ch <-chan chaos.Event, what string, fits func(chaos.Event) bool) chaos.Event {
	t.Helper()
	timeout := time.After(20 * time.Second)
	for {
		select {
		case ev, ok := <-ch:
			if !ok {
				t.Fatalf("the events ended before %s", what)
			}
			if fits(ev) {
				return ev
			}
		case <-timeout:
			t.Fatalf("never seen: %s", what)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// steps is a journal in memory.
type steps struct{ all []fact.Step }

func (s *steps) Step(_ context.Context, steps ...fact.Step) error {
	s.all = append(s.all, steps...)
	return nil
}

func (s *steps) names() []fact.StepName {
	var names []fact.StepName
	for _, step := range s.all {
		names = append(names, step.Name)
	}
	return names
}

func (s *steps) plan() chaos.Injection {
	for _, step := range slices.Backward(s.all) {
		if step.Plan != nil {
			return *step.Plan
		}
	}
	return chaos.Injection{}
}
