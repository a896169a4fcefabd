package ledger_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"amnesia/pkg/fact"
	"amnesia/pkg/ledger"
	"amnesia/pkg/memory"
)

// childEnv makes the test binary a writer of the ledger that it names.
const childEnv = "AMNESIA_TEST_LEDGER"

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		if err := writeUntilKilled(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// writeUntilKilled has eight writers append pairs of facts, each as one, and print each memory's number once it is
// durable.
func writeUntilKilled(path string) error {
	l, err := ledger.Open(context.Background(), path, ledger.Options{})
	if err != nil {
		return err
	}
	var g errgroup.Group
	for w := range 8 {
		g.Go(func() error {
			for {
				id := l.NextMemory()
				b := begun(id)
				b.Memory.User = fmt.Sprint(w)
				if err := l.Append(context.Background(), b, fact.Settled{Memory: id, Outcome: memory.Acknowledged}); err != nil {
					return err
				}
				fmt.Println(int64(id))
			}
		})
	}
	return g.Wait()
}

// TestKillLosesNothing kills a writing process again and again, and holds that whatever it knew to be durable is in the
// file, whole, and that the next process gets the lock and goes on where the file ends.
func TestKillLosesNothing(t *testing.T) {
	const rounds = 20
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "a.db")
	var durable []memory.ID
	for range rounds {
		durable = append(durable, killAfter(t, self, path, random.IntN(200))...)
	}
	l := open(t, path, ledger.Options{})
	have := map[memory.ID]bool{}
	last := map[string]memory.ID{}
	all := entries(t, l, 0)
	for i := 0; i+1 < len(all); i += 2 {
		b, ok := all[i].Fact.(fact.Begun)
		s, ok2 := all[i+1].Fact.(fact.Settled)
		if !ok || !ok2 || s.Memory != b.Memory.ID {
			t.Fatalf("facts %d and %d were appended as one: %+v, %+v", i+1, i+2, all[i], all[i+1])
		}
		if last[b.Memory.User] >= b.Memory.ID {
			t.Fatalf("writer %s began %s after %s", b.Memory.User, b.Memory.ID, last[b.Memory.User])
		}
		last[b.Memory.User] = b.Memory.ID
		have[b.Memory.ID] = true
	}
	for _, id := range durable {
		if !have[id] {
			t.Errorf("%s was durable and is gone", id)
		}
	}
	if len(all)%2 != 0 || len(durable) == 0 {
		t.Errorf("%d facts, %d appends known to be durable", len(all), len(durable))
	}
	// A writer may have died between the commit and its print: one append each, and each round.
	if extra := len(have) - len(durable); extra > 8*rounds {
		t.Errorf("%d memories more than were printed", extra)
	}
}

// killAfter runs a writer, kills it after it has printed so many lines, and gives all the numbers it printed.
func killAfter(t *testing.T, self, path string, lines int) []memory.ID {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), childEnv+"="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var ids []memory.ID
	r := bufio.NewReader(out)
	for {
		line, err := r.ReadString('\n')
		if err != nil { // the pipe ends with the process; half a line was not printed
			if err != io.EOF {
				t.Fatal(err)
			}
			break
		}
		id, err := memory.ParseID(line[:len(line)-1])
		if err != nil {
			t.Fatal(err)
		}
		if ids = append(ids, id); len(ids) == lines+1 {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait() // killed: always an error
	if len(ids) <= lines {
		t.Fatalf("the writer ended by itself after %d appends", len(ids))
	}
	return ids
}
