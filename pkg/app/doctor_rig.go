package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	units "github.com/docker/go-units"

	"amnesia/pkg/config"
	"amnesia/pkg/discover"
	"amnesia/pkg/memory"
	"amnesia/pkg/session"
	"amnesia/pkg/view"
)

// leastRoom is what the ledger's disk must have left: a soak of days.
const leastRoom = 256 << 20

// rig looks at what is ours: the disk, the addresses, the browser.
func (d *doctor) rig(ctx context.Context) {
	cfg := d.a.cfg
	detail, err := writable(cfg.Ledger.Path, leastRoom)
	d.check("ledger", detail, err)
	detail, err = writable(filepath.Join(cfg.Evidence.Dir, "any"), max(0, int64(cfg.Evidence.MaxSize)-size(cfg.Evidence.Dir)))
	if err != nil {
		err = fmt.Errorf("evidence.dir: %w", err)
	}
	d.check("evidence", detail, err)
	for _, l := range []struct{ key, address string }{{"web.listen", cfg.Web.Listen}, {"web.metrics", cfg.Web.Metrics}} {
		if l.address != "" {
			d.free(ctx, l.key, l.address)
		}
	}
	if cfg.Sessions.Driver == "browser" {
		found, err := d.a.findBrowser()
		d.check("browser", cmp.Or(found.ExecutablePath, strings.Join(cfg.Sessions.Browser.Connect, ", ")), err)
	}
}

// writable says whether a file could be written, in a folder that may still have to be made, on a disk with room.
func writable(path string, need int64) (detail string, err error) {
	dir := filepath.Dir(path)
	for {
		if _, err = os.Stat(dir); !errors.Is(err, fs.ErrNotExist) || filepath.Dir(dir) == dir {
			break
		}
		dir = filepath.Dir(dir)
	}
	if err != nil {
		return "", fmt.Errorf("%w — fix: name a folder that can be written", err)
	}
	probe, err := os.CreateTemp(dir, ".amnesia-doctor-")
	if err != nil {
		return "", fmt.Errorf("%s cannot be written: %w — fix: chmod it, or name another folder", dir, err)
	}
	if err := errors.Join(probe.Close(), os.Remove(probe.Name())); err != nil {
		return "", fmt.Errorf("%s: %w", dir, err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err == nil {
		err = f.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%w — fix: chmod it, or name another file", err)
	}
	left, err := room(dir)
	if errors.Is(err, errors.ErrUnsupported) {
		return dir, nil
	}
	if err != nil {
		return "", fmt.Errorf("asking for the room on the disk of %s: %w", dir, err)
	}
	if left < need {
		return "", fmt.Errorf("the disk of %s has %s left, and %s may be needed — fix: make room there, or name another folder", dir,
			units.BytesSize(float64(left)), units.BytesSize(float64(need)))
	}
	return fmt.Sprintf("%s, %s left on its disk", dir, units.BytesSize(float64(left))), nil
}

// size is what a folder holds, in bytes; what cannot be read counts as nothing.
func size(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			n += info.Size()
		}
		return nil
	})
	return n
}

// free looks whether an address can be listened on, or a daemon of ours does so already.
func (d *doctor) free(ctx context.Context, key, address string) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err == nil {
		d.check(key, address+" is free", l.Close())
		return
	}
	if HealthCheck(ctx, address, 2*time.Second) == nil {
		d.skip(key, address+" is in use by what answers as a daemon does")
		return
	}
	d.check(key, "", fmt.Errorf("%w — fix: end what listens there, or change %s", err, key))
}

// startable says why a service's command could not be started.
func startable(s config.Service) error {
	info, err := os.Stat(s.Dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no folder", s.Dir)
	}
	if err != nil {
		return fmt.Errorf("%w — fix: create it, or correct target.services.%s.dir", err, s.Name)
	}
	name := s.Command[0]
	if strings.Contains(name, "/") && !filepath.IsAbs(name) {
		name = filepath.Join(s.Dir, name)
	}
	if _, err := exec.LookPath(name); err != nil {
		return fmt.Errorf("%w — fix: install it, or correct target.services.%s.command", err, s.Name)
	}
	return nil
}

// viewWithin bounds one look into a view.
const viewWithin = 30 * time.Second

