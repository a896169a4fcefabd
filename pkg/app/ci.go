package app

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"amnesia/pkg/incident"
	"amnesia/pkg/report"
)

// CIOptions are the flags for CI of the commands that judge a target.
type CIOptions struct {
	JUnit    string // file for the result as JUnit's XML; empty: none
	Markdown string // file that a summary is appended to; empty: none
	Baseline string // file with what is known; empty: none
}

// check refuses files that it must not write, or cannot; config are the configuration's, ledgers what is judged.
func (o CIOptions) check(config []string, ledgers ...string) error {
	return checkOutputs([]output{{"--junit", o.JUnit}, {"--markdown", o.Markdown}}, ledgers, append(slices.Clone(config), o.Baseline))
}

// known reads the baseline: a JSON report of an earlier run, its incidents alone, or their names, one a line.
func (o CIOptions) known() (known []incident.Known, err error) {
	if o.Baseline == "" {
		return nil, nil
	}
	b, err := os.ReadFile(o.Baseline)
	if err != nil {
		return nil, fmt.Errorf("--baseline: %w — fix: give what 'amnesia report -o json' wrote, or names of incidents, one a line", err)
	}
	names, err := baseline(b)
	if err != nil {
		return nil, fmt.Errorf("--baseline %s: %w — fix: give what 'amnesia report -o json' wrote, or names of incidents, one a line", o.Baseline, err)
	}
	for _, name := range names {
		known = append(known, incident.Known{Fingerprint: name, Until: report.NoEnd(), Reason: "it is in the baseline " + o.Baseline})
	}
	return known, nil
}

func baseline(b []byte) (names []string, err error) {
	type named struct {
		Fingerprint string `json:"fingerprint"`
	}
	if bytes.IndexByte(b, 0) >= 0 {
		return nil, errors.New("it is no text")
	}
	var all []named
	switch b := bytes.TrimSpace(b); {
	case bytes.HasPrefix(b, []byte("{")):
		var full struct {
			Incidents *[]named `json:"incidents"`
		}
		if err = json.Unmarshal(b, &full); err == nil && full.Incidents == nil {
			err = errors.New("it has no incidents")
		}
		if err != nil {
			return nil, err
		}
		all = *full.Incidents
	case bytes.HasPrefix(b, []byte("[")):
		if err := json.Unmarshal(b, &all); err != nil {
			return nil, err
		}
	default:
		lines := bufio.NewScanner(bytes.NewReader(b))
		for lines.Scan() {
			if line, _, _ := strings.Cut(lines.Text(), "#"); strings.TrimSpace(line) != "" {
				all = append(all, named{strings.TrimSpace(line)})
			}
		}
		if err := lines.Err(); err != nil {
			return nil, err
		}
	}
	for _, n := range all {
		if strings.Count(n.Fingerprint, "/") < 3 {
			const most = 40
			if r := []rune(n.Fingerprint); len(r) > most {
				n.Fingerprint = string(r[:most-1]) + "…"
			}
			return nil, fmt.Errorf("%q is no name of an incident", n.Fingerprint)
		}
		names = append(names, n.Fingerprint)
	}
	return names, nil
}

// write writes what was asked for of a ledger. trouble is what ended the run early, or nil. An ended ctx does not keep it
// from being written.
func (o CIOptions) write(ctx context.Context, s report.Summary, known []incident.Known, minConclusive float64, trouble error) error {
	if o.JUnit == "" && o.Markdown == "" {
		return nil
	}
	full, err := readFull(context.WithoutCancel(ctx), s.Ledger, known)
	if err != nil {
		return err
	}
	full.Summary.Target, full.Summary.DurationSeconds = s.Target, s.DurationSeconds
	return errors.Join(
		o.junit(func(w io.Writer) error { return full.WriteJUnit(w, minConclusive, trouble) }),
		o.markdown(full.WriteStepSummary))
}

// failed writes that nothing was found out, so that what an earlier run left is not taken for the result of this one.
func (o CIOptions) failed(target string, trouble error) error {
	return o.junit(func(w io.Writer) error { return report.WriteJUnitError(w, target, trouble) })
}

func (o CIOptions) junit(write func(io.Writer) error) error {
	if o.JUnit == "" {
		return nil
	}
	var b bytes.Buffer
	err := write(&b)
	if err == nil {
		err = os.WriteFile(o.JUnit, b.Bytes(), 0o640)
	}
	if err != nil {
		return fmt.Errorf("--junit: %w — fix: give a file in a folder that can be written", err)
	}
	return nil
}

// markdown appends, as the pages of CI jobs ask for.
func (o CIOptions) markdown(write func(io.Writer) error) error {
	if o.Markdown == "" {
		return nil
	}
	f, err := os.OpenFile(o.Markdown, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640)
	if err == nil {
		err = errors.Join(write(f), f.Close())
	}
	if err != nil {
		return fmt.Errorf("--markdown: %w — fix: give a file in a folder that can be written", err)
	}
	return nil
}
