package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
	"amnesia/pkg/terminal"
)

// mostFound bounds the memories that Write lists one by one; of the others it gives the ids.
const mostFound = 20

// Write prints the summary as a table for people, with the first memories that were found wanting.
func (s Summary) Write(w io.Writer) error { return s.write(w, mostFound) }

// WriteAll is Write with every memory that was found wanting.
func (s Summary) WriteAll(w io.Writer) error { return s.write(w, len(s.Found)) }

func (s Summary) write(w io.Writer, most int) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", s.Target, headline(s))
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "  cycles\t%d: %s\n", s.Cycles.All(), counts([]count{
		{s.Cycles.Clean, "clean"}, {s.Cycles.Losses, "with losses"}, {s.Cycles.Defects, "with defects"},
		{s.Cycles.Unrecovered, "unrecovered"}, {s.Cycles.Inconclusive, "inconclusive"}}))
	if s.Cycles.Control > 0 {
		fmt.Fprintf(t, "  \tamong them %d without a fault, as a control\n", s.Cycles.Control)
	}
	rows(t, "injections", injections(s))
	fmt.Fprintf(t, "  told\t%s\n", counts([]count{{s.Writes.Acknowledged, "acknowledged"}, {s.Writes.Rejected, "rejected"}, {s.Writes.Unknown, "unknown"}}))
	if n := s.Sweeps.Read + s.Sweeps.Unread; n > 0 {
		fmt.Fprintf(t, "  looked for\t%d of %d memories, over all cycles; nothing had touched the others\n", s.Sweeps.Read, n)
	}
	var verdicts []count
	for i := range memory.Kinds {
		k := memory.Kinds[len(memory.Kinds)-1-i]
		verdicts = append(verdicts, count{s.Verdicts[k], string(k)})
	}
	fmt.Fprintf(t, "  verdicts\t%s\n", counts(verdicts))
	var losses, defects []count
	for _, c := range memory.Classes {
		losses = append(losses, count{s.Losses[c], string(c)})
	}
	for _, d := range memory.Defects {
		defects = append(defects, count{s.Defects[d], string(d)})
	}
	fmt.Fprintf(t, "  losses\t%s\n", counts(losses))
	rows(t, "", besides(s))
	if c := s.Rates.Control; c.Lost > 0 {
		fmt.Fprintf(t, "  \tof %d told in controls %d were lost without any fault: faults are not the whole cause\n", c.Acknowledged, c.Lost)
	}
	fmt.Fprintf(t, "  defects\t%s\n", counts(defects))
	var known []string
	for _, k := range s.Known {
		known = append(known, fmt.Sprintf("%d in %s (%s)", k.Found, terminal.Line(k.Fingerprint), terminal.Line(knownWords(k.Until, k.Reason))))
	}
	rows(t, "known", known)
	if s.Exposure.P50 != nil {
		fmt.Fprintf(t, "  exposure\tp50 %s, max %s from the acknowledgement to the fault\n", ms(*s.Exposure.P50), ms(*s.Exposure.Max))
	}
	for i, w := range s.Windows {
		upto := "at least " + ms(w.MS) + " after its acknowledgement; no end of it was seen"
		if w.High != nil {
			upto = fmt.Sprintf("%s after its acknowledgement (95 %%: %s to %s)", ms(w.MS), ms(w.Low), ms(*w.High))
		}
		fmt.Fprintf(t, "  %s\t%s of %s: of what was told in the same cycle, lost up to %s\n", map[bool]string{true: "window"}[i == 0], w.Kind, w.Service, upto)
	}
	fmt.Fprintf(t, "  run\tseed %d, %s, ledger %s\n", s.Seed, time.Duration(s.DurationSeconds*float64(time.Second)).Round(100*time.Millisecond), s.Ledger)
	t.Flush()
	s.found(&b, most)
	_, err := io.WriteString(w, b.String())
	return err
}

// rows prints lines under one name.
func rows(w io.Writer, name string, lines []string) {
	for _, line := range lines {
		fmt.Fprintf(w, "  %s\t%s\n", name, line)
		name = ""
	}
}

// headline is the result in a few words.
func headline(s Summary) string {
	if s.Outcome != fact.CycleLosses && s.Outcome != fact.CycleDefects {
		return result(s)
	}
	known := 0
	for _, k := range s.Known {
		known += k.Found
	}
	switch losses, defects := s.failing(); {
	case known == 0 || losses > 0 || defects > 0:
		return result(s)
	case known == 1:
		return result(s) + ", which is known"
	}
	return result(s) + ", all of them known"
}

