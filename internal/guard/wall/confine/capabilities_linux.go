package confine

import (
	"fmt"
	"syscall"
	"unsafe"
)

const (
	prSetNoNewPrivs = 38
	prCapBSetRead   = 23
	prCapBSetDrop   = 24
	prCapAmbient    = 47
	ambientClearAll = 4
	prSetDumpable   = 4

	capabilityVersion = 0x20080522
	lastCapability    = 63
)

type capabilityHeader struct {
	version uint32
	pid     int32 // 0: the calling thread
}

// capabilities are effective, permitted and inheritable ones, the first 32 and the rest.
type capabilities [2][3]uint32

// keepsCapability reports whether the calling thread has any capability.
func keepsCapability() bool {
	header := capabilityHeader{version: capabilityVersion}
	var has capabilities
	_, _, errno := syscall.RawSyscall(syscall.SYS_CAPGET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&has)), 0)
	return errno != 0 || has != capabilities{}
}

// dropCapabilities takes every capability away from the calling thread, also those that a program could regain as root.
func dropCapabilities() error {
	for c := range uintptr(lastCapability + 1) {
		has, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prCapBSetRead, c, 0)
		if errno != 0 {
			break // the kernel knows no more
		}
		if has == 0 {
			continue
		}
		if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prCapBSetDrop, c, 0); errno != 0 && errno != syscall.EPERM {
			return fmt.Errorf("drop capability %d: %w", c, errno)
		}
	}
	// Without CAP_SETPCAP the bounding set stays as it is; no_new_privs keeps a program from gaining anything from it.
	_, _, _ = syscall.RawSyscall6(syscall.SYS_PRCTL, prCapAmbient, ambientClearAll, 0, 0, 0, 0)
	header := capabilityHeader{version: capabilityVersion}
	var none capabilities
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none)), 0); errno != 0 {
		return fmt.Errorf("drop capabilities: %w", errno)
	}
	return nil
}

func noNewPrivileges() error {
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0, 0, 0, 0); errno != 0 {
		return fmt.Errorf("set no_new_privs: %w", errno)
	}
	return nil
}

// limits of a confined program. The number of processes is not among them: it counts all processes of the user.
func setLimits() {
	const most = 4 << 30 // bytes in one file
	for what, limit := range map[int]uint64{syscall.RLIMIT_CORE: 0, syscall.RLIMIT_FSIZE: most} {
		var now syscall.Rlimit
		if syscall.Getrlimit(what, &now) != nil || now.Max <= limit {
			continue
		}
		_ = syscall.Setrlimit(what, &syscall.Rlimit{Cur: limit, Max: limit}) // lowering is always allowed
	}
}
