package daemon

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"claudeops/internal/ops"
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

// KeepCapabilities takes the capabilities that systemd gave this process out of what its children inherit: an agent, a probe or an action
// needs none, and bubblewrap refuses to start with some. Children of root lose theirs when they change to another user.
func KeepCapabilities() error {
	if os.Geteuid() == 0 || len(heldCapabilities()) == 0 {
		return nil
	}
	_, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("keep capabilities from agents: %w", errno)
	}
	return nil
}

// heldCapabilities are those that the keeper needs to find and end processes of the agents' user, as far as this process has them.
func heldCapabilities() []uintptr {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if os.Geteuid() == 0 || unix.Capget(&header, &data[0]) != nil {
		return nil
	}
	var out []uintptr
	for _, c := range []int{unix.CAP_KILL, unix.CAP_SYS_PTRACE, unix.CAP_DAC_OVERRIDE} {
		if data[0].Permitted&(1<<c) != 0 {
			out = append(out, uintptr(c))
		}
	}
	return out
}
