package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"go.uber.org/zap"

	"amnesia/chaos/docker"
	"amnesia/pkg/clock"
	"amnesia/pkg/config"
	"amnesia/pkg/discover"
	"amnesia/pkg/session/explore"
	"amnesia/pkg/soak"
	"amnesia/pkg/terminal"
)

// InitOptions are the flags of `amnesia init`.
type InitOptions struct {
	Project    string // of Compose; empty: the one that runs
	URL        string // that people open; empty: found out
	File       string
	Force      bool // files that are there are written anew
	BrowserDir string
	Getenv     func(string) string
}

// exitUnfinished: the file was written, and a run needs what is to be filled in.
const exitUnfinished = exitUnread

// Init writes a configuration for a compose project that runs. It tells the app memories of users of its own, hurts
// nothing, and changes no container. It gives the exit code.
func Init(ctx context.Context, c Console, o InitOptions) (int, error) {
	_, err := o.address()
	if err == nil {
		err = o.free(o.File)
	}
	if err != nil {
		return ended(0, Usage(err))
	}
	i := &initer{o: o, say: func(form string, args ...any) { fmt.Fprintf(c.Err, form+"\n", args...) }}
	err = errors.Join(i.look(ctx), i.a.close())
	if ctx.Err() != nil { // and whatever failed did so because of it
		return ended(0, errors.New("interrupted; nothing was written"))
	}
	if err != nil {
		return ended(0, i.redact(err))
	}
	data := i.draft.YAML()
	mistakes, err := i.loads(data)
	if err != nil {
		return ended(0, err)
	}
	override, unlabelled := o.override(), i.draft.Unlabelled()
	if err := os.WriteFile(o.File, data, 0o644); err != nil {
		return ended(0, fmt.Errorf("writing the configuration: %w — fix: name another file with --file", err))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Wrote %s.\n", o.File)
	if len(unlabelled) > 0 {
		if err := os.WriteFile(override, discover.Override(unlabelled), 0o644); err != nil {
			return ended(0, fmt.Errorf("writing the compose override: %w", err))
		}
		fmt.Fprintf(&b, "Wrote %s: %s %s not labelled as what Amnesia may hurt, and it does nothing to them until they are.\n", override,
			strings.Join(unlabelled, ", "), plural(len(unlabelled), "is", "are"))
	}
	for _, g := range i.gaps() {
		fmt.Fprintf(&b, "To be filled in: %s\n", g)
	}
	if out := i.leftOut(); len(out) > 0 {
		fmt.Fprintf(&b, "Left out, as nothing that was told is there: %s\n", strings.Join(out, ", "))
	}
	for _, m := range mistakes {
		fmt.Fprintf(&b, "Not complete: %s\n", m)
	}
	fmt.Fprintf(&b, "\nNext:\n")
	if len(unlabelled) > 0 {
		path, err := filepath.Abs(override)
		if err != nil {
			return ended(0, err)
		}
		fmt.Fprintf(&b, "  # makes these containers anew: with the images and variables of the Compose files that the stack was brought up with; now:\n")
		for _, image := range i.images(unlabelled) {
			fmt.Fprintf(&b, "  #   %s\n", image)
		}
		fmt.Fprintf(&b, "  %s\n", shell(i.draft.Project.Compose(compose(ctx), path, unlabelled)))
	}
	for _, name := range slices.Sorted(maps.Keys(i.exports)) {
		if slices.ContainsFunc(i.draft.Looks, func(l discover.Look) bool { return l.Gap == "" && l.Export == i.exports[name] }) {
			fmt.Fprintf(&b, "  %s\n", i.exports[name])
		}
	}
	name := ""
	if o.File != "amnesia.yaml" {
		name = " -c " + shell([]string{o.File})
	}
	fmt.Fprintf(&b, "  amnesia doctor%s\n  amnesia run%s --armed --cycles 20\n", name, name)
	if _, err := c.Out.Write([]byte(b.String())); err != nil {
		return ended(0, err)
	}
	if len(mistakes) > 0 || i.draft.Gaps["login"] != "" || i.draft.Gaps["tell"] != "" {
		return exitUnfinished, nil
	}
	return exitNothing, nil
}

// override is the file beside the configuration with which Compose labels containers.
func (o InitOptions) override() string {
	return strings.TrimSuffix(o.File, filepath.Ext(o.File)) + ".compose.yaml"
}

// free says why a file could not be written at the end, or should not be.
func (o InitOptions) free(path string) error {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		return fmt.Errorf("%s is a folder — fix: name a file in it with --file", path)
	}
	_, err = os.Lstat(path)
	there := err == nil
	if there && !o.Force {
		return fmt.Errorf("%s is there already — fix: name another --file, or write it anew with --force", path)
	}
	how := os.O_WRONLY
	if !there {
		how |= os.O_CREATE | os.O_EXCL
	}
	f, err := os.OpenFile(path, how, 0o644)
	if err == nil {
		err = f.Close()
		if !there {
			err = errors.Join(err, os.Remove(path))
		}
	}
	if err != nil {
		return fmt.Errorf("%s cannot be written: %w — fix: name another with --file", path, err)
	}
	return nil
}

