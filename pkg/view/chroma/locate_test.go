package chroma_test

import (
	"testing"

	api "github.com/amikos-tech/chroma-go/pkg/api/v2"
	"github.com/google/go-cmp/cmp"

	"amnesia/pkg/view/chroma"
)

// Locate finds the collections that hold a text, and which field of the metadata names its user.
func TestLocate(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	const user, mark, text = "amnesia-locate-0", "amnlocatekvdq", "The code is amnlocatekvdq."
	own, chunks, other := s.collection(t), s.collection(t), s.collection(t)
	add := func(c api.Collection, text string, metadata map[string]any) {
		t.Helper()
		m, err := api.NewDocumentMetadataFromMap(metadata)
		check(t, err)
		check(t, c.Add(t.Context(), api.WithIDs("a"), api.WithTexts(text), api.WithMetadatas(m)))
	}
	add(own, text, map[string]any{"n": 1, "user_id": user})
	add(chunks, "Title. "+text, map[string]any{"source": "chat"})
	add(other, "of another", map[string]any{"user_id": user})

	places, err := chroma.Locate(t.Context(), s.URL, nil, user, text, mark)
	check(t, err)
	byName := map[string]chroma.Place{}
	for _, p := range places {
		byName[p.Collection] = p
	}
	want := map[string]chroma.Place{
		own.Name():    {Collection: own.Name(), User: "user_id", Exact: true},
		chunks.Name(): {Collection: chunks.Name()},
	}
	if diff := cmp.Diff(want, byName); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
