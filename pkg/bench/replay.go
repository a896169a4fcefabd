package bench

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// sent is one request of a user to the sample application.
type sent struct {
	At     time.Duration // since the first
	User   string        // empty: nobody yet, or no more
	Method string
	URI    string
	Header http.Header // without the cookies, which each session is given anew
	Body   []byte
}

// recorder notes requests, in the order in which they come, and whose they are.
type recorder struct {
	mu    sync.Mutex
	began time.Time
	all   []*sent
	of    map[string]string // user, by the value of the session's cookie
	alone []*sent           // requests of nobody: the next to sign in has sent the first
}

const cookiePath = "/login"

// record notes every request before next has it.
func (rec *recorder) record(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		s := &sent{Method: r.Method, URI: r.URL.RequestURI(), Header: r.Header.Clone(), Body: body}
		s.Header.Del("Cookie")
		rec.note(s, r.Cookies())
		next.ServeHTTP(w, r)
		if s.signsIn() {
			rec.signedIn(s.User, (&http.Response{Header: w.Header()}).Cookies())
		}
	})
}

func (s *sent) signsIn() bool { return s.Method == http.MethodPost && s.URI == cookiePath }

func (rec *recorder) note(s *sent, cookies []*http.Cookie) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if rec.all == nil {
		rec.began, rec.of = time.Now(), map[string]string{}
	}
	s.At = time.Since(rec.began)
	rec.all = append(rec.all, s)
	for _, c := range cookies {
		s.User = cmp.Or(s.User, rec.of[c.Value])
	}
	switch form, err := url.ParseQuery(string(s.Body)); {
	case s.signsIn() && err == nil:
		s.User = form.Get("username")
		if len(rec.alone) > 0 {
			rec.alone[0].User = s.User
			rec.alone = rec.alone[1:]
		}
	case s.User == "":
		rec.alone = append(rec.alone, s)
	}
}

func (rec *recorder) signedIn(user string, cookies []*http.Cookie) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	for _, c := range cookies {
		rec.of[c.Value] = user
	}
}

// tape gives what was sent.
func (rec *recorder) tape() []sent {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	all := make([]sent, len(rec.all))
	for i, s := range rec.all {
		all[i] = *s
	}
	return all
}

// replayed reads a tape, sends its requests to base, each at its time but one user's one after the other, and gives what
// that used of the processors.
func replayed(ctx context.Context, in io.Reader, base string) (used time.Duration, err error) {
	var tape []sent
	if err := json.NewDecoder(in).Decode(&tape); err != nil {
		return 0, fmt.Errorf("reading the tape: %w", err)
	}
	users := map[string][]sent{}
	for i, s := range tape {
		who := s.User
		if who == "" {
			who = fmt.Sprint("nobody ", i)
		}
		users[who] = append(users[who], s)
	}
	tape = nil
	const connections = 1024 // as many as the daemon keeps
	transport := &http.Transport{MaxIdleConnsPerHost: connections}
	defer transport.CloseIdleConnections()
	runtime.GC()
	before, _ := cpuTime(os.Getpid())
	start := time.Now()
	together, ctx := errgroup.WithContext(ctx)
	for _, all := range users {
		together.Go(func() error { return playBack(ctx, transport, start, base, all) })
	}
	err = together.Wait()
	after, _ := cpuTime(os.Getpid())
	return after - before, err
}

// playBack sends one user's requests.
func playBack(ctx context.Context, transport *http.Transport, start time.Time, base string, all []sent) error {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	client := http.Client{Transport: transport, Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	slices.SortStableFunc(all, func(a, b sent) int { return cmp.Compare(a.At, b.At) })
	for _, s := range all {
		select {
		case <-time.After(time.Until(start.Add(s.At))):
		case <-ctx.Done():
			return ctx.Err()
		}
		req, err := http.NewRequestWithContext(ctx, s.Method, base+s.URI, bytes.NewReader(s.Body))
		if err != nil {
			return err
		}
		req.Header = s.Header
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if err == nil && resp.StatusCode >= http.StatusBadRequest {
			err = fmt.Errorf("%s %s: %s", s.Method, s.URI, resp.Status)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
