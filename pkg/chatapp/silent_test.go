package chatapp_test

import (
	"context"
	"net"
	"testing"
	"time"

	"go.uber.org/zap"

	"amnesia/pkg/chatapp"
)

// TestStopDoesNotWaitForSilentConnections: a browser keeps connections open on which it has asked nothing.
func TestStopDoesNotWaitForSilentConnections(t *testing.T) {
	app, err := chatapp.New(t.Context(), chatapp.Config{Addr: "127.0.0.1:0", Data: t.TempDir(), Scratch: t.TempDir(), Log: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- app.Run(ctx) }()
	for range 3 {
		c, err := net.Dial("tcp", app.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	began := time.Now()
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("the app took %s to stop", took)
	}
}