// views reads every view for a memory that nobody was told, and asks the stores behind them for their settings. Of a
// target that a run has yet to start nothing can be read.
func (d *doctor) views(ctx context.Context, up bool) {
	teller, err := session.NewTeller(session.Personas{Seed: 1, Run: d.a.run, Accounts: d.a.cfg.Sessions.Accounts})
	if err != nil {
		d.check("accounts", "", err)
		return
	}
	accounts := newAccounts(teller, d.a.cfg.Sessions)
	user := accounts.user(0)
	probe := teller.Memory(user, 0)
	probe.ID = 1
	var reader *session.Player
	if up {
		reader = d.reader(ctx, user)
	}
	looks := map[int]view.View{}
	for i, v := range d.a.cfg.Views {
		name := "view " + v.Name
		opened, err := d.a.openView(v, reader, accounts)
		if err != nil {
			d.check(name, "", fmt.Errorf("views.%s: %w", v.Name, err))
			continue
		}
		d.a.onClose(opened.Close)
		asks := v.Kind == "page" || v.Kind == "answer"
		switch {
		case !up && (asks || d.a.cfg.Target.Engine != "docker"):
			d.skip(name, "the target is not up")
		case v.Kind == "answer":
			d.skip(name, "no question is asked: it would be one to a model")
		case asks && reader == nil:
			d.skip(name, "nobody can log in, see above")
		default:
			d.check(name, "can be read", read(ctx, opened, probe))
		}
		looks[i] = opened
	}
	for _, st := range d.a.stores(ctx, looks) {
		if st.Unread == nil || up || d.engine != nil { // else it comes with the run
			d.stack.Stores = append(d.stack.Stores, st)
		}
	}
	d.unviewed()
}

// reader logs a new user in.
func (d *doctor) reader(ctx context.Context, user session.User) *session.Player {
	evidence, err := os.MkdirTemp("", "amnesia-doctor-")
	if err != nil {
		d.check("login", "", err)
		return nil
	}
	d.a.onClose(func() error { return os.RemoveAll(evidence) })
	cfg := *d.a.cfg
	cfg.Evidence.Dir, cfg.Sessions.Browser.Trace = evidence, false
	hands := *d.a
	hands.cfg = &cfg
	driver, err := hands.openDriver(ctx)
	if err != nil {
		d.check("login", "", err)
		return nil
	}
	d.a.onClose(driver.Close)
	player, err := session.NewPlayer(driver, &cfg.Sessions.Script, session.Options{Clock: d.a.clock, CountsFrom: cfg.Sessions.CountsFrom})
	if err == nil {
		err = logIn(ctx, player, user)
	}
	if !d.check("login", "as "+user.Name+", with the driver "+driver.Name(), err) {
		return nil
	}
	return player
}

func logIn(ctx context.Context, player *session.Player, user session.User) (err error) {
	ctx, cancel := context.WithTimeout(ctx, viewWithin)
	defer cancel()
	s, err := player.Open(ctx, user)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.Signup(ctx); err != nil {
		return fmt.Errorf("%w — fix: correct sessions.script.signup", err)
	}
	if err := s.Login(ctx); err != nil {
		return fmt.Errorf("%w — fix: correct sessions.script.login", err)
	}
	return nil
}

// read looks for a memory that is not there: what counts is that it can be said so.
func read(ctx context.Context, v view.View, probe memory.Memory) error {
	ctx, cancel := context.WithTimeout(ctx, viewWithin)
	defer cancel()
	seen, err := v.Find(ctx, []memory.Memory{probe})
	if err == nil && seen[0].State == memory.Unreadable {
		err = errors.New(seen[0].Detail)
	}
	return err
}

// unviewed adds the stores that no view looks into, by what their containers are. As with views, a Redis is a cache
// unless the file says otherwise.
func (d *doctor) unviewed() {
	for _, c := range d.stack.Containers {
		kind := discover.KindOf(c)
		known := kind == ""
		for _, s := range d.stack.Stores {
			known = known || s.Service == c.Service
		}
		if !known {
			viewed := slices.ContainsFunc(d.a.cfg.Views, func(v config.View) bool { // one that could not be opened, too
				return v.Service == c.Service && v.Kind != "page" && v.Kind != "answer"
			})
			d.stack.Stores = append(d.stack.Stores, discover.Store{Service: c.Service, Kind: kind, Cache: kind == discover.Redis, Unviewed: !viewed})
		}
	}
}