// address gives the host and port of --url; empty where there is none.
func (o InitOptions) address() (string, error) {
	if o.URL == "" {
		return "", nil
	}
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("--url %s is no address — fix: write it as http://127.0.0.1:8080", o.URL)
	}
	if u.Port() == "" {
		return u.Host + map[string]string{"http": ":80", "https": ":443"}[u.Scheme], nil
	}
	return u.Host, nil
}

// compose gives the words that Compose is called by here.
func compose(ctx context.Context) []string {
	plugin := []string{"docker", "compose"}
	if exec.CommandContext(ctx, plugin[0], plugin[1], "version").Run() != nil {
		if _, err := exec.LookPath("docker-compose"); err == nil {
			return []string{"docker-compose"}
		}
	}
	return plugin
}

// images says of services which image each runs, a line each.
func (i *initer) images(services []string) (out []string) {
	for _, p := range i.draft.Parts {
		if slices.Contains(services, p.Service) {
			out = append(out, terminal.Line(p.Service+": "+p.Container.Image))
		}
	}
	return out
}

// shell writes words as a shell takes them.
func shell(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = terminal.Word(w)
	}
	return strings.Join(out, " ")
}

// initer is one `amnesia init` under way.
type initer struct {
	o       InitOptions
	say     func(form string, args ...any)
	a       opened
	engine  *docker.Engine
	draft   discover.Draft
	exports map[string]string // commands that set the variables, by name
	owners  map[string]string // the services whose secrets are in them
	env     map[string]string // the variables that the file names, as they will be: secrets
	probe   *explore.Found    // what the first user found; nil: there was none
}

// opened is what is to be closed, the last first.
type opened []func() error

func (o *opened) onClose(fn func() error) { *o = append(*o, fn) }

func (o opened) close() error {
	var errs []error
	for _, fn := range slices.Backward(o) {
		errs = append(errs, fn())
	}
	return errors.Join(errs...)
}

// redact takes the secrets that were read out of an error.
func (i *initer) redact(err error) error {
	return redactError(err, func(s string) string {
		for _, secret := range i.env {
			if secret != "" {
				s = strings.ReplaceAll(s, secret, "[redacted]")
			}
		}
		return s
	})
}

// look finds out all that goes into the draft.
func (i *initer) look(ctx context.Context) error {
	if i.o.URL != "" {
		if err := answers(ctx, i.o.URL); err != nil {
			return fmt.Errorf("nothing answers at --url: %w — fix: start what is there, or correct --url", err)
		}
	}
	if err := i.project(ctx); err != nil {
		return err
	}
	containers, err := i.engine.Containers(ctx)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(containers, func(c discover.Container) bool { return !c.Target }) {
		if err := i.o.free(i.o.override()); err != nil {
			return Usage(err)
		}
	}
	d := &i.draft
	d.Gaps, d.Notes = map[string]string{}, map[string]string{}
	i.env, i.exports, i.owners = map[string]string{}, map[string]string{}, map[string]string{}
	i.say("asking the services of %s what they are", d.Project.Name)
	d.Parts = discover.Survey(ctx, containers)
	if err := i.front(); err != nil {
		return err
	}
	if err := i.explore(ctx); err != nil {
		return err
	}
	i.stores(ctx)
	if err := i.verify(ctx); err != nil {
		return err
	}
	d.Keep()
	d.Listen = freeListen(ctx)
	return nil
}

// freeListen gives an address for the daemon to listen on where its usual one is taken; empty: it is not.
func freeListen(ctx context.Context) string {
	const usual, most = 9464, 9500
	for port := usual; port < most; port++ {
		address := fmt.Sprintf("127.0.0.1:%d", port)
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
		if err != nil {
			continue
		}
		_ = l.Close() // it was only to see that it can be
		if port == usual {
			return ""
		}
		return address
	}
	return ""
}

