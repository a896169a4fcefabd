package browser

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/playwright-community/playwright-go"
	"go.uber.org/zap"

	"amnesia/pkg/session"
)

const (
	// evidenceTimeout bounds each piece of evidence.
	evidenceTimeout = 5 * time.Second
	// traceFor is how far back a trace reaches, at least; older parts are thrown away at the next Goto, so that the
	// trace of a long session stays small.
	traceFor = 5 * time.Minute
)

// Evidence saves a screenshot, the document as it stands and, where it is recorded, the trace since the surface was
// opened or last gave evidence. Its ctx is best not that of the action that failed, which may be over.
func (s *surface) Evidence(ctx context.Context, name string) []string {
	if s.d.cfg.EvidenceDir == "" || !s.e.alive() {
		return nil
	}
	stem := filepath.Join(s.d.cfg.EvidenceDir, session.EvidenceName(s.d.cfg.Clock.Now(), name))
	var saved []string
	save := func(path string, write func() error) {
		ctx, cancel := context.WithTimeout(ctx, evidenceTimeout)
		defer cancel()
		_, err := do(ctx, s.e, func() (struct{}, error) { return struct{}{}, write() })
		if err != nil {
			s.d.log.Debug("no evidence", zap.String("file", path), zap.String("error", brief(err)))
			return
		}
		saved = append(saved, path)
	}
	timeout := playwright.Float(float64(evidenceTimeout.Milliseconds()))
	save(stem+".png", func() error {
		_, err := s.page.Screenshot(playwright.PageScreenshotOptions{Path: playwright.String(stem + ".png"), Timeout: timeout})
		return err
	})
	save(stem+".html", func() error {
		html, err := s.page.Content()
		if err != nil {
			return err
		}
		return os.WriteFile(stem+".html", []byte(session.StillDocument(html)), 0o600)
	})
	if s.trace {
		save(stem+".zip", func() error {
			return s.cutTrace(stem + ".zip")
		})
	}
	return saved
}

// cutTrace ends the current part of the trace, saving it where a path is given, and begins the next.
func (s *surface) cutTrace(path ...string) error {
	if err := s.context.Tracing().StopChunk(path...); err != nil {
		return err
	}
	s.traced = time.Now()
	return s.context.Tracing().StartChunk()
}
