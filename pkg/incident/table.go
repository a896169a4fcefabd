package incident

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"amnesia/pkg/terminal"
)

// WriteTable prints incidents for a terminal, a line each.
func WriteTable(w io.Writer, all []Incident) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "no incidents: nothing was lost, and there are no defects")
		return err
	}
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "incident\tfound\tcycles\tfirst\tlast\tknown until\tone of them")
	for _, i := range all {
		known := "-"
		if i.Known != nil {
			known = i.Known.Until.UTC().Format(time.DateOnly) + ": " + abridged(i.Known.Reason, 60)
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%s\t%s\t%s\n", terminal.Line(i.Fingerprint), i.Found, i.Cycles, stamp(i.First.Time()), stamp(i.Last.Time()),
			terminal.Line(known), i.Members[len(i.Members)-1].Verdict.Memory)
	}
	t.Flush()
	_, err := io.WriteString(w, b.String())
	return err
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }
