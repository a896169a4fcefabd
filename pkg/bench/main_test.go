package bench

import (
	"os"
	"testing"

	"amnesia/chaos/process"
)

func TestMain(m *testing.M) {
	process.GuardianMain()
	os.Exit(m.Run())
}
