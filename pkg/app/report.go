package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"amnesia/pkg/config"
	"amnesia/pkg/fact"
	"amnesia/pkg/incident"
	"amnesia/pkg/ledger"
	"amnesia/pkg/report"
	"amnesia/pkg/session"
)

// The forms of a report beside those of every result.
const (
	HTML Form = iota + JSON + 1
	Markdown
)

// ReportOptions are the flags of `amnesia report`.
type ReportOptions struct {
	Ledger   string
	Form     Form
	File     string // empty: the report goes to Out
	Picture  string // a file for a drawing of the curves alone; empty: none
	Evidence string // the folder of the pictures; empty: it is looked for beside the ledger
}

// Report judges a recorded ledger again and tells all there is to say.
func Report(ctx context.Context, c Console, o ReportOptions) error {
	if err := checkOutputs([]output{{"--file", o.File}, {"--picture", o.Picture}}, []string{o.Ledger}, nil); err != nil {
		return err
	}
	if err := checkFolder(o.Evidence); err != nil {
		return err
	}
	full, err := readFull(ctx, o.Ledger, nil)
	if err != nil && ctx.Err() != nil {
		return errors.New("interrupted; nothing was written")
	}
	if err != nil {
		return err
	}
	if o.Picture != "" {
		if err := drawCurves(o.Picture, full); err != nil {
			return err
		}
	}
	var b bytes.Buffer
	if err := writeFull(&b, full, o); err != nil {
		return fmt.Errorf("writing the report of %s: %w", o.Ledger, err)
	}
	if o.File == "" {
		_, err := c.Out.Write(b.Bytes())
		return err
	}
	if err := os.WriteFile(o.File, b.Bytes(), 0o640); err != nil {
		return fmt.Errorf("writing the report: %w — fix: give a file in a folder that can be written", err)
	}
	return nil
}

func writeFull(w io.Writer, full *report.Full, o ReportOptions) error {
	switch o.Form {
	case JSON:
		return writeJSON(w, full)
	case HTML:
		return full.WriteHTML(w, pictures(o.Ledger, o.Evidence).read)
	case Markdown:
		return full.WriteMarkdown(w)
	}
	return full.WriteText(w)
}

// readFull reads a ledger twice: to judge it, and for the stories.
func readFull(ctx context.Context, path string, known []incident.Known) (full *report.Full, err error) {
	l, err := openRecorded(ctx, path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	fold := report.NewFold(known)
	if err := apply(ctx, l, fold.Apply); err != nil {
		return nil, err
	}
	full = fold.Full(path)
	tellers := fold.Tellers(full)
	if err := apply(ctx, l, tellers.Apply); err != nil {
		return nil, err
	}
	tellers.Tell()
	return full, nil
}

// apply gives every fact of a ledger to fn.
func apply(ctx context.Context, l *ledger.Ledger, fn func(fact.Entry)) error {
	for e, err := range l.Facts(ctx, 0) {
		if err != nil {
			return err
		}
		fn(e)
	}
	return nil
}

func drawCurves(path string, full *report.Full) error {
	if len(full.Curves) == 0 {
		return errors.New("no fault lost a memory that was told in its cycle: there is nothing to draw — fix: leave --picture out")
	}
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("drawing the curves: %w — fix: give a path in a folder that can be written", err)
	}
	return errors.Join(full.DrawCurves(f), f.Close())
}

// Incidents lists the incidents of a ledger.
func Incidents(ctx context.Context, c Console, path string, f Form) (err error) {
	l, err := openRecorded(ctx, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	fold := report.NewFold(nil)
	if err := apply(ctx, l, fold.Apply); err != nil {
		return err
	}
	all := fold.Incidents()
	if f == JSON {
		return writeJSON(c.Out, all)
	}
	return incident.WriteTable(c.Out, all)
}

// WhyOptions are the flags of `amnesia why`.
type WhyOptions struct {
	Ledger   string
	Memory   string // its id or its token
	Form     Form
	Evidence string // the folder of the pictures; empty: it is looked for beside the ledger
}

// Why tells the story of one memory.
func Why(ctx context.Context, c Console, o WhyOptions) (err error) {
	if err := checkFolder(o.Evidence); err != nil {
		return err
	}
	l, err := openRecorded(ctx, o.Ledger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	story, err := incident.Tell(ctx, l, o.Memory)
	if err != nil {
		return err
	}
	if o.Form == JSON {
		return writeJSON(c.Out, story)
	}
	return story.Write(c.Out, o.Ledger, pictures(o.Ledger, o.Evidence).find)
}

// checkFolder looks at --evidence; empty, it was not given.
func checkFolder(folder string) error {
	if folder == "" {
		return nil
	}
	info, err := os.Stat(folder)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no folder", folder)
	}
	if err != nil {
		return Usage(fmt.Errorf("--evidence: %w — fix: give the folder that evidence.dir of the run's amnesia.yaml names, or leave it out", err))
	}
	return nil
}

// gallery finds files of evidence. A ledger may have been moved, with its evidence or without.
type gallery struct{ folders []string }

// pictures gives the gallery of a ledger: folder, or else what is usual.
func pictures(ledger, folder string) gallery {
	if folder != "" {
		return gallery{[]string{folder}}
	}
	beside := filepath.Dir(ledger)
	return gallery{[]string{filepath.Join(beside, "amnesia-evidence"), beside, "."}}
}

// find gives the path of a picture, from the root, and whether it is there. A ledger is not to name other files of this
// machine: what is no file of evidence is not there.
func (g gallery) find(file string) (path string, there bool) {
	candidates := []string{file}
	if !filepath.IsAbs(file) {
		candidates = nil
		for _, dir := range g.folders {
			candidates = append(candidates, filepath.Join(dir, file))
		}
	}
	for _, dir := range g.folders {
		candidates = append(candidates, filepath.Join(dir, filepath.Base(file)))
	}
	for _, path := range candidates {
		info, err := os.Lstat(path)
		if _, ours := session.EvidenceTime(filepath.Base(path)); ours && err == nil && info.Mode().IsRegular() {
			return absolute(path), true
		}
	}
	return absolute(candidates[0]), false
}

// mostPicture bounds a picture that is put into a report, in bytes.
const mostPicture = 1 << 20

// read gives a screenshot; the error says why there is none.
func (g gallery) read(file string) ([]byte, error) {
	path, there := g.find(file)
	if !there {
		return nil, errors.New("it is not there any more")
	}
	if !strings.HasSuffix(path, ".png") {
		return nil, errors.New("it is no picture")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, mostPicture+1))
	switch {
	case err != nil:
		return nil, err
	case len(b) > mostPicture:
		return nil, errors.New("it is too large to be shown here")
	case !bytes.HasPrefix(b, []byte("\x89PNG\r\n\x1a\n")):
		return nil, errors.New("it is no picture")
	}
	return b, nil
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// Schema prints the JSON Schema of the configuration.
func Schema(c Console) error {
	_, err := c.Out.Write(append(bytes.TrimRight(config.Schema(), "\n"), '\n'))
	return err
}
