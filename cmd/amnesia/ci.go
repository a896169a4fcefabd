package main

import (
	"github.com/spf13/cobra"

	"amnesia/pkg/app"
)

// ciFlags adds the flags for CI to a command that judges a target.
func ciFlags(c *cobra.Command, o *app.CIOptions) {
	f := c.Flags()
	f.StringVar(&o.JUnit, "junit", "", "`file` for the result as JUnit's XML, as GitLab, Jenkins and the actions for GitHub read it")
	f.StringVar(&o.Markdown, "markdown", "", "`file` that a summary in Markdown is appended to, such as $GITHUB_STEP_SUMMARY")
	f.StringVar(&o.Baseline, "baseline", "", "`file` with what is known: losses and defects of its incidents are said, and fail nothing; what 'amnesia report -o json' wrote of an earlier run, or names of incidents, one a line")
}

func judgeCmd() *cobra.Command {
	var o app.JudgeOptions
	c := &cobra.Command{
		Use:   "judge LEDGER",
		Short: "Judge a recorded ledger again; it is not changed",
		Long:  "Judges the whole of a recorded ledger again, as of its last fact, and prints the summary. The ledger is not changed." + exitCodes,
		Args:  oneArg("ledger file"),
	}
	form := output(c, "one summary")
	share := minConclusive(c)
	ciFlags(c, &o.CI)
	c.RunE = func(c *cobra.Command, args []string) error {
		var err error
		if o.Form, err = outputForm(*form); err != nil {
			return err
		}
		o.Ledger, o.MinConclusive = args[0], *share
		return ended(app.Judge(c.Context(), console(), o))
	}
	return c
}

func schemaCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of amnesia.yaml, for completion and checks in editors",
		Long: `Prints the JSON Schema (draft 2020-12) of amnesia.yaml. With the YAML language server, the file begins with

  # yaml-language-server: $schema=amnesia.schema.json`,
		Example: "  amnesia schema > amnesia.schema.json",
		Args:    noArgs,
		RunE:    func(*cobra.Command, []string) error { return app.Schema(console()) },
	}
}
