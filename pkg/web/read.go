package web

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"amnesia/pkg/incident"
	"amnesia/pkg/memory"
)

// How many of a list are given at once.
const (
	someOfList = 50
	mostOfList = 500
)

// missing is the error of what is not there.
type missing string

func (m missing) Error() string { return string(m) }

// mistaken is the error of a request that cannot be answered as it stands.
type mistaken string

func (m mistaken) Error() string { return string(m) }

// statusOf gives the code that an error is answered with.
func statusOf(err error) int {
	switch {
	case errors.As(err, new(missing)), errors.Is(err, incident.ErrNoMemory), errors.Is(err, fs.ErrNotExist):
		return http.StatusNotFound
	case errors.As(err, new(mistaken)):
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}

// reading are the routes of the API that read the books.
func (s *Server) reading() []route {
	return []route{
		{"GET", "/api/v1/events", false, s.events},
		{"GET", "/api/v1/cycles", false, give(s.cycles)},
		{"GET", "/api/v1/cycles/{n}", false, give(s.cycle)},
		{"GET", "/api/v1/memories", false, give(s.memories)},
		{"GET", "/api/v1/memories/{id}", false, give(s.memory)},
		{"GET", "/api/v1/incidents", false, give(s.incidents)},
		{"GET", "/api/v1/incidents/{fingerprint...}", false, give(s.incident)},
		{"GET", "/api/v1/faults", false, give(func(r *http.Request) (Faults, error) { return s.cfg.Books.Faults(r.Context()) })},
	}
}

// give answers what was read, or why it cannot be.
func give[T any](read func(*http.Request) (T, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := read(r)
		if err != nil {
			answer(w, statusOf(err), problem{Error: err.Error()})
			return
		}
		answer(w, http.StatusOK, v)
	}
}

// cyclesPage is one page of the cycles.
type cyclesPage struct {
	Cycles []incident.Cycle `json:"cycles"`
	Next   string           `json:"next,omitempty"` // the cursor of the next page; empty: there is none
}

func (s *Server) cycles(r *http.Request) (p cyclesPage, err error) {
	q, err := asked(r, "cursor", "limit")
	if err != nil {
		return p, err
	}
	before, limit, err := q.page(strconv.Atoi)
	if err != nil {
		return p, err
	}
	p.Cycles, err = s.cfg.Books.Cycles(r.Context(), before, limit+1)
	if len(p.Cycles) > limit {
		p.Cycles = p.Cycles[:limit]
		p.Next = strconv.Itoa(p.Cycles[limit-1].N)
	}
	for i, c := range p.Cycles {
		p.Cycles[i] = c.Brief()
	}
	return p, err
}

func (s *Server) cycle(r *http.Request) (incident.Cycle, error) {
	n, err := strconv.Atoi(r.PathValue("n"))
	if err == nil && n > 0 {
		found, err := s.cfg.Books.Cycles(r.Context(), n+1, 1)
		if err != nil {
			return incident.Cycle{}, err
		}
		if len(found) == 1 && found[0].N == n {
			return found[0], nil
		}
	}
	return incident.Cycle{}, missing(fmt.Sprintf("there is no cycle %q — fix: see /cycles", r.PathValue("n")))
}

// memoriesPage is one page of what was searched for.
type memoriesPage struct {
	Memories []Memory `json:"memories"`
	Next     string   `json:"next,omitempty"` // the cursor of the next page; empty: there is none
}

func (s *Server) memories(r *http.Request) (p memoriesPage, err error) {
	q, err := asked(r, "user", "token", "verdict", "cursor", "limit")
	if err != nil {
		return p, err
	}
	search := Search{User: q.Get("user"), Token: strings.TrimSpace(q.Get("token")), Verdict: memory.Kind(q.Get("verdict"))}
	if search.Verdict != "" && !slices.Contains(memory.Kinds[:], search.Verdict) {
		return p, mistaken(fmt.Sprintf("the verdict %q is none — fix: one of %s", search.Verdict, join(memory.Kinds[:])))
	}
	before, limit, err := q.page(func(text string) (int, error) {
		id, err := memory.ParseID(text)
		return int(id), err
	})
	if err != nil {
		return p, err
	}
	search.Before, search.Limit = memory.ID(before), limit+1
	p.Memories, err = s.cfg.Books.Memories(r.Context(), search)
	if len(p.Memories) > limit {
		p.Memories = p.Memories[:limit]
		p.Next = p.Memories[limit-1].ID.String()
	}
	return p, err
}

func (s *Server) memory(r *http.Request) (*incident.Story, error) {
	id, err := memory.ParseID(r.PathValue("id"))
	if err != nil {
		return nil, missing(err.Error())
	}
	return s.cfg.Books.Memory(r.Context(), id)
}

// incidentsPage are incidents, without their evidence.
type incidentsPage struct {
	Incidents []incident.Incident `json:"incidents"`
}

func (s *Server) incidents(r *http.Request) (p incidentsPage, err error) {
	q, err := asked(r, "class", "fault", "service")
	if err != nil {
		return p, err
	}
	if class := q.Get("class"); class != "" && !slices.Contains(incident.Classes(), class) {
		return p, mistaken(fmt.Sprintf("the class %q is none — fix: one of %s", class, strings.Join(incident.Classes(), ", ")))
	}
	p.Incidents, err = s.cfg.Books.Incidents(r.Context())
	p.Incidents = slices.DeleteFunc(p.Incidents, func(i incident.Incident) bool {
		return q.unlike("class", i.Class) || q.unlike("fault", i.Fault) || q.unlike("service", i.Service) && q.unlike("service", incident.ServiceLabel(i.Fault, i.Service))
	})
	for i := range p.Incidents {
		p.Incidents[i].Evidence = nil
	}
	return p, err
}

func (s *Server) incident(r *http.Request) (incident.Incident, error) {
	i, ok, err := s.cfg.Books.Incident(r.Context(), r.PathValue("fingerprint"))
	if err == nil && !ok {
		err = missing(fmt.Sprintf("there is no incident %q — fix: see /incidents", r.PathValue("fingerprint")))
	}
	return i, err
}

// query is what a request asks for.
type query struct{ url.Values }

// asked gives the query of a request, which may have only these keys, each once.
func asked(r *http.Request, keys ...string) (query, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return query{}, mistaken(fmt.Sprintf("the query cannot be read: %v — fix: key=value, joined by &", err))
	}
	for key, all := range values {
		if !slices.Contains(keys, key) {
			return query{}, mistaken(fmt.Sprintf("%q is not asked for here — fix: any of %s", key, strings.Join(keys, ", ")))
		}
		if len(all) > 1 {
			return query{}, mistaken(fmt.Sprintf("%q is given %d times — fix: once", key, len(all)))
		}
	}
	return query{values}, nil
}

// unlike reports whether something else is asked for; nothing asked for is like everything.
func (q query) unlike(key, value string) bool { return q.Get(key) != "" && q.Get(key) != value }

// page gives after what to go on and how many; a cursor is what an earlier page gave.
func (q query) page(parse func(string) (int, error)) (before, limit int, err error) {
	limit = someOfList
	if text := q.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > mostOfList {
			return 0, 0, mistaken(fmt.Sprintf("the limit %q is no number from 1 to %d — fix: such as %d", text, mostOfList, someOfList))
		}
	}
	if text := q.Get("cursor"); text != "" {
		if before, err = parse(text); err != nil || before < 1 {
			return 0, 0, mistaken(fmt.Sprintf("the cursor %q is none — fix: give what the page before has as next", text))
		}
	}
	return before, limit, nil
}

// join lists words.
func join[S ~string](words []S) string {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = string(w)
	}
	return strings.Join(all, ", ")
}
