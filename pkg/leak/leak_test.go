//go:build linux

package leak_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"amnesia/pkg/leak"
	"amnesia/pkg/session/browser"
)

var (
	whole   = flag.Bool("whole", false, "the long form: thousands of cycles")
	seed    = flag.Uint64("seed", 1, "from which the plan of faults follows")
	amnesia = flag.String("amnesia", "", "the binary; built when it is not given")
)

// most is the share by which a figure may grow over the last half of a soak.
const most = 0.1

// TestNothingGrows runs the daemon with each driver. The short form is long enough for what the daemon leaves open in every
// cycle to show. Memory rises until all has been met that there is, and a browser has a process more or less at any time:
// these are held by the long one.
func TestNothingGrows(t *testing.T) {
	program := *amnesia
	if program == "" {
		program = filepath.Join(t.TempDir(), "amnesia")
		if out, err := exec.Command("go", "build", "-o", program, "amnesia/cmd/amnesia").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	for _, c := range []struct {
		driver      string
		short, long int // cycles
	}{{"http", 60, 2000}, {"browser", 12, 500}} {
		t.Run(c.driver, func(t *testing.T) {
			if _, err := browser.Find(browser.InstallOptions{Dir: os.Getenv("AMNESIA_BROWSER_DIR")}); err != nil && c.driver == "browser" {
				if os.Getenv("CI") == "true" || *whole {
					t.Fatal(err)
				}
				t.Skip(err)
			}
			o := leak.Options{Amnesia: program, Dir: t.TempDir(), Driver: c.driver, Cycles: c.short, Seed: *seed}
			if *whole {
				o.Cycles = c.long
				last := 0
				o.Tell = func(cycle int, figures map[string]float64) {
					if cycle-last >= o.Cycles/20 {
						last = cycle
						fmt.Printf("%s, cycle %d of %d: %v\n", c.driver, cycle, o.Cycles, figures)
					}
				}
			}
			t.Logf("seed %d, %d cycles", o.Seed, o.Cycles)
			s, err := leak.Soak(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range s.Growths() {
				line := fmt.Sprintf("%s: %s over the last half of %d cycles: %.1f, then %.1f (%+.1f %%)", c.driver, g.Name, o.Cycles, g.Before, g.Now, 100*g.Share())
				if t.Log(line); *whole {
					fmt.Println(line)
				}
				if *whole && g.Share() > most || !*whole && g.Counted() && g.Steady {
					t.Errorf("%s grew by %.1f %%", g.Name, 100*g.Share())
				}
			}
			if len(s) == 0 {
				t.Error("no figure was taken")
			}
		})
	}
}
