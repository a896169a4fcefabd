package chatapp

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"html/template"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"go.uber.org/zap"
)

// The pages work without JavaScript; app.js makes them smoother. Scripts that play users rely on the ids and classes in
// them.
//
//go:embed assets
var assets embed.FS

const (
	sessionCookie = "session"
	noticeCookie  = "notice" // what the next page says once
	maxBody       = 256 << 10
	maxName       = 100 // characters
	nobody        = " " // no user: names are trimmed
)

// handler serves the pages and their JSON twins.
type handler struct {
	cfg      Config
	log      *zap.Logger
	chat     *chat
	accounts *accounts
	pages    *template.Template
}

// openPages makes the templates ready for use: html/template looks through one when it is first executed, which would
// be while the first user waits.
func openPages() (*template.Template, error) {
	pages, err := template.ParseFS(assets, "assets/*.html")
	if err != nil {
		return nil, err
	}
	return pages, errors.Join(pages.ExecuteTemplate(io.Discard, "login.html", loginView{}), pages.ExecuteTemplate(io.Discard, "chat.html", chatView{}))
}

func newHandler(ctx context.Context, cfg Config, c *chat, pages *template.Template) (http.Handler, error) {
	accounts, err := openAccounts(ctx, c.database, cfg.Now)
	if err != nil {
		return nil, err
	}
	h := &handler{cfg: cfg, log: cfg.Log, chat: c, accounts: accounts, pages: pages}
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", http.RedirectHandler("/chat", http.StatusSeeOther))
	mux.Handle("GET /assets/", http.FileServerFS(assets))
	mux.HandleFunc("GET /login", h.loginPage)
	mux.HandleFunc("POST /login", h.login)
	mux.HandleFunc("POST /api/login", h.login)
	mux.HandleFunc("POST /logout", h.logout)
	mux.HandleFunc("GET /chat", h.signedIn(h.chatPage))
	mux.HandleFunc("POST /api/chat", h.signedIn(h.say))
	mux.HandleFunc("POST /api/forget", h.signedIn(h.forget))
	mux.HandleFunc("GET /api/history", h.signedIn(h.history))
	mux.HandleFunc("GET /healthz", h.health)
	mux.HandleFunc("GET /debug/vector-count", h.vectorCount)
	mux.HandleFunc("GET /debug/vectors", h.vectorList)
	return http.NewCrossOriginProtection().Handler(secured(mux)), nil
}

// secured bounds the body and lets a page load nothing but its own assets, whatever users have written into it.
func secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// failure is an error that the user is told, with its status.
type failure struct {
	status int
	text   string
	cause  error // for the log
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.cause }

var (
	errSignIn  = &failure{status: http.StatusUnauthorized, text: "Please sign in."}
	errEmpty   = &failure{status: http.StatusBadRequest, text: "The message is empty. Write something first."}
	errNUL     = &failure{status: http.StatusBadRequest, text: "The message holds a NUL character, which cannot be kept."}
	errNothing = &failure{status: http.StatusNotFound, text: "There is no such message."}
)

// failed gives the status and the sentence for the user, and logs what he is not told.
func (h *handler) failed(r *http.Request, err error) (int, string) {
	var f *failure
	if errors.As(err, &f) {
		return f.status, f.text
	}
	h.log.Error("request failed", zap.String("path", r.URL.Path), zap.Error(err))
	return http.StatusServiceUnavailable, "Sorry, that did not work. Nothing was changed; please try again."
}

// signedIn passes the user on, or sends a stranger to the login.
func (h *handler) signedIn(next func(w http.ResponseWriter, r *http.Request, user string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if cookie, err := r.Cookie(sessionCookie); err == nil {
			if user, ok := h.accounts.user(cookie.Value); ok {
				next(w, r, user)
				return
			}
		}
		if wantsJSON(r) || strings.HasPrefix(r.URL.Path, "/api/history") {
			h.jsonError(w, r, errSignIn)
			return
		}
		http.Redirect(w, r, "/login", http.StatusSeeOther)
	}
}

