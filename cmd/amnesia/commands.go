package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"amnesia/pkg/app"
	"amnesia/pkg/chatapp"
)

// root builds the command tree.
func root() *cobra.Command {
	r := &cobra.Command{
		Use:   "amnesia",
		Short: "Finds out whether an LLM application forgets what its users told it",
		Long: `Amnesia plays users in a real browser, kills, restarts and wipes the application's services at random points,
then looks in every place where a memory should still be, and counts those that were lost without anyone being told.` + exitCodes,
		Example: `  amnesia demo                                  the whole idea in a minute, on a sample application
  amnesia init                                  writes an amnesia.yaml for the compose project that runs here
  amnesia run                                   on your application, as ./amnesia.yaml describes it
  amnesia run --armed --cycles 20 -o json       in CI
  amnesia why m42 --ledger amnesia.db           the story of one memory`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	r.CompletionOptions.HiddenDefaultCmd = true
	r.SetHelpCommand(helpCmd())
	r.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return app.Usage(fmt.Errorf("%w — fix: see '%s --help'", err, c.CommandPath()))
	})
	r.AddCommand(demoCmd(), initCmd(), doctorCmd(), runCmd(), whyCmd(), incidentsCmd(), reportCmd(), judgeCmd(), replayCmd(), revertCmd(), runbookCmd(), browserCmd(), schemaCmd(), versionCmd(), healthCmd(), sampleCmd())
	r.AddCommand(remoteCmds()...)
	return r
}

// exitCodes ends the help of the commands that judge a target.
const exitCodes = `

Exit codes:
  0  nothing found
  1  error
  2  usage or configuration
  3  a silent or reported loss, a defect, or a target that did not recover; not what is known
  4  none of these, but too few cycles were conclusive`

// helpCmd is 'amnesia help COMMAND'; unlike cobra's own it refuses what is no command.
func helpCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show the help of a command",
		RunE: func(c *cobra.Command, args []string) error {
			cmd, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return app.Usage(fmt.Errorf("there is no command %q — fix: see 'amnesia --help'", strings.Join(args, " ")))
			}
			return cmd.Help()
		},
	}
}

// noArgs refuses arguments, with the exit code of a usage error.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return app.Usage(fmt.Errorf("%q is no command or argument of '%s' — fix: see '%s --help'", args[0], c.CommandPath(), c.CommandPath()))
}

func oneArg(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 1 {
			return nil
		}
		return app.Usage(fmt.Errorf("'%s' takes exactly one %s, not %d — fix: %s", c.CommandPath(), what, len(args), c.UseLine()))
	}
}

// output adds --output; what says what is printed as JSON.
func output(c *cobra.Command, what string) *string {
	return c.Flags().StringP("output", "o", "text", "`form` of the result on stdout: text, or json ("+what+")")
}

func outputForm(s string) (app.Form, error) {
	switch s {
	case "text":
		return app.Text, nil
	case "json":
		return app.JSON, nil
	}
	return 0, app.Usage(fmt.Errorf("--output %s is unknown — fix: text or json", s))
}

// console says where results and words for people go. Progress is drawn on a terminal only.
func console() app.Console {
	return app.NewConsole(os.Stdout, os.Stderr, term.IsTerminal(int(os.Stderr.Fd())))
}

// ended ends a command with an exit code, and with an error if one is to be told.
func ended(code int, err error) error {
	if code == 0 && err == nil {
		return nil
	}
	return exitStatus{code, err}
}

