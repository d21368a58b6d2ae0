//go:build linux && arm64

package confine

const (
	auditArch uint32 = 0xC00000B7
	// highestNumber is 0: there is one set of numbers only.
	highestNumber uint32 = 0

	callClone     uint32 = 220
	callClone3    uint32 = 435
	callIoctl     uint32 = 29
	callSocket    uint32 = 198
	callSendto    uint32 = 206
	callSendmsg   uint32 = 211
	callSendmmsg  uint32 = 269
	callSetns     uint32 = 268
	callUtimensat uint32 = 88
	callOpenat2   uint32 = 437
)

// modeCalls give a file a mode, in this argument; openCalls have flags in this one and a mode in the next.
var (
	modeCalls = []argumentOf{ //nolint:gochecknoglobals // a table
		{call: 52, arg: 1},  // fchmod
		{call: 53, arg: 2},  // fchmodat
		{call: 452, arg: 2}, // fchmodat2
		{call: 33, arg: 2},  // mknodat
	}
	openCalls = []argumentOf{{call: 56, arg: 2}} //nolint:gochecknoglobals // a table: openat
)

// refusedCalls reach into the kernel, other processes, mounts or namespaces. No honest command needs them.
var refusedCalls = []uint32{ //nolint:gochecknoglobals // a table
	219, // keyctl
	217, // add_key
	218, // request_key
	280, // bpf
	241, // perf_event_open
	282, // userfaultfd
	425, // io_uring_setup
	426, // io_uring_enter
	427, // io_uring_register
	97,  // unshare
	268, // setns
	40,  // mount
	39,  // umount2
	41,  // pivot_root
	51,  // chroot
	429, // move_mount
	428, // open_tree
	430, // fsopen
	431, // fsconfig
	432, // fsmount
	433, // fspick
	442, // mount_setattr
	467, // open_tree_attr
	117, // ptrace
	270, // process_vm_readv
	271, // process_vm_writev
	440, // process_madvise
	448, // process_mrelease
	104, // kexec_load
	294, // kexec_file_load
	105, // init_module
	273, // finit_module
	106, // delete_module
	224, // swapon
	225, // swapoff
	142, // reboot
	89,  // acct
	170, // settimeofday
	112, // clock_settime
	266, // clock_adjtime
	60,  // quotactl
	443, // quotactl_fd
	265, // open_by_handle_at
	438, // pidfd_getfd
	272, // kcmp
	161, // sethostname
	162, // setdomainname
	58,  // vhangup
	262, // fanotify_init
	18,  // lookup_dcookie
	239, // move_pages
	238, // migrate_pages
	187, // msgctl
	191, // semctl
	195, // shmctl
	181, // mq_unlink
	42,  // nfsservctl
}

// sharedCalls reach memory, queues and semaphores of other programs.
var sharedCalls = []uint32{ //nolint:gochecknoglobals // a table
	194, // shmget
	196, // shmat
	195, // shmctl
	190, // semget
	193, // semop
	191, // semctl
	192, // semtimedop
	186, // msgget
	189, // msgsnd
	188, // msgrcv
	187, // msgctl
	180, // mq_open
	181, // mq_unlink
}

// metadataCalls change owners, modes, times and attributes of files.
var metadataCalls = []uint32{ //nolint:gochecknoglobals // a table
	52,  // fchmod
	53,  // fchmodat
	452, // fchmodat2
	55,  // fchown
	54,  // fchownat
	5,   // setxattr
	6,   // lsetxattr
	7,   // fsetxattr
	463, // setxattrat
	14,  // removexattr
	15,  // lremovexattr
	16,  // fremovexattr
	466, // removexattrat
	469, // file_setattr
}

// ownProcessOnly are calls that can change another process of the same user; they may name the calling process only.
var ownProcessOnly = []argumentOf{ //nolint:gochecknoglobals // a table
	{261, 0, 0}, // prlimit64
	{122, 0, 0}, // sched_setaffinity
	{119, 0, 0}, // sched_setscheduler
	{118, 0, 0}, // sched_setparam
	{274, 0, 0}, // sched_setattr
	{140, 1, 0}, // setpriority
	{30, 1, 0},  // ioprio_set
	{140, 0, 0}, // setpriority: of a process, not of a user
	{30, 0, 1},  // ioprio_set: the same
}
