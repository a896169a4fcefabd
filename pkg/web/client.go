package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// clientTimeout bounds a request to the daemon: a pause waits for the ledger's disk.
const clientTimeout = 30 * time.Second

// Client talks to a running daemon.
type Client struct {
	Address string // host:port, or an http:// or https:// address
	Token   string
}

// Status asks what the daemon is doing.
func (c Client) Status(ctx context.Context) (Status, error) { return c.do(ctx, "GET", "status", nil) }

// Pause holds back every fault until Resume.
func (c Client) Pause(ctx context.Context, reason string) (Status, error) {
	return c.do(ctx, "POST", "pause", pauseRequest{reason})
}

// Resume ends a pause and a halt.
func (c Client) Resume(ctx context.Context) (Status, error) {
	return c.do(ctx, "POST", "resume", struct{}{})
}

// Inject asks for a fault in the next cycle.
func (c Client) Inject(ctx context.Context, a Ask) (Status, error) {
	return c.do(ctx, "POST", "inject", a)
}

func (c Client) do(ctx context.Context, method, what string, body any) (st Status, err error) {
	ctx, cancel := context.WithTimeout(ctx, clientTimeout)
	defer cancel()
	base := c.Address
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return st, fmt.Errorf("writing the request: %w", err)
		}
		sent = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(base, "/")+"/api/v1/"+what, sent)
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // u quotes the address, which may hold a password
	}
	if err != nil {
		return st, fmt.Errorf("the daemon's address: %w — fix: write host:port, or https://host:port", err)
	}
	at := (&url.URL{Scheme: req.URL.Scheme, Host: req.URL.Host}).String() // without a password
	req.Header.Set("Content-Type", "application/json")
	if c.Token != "" {
		req.Header.Set(TokenHeader, c.Token)
	}
	// The token goes to the daemon and nowhere else.
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return st, fmt.Errorf("asking the daemon at %s: %w — fix: start it with 'amnesia run', or give its --address, or AMNESIA_ADDRESS", at, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return st, fmt.Errorf("reading what the daemon at %s says: %w", at, err)
	}
	if resp.StatusCode >= 300 {
		var p problem
		if json.Unmarshal(text, &p) != nil || p.Error == "" {
			p.Error = resp.Status
		} else if resp.StatusCode == http.StatusUnauthorized { // the API speaks to programs
			p.Error = "this needs the daemon's token — fix: set AMNESIA_TOKEN to it, or --ledger to the daemon's ledger, which it lies beside"
		}
		return st, fmt.Errorf("the daemon at %s: %s", at, p.Error)
	}
	if err := json.Unmarshal(text, &st); err != nil {
		return st, fmt.Errorf("reading what the daemon at %s says: %w — fix: is it an Amnesia of this version?", at, err)
	}
	return st, nil
}