func demoCmd() *cobra.Command {
	var o app.DemoOptions
	c := &cobra.Command{
		Use:   "demo",
		Short: "Run against a sample chat app with a planted bug, and without it; needs nothing installed",
		Long: `Runs cycles against a sample chat application with a planted bug, and against the same without it, and shows what was
lost and why. Everything runs on this machine as plain processes; nothing has to be installed.

Exit codes:
  0  both targets were judged as planted
  1  they were not, or an error
  2  usage`,
		Args: noArgs,
	}
	form := output(c, "an array with one summary for each target")
	f := c.Flags()
	f.StringVar(&o.Bugs, "bugs", "ack-early", "`names` of the bugs to plant in the first target, with commas between: "+known())
	f.StringVar(&o.Driver, "driver", "auto", "`driver` that plays the users: browser, http, or auto (browser where there is one)")
	f.IntVar(&o.Cycles, "cycles", 12, "cycles for each target, at least 2: the first is a control, without a fault")
	f.StringVar(&o.Dir, "dir", "amnesia-demo", "`folder` for the ledgers and the sample's data; what an earlier demo left there is removed")
	seed := seedFlag(c, "drawn")
	c.RunE = func(c *cobra.Command, _ []string) error {
		var err error
		if o.Form, err = outputForm(*form); err != nil {
			return err
		}
		if bugs, err := chatapp.ParseBugs(o.Bugs); err != nil {
			return app.Usage(fmt.Errorf("--bugs: %w", err))
		} else if len(bugs) == 0 {
			return app.Usage(fmt.Errorf("--bugs names none, and the demo is about one — fix: choose from %s", known()))
		}
		o.Seed = seed()
		o.BrowserDir = os.Getenv("AMNESIA_BROWSER_DIR")
		o.Version = version
		return ended(app.Demo(c.Context(), console(), o))
	}
	return c
}

// known lists the bugs that can be planted.
func known() string {
	var names []string
	for _, b := range chatapp.KnownBugs() {
		names = append(names, string(b))
	}
	return strings.Join(names, ", ")
}

func runCmd() *cobra.Command {
	var o app.RunOptions
	c := &cobra.Command{
		Use:   "run",
		Short: "Run the daemon on the target of an amnesia.yaml",
		Long: `Runs cycles on the target that the configuration describes, until --cycles, --for or SIGTERM ends them, and then prints
the summary of the ledger. Logs go to stderr. What is judged is the whole ledger, earlier runs with it.

SIGHUP has the configuration read again: the run goes on with it after the cycle under way. One that is wrong is refused,
and the old one goes on. Under systemd it says when it is ready and, to the watchdog, that it lives.

Environment:
  AMNESIA_BROWSER_DIR   folder of the browser's driver (default: the user's cache)
  AMNESIA_WITNESS       file or pipe that every fact is written to once it is durable, a line of JSON each: for tests of
                        the daemon itself (make torture)` + exitCodes,
		Args: noArgs,
	}
	finish := soakFlags(c, &o.SoakOptions, "one summary", "the file's, or drawn")
	f := c.Flags()
	f.IntVar(&o.Cycles, "cycles", 0, "end after this many cycles (0: go on)")
	f.DurationVar(&o.For, "for", 0, "end after this `time`, such as 48h (0: go on)")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := finish(); err != nil {
			return err
		}
		o.Witness = os.Getenv("AMNESIA_WITNESS")
		o.Manager = manager(c.Context())
		return ended(app.Run(c.Context(), console(), o))
	}
	return c
}

// soakFlags adds the flags of a command that runs cycles; finish puts into o what can only be said once they are parsed.
func soakFlags(c *cobra.Command, o *app.SoakOptions, result, seedOtherwise string) (finish func() error) {
	form := output(c, result)
	f := c.Flags()
	f.StringArrayVarP(&o.Config, "config", "c", []string{"amnesia.yaml"}, "configuration `file`; further ones are laid over the first, and an empty key takes away")
	f.BoolVar(&o.Armed, "armed", false, "inject faults although the file does not say armed: true (without, they are only announced)")
	share := minConclusive(c)
	f.StringVar(&o.LogFormat, "log", "console", "`form` of the logs on stderr: console or json")
	seed := seedFlag(c, seedOtherwise)
	ciFlags(c, &o.CI)
	return func() error {
		var err error
		if o.Form, err = outputForm(*form); err != nil {
			return err
		}
		o.Seed, o.MinConclusive = seed(), *share
		o.BrowserDir = os.Getenv("AMNESIA_BROWSER_DIR")
		o.Version, o.Getenv = version, os.Getenv
		return nil
	}
}