// project finds the one to look at, and opens the engine for all of its services.
func (i *initer) project(ctx context.Context) error {
	all, err := docker.Projects(ctx, "")
	if err != nil {
		return err
	}
	var names []string
	for _, p := range all {
		names = append(names, fmt.Sprintf("%s (%s)", p.Name, strings.Join(p.Services, ", ")))
	}
	at := slices.IndexFunc(all, func(p discover.Project) bool { return p.Name == i.o.Project })
	switch {
	case len(all) == 0:
		return errors.New("no compose project runs here — fix: docker compose up --detach, or set DOCKER_HOST")
	case i.o.Project == "" && len(all) > 1:
		return Usage(fmt.Errorf("%d compose projects run: %s — fix: say which with --project", len(all), strings.Join(names, "; ")))
	case i.o.Project == "":
		at = 0
	case at < 0:
		return Usage(fmt.Errorf("no compose project %s runs; what does: %s — fix: start it, or name another with --project", i.o.Project, strings.Join(names, "; ")))
	}
	i.draft.Project = all[at]
	conf := docker.Config{Project: all[at].Name, Clock: clock.System(), ReadOnly: true}
	for _, s := range all[at].Services {
		conf.Services = append(conf.Services, docker.Service{Name: s})
	}
	if i.engine, err = docker.New(ctx, conf); err != nil {
		return err
	}
	i.a.onClose(i.engine.Close)
	return nil
}

// front says where people go.
func (i *initer) front() error {
	address, err := i.o.address()
	if err != nil {
		return Usage(err)
	}
	d := &i.draft
	d.URL = i.o.URL
	at := discover.Front(d.Parts, address)
	if at < 0 && d.URL == "" {
		return fmt.Errorf("no service of %s answers HTTP at a port of this host — fix: publish the app's port, or say where it is with --url", d.Project.Name)
	}
	if at >= 0 {
		if d.Parts[at].Unfit == "" {
			d.App = d.Parts[at].Service
		}
		if d.URL == "" {
			d.URL = "http://" + d.Parts[at].At
		}
	}
	return nil
}

// page is the view of what a page shows of a user's history.
func (i *initer) page() discover.Look {
	if i.draft.App == "" {
		return discover.Look{Name: "page", Settings: []discover.Setting{discover.Set("service", "…")},
			Gap: "which of the services above shows what is at " + i.draft.URL + " could not be seen"}
	}
	return discover.Look{Name: "page", Service: i.draft.App}
}

// loads has the file read as a run would read it. What is missing in it because it could not be found is given; any other
// mistake is one of ours.
func (i *initer) loads(data []byte) (missing []string, err error) {
	_, err = i.parse(data)
	var mistakes config.Errors
	if err == nil || !errors.As(err, &mistakes) {
		return nil, err
	}
	for _, m := range mistakes {
		gap := strings.HasPrefix(m.Path, "sessions.script") && i.draft.Gaps["tell"] != "" || m.Path == "views" && !i.viewed() ||
			strings.HasPrefix(m.Path, "target.services")
		if !gap {
			return nil, fmt.Errorf("what was written does not load, which is a bug of amnesia init: %w", mistakes)
		}
		missing = append(missing, m.Error())
	}
	return missing, nil
}

func (i *initer) viewed() bool {
	return slices.ContainsFunc(i.draft.Looks, func(l discover.Look) bool { return l.Gap == "" })
}

// parse reads the file as `amnesia run` does, with the variables as they will be.
func (i *initer) parse(data []byte) (*config.Config, error) {
	getenv := func(name string) string {
		if value, ok := i.env[name]; ok {
			return value
		}
		return i.o.Getenv(name)
	}
	return config.Parse([]config.Source{{Name: i.o.File, Data: data}}, getenv, driverCheck)
}

// gaps says of each thing that could not be found what it is, in a line each, whatever the target said.
func (i *initer) gaps() (out []string) {
	for _, section := range []string{"login", "tell", "recall"} {
		if why := i.draft.Gaps[section]; why != "" {
			out = append(out, terminal.Line(fmt.Sprintf("sessions.script.%s: %s", section, why)))
		}
	}
	for _, l := range i.draft.Looks {
		if l.Gap != "" && !l.Absent {
			out = append(out, terminal.Line(fmt.Sprintf("views.%s: %s", l.Name, l.Gap)))
		}
	}
	return out
}

// leftOut names the views of stores that hold nothing of what was told.
func (i *initer) leftOut() (out []string) {
	for _, l := range i.draft.Looks {
		if l.Absent {
			out = append(out, "views."+l.Name)
		}
	}
	return out
}

// tools is what a configuration is tried out with.
func (i *initer) tools(cfg *config.Config, evidence string) *App {
	trial := *cfg
	trial.Evidence.Dir, trial.Sessions.Browser.Trace = evidence, false
	return &App{cfg: &trial, clock: clock.System(), log: zap.NewNop(), run: newRun(), loop: &soak.Loop{}, opts: Options{BrowserDir: i.o.BrowserDir}}
}
