package explore_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"amnesia/pkg/chatapp"
	"amnesia/pkg/clock"
	"amnesia/pkg/session"
	"amnesia/pkg/session/browser"
	"amnesia/pkg/session/browser/browsertest"
	"amnesia/pkg/session/explore"
)

// start starts a browser. Where there is none a test is skipped, but not in CI.
func start(t *testing.T) *browser.Driver {
	t.Helper()
	found := browsertest.Installed(t)
	d, err := browser.New(t.Context(), browser.Config{DriverDir: found.DriverDir, ExecutablePath: found.ExecutablePath,
		Headless: true, Clock: clock.System(), Logger: zaptest.NewLogger(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("closing the driver: %v", err)
		}
	})
	return d
}

// enough is the patience with what is there, and short that with what is not, all of which is waited for.
const enough, short = 10 * time.Second, 4 * time.Second

func look(t *testing.T, d *browser.Driver, url string, patience time.Duration) *explore.Found {
	t.Helper()
	found, err := explore.Explore(t.Context(), explore.Config{URL: url, Open: d.At(url).Open, Run: "probe", Patience: patience})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestExplore looks at several apps, with one browser.
func TestExplore(t *testing.T) {
	t.Parallel()
	d := start(t)
	for name, test := range map[string]func(*testing.T, *browser.Driver){
		"the sample": sampleIsRead, "a notebook": notebookIsRead, "what is not seen again": notSeenAgain, "nothing to find": nothingToFind,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, d)
		})
	}
}

// sampleIsRead looks at the sample target, whose page is made of scripts: what is found must be what a person wrote for it.
func sampleIsRead(t *testing.T, d *browser.Driver) {
	app, err := chatapp.New(t.Context(), chatapp.Config{Addr: "127.0.0.1:0", Data: t.TempDir(), Scratch: t.TempDir(), Log: zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- app.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	found := look(t, d, "http://"+app.Addr(), enough)
	want := session.Script{
		Login: []session.Step{
			{Goto: "/login"}, fill("#username", "{{.User}}"), fill("#password", "{{.Password}}"), {Click: "button[type=submit]"},
			{Expect: &session.Expect{Selector: "#message"}},
		},
		Tell: []session.Step{
			fill("#message", "{{.Memory}}"), {Click: "#send"},
			{Acknowledged: &session.Ack{Level: "shown", Expect: session.Expect{Selector: ".assistant .text", Contains: "{{.Token}}"}}},
			{Acknowledged: &session.Ack{Level: "settled", Expect: session.Expect{Response: "**/api/chat"}}},
		},
		Recall: []session.Step{{Goto: "/chat"}, {Read: &session.Read{Selector: ".user .text"}}},
		Logout: []session.Step{{Click: "#logout"}, {Expect: &session.Expect{Selector: "#logout", State: "hidden"}}},
	}
	if diff := cmp.Diff(want, found.Script); diff != "" || len(found.Gaps) > 0 || found.Accounts != "" {
		t.Errorf("gaps %v, accounts %q (-want +got)\n%s", found.Gaps, found.Accounts, diff)
	}
}

func fill(selector, text string) session.Step {
	return session.Step{Fill: &session.Fill{Selector: selector, Text: text}}
}
