package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/playwright-community/playwright-go"
	"go.uber.org/zap"

	"amnesia/pkg/memory"
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

// glanceTimeout bounds one glance: nobody waits long for what may never be asked for.
const glanceTimeout = time.Second

// Loaded says when the document was asked for.
func (s *surface) Loaded() memory.Instant {
	doc, _ := s.net.document()
	if doc == nil {
		return memory.Instant{}
	}
	return doc.began
}

// Glance gives the document as it stands.
func (s *surface) Glance(ctx context.Context) (session.Glance, error) {
	ctx, cancel := context.WithTimeout(ctx, glanceTimeout)
	defer cancel()
	doc, _ := s.net.document()
	if doc == nil || doc.failed() || s.spoilt != nil {
		return session.Glance{}, errors.New("there is no page")
	}
	g := session.Glance{URL: doc.url, Loaded: doc.began, At: s.d.cfg.Clock.Now()}
	var err error
	g.Document, err = do(ctx, s.e, s.page.Content)
	return g, err
}

// SaveTrace saves the trace since the surface was opened or last gave evidence.
func (s *surface) SaveTrace(ctx context.Context, name string) string {
	if !s.trace || s.d.cfg.EvidenceDir == "" || !s.e.alive() {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, evidenceTimeout)
	defer cancel()
	path := filepath.Join(s.d.cfg.EvidenceDir, session.EvidenceName(s.d.cfg.Clock.Now(), name)+".zip")
	if _, err := do(ctx, s.e, func() (struct{}, error) { return struct{}{}, s.cutTrace(path) }); err != nil {
		s.d.log.Debug("no trace", zap.String("file", path), zap.String("error", brief(err)))
		return ""
	}
	return path
}

// Draw makes a screenshot of a document that was glanced at, with what it fetched from its address for its looks, and
// without running anything of it.
func (d *Driver) Draw(ctx context.Context, g session.Glance, path string) error {
	seat := d.take(nil)
	defer d.leave(seat)
	e, err := d.running(ctx, seat)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, evidenceTimeout)
	defer cancel()
	timeout := playwright.Float(float64(evidenceTimeout.Milliseconds()))
	_, err = do(ctx, e, func() (struct{}, error) {
		c, err := e.browser.NewContext(playwright.BrowserNewContextOptions{
			JavaScriptEnabled: playwright.Bool(false), Viewport: &playwright.Size{Width: 1280, Height: 800},
		})
		if err != nil {
			return struct{}{}, err
		}
		defer c.Close()
		page, err := c.NewPage()
		if err != nil {
			return struct{}{}, err
		}
		// The answer to its own address is the document: so that what it names beside it is found. The address is the target's,
		// and no pattern.
		err = page.Route(func(url string) bool { return withoutFragment(url) == withoutFragment(g.URL) }, func(r playwright.Route) {
			_ = r.Fulfill(playwright.RouteFulfillOptions{Body: g.Document, ContentType: playwright.String("text/html; charset=utf-8")})
		})
		if err == nil {
			_, err = page.Goto(g.URL, playwright.PageGotoOptions{Timeout: timeout})
		}
		if err == nil {
			_, err = page.Screenshot(playwright.PageScreenshotOptions{Path: playwright.String(path), Timeout: timeout})
		}
		return struct{}{}, err
	})
	if err != nil {
		return fmt.Errorf("drawing the page %s again: %s", g.URL, brief(err))
	}
	return nil
}

func withoutFragment(url string) string {
	url, _, _ = strings.Cut(url, "#")
	return url
}

// cutTrace ends the current part of the trace, saving it where a path is given, and begins the next.
func (s *surface) cutTrace(path ...string) error {
	if err := s.context.Tracing().StopChunk(path...); err != nil {
		return err
	}
	s.traced = time.Now()
	return s.context.Tracing().StartChunk()
}
