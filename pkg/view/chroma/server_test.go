package chroma_test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	api "github.com/amikos-tech/chroma-go/pkg/api/v2"
	"github.com/amikos-tech/chroma-go/pkg/embeddings"

	"amnesia/pkg/view/viewtest"
	"amnesia/pkg/view/viewtest/servers"
)

// server is a real Chroma. All tests use one, each with collections of its own.
type server struct{ *servers.Server }

var (
	shared      = viewtest.NewShared(servers.Chroma)
	collections atomic.Int64 // made so far
)

func TestMain(m *testing.M) { shared.Main(m) }

func theServer(t testing.TB) *server {
	t.Helper()
	return &server{shared.Server(t)}
}

// collection makes an empty one, and gives the app's hold of it.
func (s *server) collection(t testing.TB, opts ...api.ClientOption) api.Collection {
	t.Helper()
	client, err := api.NewHTTPClient(append([]api.ClientOption{api.WithBaseURL(s.URL),
		api.WithHTTPClient(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}})}, opts...)...)
	check(t, err)
	t.Cleanup(func() { _ = client.Close() })
	c, err := client.CreateCollection(context.Background(), fmt.Sprintf("memories%d", collections.Add(1)),
		api.WithEmbeddingFunctionCreate(embeddings.NewConsistentHashEmbeddingFunction()))
	check(t, err)
	return c
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
