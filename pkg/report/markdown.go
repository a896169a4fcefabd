package report

import (
	"fmt"
	"io"
	"strings"

	"amnesia/pkg/incident"
	"amnesia/pkg/terminal"
)

// Bounds of the Markdown, which is for an issue, a chat or a job's page.
const (
	mostMarkdownIncidents = 10
	mostMarkdownEvents    = 30
	mostMarkdownRows      = 30
	mostMarkdownReasons   = 10
)

// WriteMarkdown writes the report for an issue or a chat: the incidents with what to do, the losses by fault, and a story.
// What a target says stands in code, where nothing of it is markup.
func (full *Full) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	full.markdownHead(&b)
	for n, i := range full.Incidents[:min(len(full.Incidents), mostMarkdownIncidents)] {
		fmt.Fprintf(&b, "\n### %s\n\n", md(i.Sentence()))
		if i.Known != nil {
			fmt.Fprintf(&b, "Known: %s\n\n", code(knownWords(i.Known.Until, i.Known.Reason)))
		}
		fmt.Fprintf(&b, "- incident %s: %s, %s\n", code(i.Fingerprint), foundIn(i), newest(i))
		if n < len(full.Stories) {
			s := full.Stories[n]
			for _, a := range s.Advice {
				fmt.Fprintf(&b, "- %s\n", md(a))
			}
			if replay := s.Replay(full.Summary.Ledger); replay != "" {
				fmt.Fprintf(&b, "- play it again: %s\n", code(replay))
			}
			fmt.Fprintf(&b, "- the whole story: %s\n", code(full.WhyCommand(s.Memory.ID)))
			markdownStory(&b, s.Story)
		}
	}
	if more := len(full.Incidents) - mostMarkdownIncidents; more > 0 {
		fmt.Fprintf(&b, "\nAnd %d more: %s\n", more, code("amnesia incidents "+full.Summary.Ledger))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteStepSummary writes the short form, for the page of a CI job: the result, the incidents, and how to go on.
func (full *Full) WriteStepSummary(w io.Writer) error {
	var b strings.Builder
	full.markdownHead(&b)
	if len(full.Incidents) > 0 {
		b.WriteString("\n| incident | found | cycles | one of them |\n|---|--:|--:|---|\n")
		for _, i := range full.Incidents[:min(len(full.Incidents), mostMarkdownRows)] {
			known := ""
			if i.Known != nil {
				known = ", known: " + code(knownWords(i.Known.Until, i.Known.Reason))
			}
			fmt.Fprintf(&b, "| %s%s | %d | %d | %s |\n", code(i.Fingerprint), known, i.Found, i.Cycles, i.Members[len(i.Members)-1].Verdict.Memory)
		}
	}
	for _, s := range full.Stories[:min(len(full.Stories), 1)] {
		b.WriteString("\nWhat to do:\n\n")
		for _, a := range s.Advice {
			fmt.Fprintf(&b, "- %s\n", md(a))
		}
		if replay := s.Replay(full.Summary.Ledger); replay != "" {
			fmt.Fprintf(&b, "- play it again: %s\n", code(replay))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// markdownHead writes the result, the losses by fault, and why cycles were not conclusive.
func (full *Full) markdownHead(b *strings.Builder) {
	s := full.Summary
	fmt.Fprintf(b, "## Amnesia: %s\n\n", md(full.Headline()))
	if lead := full.Lead(); lead != "" {
		fmt.Fprintf(b, "**%s**\n\n", md(lead))
	}
	fmt.Fprintf(b, "%s: %d cycles (%s), %d injections; %d memories acknowledged, %d rejected, %d neither; seed %d.\n", code(s.Target), s.Cycles.All(),
		counts([]count{{s.Cycles.Clean, "clean"}, {s.Cycles.Losses, "with losses"}, {s.Cycles.Defects, "with defects"}, {s.Cycles.Unrecovered, "unrecovered"},
			{s.Cycles.Inconclusive, "inconclusive"}}), s.Injections(), s.Writes.Acknowledged, s.Writes.Rejected, s.Writes.Unknown, s.Seed)
	views := full.Views()
	if len(full.Losses) > 0 {
		b.WriteString("\n| fault | service | injected | lost |")
		for _, v := range views {
			fmt.Fprintf(b, " missing from %s |", code(v))
		}
		b.WriteString("\n|---|---|--:|--:|" + strings.Repeat("--:|", len(views)) + "\n")
		for _, row := range full.Losses[:min(len(full.Losses), mostMarkdownRows)] {
			fmt.Fprintf(b, "| %s | %s | %d | %d |", code(row.Fault), code(row.Service), row.Injected, row.Lost)
			for _, v := range views {
				fmt.Fprintf(b, " %d |", row.Views[v])
			}
			b.WriteByte('\n')
		}
	}
	reasons := 0
	for _, c := range full.Cycles {
		if (c.Outcome == "inconclusive" || c.Outcome == "unrecovered") && reasons < mostMarkdownReasons {
			if reasons++; reasons == 1 {
				b.WriteByte('\n')
			}
			fmt.Fprintf(b, "- cycle %d is %s: %s\n", c.N, c.Outcome, code(abridged(c.Reason, longestText)))
		}
	}
}

func markdownStory(b *strings.Builder, s *incident.Story) {
	fmt.Fprintf(b, "\n<details><summary>The story of %s</summary>\n\n```text\n", s.Memory.ID)
	start := s.Told()
	for _, e := range s.Events[:min(len(s.Events), mostMarkdownEvents)] {
		line := fmt.Sprintf("%+.3fs %s %s: %s", e.At.Sub(start).Seconds(), e.What, e.Who, abridged(e.Text, longestText))
		fmt.Fprintln(b, strings.ReplaceAll(terminal.Line(line), "```", "'''"))
	}
	b.WriteString("```\n\n</details>\n")
}

// foundIn says how often an incident was found.
func foundIn(i incident.Incident) string {
	return fmt.Sprintf("%d found in %d %s", i.Found, i.Cycles, map[bool]string{true: "cycle", false: "cycles"}[i.Cycles == 1])
}

// code makes a text a piece of code: whatever is in it, it is shown as it is and stays in its cell.
func code(s string) string {
	s = strings.NewReplacer("`", "'", "|", "¦").Replace(terminal.Line(s))
	if strings.TrimSpace(s) == "" {
		return "–"
	}
	return "`" + s + "`"
}

// md escapes what Markdown, or the HTML in it, would act on. Commands and paths in the sentence stay readable.
func md(s string) string {
	var b strings.Builder
	for _, r := range terminal.Line(s) {
		if strings.ContainsRune("\\`*_[]<>|~#&@!", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
