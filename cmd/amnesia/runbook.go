package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"amnesia/pkg/app"
)

func runbookCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "runbook [ALERT]",
		Short: "Print what to do about an alert, or about each of them",
		Long: `Prints what an alert means, what to look at, what usually causes it and how to silence it rightly. The daemon serves the
same at /runbook, where the alerts link to.`,
		Example: "  amnesia runbook AmnesiaMemoriesLost",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) <= 1 {
				return nil
			}
			return app.Usage(fmt.Errorf("'%s' takes at most one alert, not %d — fix: %s", c.CommandPath(), len(args), c.UseLine()))
		},
		RunE: func(_ *cobra.Command, args []string) error {
			return app.Runbook(console(), append(args, "")[0])
		},
	}
}
