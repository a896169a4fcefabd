package zoo

import (
	"cmp"
	"fmt"
	"io"
	"maps"
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
		t.pairs[[2]string{m.Said, m.Right}]++
		if m.finding[0] {
			t.said++
		}
		if m.finding[1] {
			t.right++
		}
		if m.finding[0] && m.finding[1] && m.OK {
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

// Write prints the table said × right, and the sum.
func (t *Tally) Write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "said\tright\tmemories\t")
	for _, p := range slices.SortedFunc(maps.Keys(t.pairs), func(a, b [2]string) int {
		return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
	}) {
		mark := ""
		if p[0] != p[1] {
			mark = "wrong"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", p[0], p[1], t.pairs[p], mark)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "zoo: %d cases, precision %.3f, recall %.3f (%d runs, %d memories, %d of them hang on a race)\n",
		len(t.cases), t.Precision(), t.Recall(), t.Runs, t.Memories, t.Raced)
	return err
}
