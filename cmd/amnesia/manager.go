package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/coreos/go-systemd/v22/daemon"

	"amnesia/pkg/app"
)

// manager is systemd, where it started us, and SIGHUP anywhere, until ctx ends.
func manager(ctx context.Context) app.Manager {
	hangups, reload := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(hangups, syscall.SIGHUP)
	context.AfterFunc(ctx, func() { signal.Stop(hangups) })
	go func() {
		for {
			select {
			case <-hangups:
			case <-ctx.Done():
				return
			}
			select {
			case reload <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
	}()
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		fmt.Fprintln(os.Stderr, "amnesia: systemd's watchdog is not heard:", err)
	}
	return app.Manager{Reload: reload, Watchdog: every, Notify: func(state string) {
		if _, err := daemon.SdNotify(false, state); err != nil {
			fmt.Fprintln(os.Stderr, "amnesia: telling systemd:", err)
		}
	}}
}
