package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"amnesia/pkg/app"
)

func whyCmd() *cobra.Command {
	var o app.WhyOptions
	c := &cobra.Command{
		Use:   "why MEMORY",
		Short: "Tell the story of one memory, by its id (m42) or its token",
		Long: `Tells from the ledger alone what happened to one memory and what to do about it: the fault, how long after the
acknowledgement it came, what each view showed before and after, the log lines and the state of the services around it, the
screenshots, and the command that plays the fault again.`,
		Example: "  amnesia why m42 --ledger amnesia.db",
		Args:    oneArg("memory"),
	}
	form := output(c, "the story")
	c.Flags().StringVarP(&o.Ledger, "ledger", "l", "amnesia.db", "ledger `file`")
	evidenceFlag(c, &o.Evidence)
	c.RunE = func(c *cobra.Command, args []string) error {
		var err error
		if o.Form, err = outputForm(*form); err != nil {
			return err
		}
		o.Memory = args[0]
		return app.Why(c.Context(), console(), o)
	}
	return c
}

func incidentsCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "incidents [LEDGER]",
		Short: "List what was lost, or is wrong, by its cause; the newest first",
		Long: `Losses of one fault, service, set of views and class are one incident, as are the defects of a kind. Its name, such as
silent/kill/redis/page+redis, is what known: in the configuration, and --baseline, take. The ledger is not changed.`,
		Example: "  amnesia incidents amnesia.db",
	}
	ledger := recordedLedger(c)
	form := output(c, "an array of incidents")
	c.RunE = func(c *cobra.Command, args []string) error {
		f, err := outputForm(*form)
		if err != nil {
			return err
		}
		return app.Incidents(c.Context(), console(), ledger(args), f)
	}
	return c
}

func reportCmd() *cobra.Command {
	var o app.ReportOptions
	var form string
	c := &cobra.Command{
		Use:   "report [LEDGER]",
		Short: "Tell all that a ledger has to say: as text, as one HTML file for a ticket, as Markdown, or as JSON",
		Long: `Judges a recorded ledger again and tells the summary, every memory that was found wanting, the losses by fault, service and
view, and for each fault that lost something how likely a memory is lost to it so long after its acknowledgement, with the
95 % interval. The forms html, markdown and json have the incidents too: their causes, the findings and log lines of the
services, and the command that plays the fault again. html is one file with its pictures inside, which fetches and runs
nothing. The ledger is not changed.`,
		Example: `  amnesia report amnesia.db
  amnesia report amnesia.db --file report.html
  amnesia report amnesia.db -o markdown | gh issue create --title 'Memories were lost' --body-file -`,
	}
	ledger := recordedLedger(c)
	f := c.Flags()
	f.StringVarP(&form, "output", "o", "text", "`form` of the report: text, html, markdown, or json (default: as the ending of --file says)")
	f.StringVar(&o.File, "file", "", "`file` for the report; - is stdout (default: stdout)")
	f.StringVar(&o.Picture, "picture", "", "`file` for a drawing of the curves (SVG)")
	evidenceFlag(c, &o.Evidence)
	c.RunE = func(c *cobra.Command, args []string) error {
		if o.File == "-" {
			o.File = ""
		}
		if o.File != "" && !c.Flags().Changed("output") {
			form = map[string]string{".html": "html", ".htm": "html", ".md": "markdown", ".json": "json", ".txt": "text"}[strings.ToLower(filepath.Ext(o.File))]
			if form == "" {
				return app.Usage(fmt.Errorf("--file %s does not say the form of the report — fix: let it end in .html, .md, .json or .txt, or give --output", o.File))
			}
		}
		forms := map[string]app.Form{"text": app.Text, "json": app.JSON, "html": app.HTML, "markdown": app.Markdown}
		var ok bool
		if o.Form, ok = forms[form]; !ok {
			return app.Usage(fmt.Errorf("--output %s is unknown — fix: text, html, markdown or json", form))
		}
		o.Ledger = ledger(args)
		return app.Report(c.Context(), console(), o)
	}
	return c
}

func evidenceFlag(c *cobra.Command, folder *string) {
	c.Flags().StringVar(folder, "evidence", "", "`folder` of the screenshots (default: looked for beside the ledger)")
}

// recordedLedger makes a command take a ledger, as an argument or as --ledger.
func recordedLedger(c *cobra.Command) func(args []string) string {
	flag := c.Flags().StringP("ledger", "l", "amnesia.db", "ledger `file`, where it is not the argument")
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) > 1 || len(args) == 1 && c.Flags().Changed("ledger") {
			return app.Usage(fmt.Errorf("'%s' takes one ledger file — fix: %s", c.CommandPath(), c.UseLine()))
		}
		return nil
	}
	return func(args []string) string {
		if len(args) == 1 {
			return args[0]
		}
		return *flag
	}
}
