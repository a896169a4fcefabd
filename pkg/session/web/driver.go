// Package web plays sessions over plain HTTP: the same scripts' meaning as in a browser, without one, for volume. It
// loads pages, keeps cookies, follows links and submits forms as a browser without JavaScript does.
//
// It knows nothing of what a page's script would do: a script that needs one is refused by Check, and a click that only
// a page's script could answer is an error of the rig, never of the target.
package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"amnesia/pkg/memory"
	"amnesia/pkg/session"
)

// Config of a Driver.
type Config struct {
	BaseURL string // of the target, with its scheme
	// Timeout bounds one exchange, from the dial to the end of the body, whatever the script waits for; default 5m.
	Timeout   time.Duration
	Clock     memory.Clock
	UserAgent string // default amnesia
	Limits    Limits
	Evidence  string // the folder that Evidence writes to; empty: none
}

// Limits keep a hostile or broken target from filling our memory. Zero values take the defaults.
type Limits struct {
	Body      int64 // bytes of one response, default 16 MiB
	Pages     int   // pages of one list, default 1000
	Redirects int   // in a row, default 20
	IdleConns int   // kept to the target, default 1024
}

// Driver opens surfaces over one shared pool of connections.
type Driver struct {
	cfg  Config
	base *url.URL
	pool *http.Transport
}

// New checks the configuration. It sends nothing.
func New(cfg Config) (*Driver, error) {
	base, err := url.Parse(cfg.BaseURL)
	if err != nil || (base.Scheme != "http" && base.Scheme != "https") || base.Host == "" {
		return nil, fmt.Errorf("target.url: %q is no address of an app — fix: write one such as http://127.0.0.1:8080", cfg.BaseURL)
	}
	if cfg.Clock == nil {
		return nil, errors.New("the http driver has no clock")
	}
	set := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	set(&cfg.Limits.Pages, 1000)
	set(&cfg.Limits.Redirects, 20)
	set(&cfg.Limits.IdleConns, 1024)
	if cfg.Limits.Body <= 0 {
		cfg.Limits.Body = 16 << 20
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 5 * time.Minute
	}
	if cfg.UserAgent == "" {
		cfg.UserAgent = "amnesia"
	}
	// No proxy from the environment: what is read must be the target's own word. HTTP/1.1 only: with one connection
	// for all users a single reset would look like a thousand.
	return &Driver{cfg: cfg, base: base, pool: &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: cfg.Limits.IdleConns,
		IdleConnTimeout:     30 * time.Second,
	}}, nil
}

// Name is http.
func (d *Driver) Name() string { return "http" }

// Open gives the user a surface with an empty cookie jar.
func (d *Driver) Open(ctx context.Context, u session.User) (session.Surface, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if d.cfg.Evidence != "" {
		if err := os.MkdirAll(d.cfg.Evidence, 0o700); err != nil {
			return nil, &session.RigError{Err: fmt.Errorf("making the folder for evidence: %w", err)}
		}
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, &session.RigError{Err: fmt.Errorf("making a cookie jar: %w", err)}
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	return &surface{d: d, jar: jar, life: life, end: end, closed: sync.OnceFunc(end)}, nil
}

// Close drops the idle connections. Surfaces end with their own Close.
func (d *Driver) Close() error {
	d.pool.CloseIdleConnections()
	return nil
}

// Check says what of the script this driver cannot do.
func (d *Driver) Check(s *session.Script) []error { return Check(s) }

// Check says what of a script plain HTTP cannot do, one *session.ScriptError each: pages that scroll, keys other than
// Enter, selectors and WebSockets that need a browser.
func Check(s *session.Script) []error {
	c, err := session.CompileScript(s)
	if err != nil {
		return []error{err}
	}
	var errs []error
	c.Each(func(section string, step int, st session.Step) {
		fail := func(field string, err error) {
			errs = append(errs, &session.ScriptError{Section: section, Step: step, Field: field, Problem: err.Error()})
		}
		find := func(field, selector string) {
			if selector == "" {
				return
			}
			if _, err := parseSelector(selector); err != nil {
				fail(field, err)
			}
		}
		condition := func(field string, e session.Expect) {
			find(field+".selector", e.Selector)
			if strings.HasPrefix(e.Response, "ws") {
				fail(field+".response", errors.New("only a browser opens WebSockets — fix: wait for the response of a request, or use driver: browser"))
			}
		}
		switch {
		case st.Fill != nil:
			find("fill.selector", st.Fill.Selector)
		case st.Click != "":
			find("click", st.Click)
		case st.Press != nil:
			find("press.selector", st.Press.Selector)
			if st.Press.Key != "Enter" {
				fail("press.key", errors.New("without a browser only Enter does something — fix: drop the step, or use driver: browser"))
			}
		case st.Select != nil:
			find("select.selector", st.Select.Selector)
		case st.Expect != nil:
			condition("expect", *st.Expect)
		case st.Acknowledged != nil:
			condition("acknowledged", st.Acknowledged.Expect)
		case st.Rejected != nil:
			condition("rejected", *st.Rejected)
		case st.Read != nil:
			find("read.selector", st.Read.Selector)
			if st.Read.Ready != nil {
				condition("read.ready", *st.Read.Ready)
			}
			if m := st.Read.More; m != nil {
				find("read.more.click", m.Click)
				if m.Scroll != "" {
					fail("read.more.scroll", errors.New("only a browser scrolls — fix: read by request and json, or use driver: browser"))
				}
			}
		}
	})
	return errs
}
