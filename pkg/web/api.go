package web

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"

	"amnesia/chaos"
	"amnesia/pkg/fact"
	"amnesia/pkg/report"
	"amnesia/pkg/terminal"
)

// TokenHeader carries the token of whoever acts. It is a header of its own, so that Authorization stays free for the basic
// auth of web.config_file; and no page of another site can send it.
const TokenHeader = "X-Amnesia-Token"

// maxBody bounds what a request may say, in bytes.
const maxBody = 4 << 10

// openAPI describes what is under /api/v1.
//
//go:embed openapi.yaml
var openAPI []byte

// Daemon is what the API shows and moves. Its errors are shown to whoever asked.
type Daemon interface {
	Status(ctx context.Context) (Status, error)
	// Pause holds back every fault, over restarts of the daemon too, until Resume, which also ends a halt.
	Pause(ctx context.Context, reason string) error
	Resume(ctx context.Context) error
	// Inject has the next cycle draw its fault among the declared ones that match. What is known to be refused gives a
	// *chaos.Refusal; the guard decides once more when it fires.
	Inject(ctx context.Context, a Ask) error
}

// Status is what the daemon is doing.
type Status struct {
	Version string         `json:"version"`
	Run     string         `json:"run"`
	Target  string         `json:"target"`
	Armed   bool           `json:"armed"`             // false: faults are only announced
	Held    []Held         `json:"held,omitempty"`    // why faults are held back; none: they are not
	Next    time.Time      `json:"next_fault"`        // the earliest time at which pace and hours allow one
	Cycle   *Cycle         `json:"cycle,omitempty"`   // the last one that began; nil: none yet
	Asked   *Ask           `json:"asked,omitempty"`   // for the next cycle
	ToRead  int            `json:"to_read,omitempty"` // of the unverified: those that had another verdict, and are to be read again in this cycle
	Summary report.Summary `json:"summary"`           // of the whole ledger, as it stands
}

// Held is a reason for which faults are held back.
type Held struct {
	Reason chaos.Reason `json:"reason"` // paused, halted or ledger
	Why    string       `json:"why"`    // in words
}

// Cycle is where the daemon is in a cycle.
type Cycle struct {
	N       int        `json:"n"`
	Control bool       `json:"control"`
	Phase   fact.Phase `json:"phase"`
	Since   time.Time  `json:"since"` // of the phase
}

// Ask is a fault that a person asks for, out of those that the configuration declares.
type Ask struct {
	Kind    string `json:"kind"`
	Service string `json:"service,omitempty"` // empty: crash_all's
}

// pauseRequest is the body of a pause; it may be left out.
type pauseRequest struct {
	Reason string `json:"reason"`
}

// problem is the body of every answer that is no success.
type problem struct {
	Error  string       `json:"error"`
	Reason chaos.Reason `json:"reason,omitempty"` // of a refused fault
}

// route is one thing that the API does. What acts needs the token.
type route struct {
	method, path string
	acts         bool
	serve        http.HandlerFunc
}

func (s *Server) routes() []route {
	all := []route{
		{"GET", "/api/v1/openapi.yaml", false, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/yaml")
			_, _ = w.Write(openAPI)
		}},
		{"GET", "/api/v1/status", false, func(w http.ResponseWriter, r *http.Request) { s.status(w, r, http.StatusOK) }},
		{"POST", "/api/v1/pause", true, s.pause},
		{"POST", "/api/v1/resume", true, s.resume},
		{"POST", "/api/v1/inject", true, s.inject},
	}
	if s.cfg.Books != nil {
		all = append(all, s.reading()...)
	}
	return all
}

func (s *Server) status(w http.ResponseWriter, r *http.Request, code int) {
	st, err := s.cfg.Daemon.Status(r.Context())
	if err != nil {
		s.fail(w, http.StatusInternalServerError, err)
		return
	}
	answer(w, code, st)
}

func (s *Server) pause(w http.ResponseWriter, r *http.Request) {
	var p pauseRequest
	if !s.read(w, r, &p, `{"reason": "a release"}`) {
		return
	}
	s.did(w, r, http.StatusOK, s.cfg.Daemon.Pause(r.Context(), p.Reason))
}

