// Command bench measures how fast the amnesia beside it is (make bench).
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"amnesia/chaos/process"
	"amnesia/pkg/bench"
)

func main() {
	process.GuardianMain()
	amnesia := flag.String("amnesia", "bin/amnesia", "the binary to measure")
	out := flag.String("out", "bench.json", "file for the figures, one object a line")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *amnesia, *out); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, amnesia, out string) error {
	amnesia, err := filepath.Abs(amnesia) // it is run from other folders too
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "amnesia-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	lines, err := bench.Run(ctx, os.Stdout, amnesia, dir)
	if err != nil {
		return err
	}
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	defer f.Close()
	enc := json.NewEncoder(f)
	for _, l := range lines {
		if err := enc.Encode(l); err != nil {
			return err
		}
	}
	return f.Close()
}
