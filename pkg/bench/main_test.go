package bench

import (
	"os"
	"path/filepath"
	"testing"

	"amnesia/chaos/process"
)

func TestMain(m *testing.M) {
	process.GuardianMain()
	HelperMain()
	code := m.Run()
	if path, err := program(); err == nil {
		os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}
