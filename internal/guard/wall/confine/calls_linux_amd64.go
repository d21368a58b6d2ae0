//go:build linux && amd64

package confine

const (
	auditArch uint32 = 0xC000003E
	// highestNumber is above every number of a system call; numbers beyond it are those of x32.
	highestNumber uint32 = 0x3fffffff

	callClone     uint32 = 56
	callClone3    uint32 = 435
	callIoctl     uint32 = 16
	callSocket    uint32 = 41
	callSendto    uint32 = 44
	callSendmsg   uint32 = 46
	callSendmmsg  uint32 = 307
	callSetns     uint32 = 308
	callUtimensat uint32 = 280
	callOpenat2   uint32 = 437
)

// modeCalls give a file a mode, in this argument; openCalls have flags in this one and a mode in the next.
var (
	modeCalls = []argumentOf{ //nolint:gochecknoglobals // a table
		{call: 90, arg: 1},  // chmod
		{call: 91, arg: 1},  // fchmod
		{call: 268, arg: 2}, // fchmodat
		{call: 452, arg: 2}, // fchmodat2
		{call: 85, arg: 1},  // creat
		{call: 133, arg: 1}, // mknod
		{call: 259, arg: 2}, // mknodat
	}
	openCalls = []argumentOf{ //nolint:gochecknoglobals // a table
		{call: 2, arg: 1},   // open
		{call: 257, arg: 2}, // openat
	}
)

// refusedCalls reach into the kernel, other processes, mounts or namespaces. No honest command needs them.
var refusedCalls = []uint32{ //nolint:gochecknoglobals // a table
	250, // keyctl
	248, // add_key
	249, // request_key
	321, // bpf
	298, // perf_event_open
	323, // userfaultfd
	425, // io_uring_setup
	426, // io_uring_enter
	427, // io_uring_register
	272, // unshare
	308, // setns
	165, // mount
	166, // umount2
	155, // pivot_root
	161, // chroot
	429, // move_mount
	428, // open_tree
	430, // fsopen
	431, // fsconfig
	432, // fsmount
	433, // fspick
	442, // mount_setattr
	467, // open_tree_attr
	101, // ptrace
	310, // process_vm_readv
	311, // process_vm_writev
	440, // process_madvise
	448, // process_mrelease
	246, // kexec_load
	320, // kexec_file_load
	175, // init_module
	313, // finit_module
	176, // delete_module
	167, // swapon
	168, // swapoff
	169, // reboot
	163, // acct
	164, // settimeofday
	227, // clock_settime
	305, // clock_adjtime
	179, // quotactl
	443, // quotactl_fd
	304, // open_by_handle_at
	438, // pidfd_getfd
	312, // kcmp
	170, // sethostname
	171, // setdomainname
	153, // vhangup
	300, // fanotify_init
	212, // lookup_dcookie
	279, // move_pages
	256, // migrate_pages
	71,  // msgctl
	66,  // semctl
	31,  // shmctl
	241, // mq_unlink
	172, // iopl
	173, // ioperm
	134, // uselib
	180, // nfsservctl
	156, // _sysctl
	174, // create_module
}

// sharedCalls reach memory, queues and semaphores of other programs.
var sharedCalls = []uint32{ //nolint:gochecknoglobals // a table
	29,  // shmget
	30,  // shmat
	31,  // shmctl
	64,  // semget
	65,  // semop
	66,  // semctl
	220, // semtimedop
	68,  // msgget
	69,  // msgsnd
	70,  // msgrcv
	71,  // msgctl
	240, // mq_open
	241, // mq_unlink
}

// metadataCalls change owners, modes, times and attributes of files.
var metadataCalls = []uint32{ //nolint:gochecknoglobals // a table
	90,  // chmod
	91,  // fchmod
	268, // fchmodat
	452, // fchmodat2
	92,  // chown
	93,  // fchown
	94,  // lchown
	260, // fchownat
	188, // setxattr
	189, // lsetxattr
	190, // fsetxattr
	463, // setxattrat
	197, // removexattr
	198, // lremovexattr
	199, // fremovexattr
	466, // removexattrat
	132, // utime
	235, // utimes
	261, // futimesat
	469, // file_setattr
}

// ownProcessOnly are calls that can change another process of the same user; they may name the calling process only.
var ownProcessOnly = []argumentOf{ //nolint:gochecknoglobals // a table
	{302, 0, 0}, // prlimit64
	{203, 0, 0}, // sched_setaffinity
	{144, 0, 0}, // sched_setscheduler
	{142, 0, 0}, // sched_setparam
	{314, 0, 0}, // sched_setattr
	{141, 1, 0}, // setpriority
	{251, 1, 0}, // ioprio_set
	{141, 0, 0}, // setpriority: of a process, not of a user
	{251, 0, 1}, // ioprio_set: the same
}
