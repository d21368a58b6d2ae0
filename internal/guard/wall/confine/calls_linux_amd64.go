package confine

import "syscall"

const (
	auditArch uint32 = 0xC000003E
	// highestNumber is above every number of a system call; numbers beyond it are those of x32.
	highestNumber uint32 = 0x3fffffff

	// Package syscall does not know these here.
	callOpenByHandleAt  = 304
	callClockAdjtime    = 305
	callSendmmsg        = 307
	callSetns           = 308
	callProcessVMReadv  = 310
	callProcessVMWritev = 311
	callKcmp            = 312
	callFinitModule     = 313
	callSchedSetattr    = 314
	callKexecFileLoad   = 320
	callBPF             = 321
	callUserfaultfd     = 323
)

// Calls that newer architectures do not have.
//
//nolint:gochecknoglobals // tables
var (
	oldModeCalls     = []argumentOf{{call: syscall.SYS_CHMOD, arg: 1}, {call: syscall.SYS_CREAT, arg: 1}, {call: syscall.SYS_MKNOD, arg: 1}}
	oldOpenCalls     = []argumentOf{{call: syscall.SYS_OPEN, arg: 1}}
	oldRefusedCalls  = []uint32{syscall.SYS_IOPL, syscall.SYS_IOPERM, syscall.SYS_USELIB, syscall.SYS__SYSCTL, syscall.SYS_CREATE_MODULE}
	oldMetadataCalls = []uint32{
		syscall.SYS_CHMOD, syscall.SYS_CHOWN, syscall.SYS_LCHOWN, syscall.SYS_UTIME, syscall.SYS_UTIMES, syscall.SYS_FUTIMESAT,
	}
)
