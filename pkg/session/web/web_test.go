package web_test

import (
	"testing"

	"amnesia/pkg/clock"
	"amnesia/pkg/session"
	"amnesia/pkg/session/sessiontest"
	"amnesia/pkg/session/web"
)

func open(t *testing.T, url string) session.Driver {
	t.Helper()
	d, err := web.New(web.Config{BaseURL: url, Clock: clock.System(), Evidence: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestSuite(t *testing.T) { sessiontest.Run(t, open, sessiontest.Features{}) }
