package confine

import "syscall"

const socketFlags = syscall.SOCK_NONBLOCK | syscall.SOCK_CLOEXEC