func (s *Server) resume(w http.ResponseWriter, r *http.Request) {
	if s.read(w, r, &struct{}{}, "{}, or nothing") {
		s.did(w, r, http.StatusOK, s.cfg.Daemon.Resume(r.Context()))
	}
}

func (s *Server) inject(w http.ResponseWriter, r *http.Request) {
	var a Ask
	if !s.read(w, r, &a, `{"kind": "kill", "service": "app"}`) {
		return
	}
	s.did(w, r, http.StatusAccepted, s.cfg.Daemon.Inject(r.Context(), a))
}

// did answers what came of an act: the status as it is now, or why not.
func (s *Server) did(w http.ResponseWriter, r *http.Request, code int, err error) {
	refusal, refused := errors.AsType[*chaos.Refusal](err)
	s.log.Info("asked to act", zap.String("path", r.URL.Path), zap.String("by", r.RemoteAddr), zap.Error(err))
	switch {
	case refused:
		answer(w, http.StatusConflict, problem{Error: err.Error(), Reason: refusal.Reason})
	case err != nil:
		s.fail(w, http.StatusInternalServerError, err)
	default:
		s.status(w, r, code)
	}
}

// read reads a JSON body such as the example, which may be empty; it answers itself, and gives false, where that is none.
func (s *Server) read(w http.ResponseWriter, r *http.Request, into any, example string) bool {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if errors.Is(err, io.EOF) {
		return true
	}
	if err != nil {
		err = fmt.Errorf("%s — fix: send %s", wrongBody(err), example)
	}
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
		err = fmt.Errorf("the content type is %q — fix: application/json", kind)
	}
	if err == nil && d.More() {
		err = fmt.Errorf("it is more than one JSON value — fix: send %s", example)
	}
	if err != nil {
		s.fail(w, http.StatusBadRequest, fmt.Errorf("reading the request: %w", err))
		return false
	}
	return true
}

// wrongBody says what is wrong with a body, for whoever sent it.
func wrongBody(err error) string {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if wrong.Field == "" {
			return fmt.Sprintf("it is a JSON %s and no object", wrong.Value)
		}
		return fmt.Sprintf("%q is a JSON %s and no string", wrong.Field, wrong.Value)
	}
	if long, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return fmt.Sprintf("it is longer than %d bytes", long.Limit)
	}
	if field, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown { // it has no type of its own
		return field + " is not asked for here"
	}
	return "it is no JSON"
}

// known asks for the token of whoever acts, and of whoever reads where reading is not open.
func (s *Server) known(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		if rt.acts && !s.isToken(r.Header.Get(TokenHeader)) || !s.mayRead(r) {
			s.fail(w, http.StatusUnauthorized, errors.New("this needs the daemon's token — fix: send it in the header "+TokenHeader+
				"; it is the configuration's, or in the file beside the ledger that ends with .token"))
			return
		}
		rt.serve(w, r)
	})
}

// mayRead reports whether reading is open, or the token is given: in its header, or as the password of basic auth, for which
// a browser asks a person.
func (s *Server) mayRead(r *http.Request) bool { return s.openToRead || s.hasToken(r) }

func (s *Server) hasToken(r *http.Request) bool {
	_, password, _ := r.BasicAuth()
	return s.isToken(r.Header.Get(TokenHeader)) || s.isToken(password)
}

// isToken compares in constant time, whatever the length.
func (s *Server) isToken(given string) bool {
	want, got := sha256.Sum256([]byte(s.cfg.Token)), sha256.Sum256([]byte(given))
	return s.cfg.Token != "" && subtle.ConstantTimeCompare(want[:], got[:]) == 1
}

func (s *Server) fail(w http.ResponseWriter, code int, err error) {
	answer(w, code, problem{Error: err.Error()})
}

func answer(w http.ResponseWriter, code int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(terminal.JSON(text), '\n')) // who has gone away needs no answer
}
