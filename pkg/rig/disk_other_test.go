//go:build unix && !linux

package rig_test

import "testing"

// smallDisk gives a folder with a limit.
func smallDisk(t *testing.T) disk { return limited(t) }
