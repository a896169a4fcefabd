package bench

import (
	"os"
	"testing"

	"amnesia/chaos/process"
)

func TestMain(m *testing.M) {
	process.GuardianMain()
	HelperMain()
	os.Exit(tests(m))
}

func tests(m *testing.M) int {
	var err error
	if built, err = os.MkdirTemp("", "amnesia-bench-test-"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(built)
	return m.Run()
}
