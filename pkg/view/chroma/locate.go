package chroma

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	api "github.com/amikos-tech/chroma-go/pkg/api/v2"
	"github.com/amikos-tech/chroma-go/pkg/embeddings"

	"amnesia/pkg/view"
)

// Place is a collection that holds something that was looked for.
type Place struct {
	Collection string
	User       string // the field of the metadata that names the user; empty where none does
	Exact      bool   // a document is the text, and nothing else
}

const mostCollections = 200

// Locate finds the collections of the usual tenant and database of which a document holds a mark. It reads, as a view
// does.
func Locate(ctx context.Context, url string, headers map[string]string, user, text, mark string) (places []Place, err error) {
	// A view's client, of no collection yet.
	v, err := New(Config{Name: "init", URL: url, Headers: headers, Collection: "none", User: "none"})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, v.Close()) }()
	defer v.transport.CloseIdleConnections()
	all, err := v.client.ListCollections(ctx, api.ListWithLimit(mostCollections))
	if err != nil {
		return nil, fmt.Errorf("list the collections of Chroma at %s: %w", url, err)
	}
	for _, c := range all {
		hold, err := v.client.GetCollection(ctx, c.Name(), api.WithEmbeddingFunctionGet(embeddings.NewConsistentHashEmbeddingFunction()))
		if status(err) == http.StatusNotFound {
			continue
		}
		if err != nil {
			return places, fmt.Errorf("read the collection %s of Chroma at %s: %w", c.Name(), url, err)
		}
		got, err := hold.Get(ctx, api.WithWhereDocument(api.Contains(mark)), api.WithLimit(10), api.WithInclude(api.IncludeDocuments, api.IncludeMetadatas))
		if err != nil {
			return places, fmt.Errorf("look through the collection %s of Chroma at %s: %w", c.Name(), url, err)
		}
		if len(got.GetDocuments()) == 0 {
			continue
		}
		p := Place{Collection: c.Name()}
		for i, d := range got.GetDocuments() {
			p.Exact = p.Exact || view.Same(text, d.ContentString())
			if i >= len(got.GetMetadatas()) || got.GetMetadatas()[i] == nil {
				continue
			}
			m, ok := got.GetMetadatas()[i].(interface{ Keys() []string })
			if !ok {
				continue
			}
			for _, key := range m.Keys() {
				if value, _ := got.GetMetadatas()[i].GetString(key); strings.TrimSpace(value) == user {
					p.User = key
				}
			}
		}
		places = append(places, p)
	}
	return places, nil
}