func (h *handler) loginPage(w http.ResponseWriter, r *http.Request) {
	h.render(w, http.StatusOK, "login.html", loginView{})
}

func (h *handler) login(w http.ResponseWriter, r *http.Request) {
	in, err := input(r)
	name, password := strings.TrimSpace(in["username"]), in["password"]
	switch {
	case err != nil:
	case name == "" || password == "" || utf8.RuneCountInString(name) > maxName:
		err = &failure{status: http.StatusBadRequest, text: "Give a name of up to 100 characters and a password."}
	default:
		if err = h.accounts.signIn(r.Context(), name, password); errors.Is(err, errWrongPassword) {
			err = &failure{http.StatusUnauthorized, "Wrong password for this name.", err}
		}
	}
	api := wantsJSON(r) || r.URL.Path == "/api/login"
	switch {
	case err != nil && api:
		h.jsonError(w, r, err)
	case err != nil:
		status, text := h.failed(r, err)
		h.render(w, status, "login.html", loginView{User: name, Alert: text})
	default:
		http.SetCookie(w, &http.Cookie{Name: sessionCookie, Value: h.accounts.token(name), Path: "/", HttpOnly: true,
			SameSite: http.SameSiteLaxMode, MaxAge: int(sessionLife.Seconds())})
		if api {
			h.json(w, http.StatusOK, map[string]string{"user": name})
			return
		}
		http.Redirect(w, r, "/chat", http.StatusSeeOther)
	}
}

func (h *handler) logout(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, &http.Cookie{Name: sessionCookie, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, MaxAge: -1})
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

func (h *handler) health(w http.ResponseWriter, r *http.Request) {
	needed := h.chat.homes
	if h.chat.inbox != nil {
		needed = append(slices.Clone(needed), h.chat.cache)
	}
	for _, home := range needed {
		if _, err := home.Find(r.Context(), Query{User: nobody, ID: "none"}); err != nil {
			h.jsonError(w, r, err)
			return
		}
	}
	h.json(w, http.StatusOK, map[string]string{"status": "ok"})
}

// wantsJSON reports whether the client asked for JSON, by what it accepts or what it sent.
func wantsJSON(r *http.Request) bool {
	accept := r.Header.Get("Accept")
	return strings.Contains(accept, "application/json") || strings.Contains(accept, "application/x-ndjson") || sentJSON(r)
}

func sentJSON(r *http.Request) bool {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return kind == "application/json"
}

// input gives the fields of a form or of a JSON object of strings.
func input(r *http.Request) (map[string]string, error) {
	fields := map[string]string{}
	if sentJSON(r) {
		if err := json.NewDecoder(r.Body).Decode(&fields); err != nil {
			return nil, unread(err)
		}
		return fields, nil
	}
	if err := r.ParseForm(); err != nil {
		return nil, unread(err)
	}
	for name := range r.PostForm {
		fields[name] = r.PostForm.Get(name)
	}
	return fields, nil
}

func unread(err error) error {
	var long *http.MaxBytesError
	if errors.As(err, &long) {
		return &failure{http.StatusRequestEntityTooLarge, "The message is too long. Send at most 256 KiB.", err}
	}
	return &failure{http.StatusBadRequest, "The request could not be read.", err}
}

func (h *handler) json(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		h.log.Warn("response broke off", zap.Error(err))
	}
}

func (h *handler) jsonError(w http.ResponseWriter, r *http.Request, err error) {
	status, text := h.failed(r, err)
	h.json(w, status, map[string]string{"error": text})
}

// addressed adds a cursor to a path.
func addressed(path, before string, more url.Values) string {
	if before == "" {
		return ""
	}
	if more == nil {
		more = url.Values{}
	}
	more.Set("before", before)
	return path + "?" + more.Encode()
}
