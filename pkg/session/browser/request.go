package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/playwright-community/playwright-go"

	"amnesia/pkg/session"
)

// Request is sent by the Playwright driver with the context's cookies, and not by the page: no CORS, no service worker.
func (s *surface) Request(ctx context.Context, r session.Request) (session.Response, error) {
	method := r.Method
	headers := make(map[string]string, len(r.Headers)+1)
	for name, value := range r.Headers {
		headers[http.CanonicalHeaderKey(name)] = value
	}
	var body []byte
	switch {
	case r.JSON != nil:
		b, err := json.Marshal(r.JSON)
		if err != nil {
			return session.Response{}, &session.RigError{Err: fmt.Errorf("request %s: %w", r.Path, err)}
		}
		body = b
		setDefault(headers, "Content-Type", "application/json")
	case r.Form != nil:
		form := url.Values{}
		for name, value := range r.Form {
			form.Set(name, value)
		}
		body = []byte(form.Encode())
		setDefault(headers, "Content-Type", "application/x-www-form-urlencoded")
	}
	if method == "" {
		method = http.MethodGet
		if body != nil {
			method = http.MethodPost
		}
	}
	doing := "request " + method + " " + r.Path
	var response session.Response
	err := s.act(ctx, doing, func(timeout *float64) error {
		options := playwright.APIRequestContextFetchOptions{Method: &method, Headers: headers, Timeout: timeout}
		if body != nil {
			options.Data = body
		}
		reply, err := s.context.Request().Fetch(r.Path, options)
		if err != nil {
			return err
		}
		defer func() { _ = reply.Dispose() }() // only frees memory of the driver's
		content, err := reply.Body()
		if err != nil {
			return err
		}
		header := http.Header{}
		for _, h := range reply.HeadersArray() {
			header.Add(h.Name, h.Value)
		}
		response = session.Response{URL: reply.URL(), Status: reply.Status(), Header: header, Body: content}
		return nil
	})
	if err != nil {
		return session.Response{}, err
	}
	s.last, s.asked = response, r.Headers
	s.net.add(&exchange{
		url: response.URL, method: method, kind: kindScript, status: response.Status, began: s.acted, ended: true,
		retryAfter: retryAfter(map[string]string{"retry-after": response.Header.Get("Retry-After")}),
		body:       response.Body, haveBody: true,
	})
	return response, nil
}

func setDefault(headers map[string]string, name, value string) {
	for have := range headers {
		if strings.EqualFold(have, name) {
			return
		}
	}
	headers[name] = value
}
