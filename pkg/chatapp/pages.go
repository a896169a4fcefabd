package chatapp

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"go.uber.org/zap"
)

type loginView struct{ User, Alert string }

// chatView is what chat.html shows.
type chatView struct {
	User      string
	Exchanges []shownExchange
	Older     string // the address of the page with the older messages
	Alert     string
	Notice    string
	Draft     string // what the user wrote and could not send
	LocalEcho bool
}

// shownExchange is an exchange as the page has it.
type shownExchange struct {
	ID, User, Assistant string
}

// shown turns stored exchanges into what the page shows.
func (h *handler) shown(exchanges []exchange) []shownExchange {
	views := make([]shownExchange, len(exchanges))
	for i, e := range exchanges {
		views[i] = shownExchange{ID: e.ID, User: e.Text, Assistant: e.Answer}
		if h.cfg.Bugs[UIField] {
			views[i].User = "" // the history has "text", the page reads "content"
		}
	}
	return views
}

func (h *handler) render(w http.ResponseWriter, status int, page string, view any) {
	var out bytes.Buffer
	if err := h.pages.ExecuteTemplate(&out, page, view); err != nil {
		h.log.Error("page not rendered", zap.String("page", page), zap.Error(err))
		http.Error(w, "The page could not be made.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if _, err := out.WriteTo(w); err != nil {
		h.log.Warn("response broke off", zap.Error(err))
	}
}

func (h *handler) chatPage(w http.ResponseWriter, r *http.Request, user string) {
	var notice string
	if cookie, err := r.Cookie(noticeCookie); err == nil {
		notice = noticeForgotten
		http.SetCookie(w, &http.Cookie{Name: cookie.Name, Path: "/", HttpOnly: true, MaxAge: -1})
	}
	h.renderChat(w, r, http.StatusOK, chatView{User: user, Notice: notice}, nil)
}

// renderChat shows the history that ends at ?before=, then the exchange that the request itself was.
func (h *handler) renderChat(w http.ResponseWriter, r *http.Request, status int, view chatView, fresh *exchange) {
	history, older, err := h.chat.history(r.Context(), view.User, r.URL.Query().Get("before"))
	if err != nil {
		if status < http.StatusBadRequest && fresh == nil {
			status, view.Alert = h.failed(r, err)
		} else {
			h.failed(r, err) // the request's own outcome comes first
		}
	}
	for _, e := range history {
		if fresh == nil || e.ID != fresh.ID {
			view.Exchanges = append(view.Exchanges, h.shown([]exchange{e})...)
		}
	}
	if fresh != nil {
		view.Exchanges = append(view.Exchanges, shownExchange{fresh.ID, fresh.Text, fresh.Answer})
	}
	view.Older = addressed("/chat", older, nil)
	view.LocalEcho = h.cfg.Bugs[LocalEcho]
	h.render(w, status, "chat.html", view)
}

// say answers with a page, with JSON, or (application/x-ndjson) with the answer in pieces as they come, then a line
// {"done":true}.
func (h *handler) say(w http.ResponseWriter, r *http.Request, user string) {
	in, err := input(r)
	// A browser sends the line ends of a form as CRLF (WHATWG HTML, "constructing the entry list").
	text := strings.ToValidUTF8(strings.ReplaceAll(in["message"], "\r\n", "\n"), "\uFFFD")
	if err == nil && strings.TrimSpace(text) == "" {
		err = errEmpty
	} else if err == nil && strings.ContainsRune(text, 0) { // which PostgreSQL refuses, and JSON in Redis does not
		err = errNUL
	}
	var e exchange
	if err == nil {
		e, err = h.chat.say(r.Context(), user, text)
	}
	switch {
	case err != nil && wantsJSON(r):
		h.jsonError(w, r, err)
	case err != nil:
		status, alert := h.failed(r, err)
		h.renderChat(w, r, status, chatView{User: user, Alert: alert, Draft: text}, nil)
	case strings.Contains(r.Header.Get("Accept"), "application/x-ndjson"):
		h.stream(w, e)
	case wantsJSON(r):
		h.json(w, http.StatusOK, map[string]string{"id": e.ID, "text": e.Text, "answer": e.Answer})
	default:
		h.renderChat(w, r, http.StatusOK, chatView{User: user}, &e)
	}
}

// pieceBytes is about how much of an answer one piece of the stream holds.
const pieceBytes = 64

func (h *handler) stream(w http.ResponseWriter, e exchange) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	lines := []any{}
	for rest := e.Answer; rest != ""; {
		n := len(rest)
		if space := strings.IndexByte(rest[min(pieceBytes, n):], ' '); space >= 0 {
			n = pieceBytes + space
		}
		lines = append(lines, map[string]string{"answer": rest[:n]})
		rest = rest[n:]
	}
	lines = append(lines, map[string]any{"done": true, "id": e.ID})
	out, control := json.NewEncoder(w), http.NewResponseController(w)
	for _, line := range lines {
		err := out.Encode(line)
		if err == nil {
			err = control.Flush()
		}
		if err != nil {
			h.log.Warn("response broke off", zap.Error(err))
			return
		}
	}
}

