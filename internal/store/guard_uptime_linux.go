package store

import (
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// systemUptime reads the kernel's clock; it is asked for the name of the boot only once.
func systemUptime() Uptime {
	boot := sync.OnceValue(func() string {
		id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
		if err != nil {
			return "" // not readable: only the time of day is used
		}
		return strings.TrimSpace(string(id))
	})
	return func() (string, time.Duration) {
		var ts unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
			return "", 0
		}
		return boot(), time.Duration(ts.Nano())
	}
}