func replayCmd() *cobra.Command {
	var o app.ReplayOptions
	c := &cobra.Command{
		Use:   "replay LEDGER --cycle N",
		Short: "Play the fault of a recorded cycle again, several times, and say how often it loses",
		Long: `Takes the plan of one cycle from a recorded ledger (which fault, on what, after which point and delay), plays it again on
the target of the configuration, each time with new accounts and memories, and says in how many of the replays it showed,
with the 95 % interval. A first cycle without a fault calibrates. The replays have a ledger of their own, with which
'amnesia why' and 'amnesia report' work as with any other; the recorded one is not changed.

Environment:
  AMNESIA_BROWSER_DIR   folder of the browser's driver (default: the user's cache)` + exitCodes,
		Example: `  amnesia replay amnesia.db --cycle 7 --armed
  amnesia replay amnesia.db --cycle 7 --times 30 -c staging.yaml -o json`,
		Args: oneArg("ledger file"),
	}
	finish := soakFlags(c, &o.SoakOptions, "one object: the rates, and the summary", "that of the recorded run")
	f := c.Flags()
	f.IntVar(&o.Cycle, "cycle", 0, "`number` of the recorded cycle, one with a fault")
	f.IntVar(&o.Times, "times", 10, "how many `times` to play it")
	f.StringVarP(&o.Ledger, "ledger", "l", "", "new `file` for the ledger of the replays (default: beside the recorded one, named after it and the cycle)")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := finish(); err != nil {
			return err
		}
		o.From = args[0]
		return ended(app.Replay(c.Context(), console(), o))
	}
	return c
}

func revertCmd() *cobra.Command {
	var o app.RevertOptions
	c := &cobra.Command{
		Use:   "revert LEDGER",
		Short: "Undo by hand what a daemon left done to its target",
		Long: `Undoes every injection that is open in a ledger: what is paused goes on, what is cut off is joined again, what is down is
started. It prints a line for each and records it. A daemon that starts does the same by itself, and so does the guardian
of one that died: this is for when neither could. A ledger that a daemon holds is refused.

Exit codes:
  0  nothing is open any more
  1  something could not be undone, or an error
  2  usage or configuration`,
		Args: oneArg("ledger file"),
	}
	c.Flags().StringArrayVarP(&o.Config, "config", "c", []string{"amnesia.yaml"}, "configuration `file` of the target; further ones are laid over the first")
	c.RunE = func(c *cobra.Command, args []string) error {
		o.Ledger, o.Getenv = args[0], os.Getenv
		return app.Revert(c.Context(), console(), o)
	}
	return c
}

func minConclusive(c *cobra.Command) *float64 {
	return c.Flags().Float64("min-conclusive", 0.9, "`share` of the cycles that must be conclusive, from 0 to 1; below it the exit code is 4")
}

// seedFlag adds --seed; nil means that it was not given.
func seedFlag(c *cobra.Command, otherwise string) func() *uint64 {
	v := c.Flags().Uint64("seed", 0, "`number` from which the plan of faults and the memories follow (default: "+otherwise+")")
	return func() *uint64 {
		if !c.Flags().Changed("seed") {
			return nil
		}
		return v
	}
}

func browserCmd() *cobra.Command {
	c := &cobra.Command{Use: "browser", Short: "The browser that users are played in", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	var driverOnly bool
	install := &cobra.Command{
		Use:   "install",
		Short: "Get Playwright's driver, and find or install Chromium",
		Args:  noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return app.InstallBrowser(c.Context(), console(), os.Getenv("AMNESIA_BROWSER_DIR"), driverOnly)
		},
	}
	install.Flags().BoolVar(&driverOnly, "driver-only", false, "no Chromium: sessions.browser.connect names browsers elsewhere")
	c.AddCommand(install)
	return c
}

func versionCmd() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Print the version", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(os.Stdout, app.Version(version))
			return err
		}}
}

// healthCmd is for the container's HEALTHCHECK, where there is no curl.
func healthCmd() *cobra.Command {
	var addr string
	c := &cobra.Command{Use: "healthcheck", Hidden: true, Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return app.HealthCheck(c.Context(), addr, 2*time.Second) }}
	c.Flags().StringVar(&addr, "address", "127.0.0.1:9464", "address that the daemon listens on")
	return c
}

// sampleCmd is the demo's target, so that the demo needs no second binary.
func sampleCmd() *cobra.Command {
	return &cobra.Command{Use: "sample", Hidden: true, Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return chatapp.Main(c.Context(), os.Getenv, os.Stdout, os.Stderr)
		}}
}