func result(s Summary) string {
	silent := s.Losses[memory.Silent]
	switch {
	case silent == 1:
		return "1 memory was lost SILENTLY"
	case silent > 1:
		return fmt.Sprintf("%d memories were lost SILENTLY", silent)
	case s.Outcome == fact.CycleLosses:
		return "memories were lost, and their users were told"
	case s.Outcome == fact.CycleDefects:
		return "nothing was lost, but there are defects"
	case s.Outcome == fact.CycleUnrecovered:
		return "the target did not recover from a fault"
	case s.Outcome == fact.CycleInconclusive:
		return "nothing can be said for sure"
	}
	return "nothing was lost"
}

// found lists the memories with a loss or a defect: the first one by one, of the others the ids.
func (s Summary) found(b *strings.Builder, most int) {
	if len(s.Found) == 0 {
		return
	}
	b.WriteByte('\n')
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  memory\tverdict\tclass\tfault\tservice\texposure\ttext")
	for _, v := range s.Found[:min(len(s.Found), most)] {
		what := string(v.Kind)
		for _, d := range v.Defects {
			what += ", " + string(d)
		}
		exposure := "-"
		switch {
		case v.Exposure != nil:
			exposure = ms(float64(*v.Exposure) / float64(time.Millisecond))
		case v.During:
			exposure = "before the ack"
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\t%s\t%s\n", v.Memory, what, dash(string(v.Class)), dash(v.Fault), dash(v.Service), exposure, line(s.Told[v.Memory]))
	}
	t.Flush()
	if len(s.Found) > most {
		rest := s.Found[most:]
		ids := make([]memory.ID, len(rest))
		for i, v := range rest {
			ids[i] = v.Memory
		}
		fmt.Fprintf(b, "  … and %d more, by number: %s\n", len(rest), strings.ReplaceAll(memory.SetOf(ids...).String(), ",", ", "))
	}
}

type count struct {
	n    int
	what string
}

// counts joins the counts that are not zero; "none" when all are.
func counts(cs []count) string {
	var parts []string
	for _, c := range cs {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// injections lists the faults that were injected with what was lost to each.
func injections(s Summary) []string {
	var parts []string
	for _, f := range s.Faults {
		if f.Injected == 0 {
			continue
		}
		part := fmt.Sprintf("%d %s", f.Injected, f.Kind)
		if f.Service != "" {
			part += " of " + f.Service
		}
		if f.Lost > 0 {
			part += fmt.Sprintf(" (%d lost)", f.Lost)
		}
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		return []string{"none"}
	}
	return wrap(fmt.Sprintf("%d: ", s.Injections()), parts)
}

// besides lists what was lost to no single injection of ours.
func besides(s Summary) []string {
	var parts []string
	for _, f := range s.Faults {
		switch {
		case f.Injected > 0 || f.Lost == 0:
		case f.Kind == memory.FaultForeign:
			parts = append(parts, fmt.Sprintf("%d to a foreign death of %s", f.Lost, f.Service))
		case f.Kind == memory.FaultSeveral:
			parts = append(parts, fmt.Sprintf("%d to one of several faults of %s", f.Lost, f.Service))
		case f.Kind == memory.FaultNone:
			parts = append(parts, fmt.Sprintf("%d without any fault (%s)", f.Lost, f.Service))
		default: // of an injection that never fired
			parts = append(parts, fmt.Sprintf("%d to %s of %s", f.Lost, f.Kind, f.Service))
		}
	}
	return wrap("", parts)
}

// wide is the length of a line, beside the column of names, that most terminals can show.
const wide = 96

// wrap joins parts to lines with commas between.
func wrap(first string, parts []string) (lines []string) {
	line := first
	for i, part := range parts {
		if i < len(parts)-1 {
			part += ","
		}
		if line != first && len(line)+len(part) > wide {
			lines = append(lines, strings.TrimRight(line, " "))
			line = ""
		}
		line += part + " "
	}
	if line != "" {
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return lines
}

func ms(f float64) string {
	d := time.Duration(f * float64(time.Millisecond))
	if d < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// line cuts a text to one short line: what a target says must not reach the terminal raw.
func line(s string) string {
	r := []rune(terminal.Line(strings.Join(slices.Collect(strings.FieldsSeq(s)), " ")))
	if len(r) > 48 {
		return string(r[:47]) + "…"
	}
	return string(r)
}
