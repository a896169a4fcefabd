package main

import (
	"cmp"
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"amnesia/pkg/app"
)

// remoteCmds are those that talk to the running daemon.
func remoteCmds() []*cobra.Command {
	var reason string
	pause := remoteCmd("pause", "Hold back every fault until 'amnesia resume', over restarts of the daemon too; users and sweeps go on", noArgs,
		func(ctx context.Context, o app.RemoteOptions, _ []string) error {
			return app.Pause(ctx, console(), o, reason)
		})
	pause.Flags().StringVar(&reason, "reason", "", "`words` for those who find it paused")
	return []*cobra.Command{
		remoteCmd("status", "Say what the running daemon is doing and what it has found", noArgs,
			func(ctx context.Context, o app.RemoteOptions, _ []string) error {
				return app.StatusOf(ctx, console(), o)
			}),
		pause,
		remoteCmd("resume", "Let faults go again after a pause, or after the target did not recover", noArgs,
			func(ctx context.Context, o app.RemoteOptions, _ []string) error { return app.Resume(ctx, console(), o) }),
		remoteCmd("inject KIND [SERVICE]", "Have the next cycle take its fault from those declared of this kind and service, if the limits allow it", func(c *cobra.Command, args []string) error {
			if n := len(args); n == 1 || n == 2 {
				return nil
			}
			return app.Usage(fmt.Errorf("'%s' takes a kind and, but for crash_all, a service — fix: %s", c.CommandPath(), c.UseLine()))
		},
			func(ctx context.Context, o app.RemoteOptions, args []string) error {
				return app.Inject(ctx, console(), o, args[0], append(args, "")[1])
			}),
	}
}

func remoteCmd(use, short string, args cobra.PositionalArgs, run func(context.Context, app.RemoteOptions, []string) error) *cobra.Command {
	var o app.RemoteOptions
	c := &cobra.Command{
		Use:   use,
		Short: short,
		Long: short + `.

Environment:
  AMNESIA_ADDRESS   address of the daemon, in place of --address
  AMNESIA_TOKEN     the daemon's token (default: the file beside the ledger that the daemon made, ending with .token)`,
		Args: args,
	}
	form := output(c, "the status")
	f := c.Flags()
	f.StringVar(&o.Address, "address", cmp.Or(os.Getenv("AMNESIA_ADDRESS"), "127.0.0.1:9464"), "`address` of the daemon, host:port or https://host:port")
	f.StringVarP(&o.Ledger, "ledger", "l", "amnesia.db", "the daemon's ledger `file`, beside which its token is")
	c.RunE = func(c *cobra.Command, args []string) error {
		var err error
		if o.Form, err = outputForm(*form); err != nil {
			return err
		}
		o.Token = os.Getenv("AMNESIA_TOKEN")
		return run(c.Context(), o, args)
	}
	return c
}
