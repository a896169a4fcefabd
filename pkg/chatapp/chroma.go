package chatapp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	chromaCollection = "memories"
	chromaDatabase   = "/api/v2/tenants/default_tenant/databases/default_database/collections"
	chromaPage       = 1000 // records in one answer
	chromaDimensions = 384
)

// chroma is the vector memory on a Chroma server: the text is the document, user_id, id, summary and created_at are its
// metadata. It talks to the API of version 2 in plain HTTP.
type chroma struct {
	url    string
	client *http.Client
	key    func(Memory) string

	mu         sync.Mutex
	collection string // its id, which changes when the server has lost it and it was made again
}

// openChroma makes the collection where it is missing.
func openChroma(ctx context.Context, url string, counter bool) (*chroma, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 16
	c := &chroma{url: strings.TrimRight(url, "/"), client: &http.Client{Transport: transport}, key: keys(counter)}
	if _, err := c.makeCollection(ctx); err != nil {
		return nil, fmt.Errorf("opening the collection in Chroma: %w — fix: let CHATAPP_CHROMA_URL name a server that runs", err)
	}
	return c, nil
}

func (c *chroma) makeCollection(ctx context.Context) (id string, err error) {
	var made struct{ ID string }
	err = c.post(ctx, c.url+chromaDatabase, map[string]any{"name": chromaCollection, "get_or_create": true, "metadata": map[string]any{"hnsw:space": "cosine"}}, &made)
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.collection = made.ID
	return made.ID, nil
}

// chromaError is an answer other than success.
type chromaError struct {
	status int
	text   string
}

func (e *chromaError) Error() string { return fmt.Sprintf("status %d: %s", e.status, e.text) }

// post sends JSON and decodes the answer.
func (c *chroma) post(ctx context.Context, url string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	resp, err := c.client.Do(request)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		return &chromaError{resp.StatusCode, string(answer[:min(len(answer), 300)])}
	}
	return json.Unmarshal(answer, out)
}

// call is post to the collection. A server that has lost it gets a new, empty one.
func (c *chroma) call(ctx context.Context, verb string, in, out any) error {
	c.mu.Lock()
	id := c.collection
	c.mu.Unlock()
	err := c.post(ctx, c.url+chromaDatabase+"/"+id+"/"+verb, in, out)
	var answer *chromaError
	if !errors.As(err, &answer) || answer.status != http.StatusNotFound {
		return err
	}
	if id, err = c.makeCollection(ctx); err != nil {
		return err
	}
	return c.post(ctx, c.url+chromaDatabase+"/"+id+"/"+verb, in, out)
}

func (c *chroma) Name() string { return VectorStore }

// chromaRecords is a list of records as Chroma takes and gives them.
type chromaRecords struct {
	IDs        []string         `json:"ids"`
	Embeddings [][]float32      `json:"embeddings,omitempty"`
	Documents  []string         `json:"documents"`
	Metadatas  []chromaMetadata `json:"metadatas"`
}

type chromaMetadata struct {
	User    string    `json:"user_id"`
	ID      string    `json:"id"`
	Summary string    `json:"summary"`
	At      time.Time `json:"created_at"`
}

func (r chromaRecords) memories() []Memory {
	ms := make([]Memory, len(r.IDs))
	for i, meta := range r.Metadatas {
		ms[i] = Memory{ID: meta.ID, User: meta.User, Text: r.Documents[i], Summary: meta.Summary, At: meta.At}
	}
	return ms
}

// Save asks first which keys are there, since Chroma ignores these in silence.
func (c *chroma) Save(ctx context.Context, ms ...Memory) (stored []Memory, err error) {
	for some := range slices.Chunk(ms, chromaPage) {
		keys := make([]string, len(some))
		c.mu.Lock()
		for i, m := range some {
			keys[i] = c.key(m)
		}
		c.mu.Unlock()
		var old, add chromaRecords
		if err := c.call(ctx, "get", map[string]any{"ids": keys, "include": []string{}}, &old); err != nil {
			return stored, fmt.Errorf("saving to Chroma: %w", err)
		}
		var fresh []Memory
		for i, m := range some {
			if slices.Contains(old.IDs, keys[i]) {
				continue
			}
			fresh = append(fresh, m)
			add.IDs = append(add.IDs, keys[i])
			add.Embeddings = append(add.Embeddings, dense(embedding(m.Text)))
			add.Documents = append(add.Documents, m.Text)
			add.Metadatas = append(add.Metadatas, chromaMetadata{m.User, m.ID, m.Summary, m.At.UTC()})
		}
		if len(fresh) == 0 {
			continue
		}
		if err := c.call(ctx, "add", add, &struct{}{}); err != nil {
			return stored, fmt.Errorf("saving to Chroma: %w", err)
		}
		stored = append(stored, fresh...)
	}
	return stored, nil
}

// dense folds an embedding into Chroma's dimensions, at length 1.
func dense(features []feature) []float32 {
	v := make([]float32, chromaDimensions)
	var norm float64
	for _, f := range features {
		v[f.Dimension%chromaDimensions] += f.Weight
	}
	for _, w := range v {
		norm += float64(w) * float64(w)
	}
	if norm == 0 { // no words; the cosine needs a direction
		v[0], norm = 1, 1
	}
	for i := range v {
		v[i] /= float32(math.Sqrt(norm))
	}
	return v
}

func (c *chroma) Delete(ctx context.Context, ms ...Memory) (deleted []string, err error) {
	for some := range slices.Chunk(ms, chromaPage) {
		var old chromaRecords
		where := map[string]any{"id": map[string]any{"$in": idsOf(some)}}
		if err := c.call(ctx, "get", map[string]any{"where": where, "include": []string{"documents", "metadatas"}}, &old); err != nil {
			return deleted, fmt.Errorf("deleting from Chroma: %w", err)
		}
		if len(old.IDs) == 0 {
			continue
		}
		if err := c.call(ctx, "delete", map[string]any{"ids": old.IDs}, &struct{}{}); err != nil {
			return deleted, fmt.Errorf("deleting from Chroma: %w", err)
		}
		deleted = append(deleted, idsOf(old.memories())...)
	}
	return deleted, nil
}

// Find reads what the exact conditions leave and ranks it here: a user's memories are few, and the server's index, which
// is approximate, misses some where many resemble each other.
func (c *chroma) Find(ctx context.Context, q Query) ([]Memory, error) {
	request := map[string]any{"include": []string{"documents", "metadatas"}}
	var where []map[string]any
	if q.User != "" {
		where = append(where, map[string]any{"user_id": q.User})
	}
	if q.ID != "" {
		where = append(where, map[string]any{"id": q.ID})
	}
	switch len(where) {
	case 0:
	case 1:
		request["where"] = where[0]
	default:
		request["where"] = map[string]any{"$and": where}
	}
	ms, err := c.all(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("reading Chroma: %w", err)
	}
	return q.pick(bare(ms)), nil
}

// all reads page after page.
func (c *chroma) all(ctx context.Context, request map[string]any) (ms []Memory, err error) {
	for {
		var page chromaRecords
		request["limit"], request["offset"] = chromaPage, len(ms)
		if err := c.call(ctx, "get", request, &page); err != nil {
			return nil, err
		}
		ms = append(ms, page.memories()...)
		if len(page.IDs) < chromaPage {
			return ms, nil
		}
	}
}

// Close lets go of the idle connections.
func (c *chroma) Close() error {
	c.client.CloseIdleConnections()
	return nil
}
