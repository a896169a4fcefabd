package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"

	"go.uber.org/zap"

	"amnesia/pkg/fact"
)

// Witnessed is a line of a witness: a fact that was durable before whoever appended it went on.
type Witnessed struct {
	Seq  int64           `json:"seq"`
	Kind string          `json:"kind"` // the fact's type, in lower case
	Fact json.RawMessage `json:"fact"`
}

// Witness gives the line of a fact, as a daemon writes it and as a ledger must give it back.
func Witness(e fact.Entry) (Witnessed, error) {
	body, err := json.Marshal(e.Fact)
	if err != nil {
		return Witnessed{}, fmt.Errorf("encoding fact %d for the witness: %w", e.Seq, err)
	}
	return Witnessed{Seq: e.Seq, Kind: strings.ToLower(reflect.TypeOf(e.Fact).Name()), Fact: body}, nil
}

// openWitness gives a tap that writes every durable fact to a file or a pipe, a line each, before the append returns. A
// witness that cannot be written any more is given up, with a word in the log: it is a test's, and the ledger is the
// record.
func openWitness(path string, log *zap.Logger) (tap func([]fact.Entry), end func() error, err error) {
	if path == "" {
		return nil, func() error { return nil }, nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the witness: %w — fix: set AMNESIA_WITNESS to a file that can be written, or unset it", err)
	}
	var lost error
	write := func(entries []fact.Entry) error {
		var b bytes.Buffer
		for _, e := range entries {
			w, err := Witness(e)
			if err != nil {
				return err
			}
			if err := json.NewEncoder(&b).Encode(w); err != nil {
				return err
			}
		}
		_, err := f.Write(b.Bytes())
		return err
	}
	return func(entries []fact.Entry) {
		if lost != nil {
			return
		}
		if lost = write(entries); lost != nil {
			log.Error("the witness is told nothing any more", zap.Error(lost))
		}
	}, f.Close, nil
}
