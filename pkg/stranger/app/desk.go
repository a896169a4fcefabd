package main

import (
	"crypto/hmac"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

//go:embed page.html
var page []byte

// desk is where people and their programs come.
type desk struct {
	book     *book
	gist     bool
	operator string

	mu   sync.Mutex
	kept map[string]chan struct{} // by ref, of this process: closed when people may hear that it is kept
}

func (d *desk) routes() http.Handler {
	m := http.NewServeMux()
	shell := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(page)
	}
	m.HandleFunc("GET /enter", shell)
	m.HandleFunc("GET /desk", shell)
	m.HandleFunc("GET /up", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	m.HandleFunc("POST /v1/tokens", d.enter)
	m.HandleFunc("POST /v1/notes", d.person(d.take))
	m.HandleFunc("GET /v1/notes", d.person(d.list))
	m.HandleFunc("GET /v1/notes/{ref}", d.person(d.status))
	m.HandleFunc("DELETE /v1/notes/{ref}", d.person(d.strike))
	m.HandleFunc("GET /ops/journal", d.ops(d.book.inJournal))
	m.HandleFunc("GET /ops/feed", d.ops(d.book.inFeed))
	return m
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func problem(w http.ResponseWriter, status int, title string) {
	reply(w, status, map[string]any{"title": title, "status": status})
}

func (d *desk) seal(who string) string {
	h := hmac.New(sha256.New, []byte(d.operator))
	h.Write([]byte(who))
	return hex.EncodeToString([]byte(who)) + "." + hex.EncodeToString(h.Sum(nil))
}

// enter hands out a token, which outlives the process. Every name may come in: who may is not what this app is for.
func (d *desk) enter(w http.ResponseWriter, r *http.Request) {
	var in struct{ Who, Secret string }
	if json.NewDecoder(r.Body).Decode(&in) != nil || in.Who == "" || in.Secret == "" {
		problem(w, http.StatusUnprocessableEntity, "Who are you?")
		return
	}
	reply(w, http.StatusCreated, map[string]string{"bearer": d.seal(in.Who)})
}

func (d *desk) person(next func(http.ResponseWriter, *http.Request, string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		bearer := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		name, _, _ := strings.Cut(bearer, ".")
		who, err := hex.DecodeString(name)
		if err != nil || !hmac.Equal([]byte(d.seal(string(who))), []byte(bearer)) {
			problem(w, http.StatusUnauthorized, "Your token is not ours.")
			return
		}
		next(w, r, string(who))
	}
}

// take accepts a note; whether it is kept is asked for later.
func (d *desk) take(w http.ResponseWriter, r *http.Request, who string) {
	var in struct{ Text string }
	if json.NewDecoder(r.Body).Decode(&in) != nil || in.Text == "" {
		problem(w, http.StatusUnprocessableEntity, "There is nothing in it.")
		return
	}
	n := note{Who: who, Text: in.Text}
	if d.gist {
		n.Text = gist(in.Text)
	}
	d.book.mu.Lock()
	n.Ref = d.book.newRef()
	d.book.mu.Unlock()
	d.book.witness.told(n, in.Text)
	done := make(chan struct{})
	d.mu.Lock()
	d.kept[n.Ref] = done
	third := len(d.kept)%3 == 0
	d.mu.Unlock()
	keep := func() {
		if err := d.book.keep(n); err != nil {
			panic(err)
		}
	}
	said := func() {
		d.book.witness.write("said", n.Ref)
		close(done)
	}
	switch {
	case d.book.flaws[hasty]:
		said()
		time.AfterFunc(d.book.lag, keep)
	case d.book.flaws[sorry] && third:
		said()
		time.AfterFunc(d.book.lag, func() {
			d.book.witness.write("sorry", n.Ref)
			slog.Error("there is no room for a note", "ref", n.Ref, "text", n.Text)
		})
	default:
		go func() {
			keep()
			said()
		}()
	}
	w.Header().Set("Location", "/v1/notes/"+n.Ref)
	reply(w, http.StatusAccepted, map[string]string{"ref": n.Ref, "state": "accepted"})
}

// status says what became of a note. With ?wait=5s it is patient.
func (d *desk) status(w http.ResponseWriter, r *http.Request, who string) {
	ref := r.PathValue("ref")
	patience, _ := time.ParseDuration(r.FormValue("wait"))
	d.mu.Lock()
	done := d.kept[ref]
	d.mu.Unlock()
	if done != nil {
		late := time.NewTimer(patience)
		defer late.Stop()
		select {
		case <-done:
			reply(w, http.StatusOK, map[string]string{"ref": ref, "state": "kept", "kept": "yes"})
		case <-late.C:
			reply(w, http.StatusOK, map[string]string{"ref": ref, "state": "accepted"})
		case <-r.Context().Done():
		}
		return
	}
	kept, err := d.book.inJournal(who)
	if err != nil {
		problem(w, http.StatusInternalServerError, "The journal cannot be read.")
		return
	}
	for _, n := range kept {
		if n.Ref == ref { // of a process before this one
			d.book.witness.write("said", ref)
			reply(w, http.StatusOK, map[string]string{"ref": ref, "state": "kept", "kept": "yes"})
			return
		}
	}
	problem(w, http.StatusNotFound, "There is no such note.")
}

func (d *desk) strike(w http.ResponseWriter, r *http.Request, who string) {
	switch found, err := d.book.remove(who, r.PathValue("ref")); {
	case err != nil:
		problem(w, http.StatusInternalServerError, "It could not be struck out.")
	case !found:
		problem(w, http.StatusNotFound, "There is no such note.")
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

// list gives a page of what the person sees, or of what holds a word.
func (d *desk) list(w http.ResponseWriter, r *http.Request, who string) {
	var items []map[string]any
	word := r.FormValue("find")
	ns, next := part(r, d.book.shown(who), 6)
	for _, n := range ns {
		if !strings.Contains(n.Text, word) {
			continue
		}
		if d.book.flaws[fieldMixup] && strings.Contains(n.Text, "\n") {
			items = append(items, map[string]any{"ref": n.Ref, "lines": strings.Split(n.Text, "\n")})
			continue
		}
		items = append(items, map[string]any{"ref": n.Ref, "text": n.Text})
	}
	reply(w, http.StatusOK, map[string]any{"items": items, "more": next})
}

// ops gives the operator what a place really has of somebody.
func (d *desk) ops(place func(who string) ([]note, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !hmac.Equal([]byte(r.Header.Get("X-Operator")), []byte(d.operator)) {
			problem(w, http.StatusForbidden, "You are not the operator.")
			return
		}
		all, err := place(r.FormValue("who"))
		if err != nil {
			problem(w, http.StatusInternalServerError, err.Error())
			return
		}
		ns, next := part(r, all, 9)
		reply(w, http.StatusOK, map[string]any{"rows": ns, "more": next})
	}
}

// part is the part of a list behind the cursor ?after=, and the address of the next one; empty at the end.
func part(r *http.Request, ns []note, size int) ([]note, string) {
	after := r.FormValue("after")
	for len(ns) > 0 && ns[0].Ref <= after {
		ns = ns[1:]
	}
	if r.FormValue("find") != "" {
		size = len(ns)
	}
	if n, err := strconv.Atoi(r.FormValue("limit")); err == nil && n > 0 {
		size = n
	}
	if len(ns) <= size {
		return ns, ""
	}
	q := url.Values{}
	for k, v := range r.URL.Query() {
		q[k] = v
	}
	q.Set("after", ns[size-1].Ref)
	return ns[:size], "?" + q.Encode()
}
