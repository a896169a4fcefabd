//go:build !linux

package clock

import "time"

var start = time.Now()

// monotonic counts from the start of the process, by Go's own monotonic reading.
func monotonic(now time.Time) int64 { return int64(now.Sub(start)) }
