package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"amnesia/pkg/ledger"
)

// A reference that is measured by what its process takes is a process of its own: this program again, as a helper.
const helper = "bench-helper"

// HelperMain is the whole of main in a process that was started as a helper, and does nothing in any other. Whoever
// measures calls it first.
func HelperMain() {
	if len(os.Args) < 3 || os.Args[1] != helper {
		return
	}
	if err := help(context.Background(), os.Stdin, os.Stdout, os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench: helper:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func help(ctx context.Context, in io.Reader, out io.Writer, task string, args []string) error {
	var result any
	var err error
	switch {
	case task == "rows" && len(args) == 1:
		result, err = countRows(ctx, args[0])
	case task == "replay" && len(args) == 1:
		result, err = replayed(ctx, in, args[0])
	default:
		err = fmt.Errorf("%q %q is no task", task, args)
	}
	return errors.Join(err, json.NewEncoder(out).Encode(result))
}

// helped runs a helper and reads its result.
func helped(ctx context.Context, in io.Reader, result any, task string, args ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, append([]string{helper, task}, args...)...)
	cmd.Stdin = in
	out, err := output(cmd)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out, result); err != nil {
		return fmt.Errorf("reading what the helper %s says: %w", task, err)
	}
	return nil
}

// countRows reads of a ledger what the judge reads, and does nothing with it.
func countRows(ctx context.Context, path string) (n int, err error) {
	l, err := ledger.OpenReadOnly(ctx, path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	for _, err := range l.Evidence(ctx) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
