package demo

import "syscall"

// serviceAttributes keep an interrupt of the terminal from the service, since the keeper ends it in order, and end it
// when the keeper's process is killed.
func serviceAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
