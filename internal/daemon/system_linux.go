package daemon

import (
	"context"
	"time"

	"claudeops/internal/ops"

	"golang.org/x/sys/unix"
)

// missingSystem is why no daemon can run here; nil where one can.
func missingSystem() error { return nil }

// hideEnvironment keeps other programs of the same user, such as the commands of an agent, from reading this program's
// environment and memory in /proc: they hold the keys.
func hideEnvironment(context.Context) error {
	return ops.Wrapped(unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0), "hide own environment")
}

// uptime is the time since the machine was started, also while it was suspended.
func uptime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return time.Duration(time.Now().UnixNano())
	}
	return time.Duration(t.Nano())
}

// machineMemory is the size of the machine's memory in bytes.
func machineMemory() int64 {
	var machine unix.Sysinfo_t
	if unix.Sysinfo(&machine) != nil {
		return 0
	}
	return int64(machine.Totalram) * int64(machine.Unit) //nolint:gosec // no machine has so much
}
