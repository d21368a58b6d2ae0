//go:build linux && (amd64 || arm64)

package confine

import "syscall"

// Calls that are newer than package syscall. They have one number everywhere.
const (
	callIOUringSetup    = 425
	callIOUringEnter    = 426
	callIOUringRegister = 427
	callOpenTree        = 428
	callMoveMount       = 429
	callFsopen          = 430
	callFsconfig        = 431
	callFsmount         = 432
	callFspick          = 433
	callClone3          = 435
	callOpenat2         = 437
	callPidfdGetfd      = 438
	callProcessMadvise  = 440
	callMountSetattr    = 442
	callQuotactlFd      = 443
	callProcessMrelease = 448
	callFchmodat2       = 452
	callSetxattrat      = 463
	callRemovexattrat   = 466
	callOpenTreeAttr    = 467
	callFileSetattr     = 469
)

// modeCalls give a file a mode, in this argument; openCalls have flags in this one and a mode in the next.
var (
	modeCalls = append([]argumentOf{ //nolint:gochecknoglobals // a table
		{call: syscall.SYS_FCHMOD, arg: 1},
		{call: syscall.SYS_FCHMODAT, arg: 2},
		{call: callFchmodat2, arg: 2},
		{call: syscall.SYS_MKNODAT, arg: 2},
	}, oldModeCalls...)
	openCalls = append([]argumentOf{{call: syscall.SYS_OPENAT, arg: 2}}, oldOpenCalls...) //nolint:gochecknoglobals // a table
)

// refusedCalls reach into the kernel, other processes, mounts or namespaces. No honest command needs them.
var refusedCalls = append([]uint32{ //nolint:gochecknoglobals // a table
	syscall.SYS_KEYCTL, syscall.SYS_ADD_KEY, syscall.SYS_REQUEST_KEY,
	callBPF, syscall.SYS_PERF_EVENT_OPEN, callUserfaultfd, syscall.SYS_LOOKUP_DCOOKIE,
	callIOUringSetup, callIOUringEnter, callIOUringRegister,
	syscall.SYS_UNSHARE, callSetns, syscall.SYS_PIVOT_ROOT, syscall.SYS_CHROOT,
	syscall.SYS_MOUNT, syscall.SYS_UMOUNT2, callMoveMount, callMountSetattr, callOpenTree, callOpenTreeAttr,
	callFsopen, callFsconfig, callFsmount, callFspick,
	syscall.SYS_PTRACE, callProcessVMReadv, callProcessVMWritev, callProcessMadvise, callProcessMrelease,
	callPidfdGetfd, callKcmp, syscall.SYS_MOVE_PAGES, syscall.SYS_MIGRATE_PAGES,
	syscall.SYS_KEXEC_LOAD, callKexecFileLoad, syscall.SYS_INIT_MODULE, callFinitModule, syscall.SYS_DELETE_MODULE,
	syscall.SYS_SWAPON, syscall.SYS_SWAPOFF, syscall.SYS_REBOOT, syscall.SYS_ACCT, syscall.SYS_QUOTACTL, callQuotactlFd,
	syscall.SYS_SETTIMEOFDAY, syscall.SYS_CLOCK_SETTIME, callClockAdjtime,
	syscall.SYS_SETHOSTNAME, syscall.SYS_SETDOMAINNAME, syscall.SYS_VHANGUP,
	callOpenByHandleAt, syscall.SYS_FANOTIFY_INIT, syscall.SYS_NFSSERVCTL,
	syscall.SYS_MSGCTL, syscall.SYS_SEMCTL, syscall.SYS_SHMCTL, syscall.SYS_MQ_UNLINK,
}, oldRefusedCalls...)

// sharedCalls reach memory, queues and semaphores of other programs.
var sharedCalls = []uint32{ //nolint:gochecknoglobals // a table
	syscall.SYS_SHMGET, syscall.SYS_SHMAT, syscall.SYS_SHMCTL,
	syscall.SYS_SEMGET, syscall.SYS_SEMOP, syscall.SYS_SEMCTL, syscall.SYS_SEMTIMEDOP,
	syscall.SYS_MSGGET, syscall.SYS_MSGSND, syscall.SYS_MSGRCV, syscall.SYS_MSGCTL,
	syscall.SYS_MQ_OPEN, syscall.SYS_MQ_UNLINK,
}

// metadataCalls change owners, modes, times and attributes of files.
var metadataCalls = append([]uint32{ //nolint:gochecknoglobals // a table
	syscall.SYS_FCHMOD, syscall.SYS_FCHMODAT, callFchmodat2,
	syscall.SYS_FCHOWN, syscall.SYS_FCHOWNAT,
	syscall.SYS_SETXATTR, syscall.SYS_LSETXATTR, syscall.SYS_FSETXATTR, callSetxattrat,
	syscall.SYS_REMOVEXATTR, syscall.SYS_LREMOVEXATTR, syscall.SYS_FREMOVEXATTR, callRemovexattrat,
	callFileSetattr,
}, oldMetadataCalls...)

// ownProcessOnly are calls that can change another process of the same user; they may name the calling process only.
var ownProcessOnly = []argumentOf{ //nolint:gochecknoglobals // a table
	{syscall.SYS_PRLIMIT64, 0, 0},
	{syscall.SYS_SCHED_SETAFFINITY, 0, 0},
	{syscall.SYS_SCHED_SETSCHEDULER, 0, 0},
	{syscall.SYS_SCHED_SETPARAM, 0, 0},
	{callSchedSetattr, 0, 0},
	{syscall.SYS_SETPRIORITY, 1, 0},
	{syscall.SYS_IOPRIO_SET, 1, 0},
	{syscall.SYS_SETPRIORITY, 0, 0}, // of a process, not of a user
	{syscall.SYS_IOPRIO_SET, 0, 1},  // the same
}
