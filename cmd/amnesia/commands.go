package main

import (
	"fmt"
	"os"
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
then looks in every place where a memory should still be, and counts those that were lost without anyone being told.

Start with:  amnesia demo`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	r.CompletionOptions.HiddenDefaultCmd = true
	r.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return app.Usage(fmt.Errorf("%w — fix: see '%s --help'", err, c.CommandPath()))
	})
	r.AddCommand(demoCmd(), runCmd(), whyCmd(), judgeCmd(), browserCmd(), versionCmd(), healthCmd(), sampleCmd())
	return r
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

// output adds --output and gives the chosen form.
func output(c *cobra.Command) *string {
	return c.Flags().StringP("output", "o", "text", "text or json (one object, and nothing else, on stdout)")
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
	return app.Console{Out: os.Stdout, Err: os.Stderr, Progress: term.IsTerminal(int(os.Stderr.Fd()))}
}

func status(code int) error {
	if code == 0 {
		return nil
	}
	return exitStatus(code)
}

func demoCmd() *cobra.Command {
	var o app.DemoOptions
	c := &cobra.Command{
		Use:   "demo",
		Short: "Run against a sample chat app with a planted bug, and without it; needs nothing installed",
		Args:  noArgs,
	}
	form := output(c)
	f := c.Flags()
	f.StringVar(&o.Bugs, "bugs", "ack-early", "bugs to plant in the first target, with commas between")
	f.StringVar(&o.Driver, "driver", "auto", "browser, http, or auto: browser where there is one")
	f.IntVar(&o.Cycles, "cycles", 13, "cycles for each target")
	f.StringVar(&o.Dir, "dir", "amnesia-demo", "where the ledgers and the sample's data are kept; emptied first")
	seed := seedFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		var err error
		if o.Form, err = outputForm(*form); err != nil {
			return err
		}
		o.Seed = seed()
		o.BrowserDir = os.Getenv("AMNESIA_BROWSER_DIR")
		o.Version = version
		code, err := app.Demo(c.Context(), console(), o)
		if err != nil {
			return err
		}
		return status(code)
	}
	return c
}

func runCmd() *cobra.Command {
	var o app.RunOptions
	c := &cobra.Command{
		Use:   "run",
		Short: "Run the daemon on the target of an amnesia.yaml",
		Args:  noArgs,
	}
	form := output(c)
	f := c.Flags()
	f.StringVarP(&o.Config, "config", "c", "amnesia.yaml", "configuration file")
	f.BoolVar(&o.Armed, "armed", false, "inject faults even when the file does not say armed: true")
	f.IntVar(&o.Cycles, "cycles", 0, "end after this many cycles (0: go on)")
	f.DurationVar(&o.For, "for", 0, "end after this time, such as 48h (0: go on)")
	f.Float64Var(&o.MinConclusive, "min-conclusive", 0.9, "share of cycles that must be conclusive for exit code 0")
	f.StringVar(&o.LogFormat, "log", "console", "form of the logs on stderr: console or json")
	seed := seedFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		var err error
		if o.Form, err = outputForm(*form); err != nil {
			return err
		}
		o.Seed = seed()
		o.BrowserDir = os.Getenv("AMNESIA_BROWSER_DIR")
		o.Version, o.Getenv = version, os.Getenv
		code, err := app.Run(c.Context(), console(), o)
		if err != nil {
			return err
		}
		return status(code)
	}
	return c
}

// seedFlag adds --seed; nil means: drawn, logged and recorded.
func seedFlag(c *cobra.Command) func() *uint64 {
	v := c.Flags().Uint64("seed", 0, "seed of the plan and of the memories (default: the file's, or drawn)")
	return func() *uint64 {
		if !c.Flags().Changed("seed") {
			return nil
		}
		return v
	}
}

func whyCmd() *cobra.Command {
	var ledger string
	c := &cobra.Command{
		Use:   "why MEMORY",
		Short: "Tell the story of one memory, by its id (m42) or its token",
		Args:  oneArg("memory"),
	}
	form := output(c)
	c.Flags().StringVarP(&ledger, "ledger", "l", "amnesia.db", "ledger file")
	c.RunE = func(c *cobra.Command, args []string) error {
		f, err := outputForm(*form)
		if err != nil {
			return err
		}
		return app.Why(c.Context(), console(), ledger, args[0], f)
	}
	return c
}

func judgeCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "judge LEDGER",
		Short: "Judge a recorded ledger again; it is not changed",
		Args:  oneArg("ledger file"),
	}
	form := output(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		f, err := outputForm(*form)
		if err != nil {
			return err
		}
		code, err := app.Judge(c.Context(), console(), args[0], f)
		if err != nil {
			return err
		}
		return status(code)
	}
	return c
}

func browserCmd() *cobra.Command {
	c := &cobra.Command{Use: "browser", Short: "The browser that users are played in", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	c.AddCommand(&cobra.Command{
		Use:   "install",
		Short: "Get Playwright's driver, and find or install Chromium",
		Args:  noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return app.InstallBrowser(c.Context(), console(), os.Getenv("AMNESIA_BROWSER_DIR"))
		},
	})
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
