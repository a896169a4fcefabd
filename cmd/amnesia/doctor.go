package main

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"amnesia/pkg/app"
)

func doctorCmd() *cobra.Command {
	var o app.DoctorOptions
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check what a run needs, and what of the target would lose memories by its settings alone",
		Long: `Looks at everything that a run needs: the configuration, the disk of the ledger, the addresses to listen on, the browser
and its driver, the engine, the health of every service, the faults that would be refused, a login, every view. Then it
reads off containers and stores what would lose memories: data in the writable layer, in memory or in an anonymous
volume, a volume mounted where the image does not write, Redis without an append-only file or with eviction, PostgreSQL
without fsync, and the like. Each finding says what would be lost, under which fault, and the fix.

It hurts nothing and tells nothing. One new user logs in, by the script's signup and login, and no question is asked.
Where Redis does not permit CONFIG GET, its command line is read instead, and that is said.

Exit codes:
  0  nothing found; there may be warnings, which lose nothing by themselves
  1  a check failed, or an error: a run could not do its work
  2  usage or configuration
  3  a setting that would lose memories, under a fault, under a power cut or under none
  4  none of these, but something could not be read
Of several the first of 2, 3, 1, 4 is given. What is ignored is shown and does not count.

Rules: ` + strings.Join(app.DoctorRules(), ", ") + `

Environment:
  AMNESIA_BROWSER_DIR   folder of the browser's driver (default: the user's cache)`,
		Example: `  amnesia doctor -c amnesia.yaml
  amnesia doctor -o json --ignore redis-appendfsync,no-restart      in CI`,
		Args: noArgs,
	}
	form := output(c, "the checks and the findings")
	f := c.Flags()
	f.StringArrayVarP(&o.Config, "config", "c", []string{"amnesia.yaml"}, "configuration `file`; further ones are laid over the first")
	f.StringSliceVar(&o.Ignore, "ignore", nil, "`rules` whose findings do not count, with commas between")
	c.RunE = func(c *cobra.Command, _ []string) error {
		var err error
		if o.Form, err = outputForm(*form); err != nil {
			return err
		}
		o.Getenv, o.BrowserDir = os.Getenv, os.Getenv("AMNESIA_BROWSER_DIR")
		return ended(app.Doctor(c.Context(), console(), o))
	}
	return c
}
