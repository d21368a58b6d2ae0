//go:build !linux

package client

import "syscall"

func attributes([]uintptr) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
