// Command chatapp runs the sample target. It is configured by CHATAPP_ environment variables (see pkg/chatapp); SIGINT and
// SIGTERM stop it in order. It exits with 2 when the environment is wrong and with 1 on any other error.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"amnesia/pkg/chatapp"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := chatapp.Main(ctx, os.Getenv, os.Stdout, os.Stderr)
	var wrong *chatapp.ConfigError
	switch {
	case errors.As(err, &wrong):
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "chatapp:", err)
		os.Exit(1)
	}
}
