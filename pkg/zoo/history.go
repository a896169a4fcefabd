package zoo

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"amnesia/pkg/chatapp/truth"
	"amnesia/pkg/fact"
	"amnesia/pkg/ledger"
	"amnesia/pkg/memory"
	"amnesia/pkg/oracle"
)

// Judgement is what today's oracle makes of a recorded ledger, as of the last fact in it.
type Judgement struct {
	Book *oracle.Book
	Now  memory.Instant
	Took time.Duration // from the first fact to the last
	// Unknown are the writes that nobody knows to have landed, by the kind of the fault of their cycle.
	Unknown map[string]int
	// Seen is by token when the user saw that the memory is saved.
	Seen map[string]time.Time
	// Trouble are the faults that failed and the deaths by other hands.
	Trouble []fact.Fact
}

// Judge judges a ledger again.
func Judge(ctx context.Context, path string) (j Judgement, err error) {
	l, err := ledger.OpenReadOnly(ctx, path)
	if err != nil {
		return j, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	j = Judgement{Book: oracle.NewBook(), Unknown: map[string]int{}, Seen: map[string]time.Time{}}
	told, struck := map[memory.ID]int{}, map[int]string{} // cycles; the kinds of their faults
	var unknown []memory.ID
	var start memory.Instant
	for e, err := range l.Facts(ctx, 0) {
		if err != nil {
			return j, err
		}
		j.Book.Apply(e)
		j.Now = memory.Later(j.Now, fact.At(e.Fact))
		if start.IsZero() {
			start = j.Now
		}
		switch f := e.Fact.(type) {
		case fact.Begun:
			told[f.Memory.ID] = f.Memory.Cycle
		case fact.Settled:
			if f.Outcome == memory.Unknown {
				unknown = append(unknown, f.Memory)
			}
			if h, ok := j.Book.History(f.Memory); ok && !h.Ack.Seen.IsZero() {
				j.Seen[h.Memory.Token] = h.Ack.Seen.Time()
			}
		case fact.Step:
			if f.Name == fact.StepPlanned {
				struck[f.Plan.Cycle] = f.Plan.Kind
			} else if f.Name == fact.StepFailed {
				j.Trouble = append(j.Trouble, f)
			}
		case fact.Death:
			j.Trouble = append(j.Trouble, f)
		}
	}
	for _, id := range unknown {
		j.Unknown[struck[told[id]]]++
	}
	j.Took = j.Now.Sub(start)
	return j, nil
}

// Soaked is a run whose verdicts nobody compares with the truth.
type Soaked struct {
	Judgement
	Ledger string
	// Unsaved is the longest time, by the truth log, for which a memory that the app had confirmed was not in its first
	// home.
	Unsaved time.Duration
	// Lag is within what time nine of ten confirmations were seen after the app, by the truth log, had set out to give them.
	Lag time.Duration
}

// Soak runs a case once, and judges its ledger.
func (z *Zoo) Soak(ctx context.Context, k Case, seed uint64) (s Soaked, err error) {
	dir, err := z.dir(k, seed)
	if err != nil {
		return s, err
	}
	s.Ledger = Result{Dir: dir}.Ledger()
	var log *truth.Truth
	if err := z.play(ctx, k, seed, dir, nil, func([]Server) (err error) {
		log, err = truth.Read(filepath.Join(dir, "truth.jsonl"))
		return err
	}); err != nil {
		return s, err
	}
	if s.Judgement, err = Judge(ctx, s.Ledger); err != nil {
		return s, err
	}
	if len(s.Seen) == 0 {
		return s, errors.New("no write was confirmed")
	}
	w := hear(log, k.Homes[0])
	s.Unsaved = w.unsaved()
	s.Lag = w.lag(log, s.Seen)
	return s, nil
}

// lag gives the 90th percentile of how much later than the app's word the confirmations were seen.
func (w *witness) lag(log *truth.Truth, seen map[string]time.Time) time.Duration {
	var lags []time.Duration
	for token, at := range seen {
		if of := log.Of(token); len(of) > 0 {
			lags = append(lags, at.Sub(w.all(of).taken))
		}
	}
	slices.Sort(lags)
	return lags[len(lags)*9/10]
}

// History is what was right of a run whose ledger is kept beside it.
type History struct {
	Case     string     `json:"case"`
	Seed     uint64     `json:"seed"`
	Memories []Expected `json:"memories"`
}

// Expected is the right verdict of a memory.
type Expected struct {
	Memory memory.ID `json:"memory"`
	Word
}

// The endings of a recorded run: its ledger, and what was right.
const (
	ledgerEnding  = ".db.gz"
	historyEnding = ".json"
)

// Record keeps the run for Rejudge, provided that all that was said is right and is said again.
func (r Result) Record(ctx context.Context, dir string) error {
	if wrong := r.Wrong(); len(wrong) > 0 {
		return fmt.Errorf("of %d memories the wrong thing was said", len(wrong))
	}
	h := History{Case: r.Case, Seed: r.Seed}
	for _, m := range r.Memories {
		h.Memories = append(h.Memories, Expected{m.Memory.ID, m.Right})
	}
	if err := h.check(ctx, r.Ledger()); err != nil {
		return err
	}
	name := filepath.Join(dir, Case{Name: r.Case}.file())
	if err := pack(r.Ledger(), name+ledgerEnding); err != nil {
		return err
	}
	text, err := h.encode()
	if err != nil {
		return err
	}
	return os.WriteFile(name+historyEnding, text, 0o644)
}

// Recorded reports whether a run of the case is kept in dir.
func Recorded(dir string, k Case) bool {
	_, err := os.Stat(filepath.Join(dir, k.file()+historyEnding))
	return err == nil
}

// encode writes a memory a line.
func (h History) encode() ([]byte, error) {
	head, err := json.Marshal(History{h.Case, h.Seed, []Expected{}})
	if err != nil {
		return nil, err
	}
	text := append(head[:len(head)-len("]}")], '\n')
	for i, m := range h.Memories {
		line, err := json.Marshal(m)
		if err != nil {
			return nil, err
		}
		if text = append(text, line...); i < len(h.Memories)-1 {
			text = append(text, ',')
		}
		text = append(text, '\n')
	}
	return append(text, "]}\n"...), nil
}

// Rejudge judges a run that Record kept, by the name of its file with what was right, and says of which memories something
// else is said now. scratch is an empty folder.
func Rejudge(ctx context.Context, name, scratch string) (History, error) {
	var h History
	text, err := os.ReadFile(name)
	if err != nil {
		return h, err
	}
	if err := json.Unmarshal(text, &h); err != nil {
		return h, fmt.Errorf("reading %s: %w", name, err)
	}
	path := filepath.Join(scratch, "amnesia.db")
	if err := unpack(name[:len(name)-len(historyEnding)]+ledgerEnding, path); err != nil {
		return h, err
	}
	return h, h.check(ctx, path)
}

// check says of which memories in the ledger something else is said than was right.
func (h History) check(ctx context.Context, path string) error {
	j, err := Judge(ctx, path)
	if err != nil {
		return err
	}
	right := map[memory.ID]Word{}
	for _, m := range h.Memories {
		right[m.Memory] = m.Word
	}
	var errs []error
	for id, v := range j.Book.All(j.Now) {
		if said, want := WordOf(v), right[id]; said != want {
			errs = append(errs, fmt.Errorf("memory %s: said %q, right is %q: %s", id, said, want, v.Because))
		}
		delete(right, id)
	}
	for id := range right {
		errs = append(errs, fmt.Errorf("memory %s is not in the ledger", id))
	}
	return errors.Join(errs...)
}

func pack(from, to string) (err error) {
	in, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	w, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write(in); err != nil {
		return err
	}
	return w.Close()
}

func unpack(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	r, err := gzip.NewReader(in)
	if err != nil {
		return fmt.Errorf("unpacking %s: %w", from, err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("unpacking %s: %w", from, err)
	}
	return os.WriteFile(to, text, 0o640)
}