const noticeForgotten = "Forgotten."

// forget deletes one message (field id) or, with the field all, every one of the user's.
func (h *handler) forget(w http.ResponseWriter, r *http.Request, user string) {
	in, err := input(r)
	if err == nil && in["id"] == "" && in["all"] == "" {
		err = errNothing
	}
	var gone []string
	if err == nil {
		gone, err = h.chat.forget(r.Context(), Query{User: user, ID: in["id"]})
	}
	if err == nil && in["id"] != "" && len(gone) == 0 {
		err = errNothing
	}
	switch {
	case err != nil && wantsJSON(r):
		h.jsonError(w, r, err)
	case err != nil:
		status, alert := h.failed(r, err)
		h.renderChat(w, r, status, chatView{User: user, Alert: alert}, nil)
	case wantsJSON(r):
		h.json(w, http.StatusOK, map[string]any{"forgotten": gone, "notice": noticeForgotten})
	default:
		http.SetCookie(w, &http.Cookie{Name: noticeCookie, Value: "forgotten", Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode})
		http.Redirect(w, r, "/chat", http.StatusSeeOther)
	}
}

// item is one message in the JSON of the history.
type item struct {
	ID   string `json:"id"`
	Role string `json:"role"`
	Text string `json:"text"`
}

func (h *handler) history(w http.ResponseWriter, r *http.Request, user string) {
	exchanges, older, err := h.chat.history(r.Context(), user, r.URL.Query().Get("before"))
	if err != nil {
		h.jsonError(w, r, err)
		return
	}
	items := make([]item, 0, 2*len(exchanges))
	for _, e := range exchanges {
		items = append(items, item{e.ID, "user", e.Text}, item{e.ID, "assistant", e.Answer})
	}
	h.json(w, http.StatusOK, map[string]any{"items": items, "next": addressed("/api/history", older, nil)})
}

// vectorPage is how many records one page of /debug/vectors holds.
const vectorPage = 200

var errNoVectors = &failure{status: http.StatusNotFound, text: "The vector memory is no home of memories. Add vectors to CHATAPP_HOMES."}

func (h *handler) findVectors(r *http.Request, limit int) ([]Memory, error) {
	if h.chat.vectors == nil {
		return nil, errNoVectors
	}
	q := r.URL.Query()
	return h.chat.vectors.Find(r.Context(), Query{User: q.Get("user"), Before: q.Get("before"), Limit: limit})
}

func (h *handler) vectorCount(w http.ResponseWriter, r *http.Request) {
	ms, err := h.findVectors(r, 0)
	if err != nil {
		h.jsonError(w, r, err)
		return
	}
	h.json(w, http.StatusOK, map[string]int{"count": len(ms)})
}

func (h *handler) vectorList(w http.ResponseWriter, r *http.Request) {
	ms, err := h.findVectors(r, vectorPage+1)
	if err != nil {
		h.jsonError(w, r, err)
		return
	}
	more := url.Values{}
	if user := r.URL.Query().Get("user"); user != "" {
		more.Set("user", user)
	}
	var next string
	if len(ms) > vectorPage {
		ms = ms[:vectorPage]
		next = addressed("/debug/vectors", ms[vectorPage-1].ID, more)
	}
	type record struct {
		ID   string `json:"id"`
		User string `json:"user"`
		Text string `json:"text"`
	}
	items := make([]record, len(ms))
	for i, m := range ms {
		items[i] = record{m.ID, m.User, m.Text}
	}
	h.json(w, http.StatusOK, map[string]any{"items": items, "next": next})
}
