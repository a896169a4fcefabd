package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"
)

const (
	// helperKey makes a process of this program a helper: HelperMain takes over.
	helperKey = "AMNESIA_DOCKER_HELPER"
	// helperProject marks a helper container with the project of its daemon.
	helperProject = "amnesia.project"
	helperProgram = "/amnesia-helper"
	helperVolume  = "/volume"
	// helperFor marks it with what it is at work on: the name of a volume, or the id of a container.
	helperFor = "amnesia.for"
	// helperStale is the age at which a helper that does not run belongs to no daemon any more.
	helperStale = time.Minute
)

// HelperMain must be called first in main of every program that is given as Config.Helper, by default the daemon itself.
// It returns at once unless the process was started as a helper in a container; then it never returns.
func HelperMain() {
	if os.Getenv(helperKey) == "" {
		return
	}
	if err := help(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func help(args []string) error {
	switch {
	case len(args) == 1 && args[0] == "empty":
		return emptyDir(helperVolume)
	case len(args) == 3 && args[0] == "kill":
		pid, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		return killProcess(pid, args[2])
	}
	return fmt.Errorf("a helper was started with %q", args)
}

// emptyDir removes everything in the directory, and sees that it is empty. It follows no symbolic link out of it.
func emptyDir(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	names, err := list(root)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := root.RemoveAll(name); err != nil {
			return err
		}
	}
	left, err := list(root)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("not empty after it was emptied: %q — fix: find out what else writes there", left)
	}
	return nil
}

func list(root *os.Root) ([]string, error) {
	dir, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	names, err := dir.Readdirnames(-1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return names, errors.Join(err, dir.Close())
}

// belongs reports whether a process that we can see is one of the container's: its control group carries the id.
func belongs(pid int, id string) bool {
	if pid <= 1 || len(id) != 64 {
		return false
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	return err == nil && bytes.Contains(b, []byte(id))
}

// killProcess sends SIGKILL to a container's process. The process is held by a descriptor before its control group is
// read, so that the number cannot come to mean another one in between.
func killProcess(pid int, id string) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	defer func() { _ = p.Release() }()
	if !belongs(pid, id) {
		return fmt.Errorf("process %d is none of container %s", pid, short(id))
	}
	return p.Kill()
}

// helper runs this program in containers of its own, from an image that holds nothing else: it needs no shell, no other
// image, and no network.
type helper struct {
	cli     *client.Client
	project string
	program string

	check    sync.Once
	unusable error

	mu    sync.Mutex
	image string // made or found by us
}

// usable says why the program cannot run in a container of its own.
func (h *helper) usable() error {
	h.check.Do(func() { h.unusable = h.static() })
	return h.unusable
}

func (h *helper) static() error {
	if h.program == "" {
		// The file may have been replaced; the link leads to the one that runs.
		h.program = "/proc/self/exe"
	}
	const fix = " — fix: use a Linux build made with CGO_ENABLED=0, or run amnesia in its container"
	f, err := elf.Open(h.program)
	if err != nil {
		return fmt.Errorf("the helper %s is no Linux program: %w%s", h.program, err, fix)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("the helper %s is not statically linked%s", h.program, fix)
		}
	}
	return nil
}

// ensure gives the helper image, made once for each version of the program.
func (h *helper) ensure(ctx context.Context) (string, error) {
	if err := h.usable(); err != nil {
		return "", err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.image != "" {
		if _, err := h.cli.ImageInspect(ctx, h.image); err == nil {
			return h.image, nil
		}
	}
	name, program, err := h.named()
	if err != nil {
		return "", err
	}
	if _, err := h.cli.ImageInspect(ctx, name); err != nil {
		if !errdefs.IsNotFound(err) {
			return "", fmt.Errorf("looking for the helper image: %w", err)
		}
		if err := h.importImage(ctx, name, program); err != nil {
			return "", fmt.Errorf("making the helper image: %w", err)
		}
	}
	h.image = name
	return name, nil
}

// named gives the name of the image, which tells the versions of the program apart, and the program.
func (h *helper) named() (name string, program []byte, err error) {
	if program, err = os.ReadFile(h.program); err != nil {
		return "", nil, fmt.Errorf("reading the helper: %w", err)
	}
	sum := sha256.Sum256(program)
	return "amnesia-helper:" + hex.EncodeToString(sum[:6]), program, nil
}

func (h *helper) importImage(ctx context.Context, name string, program []byte) error {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	header := &tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(helperProgram, "/"), Mode: 0o755, Size: int64(len(program))}
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	if _, err := w.Write(program); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	progress, err := h.cli.ImageImport(ctx, image.ImportSource{Source: &archive, SourceName: "-"}, name,
		image.ImportOptions{Changes: []string{"LABEL " + HelperLabel + "=true"}})
	if err != nil {
		return err
	}
	defer progress.Close()
	if _, err := io.Copy(io.Discard, progress); err != nil {
		return err
	}
	_, err = h.cli.ImageInspect(ctx, name) // the progress tells of a failure only in words
	return err
}

// empty removes all that is in a volume, and has the helper see that it is.
func (h *helper) empty(ctx context.Context, volume string) error {
	return h.run(ctx, volume, &container.HostConfig{
		Mounts: []mount.Mount{{Type: mount.TypeVolume, Source: volume, Target: helperVolume, VolumeOptions: &mount.VolumeOptions{NoCopy: true}}},
		CapAdd: []string{"DAC_OVERRIDE", "FOWNER"}, SecurityOpt: []string{"label=disable"},
	}, "empty")
}

