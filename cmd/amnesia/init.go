package main

import (
	"os"

	"github.com/spf13/cobra"

	"amnesia/pkg/app"
)

func initCmd() *cobra.Command {
	var o app.InitOptions
	c := &cobra.Command{
		Use:   "init",
		Short: "Look at a compose project that runs, and write an amnesia.yaml for it",
		Long: `Finds the services of a compose project that runs, asks each what it is, and is the first user of the app in a real
browser: it reads the roles and names of what the page has, signs in (or up), tells a few memories, and looks where they
come out: on the page after a new login, in the keys of Redis, the tables of PostgreSQL, the collections of Chroma. A
second user plays the script that came of it, and every view must find what that one told. What cannot be found out is a
comment in the file, and a line of the result: nothing is guessed.

It hurts nothing, and changes no container. Two accounts with some memories stay in the app. A secret never comes into the
file: the variable that the file names is set by a command that is printed, and that prints no secret either.

Amnesia hurts only containers that are labelled amnesia.target=true. Where some are not, amnesia.compose.yaml is written
beside the file (staging.compose.yaml beside staging.yaml), with which Compose labels them, and the command for it is printed.

Exit codes:
  0  written, and complete
  1  error
  2  usage, or a file is there already or cannot be written; nothing was asked of the app
  4  written, and something that a run needs is to be filled in

Environment:
  DOCKER_HOST           address of the engine (default: the local one)
  AMNESIA_BROWSER_DIR   folder of the browser's driver (default: the user's cache)`,
		Example: `  amnesia init
  amnesia init --project staging --url http://127.0.0.1:3000 --file staging.yaml`,
		Args: noArgs,
	}
	f := c.Flags()
	f.StringVar(&o.Project, "project", "", "compose `project` to look at (default: the one that runs)")
	f.StringVar(&o.URL, "url", "", "`address` that people open (default: found out)")
	f.StringVar(&o.File, "file", "amnesia.yaml", "`file` to write")
	f.BoolVar(&o.Force, "force", false, "write anew what is there already")
	c.RunE = func(c *cobra.Command, _ []string) error {
		o.BrowserDir, o.Getenv = os.Getenv("AMNESIA_BROWSER_DIR"), os.Getenv
		return ended(app.Init(c.Context(), console(), o))
	}
	return c
}
