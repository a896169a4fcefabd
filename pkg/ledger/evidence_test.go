package ledger_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"amnesia/pkg/fact"
	"amnesia/pkg/ledger"
	"amnesia/pkg/ledger/ledgerbench"
)

// Evidence is what Facts gives but the verdicts, in the same order; it may be left, and ends with its context.
func TestEvidence(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	if err := ledgerbench.Fill(t.Context(), path, 1500); err != nil {
		t.Fatal(err)
	}
	l, err := ledger.OpenReadOnly(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var want []fact.Entry
	for e, err := range l.Facts(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if _, verdict := e.Fact.(fact.Judged); !verdict {
			want = append(want, e)
		}
	}
	var got []fact.Entry
	for e, err := range l.Evidence(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for e := range l.Evidence(t.Context()) {
		if e.Seq == 300 {
			break
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for _, err := range l.Evidence(ctx) {
		cancel()
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("a reading that is cut off ends with %v", last)
	}
}
