package incident

import (
	"fmt"
	"io"
	"strings"
	"time"

	"amnesia/pkg/memory"
	"amnesia/pkg/terminal"
)

// Write prints the story for a terminal, the cause and what to do first. ledger is where it was read, for the commands; find
// gives the path of a picture, and whether it is there. Text of the target is hostile: control characters, escape sequences
// among them, are shown and not sent.
func (s *Story) Write(w io.Writer, ledger string, find func(file string) (path string, there bool)) error {
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
	if len(s.Advice) > 0 {
		b.WriteString("What to do\n")
		for _, a := range s.Advice {
			fmt.Fprintf(&b, "  - %s\n", terminal.Line(a))
		}
		if replay := s.Replay(ledger); replay != "" {
			fmt.Fprintf(&b, "  - play the fault again: %s\n", terminal.Line(replay))
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "  user     %s\n", terminal.Line(m.User))
	fmt.Fprintf(&b, "  told     %s\n", terminal.Line(abridged(m.Text, 160)))
	fmt.Fprintf(&b, "  token    %s\n", terminal.Line(m.Token))
	if v.Kind.Loss() {
		fmt.Fprintf(&b, "  fault    %s\n", terminal.Line(cause(v)))
	}
	for _, fp := range s.Incidents {
		fmt.Fprintf(&b, "  incident %s\n", terminal.Line(fp))
	}
	b.WriteByte('\n')
	s.writeEvents(&b)
	s.writeServices(&b)
	s.writePictures(&b, find)
	_, err := io.WriteString(w, b.String())
	return err
}

// Told is when the memory was told, from which the story counts its times; without that, its first event.
func (s *Story) Told() memory.Instant {
	for _, e := range s.Events {
		if e.What == "told" {
			return e.At
		}
	}
	if len(s.Events) > 0 {
		return s.Events[0].At
	}
	return memory.Instant{}
}

// writeServices tells what the services were when the incident was found.
func (s *Story) writeServices(b *strings.Builder) {
	if len(s.Services) == 0 {
		return
	}
	b.WriteString("\nThe services when the incident was found\n")
	for _, state := range s.Services {
		fmt.Fprintf(b, "  %s  %s\n", terminal.Line(state.Service), terminal.Line(StateWords(state)))
		if len(state.Command) > 0 {
			fmt.Fprintf(b, "    runs %s\n", terminal.Line(abridged(strings.Join(state.Command, " "), 160)))
		}
		for _, m := range state.Mounts {
			fmt.Fprintf(b, "    %s\n", terminal.Line(MountWords(m)))
		}
		for _, f := range state.Findings {
			fmt.Fprintf(b, "    ! %s\n", terminal.Line(f))
		}
	}
}

// writePictures names the files of evidence, each on a line of its own, as a terminal can open it.
func (s *Story) writePictures(b *strings.Builder, find func(string) (string, bool)) {
	if len(s.Pictures) == 0 {
		return
	}
	b.WriteString("\nPictures\n")
	for _, p := range s.Pictures {
		path, there := find(p.File)
		note := ""
		if !there {
			note = " (not there any more)"
		}
		fmt.Fprintf(b, "  %-6s  %s%s\n", p.When, terminal.Line(path), note)
	}
}

// writeEvents tells the story, by the time since the memory was told.
func (s *Story) writeEvents(b *strings.Builder) {
	start := s.Told()
	fmt.Fprintf(b, "  %s, then\n", start.Time().UTC().Format(time.RFC3339Nano))
	who := 0
	for _, e := range s.Events {
		who = max(who, len([]rune(terminal.Line(e.Who))))
	}
	for _, e := range s.Events {
		name := terminal.Line(e.Who)
		name += strings.Repeat(" ", who-len([]rune(name)))
		fmt.Fprintf(b, "  %+10.3fs  %-12s  %s  %s\n", e.At.Sub(start).Seconds(), e.What, name, terminal.Line(abridged(e.Text, 400)))
	}
}

func cause(v memory.Verdict) string {
	s := Hurt(v.Fault, v.Service)
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
