package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// run runs a program and gives what it says on stdout.
func run(ctx context.Context, env []string, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := output(cmd)
	return strings.TrimSpace(string(out)), err
}

// output runs a command and gives what it says on stdout; what it says on stderr is in the error.
func output(cmd *exec.Cmd) ([]byte, error) {
	out, _, err := watched(cmd, func(int) func() int64 { return func() int64 { return 0 } })
	return out, err
}

// watched is output for a command that is watched while it runs, and gives what that found.
func watched[T any](cmd *exec.Cmd, watch func(pid int) (stop func() T)) (out []byte, found T, err error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		return nil, found, fmt.Errorf("starting %s: %w", cmd.Path, err)
	}
	stop := watch(cmd.Process.Pid)
	err = cmd.Wait()
	found = stop()
	if err != nil {
		return nil, found, fmt.Errorf("%s: %w: %s", cmd.Path, err, strings.TrimSpace(stderr.String()))
	}
	return stdout.Bytes(), found, nil
}
