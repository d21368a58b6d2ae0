package confine

import "syscall"

const (
	auditArch uint32 = 0xC00000B7
	// highestNumber is 0: there is one set of numbers only.
	highestNumber uint32 = 0

	// Package syscall does not know these elsewhere.
	callOpenByHandleAt  = syscall.SYS_OPEN_BY_HANDLE_AT
	callClockAdjtime    = syscall.SYS_CLOCK_ADJTIME
	callSendmmsg        = syscall.SYS_SENDMMSG
	callSetns           = syscall.SYS_SETNS
	callProcessVMReadv  = syscall.SYS_PROCESS_VM_READV
	callProcessVMWritev = syscall.SYS_PROCESS_VM_WRITEV
	callKcmp            = syscall.SYS_KCMP
	callFinitModule     = syscall.SYS_FINIT_MODULE
	callSchedSetattr    = syscall.SYS_SCHED_SETATTR
	callKexecFileLoad   = 294
	callBPF             = syscall.SYS_BPF
	callUserfaultfd     = 282
)

// Calls that older architectures have: none.
//
//nolint:gochecknoglobals // tables
var (
	oldModeCalls, oldOpenCalls        []argumentOf
	oldRefusedCalls, oldMetadataCalls []uint32
)
