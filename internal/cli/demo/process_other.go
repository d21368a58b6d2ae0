//go:build !linux

package demo

import "syscall"

// serviceAttributes keep an interrupt of the terminal from the service, since the keeper ends it in order.
func serviceAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
