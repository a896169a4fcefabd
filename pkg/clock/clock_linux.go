package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// monotonic reads CLOCK_BOOTTIME (clock_gettime(2)).
func monotonic(time.Time) int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("clock: CLOCK_BOOTTIME: " + err.Error()) // Linux has had it since 2.6.39
	}
	return ts.Nano()
}
