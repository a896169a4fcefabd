// Package http is the view of a JSON API that lists what the target holds for a user.
//
// It knows nothing of the API's shape beyond a few JSONPaths, and sends nothing but GET requests.
package http

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/ohler55/ojg/jp"

	"amnesia/pkg/memory"
	"amnesia/pkg/view"
)

// Config says what to read. The paths are JSONPaths (RFC 9535, as github.com/ohler55/ojg/jp reads it); Items and Next
// start at the response, the others at one item.
type Config struct {
	Name string
	// URL is the address of a user's first page; {user} or {{.User}} stands for the user, escaped. Without it the
	// address is read once for all users, and Owner is needed.
	URL string
	// Items leads to the records: a list, or each of them. Its part before the first wildcard or filter must be
	// there, if only as an empty list or null; otherwise the response is not what the view is about, and no proof of
	// anything.
	Items string
	Text  string // default: the item itself
	// Owner makes the view tell records by their owner. Without it, whatever a user is given counts as that user's:
	// leave it out where the API is what the user sees, and an API that gives one user another's records leaks.
	Owner string
	// ID makes two items with the same value one copy: pages move while they are read.
	ID string
	// Next leads to the address of the next page, absolute or relative; the end is reached where it is missing, null
	// or empty.
	Next string

	Headers  http.Header
	Match    view.Match
	Timeout  time.Duration // of one request; default 10s
	MaxBody  int64         // bytes of one page; default 16 MiB
	MaxPages int           // of one user; default 10,000
	Parallel int           // users read at once; default 8
	Clock    memory.Clock
}

// View is the view of one API.
type View struct {
	cfg                   Config
	items, list           jp.Expr // list: the start of items that must be there
	text, owner, id, next jp.Expr
	perUser               bool
	client                *http.Client
}

// New makes the view, or says what is wrong with its addresses and paths.
func New(cfg Config) (*View, error) {
	v := &View{cfg: cfg, perUser: address(cfg.URL, "a") != address(cfg.URL, "b")}
	var errs []error
	for _, p := range []struct {
		key, path string
		to        *jp.Expr
	}{{"items", cfg.Items, &v.items}, {"text", cfg.Text, &v.text}, {"owner", cfg.Owner, &v.owner}, {"id", cfg.ID, &v.id}, {"next", cfg.Next, &v.next}} {
		if p.path == "" {
			continue
		}
		x, err := jp.ParseString(p.path)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %q is no JSONPath: %w — fix: write it as in $.items[*]", p.key, p.path, err))
		}
		*p.to = x
	}
	if cfg.Items == "" {
		errs = append(errs, errors.New("items: missing — fix: give the JSONPath of the records, such as $.items"))
	}
	for v.list = v.items; !v.list.Normal(); {
		v.list = v.list[:len(v.list)-1]
	}
	switch u, err := url.Parse(address(cfg.URL, "user")); {
	case err != nil:
		errs = append(errs, fmt.Errorf("url: %w — fix: give an address such as http://127.0.0.1:8080/api/memories?user={user}", err))
	case (u.Scheme != "http" && u.Scheme != "https") || u.Host == "":
		errs = append(errs, fmt.Errorf("url: %q is not an http address — fix: give one such as http://127.0.0.1:8080/api/memories?user={user}", cfg.URL))
	case !v.perUser && cfg.Owner == "":
		errs = append(errs, errors.New("url: the users' records cannot be told apart — fix: put {user} into url, or give owner"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	v.defaults()
	v.client = &http.Client{
		Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: v.cfg.Timeout}).DialContext,
			TLSHandshakeTimeout: v.cfg.Timeout,
			MaxIdleConnsPerHost: v.cfg.Parallel,
			ForceAttemptHTTP2:   true,
		},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if len(via) >= 10 {
				return errors.New("redirected 10 times")
			}
			return sameHost(via[0].URL, r.URL)
		},
	}
	return v, nil
}

func (v *View) defaults() {
	if v.cfg.Timeout <= 0 {
		v.cfg.Timeout = 10 * time.Second
	}
	if v.cfg.MaxBody <= 0 {
		v.cfg.MaxBody = 16 << 20
	}
	if v.cfg.MaxPages <= 0 {
		v.cfg.MaxPages = 10_000
	}
	if v.cfg.Parallel <= 0 {
		v.cfg.Parallel = 8
	}
}

// address fills in the user: as %20 and not as +, which is right in a path and in a query alike.
func address(template, user string) string {
	escaped := strings.ReplaceAll(url.QueryEscape(user), "+", "%20")
	return strings.NewReplacer("{user}", escaped, "{{.User}}", escaped).Replace(template)
}

// sameHost refuses to follow a response to another host: the headers may hold secrets.
func sameHost(from, to *url.URL) error {
	if from.Scheme != to.Scheme || from.Host != to.Host {
		return fmt.Errorf("it leads to %s://%s, another host, where the view does not follow", to.Scheme, to.Host)
	}
	return nil
}

// Name is the name in the configuration.
func (v *View) Name() string { return v.cfg.Name }

// Close ends the view.
func (v *View) Close() error {
	v.client.CloseIdleConnections()
	return nil
}

// Find asks for every user's pages to their end.
func (v *View) Find(ctx context.Context, ms []memory.Memory) ([]memory.Observation, error) {
	m := view.NewMatcher(ms, view.Options{View: v.cfg.Name, Clock: v.cfg.Clock, Match: v.cfg.Match, Rig: isRig})
	if v.perUser {
		m.Each(ctx, v.cfg.Parallel, v.read)
	} else {
		m.All(ctx, v.read)
	}
	// The next Find shall not speak to what is left of a process that has been replaced since.
	v.client.CloseIdleConnections()
	return m.Observations(ctx), nil
}
