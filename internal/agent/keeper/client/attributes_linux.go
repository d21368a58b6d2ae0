package client

import "syscall"

// attributes let the keeper keep these capabilities.
func attributes(capabilities []uintptr) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, AmbientCaps: capabilities}
}
