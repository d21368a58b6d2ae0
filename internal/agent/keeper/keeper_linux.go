package keeper

import (
	"syscall"
	"time"
	"unsafe"
)

// ignoreSignals keeps signals for all processes of a terminal or a service from ending the keeper before the supervisor. The
// package os/signal would initialize most of the program first.
func ignoreSignals() {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE} {
		action := [8]uintptr{1} // SIG_IGN; flags and mask are zero
		_, _, _ = syscall.RawSyscall6(
			syscall.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0) //nolint:gosec // a system call needs the address
	}
}

// uptime is the time since the machine was started, also while it was suspended.
func uptime() time.Duration {
	const clockBoottime = 7
	var t syscall.Timespec
	_, _, failed := syscall.Syscall(
		syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&t)), 0) //nolint:gosec // a system call needs the address
	if failed != 0 {
		return time.Duration(time.Now().UnixNano())
	}
	return time.Duration(t.Nano())
}
