// Command bench measures how fast the amnesia beside it is (make bench).
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"

	"amnesia/chaos/process"
	"amnesia/pkg/bench"
)

func main() {
	process.GuardianMain()
	bench.HelperMain()
	amnesia := flag.String("amnesia", "bin/amnesia", "the binary to measure")
	out := flag.String("out", "bench.json", "file for the figures, one object a line")
	full := flag.Bool("full", false, "everything, at the sizes of the goals; otherwise the short form")
	only := flag.String("only", "", "a regular expression: measure only what has such a name (verified, cycle, idle, docker, …)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) // a stack is taken down
	defer stop()
	if err := run(ctx, *amnesia, *out, *only, *full); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, amnesia, out, only string, full bool) error {
	amnesia, err := filepath.Abs(amnesia) // it is run from other folders too
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "amnesia-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	all := bench.Short()
	if full {
		all = bench.Full()
	}
	named, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	all = slices.DeleteFunc(all, func(m bench.Measurement) bool { return !named.MatchString(m.Name) })
	lines, err := bench.Run(ctx, os.Stdout, all, amnesia, dir)
	if err != nil {
		return err
	}
	written, err := bench.Written(lines)
	if err != nil {
		return err
	}
	if err := os.WriteFile(out, written, 0o644); err != nil {
		return err
	}
	if missing := bench.Unmeasured(lines); missing > 0 && os.Getenv("CI") == "true" {
		return fmt.Errorf("%d lines could not be measured, see above — fix: make setup", missing)
	}
	return nil
}
