//go:build unix

package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"

	"amnesia/pkg/chatapp"
	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

// Of a process that the tests start from their own binary: what it is.
const (
	configKey = "AMNESIA_TEST_CONFIG" // a daemon on this file
	cyclesKey = "AMNESIA_TEST_CYCLES" // for so many cycles
	seedKey   = "AMNESIA_TEST_SEED"
	dieAtKey  = "AMNESIA_TEST_DIE_AT"    // it kills itself when so many facts are durable, when a fault is firing, or when three memories are acknowledged; empty: never
	dieIn     = "AMNESIA_TEST_DIE_AFTER" // so long after that
)

// TestMain makes the test binary a guardian, the sample target, and a daemon that is cut off by SIGKILL.
func TestMain(m *testing.M) {
	GuardianMain()
	switch {
	case len(os.Args) == 2 && os.Args[1] == "sample":
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		exit(chatapp.Main(ctx, os.Getenv, os.Stdout, os.Stderr))
	case os.Getenv(configKey) != "":
		exit(mortalDaemon())
	}
	os.Exit(m.Run())
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func mortalDaemon() error {
	cfg, err := LoadConfig([]string{os.Getenv(configKey)}, os.Getenv)
	if err != nil {
		return err
	}
	cycles, err1 := strconv.Atoi(os.Getenv(cyclesKey))
	seed, err2 := strconv.ParseUint(os.Getenv(seedKey), 10, 64)
	after, err3 := time.ParseDuration(os.Getenv(dieIn))
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	log, err := zap.NewDevelopment()
	if err != nil {
		return err
	}
	die := func() {
		if after > 0 {
			time.AfterFunc(after, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) })
			return
		}
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // what was durable is not told to whoever appended it
	}
	at, n, acknowledged := os.Getenv(dieAtKey), 0, 0
	tap := func(entries []fact.Entry) {
		for _, e := range entries {
			n++
			s, step := e.Fact.(fact.Step)
			if w, ok := e.Fact.(fact.Settled); ok && w.Outcome == memory.Acknowledged {
				acknowledged++
			}
			if at == strconv.Itoa(n) || at == "firing" && step && s.Name == fact.StepFiring && s.Plan.Cycle > 0 || at == "acknowledged" && acknowledged == 3 {
				die()
			}
		}
	}
	_, err = soakOnce(context.Background(), cfg, Options{Version: "test", Seed: seed, Cycles: cycles, Log: log, Tap: tap}, "sample")
	return err
}
