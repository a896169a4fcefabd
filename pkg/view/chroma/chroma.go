// Package chroma is two views of a collection of Chroma: Get, the records as they are kept, and Query, what a search by
// meaning finds of them. The two can differ: Chroma keeps its vector index apart from its records.
//
// Both only read: collections, get and query. They compute no embedding; Query searches with the ones that get gives.
// They know nothing of the app's metadata but in which field the user is.
package chroma

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	api "github.com/amikos-tech/chroma-go/pkg/api/v2"
	chhttp "github.com/amikos-tech/chroma-go/pkg/commons/http"
	"github.com/amikos-tech/chroma-go/pkg/embeddings"

	"amnesia/pkg/memory"
	"amnesia/pkg/view"
)

// Config says what to read.
type Config struct {
	Name       string
	URL        string // of the server, such as http://127.0.0.1:8000
	Tenant     string // default default_tenant
	Database   string // default default_database
	Collection string
	// User is the field of a record's metadata that names its user.
	User string
	// Headers go with every request, and may be secret: Authorization, X-Chroma-Token.
	Headers map[string]string
	Match   view.Match
	// Query searches by meaning instead of listing what is there.
	Query   bool
	Timeout time.Duration // of one request; default 30s
	Page    int           // records of one request; default 5,000, with their embeddings 200
	Clock   memory.Clock
}

// View is the view of one collection.
type View struct {
	cfg       Config
	transport *http.Transport
	client    api.Client
}

// New makes the view, or says what is wrong with its settings; the server is first asked by Find.
func New(cfg Config) (*View, error) {
	var errs []error
	if u, err := url.Parse(cfg.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		errs = append(errs, errors.New("url: it is no address of a server — fix: give one such as http://127.0.0.1:8000"))
	}
	for key, value := range map[string]string{"collection": cfg.Collection, "match.user": cfg.User} {
		if value == "" {
			errs = append(errs, fmt.Errorf("%s: missing — fix: add it", key))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if cfg.Tenant == "" {
		cfg.Tenant = api.DefaultTenant
	}
	if cfg.Database == "" {
		cfg.Database = api.DefaultDatabase
	}
	cfg.Headers = maps.Clone(cfg.Headers)
	if cfg.Headers == nil {
		cfg.Headers = map[string]string{}
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 30 * time.Second
	}
	if cfg.Page < 2 { // one of each page but the first was read before
		cfg.Page = 5000 // a request costs as much as some hundred records
		if cfg.Query {
			cfg.Page = 200 // embeddings are long
		}
	}
	v := &View{cfg: cfg, transport: &http.Transport{DialContext: (&net.Dialer{Timeout: cfg.Timeout}).DialContext, MaxIdleConnsPerHost: parallel}}
	// The library changes the default client of the whole program, even when it is given another.
	defer func(was http.RoundTripper) { http.DefaultClient.Transport = was }(http.DefaultClient.Transport)
	var err error
	v.client, err = api.NewHTTPClient(
		api.WithBaseURL(cfg.URL),
		api.WithDatabaseAndTenant(cfg.Database, cfg.Tenant),
		api.WithDefaultHeaders(cfg.Headers),
		api.WithHTTPClient(&http.Client{
			Transport: v.transport,
			// The headers may hold secrets, and what answers elsewhere is not what the view is about.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}))
	if err != nil {
		return nil, fmt.Errorf("make a client of Chroma at %s: %w", cfg.URL, err)
	}
	return v, nil
}

// Name is the name in the configuration.
func (v *View) Name() string { return v.cfg.Name }

// Close ends the view.
func (v *View) Close() error { return v.client.Close() }

const (
	// together is how many users one get asks for, and parallel how many such are on their way at once.
	together = 50
	parallel = 2
)

// Find reads through connections of its own: older ones could be those of a process that has been replaced since.
func (v *View) Find(ctx context.Context, ms []memory.Memory) ([]memory.Observation, error) {
	defer v.transport.CloseIdleConnections()
	s := &sweep{View: v}
	m := view.NewMatcher(ms, view.Options{View: v.cfg.Name, Clock: v.cfg.Clock, Match: v.cfg.Match, Rig: isRig})
	size := together
	if v.cfg.Query {
		size = 1
	}
	m.Batches(ctx, parallel, size, s.read)
	s.instead(ctx)
	return m.Observations(ctx), nil
}

// request gives a request its time.
func (v *View) request(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, v.cfg.Timeout, fmt.Errorf("no whole response within %s", v.cfg.Timeout))
}

// collection finds the collection, and says of one that is not there which ones are.
func (s *sweep) collection(ctx context.Context) (api.Collection, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.found != nil {
		return s.found, nil
	}
	ctx, cancel := s.request(ctx)
	defer cancel()
	// Without a function of ours the client would get the one that the collection names: a model to download.
	found, err := s.client.GetCollection(ctx, s.cfg.Collection, api.WithEmbeddingFunctionGet(embeddings.NewConsistentHashEmbeddingFunction()))
	if status(err) == http.StatusNotFound {
		return nil, s.explain(ctx, fmt.Errorf("there is no collection %s%s: %w", s.cfg.Collection, s.collections(ctx), err))
	}
	if err == nil && (found.ID() == "" || found.Name() != s.cfg.Collection) {
		err = &contentError{"the response is about no collection"}
	}
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	s.found = found
	return found, nil
}

// collections names some of those that there are; empty when that cannot be asked.
func (s *sweep) collections(ctx context.Context) string {
	const most = 10
	all, err := s.client.ListCollections(ctx, api.ListWithLimit(most))
	if err != nil {
		return ""
	}
	names := make([]string, len(all))
	for i, c := range all {
		names[i] = c.Name()
	}
	slices.Sort(names)
	return fmt.Sprintf(" in the database %s of the tenant %s, which has: %s", s.cfg.Database, s.cfg.Tenant, strings.Join(names, ", "))
}

// explain says what was being done, and what to do where that is known.
func (s *sweep) explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	fix := ""
	switch status(err) {
	case http.StatusNotFound:
		fix = " — fix: check the view's collection, database and tenant"
	case http.StatusUnauthorized, http.StatusForbidden:
		fix = " — fix: give the view the headers that the server wants, such as Authorization or X-Chroma-Token"
	}
	return fmt.Errorf("read Chroma at %s: %w%s", s.cfg.URL, err, fix)
}

// status is the HTTP status of an error; 0 where there was no response.
func status(err error) int {
	var e *chhttp.ChromaError
	if errors.As(err, &e) {
		return e.ErrorCode
	}
	return 0
}

// contentError is a response that cannot be what the view is about, or a collection that did not hold still.
type contentError struct{ what string }

func (e *contentError) Error() string { return e.what }

// isRig: no whole response, or one that refuses the probe and not the user.
func isRig(err error) bool {
	var content *contentError
	switch status(err) {
	case 0, http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		return !errors.As(err, &content)
	}
	return false
}
