package chatapp

import (
	"context"
	"errors"
	"slices"
	"testing"

	"amnesia/pkg/chatapp/truth"
)

// deaf is a store whose first answer is lost after the save.
type deaf struct {
	Store
	heard bool
}

func (d *deaf) Save(ctx context.Context, ms ...Memory) ([]Memory, error) {
	stored, err := d.Store.Save(ctx, ms...)
	if !d.heard {
		d.heard = true
		return nil, errors.New("no answer")
	}
	return stored, err
}

// TestWitnessDoubts holds that a memory which an earlier save stored, whose answer was lost, is known to be stored when it
// is saved again; and one that was never saved before and that the store ignores is not.
func TestWitnessDoubts(t *testing.T) {
	t.Parallel()
	store, err := openVectors(vectorOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var stored []string
	w := newWitness(&deaf{Store: store}, func(e truth.Event) {
		if e.Event == truth.Stored {
			stored = append(stored, e.ID)
		}
	})
	one, two := Memory{ID: "1", User: "ada"}, Memory{ID: "2", User: "ada"}
	if _, err := store.Save(t.Context(), two); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Save(t.Context(), one); err == nil || len(stored) > 0 {
		t.Fatalf("error %v, stored %q", err, stored)
	}
	for range 2 {
		if _, err := w.Save(t.Context(), one, two); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(stored, []string{"1"}) {
		t.Errorf("stored %q, want the first alone, once", stored)
	}
}
