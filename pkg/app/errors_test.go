package app

import (
	"errors"
	"testing"

	"amnesia/pkg/config"
	"amnesia/pkg/soak"
)

// TestEnded holds the precedence of the exit codes: 2, 3, 1, 4.
func TestEnded(t *testing.T) {
	broken := errors.New("the ledger's disk is full")
	for _, tc := range []struct {
		name  string
		found int
		err   error
		want  int
	}{
		{"nothing", 0, nil, 0},
		{"a loss", 3, nil, 3},
		{"too little evidence", 4, nil, 4},
		{"an error", 0, broken, 1},
		{"an error outweighs too little evidence", 4, broken, 1},
		{"a loss outweighs an error", 3, broken, 3},
		{"a mistake in the file outweighs all", 3, errors.Join(broken, config.Errors{{What: "wrong"}}), 2},
		{"so does a view that looks in the wrong place", 3, &soak.MisconfiguredError{}, 2},
		{"and a flag", 3, Usage(broken), 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, err := ended(tc.found, tc.err)
			if code != tc.want || !errors.Is(err, tc.err) {
				t.Errorf("ended(%d, %v) = %d, %v; want %d and the same error", tc.found, tc.err, code, err, tc.want)
			}
		})
	}
}
