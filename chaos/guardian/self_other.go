//go:build unix && !linux

package guardian

import "os"

func self() (string, error) { return os.Executable() }
