package incident

import (
	"fmt"
	"io"
	"strings"
	"time"

	"amnesia/pkg/memory"
	"amnesia/pkg/terminal"
)

// Write prints the story for a terminal. Text of the target is hostile: control characters, escape sequences among
// them, are shown and not sent.
func (s *Story) Write(w io.Writer) error {
	var b strings.Builder
	m, v := s.Memory, s.Verdict
	fmt.Fprintf(&b, "%s  %s", m.ID, v.Kind)
	if v.Kind.Loss() {
		fmt.Fprintf(&b, ", %s", v.Class)
	}
	for _, d := range v.Defects {
		fmt.Fprintf(&b, ", %s", d)
	}
	fmt.Fprintf(&b, "\n%s\n\n", terminal.Line(v.Because))
	fmt.Fprintf(&b, "  user     %s\n", terminal.Line(m.User))
	fmt.Fprintf(&b, "  told     %s\n", terminal.Line(abridged(m.Text, 160)))
	fmt.Fprintf(&b, "  token    %s\n", terminal.Line(m.Token))
	if v.Kind.Loss() {
		fmt.Fprintf(&b, "  fault    %s\n", terminal.Line(cause(v)))
	}
	b.WriteByte('\n')

	start := memory.Instant{}
	if len(s.Events) > 0 {
		start = s.Events[0].At
		for _, e := range s.Events {
			if e.What == "told" {
				start = e.At
				break
			}
		}
		fmt.Fprintf(&b, "  %s, then\n", start.Time().UTC().Format(time.RFC3339Nano))
	}
	who := 0
	for _, e := range s.Events {
		who = max(who, len([]rune(terminal.Line(e.Who))))
	}
	for _, e := range s.Events {
		name := terminal.Line(e.Who)
		name += strings.Repeat(" ", who-len([]rune(name)))
		fmt.Fprintf(&b, "  %+10.3fs  %-12s  %s  %s\n", e.At.Sub(start).Seconds(), e.What, name, terminal.Line(abridged(e.Text, 400)))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func cause(v memory.Verdict) string {
	s := v.Fault
	if v.Service != "" {
		s += " of " + v.Service
	}
	switch {
	case v.Exposure != nil:
		s += ", " + short(*v.Exposure) + " after the acknowledgement"
	case v.During:
		s += ", before the acknowledgement came"
	}
	return s
}

// abridged cuts a text to about n runes.
func abridged(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n]) + fmt.Sprintf("… (%d more)", len(r)-n)
}