// kill ends a process of the engine's host.
func (h *helper) kill(ctx context.Context, pid int, id string) error {
	return h.run(ctx, id, &container.HostConfig{
		PidMode: "host", UsernsMode: "host", CapAdd: []string{"KILL"}, SecurityOpt: []string{"apparmor=unconfined", "label=disable"},
	}, "kill", strconv.Itoa(pid), id)
}

// run runs a helper container to its end and removes it, whatever happens: what it has begun is not left half done when
// ctx ends. work is what it is for.
func (h *helper) run(ctx context.Context, work string, host *container.HostConfig, args ...string) (err error) {
	name, err := h.ensure(ctx)
	if err != nil {
		return err
	}
	host.NetworkMode, host.ReadonlyRootfs, host.CapDrop = "none", true, []string{"ALL"}
	host.LogConfig = container.LogConfig{Type: "json-file"} // one that can be read back
	made, err := h.cli.ContainerCreate(ctx, &container.Config{
		Image: name, User: "0:0", Entrypoint: []string{helperProgram}, Cmd: args, Env: []string{helperKey + "=1"},
		Labels: map[string]string{HelperLabel: "true", helperProject: h.project, helperFor: work},
	}, host, nil, nil, "")
	if err != nil {
		return fmt.Errorf("creating a helper: %w", err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerWait)
		defer cancel()
		err = errors.Join(err, h.remove(ctx, made.ID))
	}()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), changeWait)
	defer cancel()
	ended, failed := h.cli.ContainerWait(ctx, made.ID, container.WaitConditionNextExit)
	if err := h.cli.ContainerStart(ctx, made.ID, container.StartOptions{}); err != nil {
		return fmt.Errorf("starting a helper: %w", err)
	}
	select {
	case end := <-ended:
		if end.StatusCode == 0 {
			return nil
		}
		return fmt.Errorf("a helper failed with exit code %d: %s", end.StatusCode, h.said(ctx, made.ID))
	case err := <-failed:
		return fmt.Errorf("waiting for a helper: %w", err)
	}
}

func (h *helper) said(ctx context.Context, id string) string {
	stream, err := h.cli.ContainerLogs(ctx, id, container.LogsOptions{ShowStdout: true, ShowStderr: true})
	if err != nil {
		return err.Error()
	}
	defer stream.Close()
	var text bytes.Buffer
	if _, err := stdcopy.StdCopy(&text, &text, io.LimitReader(stream, maxLine)); err != nil && text.Len() == 0 {
		return err.Error()
	}
	return strings.TrimSpace(text.String())
}

// remove leaves the volumes alone: the one that was emptied is named, so it stays in any case.
func (h *helper) remove(ctx context.Context, id string) error {
	if err := h.cli.ContainerRemove(ctx, id, container.RemoveOptions{Force: true}); err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("removing the helper %s: %w", short(id), err)
	}
	return nil
}

// sweep removes helpers of this project whose daemon died. One that runs ends by itself, and may be another command's.
func (h *helper) sweep(ctx context.Context) error {
	all, err := h.all(ctx)
	if err != nil {
		return err
	}
	errs := []error{h.recognise(ctx)}
	for _, c := range all {
		if c.State != container.StateRunning && time.Since(time.Unix(c.Created, 0)) > helperStale {
			errs = append(errs, h.remove(ctx, c.ID))
		}
	}
	return errors.Join(errs...)
}

// recognise takes over the image that an earlier daemon of this program has left, so that it goes with this one.
func (h *helper) recognise(ctx context.Context) error {
	images, err := h.cli.ImageList(ctx, image.ListOptions{Filters: filters.NewArgs(filters.Arg("label", HelperLabel+"=true"))})
	if err != nil {
		return fmt.Errorf("looking for an old helper image: %w", err)
	}
	if len(images) == 0 || h.usable() != nil {
		return nil
	}
	name, _, err := h.named()
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if slices.ContainsFunc(images, func(i image.Summary) bool { return slices.Contains(i.RepoTags, name) }) {
		h.image = name
	}
	return nil
}

// all are the helpers of this project, with the labels given.
func (h *helper) all(ctx context.Context, labels ...string) ([]container.Summary, error) {
	want := filters.NewArgs(filters.Arg("label", HelperLabel+"=true"), filters.Arg("label", helperProject+"="+h.project))
	for _, l := range labels {
		want.Add("label", l)
	}
	all, err := h.cli.ContainerList(ctx, container.ListOptions{All: true, Filters: want})
	if err != nil {
		return nil, fmt.Errorf("looking for old helpers: %w", err)
	}
	return all, nil
}

// end removes the helpers that are at work on something, whether they run or not, and says whether there were any.
func (h *helper) end(ctx context.Context, work string) (found bool, err error) {
	all, err := h.all(ctx, helperFor+"="+work)
	if err != nil {
		return false, err
	}
	var errs []error
	for _, c := range all {
		errs = append(errs, h.remove(ctx, c.ID))
	}
	return len(all) > 0, errors.Join(errs...)
}

func (h *helper) close(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.image == "" {
		return nil
	}
	// In use by another daemon is as good: that one removes it.
	if _, err := h.cli.ImageRemove(ctx, h.image, image.RemoveOptions{}); err != nil && !errdefs.IsNotFound(err) && !errdefs.IsConflict(err) {
		return fmt.Errorf("removing the helper image: %w", err)
	}
	return nil
}
