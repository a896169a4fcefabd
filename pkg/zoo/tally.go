package zoo

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// Tally adds up results: how often each word was said where each was right, and how much of what was said was right.
// The findings (losses and defects) are what precision and recall are taken over.
type Tally struct {
	Runs, Memories, Raced int

	pairs             map[[2]string]int
	said, right, both int
	cases             map[string]bool
}

// Add takes a result in.
func (t *Tally) Add(r Result) {
	if t.pairs == nil {
		t.pairs, t.cases = map[[2]string]int{}, map[string]bool{}
	}
	t.Runs++
	t.cases[r.Case] = true
	t.Memories += len(r.Memories)
	t.Raced += r.Raced
	for _, m := range r.Memories {
		t.pairs[[2]string{m.Said.String(), m.Right.String()}]++
		if m.Said.finding() {
			t.said++
		}
		if m.Right.finding() {
			t.right++
		}
		if m.Right.finding() && m.OK() {
			t.both++
		}
	}
}

// Precision is the share of right ones among the findings that were said, 1 when none was.
func (t *Tally) Precision() float64 { return share(t.both, t.said) }

// Recall is the share that was said, and rightly, among the findings that there are, 1 when there is none.
func (t *Tally) Recall() float64 { return share(t.both, t.right) }

func share(part, whole int) float64 {
	if whole == 0 {
		return 1
	}
	return float64(part) / float64(whole)
}

// Count is how often something was said where something was right.
type Count struct {
	Said     string `json:"said"`
	Right    string `json:"right"`
	Memories int    `json:"memories"`
}

// Counts gives the table said × right, sorted.
func (t *Tally) Counts() []Count {
	list := make([]Count, 0, len(t.pairs))
	for p, n := range t.pairs {
		list = append(list, Count{p[0], p[1], n})
	}
	slices.SortFunc(list, func(a, b Count) int { return cmp.Or(cmp.Compare(a.Said, b.Said), cmp.Compare(a.Right, b.Right)) })
	return list
}

// Write prints the table said × right, and how much that is.
func (t *Tally) Write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "said\tright\tmemories\t")
	for _, c := range t.Counts() {
		mark := ""
		if c.Said != c.Right {
			mark = "wrong"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", c.Said, c.Right, c.Memories, mark)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%d runs, %d memories, %d of them hang on a race\n", t.Runs, t.Memories, t.Raced)
	return err
}

// String is the sum in a line.
func (t *Tally) String() string {
	return fmt.Sprintf("zoo: %d cases, precision %.3f, recall %.3f", len(t.cases), t.Precision(), t.Recall())
}

// WriteJSON writes an object a line for each result.
func WriteJSON(out io.Writer, results []Result) error {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	for _, r := range results {
		var t Tally
		t.Add(r)
		if err := enc.Encode(struct {
			Case      string  `json:"case"`
			Seed      uint64  `json:"seed"`
			Memories  int     `json:"memories"`
			Counts    []Count `json:"counts"`
			Raced     int     `json:"raced"`
			Precision float64 `json:"precision"`
			Recall    float64 `json:"recall"`
		}{r.Case, r.Seed, t.Memories, t.Counts(), t.Raced, t.Precision(), t.Recall()}); err != nil {
			return err
		}
	}
	return nil
}
